"""Ctrl-C during prefill and decode, measured from outside: a real process, a real SIGINT, the real 4B geometry.

In: a model file (without one, the 4B geometry is made for the time of the measurement). Out: seconds from the signal to
the process having its prompt back, least, median and most of ten. Run: python -m tests.bench.interrupt [MODEL.gguf]
"""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import geometry

ROOT = Path(__file__).parents[2]
TIMES = 10

PROGRAM = """
import sys
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=4_096, n_ctx_reading=0))
engine.vocabulary.ends = lambda token: False
for number, line in enumerate(sys.stdin):
    prompt = [100 + number, *range(200, 3_200 if line.strip() == "prefill" else 208)]
    try:
        if line.strip() == "prefill":
            print("on", flush=True)
        for at, text in enumerate(engine.generate(Request(prompt, Sampling(max_tokens=800)))):
            if at == 1:
                print("on", flush=True)
    except KeyboardInterrupt:
        print("off", flush=True)
"""


def latencies(model: Path, stage: str) -> list[float]:
    """Seconds from SIGINT to the process's word that it has stopped, ten times at another moment each."""
    found, pick = [], random.Random(3)
    command = [sys.executable, "-c", PROGRAM, str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(TIMES):
            process.stdin.write(f"{stage}\n")
            assert process.stdout.readline() == "on\n"
            time.sleep(0.3 + pick.random())
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "off\n"
            found.append(time.perf_counter() - began)
        process.stdin.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = [Path(argument) for argument in sys.argv[1:2]]
        model = given[0] if given else geometry.write(Path(folder) / "qwen3-4b-q4_k_m.gguf", with_vocabulary=True)
        for stage in ("prefill", "decode"):
            found = latencies(model, stage)
            sys.stdout.write(
                f"Ctrl-C during {stage}: {min(found):.3f} / {statistics.median(found):.3f} / {max(found):.3f} s "
                f"(least / median / most of {TIMES})\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
