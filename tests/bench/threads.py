"""Threads and how they wait: what the engine chooses beside every fixed setting, on an idle machine and a busy one.

    python -m tests.bench.threads [MODEL.gguf] [--rounds 5] [--tokens 12] [--waiting "spin 1000,spin 4000"]

MODEL: without one a file of the 4B geometry and no weights (`geometry`), which costs the same. Each way of waiting is a
process of its own, since OpenMP reads it once; all stay open and are measured in turn, round by round, so that what
disturbs one disturbs the others. The busy process is a loop, started here: the same session, and so the same share of
the scheduler. Ratios are those of medians; "the best" is the best fixed setting under the same load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import geometry
from venus_edge.engine.context import Context
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.machine import cores
from venus_edge.engine.options import EngineOptions

WAITING: dict[str, dict[str, str]] = {
    "OpenMP's default": {"GOMP_SPINCOUNT": "300000"},  # named, or the library would set its own
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "spin 100": {"GOMP_SPINCOUNT": "100"},
    "spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "spin 4000": {"GOMP_SPINCOUNT": "4000"},
    "spin 10000": {"GOMP_SPINCOUNT": "10000"},
}
OURS = "chosen"
START = 32  # tokens before those that are measured
READ = 128  # tokens of one measurement of prefill
LOOP = "while True: pass"


# -- one way of waiting -----------------------------------------------------------------------------------------------


def serve(path: Path) -> None:
    """Answers lines of (decode or prefill, threads or 0 for those that are chosen, tokens) with seconds: of each token
    and the threads it had, or of all."""
    options = EngineOptions(n_ctx=1_024, n_ctx_reading=0, type_k="q8_0", speculate=False, n_gpu_layers=0)
    context = LlamaEngine(path, options)._context
    context.evaluate(0, 0, range(100, 100 + START))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        what, threads, tokens = line.split()
        context.keep(0, START)
        told = decode(context, int(threads), int(tokens)) if what == "decode" else prefill(context, threads, tokens)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def decode(context: Context, threads: int, tokens: int) -> list[tuple[float, int]]:
    told, lib = [], context.lib
    chosen = context.threads
    for place in range(START, START + tokens):
        began = time.perf_counter()
        if threads:
            lib.llama_set_n_threads(context.pointer, threads, threads)
            token = (lib.llama_token * 1)(place)
            assert lib.llama_decode(context.pointer, lib.llama_batch_get_one(token, 1)) == 0
        else:
            context.evaluate(0, place, [place])
        told.append((time.perf_counter() - began, threads or chosen._told[0]))
    return told


def prefill(context: Context, threads: str, tokens: str) -> list[tuple[float, int]]:
    context.lib.llama_set_n_threads(context.pointer, int(threads), int(threads))
    context.threads.before = lambda tokens: None  # type: ignore[method-assign]  # keeps to it
    began = time.perf_counter()
    context.evaluate(0, START, range(100, 100 + int(tokens)))
    del context.threads.before
    context.threads._told = int(threads), int(threads)
    return [(time.perf_counter() - began, int(threads))]


class Worker:
    def __init__(self, path: Path, waiting: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.threads", "--serve", str(path)],
            env=kept | waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._line()

    def ask(self, what: str, threads: int, tokens: int) -> list[tuple[float, int]]:
        self.begin(what, threads, tokens)
        return self.answer()

    def begin(self, what: str, threads: int, tokens: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {threads} {tokens}\n")
        self._process.stdin.flush()

    def answer(self) -> list[tuple[float, int]]:
        return [(seconds, threads) for seconds, threads in json.loads(self._line())]

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit("a measured process ended: see its message above")
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# -- the tables -------------------------------------------------------------------------------------------------------


def speeds(workers: dict[str, Worker], what: str, rounds: int, tokens: int) -> dict[tuple[str, int], list[float]]:
    """Tokens a second of each setting and of what is chosen (0 threads), round by round."""
    most = cores()
    fixed = [name for name in workers if name != OURS]
    if what == "prefill":  # what it does not depend on is left out
        fixed = [fixed[0], OURS]
    settings = [(name, threads) for name in fixed for threads in {most, max(1, most - 1)}]
    if what == "decode":
        settings.append((OURS, 0))
    found: dict[tuple[str, int], list[float]] = {setting: [] for setting in settings}
    for _ in range(rounds):
        for name, threads in settings:
            told = workers[name].ask(what, threads, tokens)
            found[name, threads].append(tokens / sum(seconds for seconds, _ in told))
    return found


def table(title: str, found: dict[tuple[str, int], list[float]], wanted: float) -> Iterator[str]:
    middle = {setting: statistics.median(values) for setting, values in found.items()}
    best = max(value for (_, threads), value in middle.items() if threads)
    yield f"{title}; best fixed setting {best:.1f} tokens/s"
    for (name, threads), value in sorted(middle.items(), key=lambda pair: -pair[1]):
        spread = f"{min(found[name, threads]):.1f} .. {max(found[name, threads]):.1f}"
        said = f"{threads} threads" if threads else "threads chosen"
        short = " MISSED" if name == OURS and value < wanted * best else ""
        bound = f" >= {wanted}" if name == OURS and wanted else ""
        yield f"  {name:18} {said:15} {value:6.1f}  {spread:14} {value / best:5.2f}{bound}{short}"


def change(worker: Worker, best: dict[bool, float]) -> Iterator[str]:
    """A load that comes and goes while tokens are generated: how soon the speed is near the best again."""
    for loaded in (False, True, False):
        with busy(int(loaded)):
            told = worker.ask("decode", 0, 80)
        enough = 1 / (0.75 * best[loaded])
        near = next((i for i in range(75) if statistics.mean(s for s, _ in told[i : i + 5]) <= enough), None)
        after = "never" if near is None else f"{near} tokens, {sum(s for s, _ in told[:near]):.1f} s"
        late = 40 / sum(seconds for seconds, _ in told[40:])
        yield (
            f"  {'one busy process' if loaded else 'idle':18} at 75% of the best after {after}; tokens 40 to 80 "
            f"{late:.1f} a second, {late / best[loaded]:.2f} of the best; threads {''.join(str(n) for _, n in told)}"
        )


def load() -> str:
    try:
        return "load of 1, 5, 15 minutes: " + ", ".join(f"{value:.2f}" for value in os.getloadavg())
    except (AttributeError, OSError):
        return "load unknown"


def lines(path: Path, names: list[str], rounds: int, tokens: int) -> Iterator[str]:
    with ExitStack() as stack:
        workers = {}
        for name in [*names, OURS]:
            workers[name] = Worker(path, WAITING.get(name, {}))
            stack.callback(workers[name].close)
        yield f"{cores()} cores; {load()}"
        best = {}
        for loaded, wanted in ((False, 0.95), (True, 0.75)):
            with busy(int(loaded)):
                where = "beside one busy process" if loaded else "idle"
                workers[OURS].ask("decode", 0, 12)  # it has met the load
                found = speeds(workers, "decode", rounds, tokens)
                best[loaded] = max(statistics.median(v) for (name, _), v in found.items() if name != OURS)
                yield from table(f"decode, {where}", found, wanted)
                yield from table(f"prefill of {READ}, {where}", speeds(workers, "prefill", rounds, READ), 0.0)
        yield "decode while a load comes and goes"
        yield from change(workers[OURS], best)
        yield load()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=12, help="decoded tokens of one measurement")
    parser.add_argument("--waiting", default=",".join(WAITING), help=f"of {', '.join(WAITING)}")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.model)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or geometry.write(Path(folder) / "qwen3-4b-q4_k_m.gguf", with_vocabulary=True)
        for line in lines(path, arguments.waiting.split(","), arguments.rounds, arguments.tokens):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
