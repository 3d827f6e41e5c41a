"""What was offloaded, and the logits beside the CPU's: one row for each number of layers and pair of KV types.

    make bench-offload                     venus-tiny
    python -m tests.bench.offload FILE.gguf ...

The places are llama.cpp's own report, not the plan. On a build or a machine without a card the rows are the CPU's and
that is said. Fails where a token is another than the CPU's at f16.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from venus_edge import demo, registry
from venus_edge.engine import Request, Sampling, devices
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.offload import MIB, Placement
from venus_edge.engine.options import EngineOptions
from venus_edge.values import KvTypes

PROMPT = list(range(100, 164))
WRITTEN = 16
KINDS = ("f16", "q8_0", "q8_0,f16", "q4_0")


@dataclass(frozen=True)
class Seen:
    """One way to open a model: where everything went, the logits after the prompt, the greedy tokens, seconds."""

    placement: Placement
    logits: np.ndarray[Any, Any]
    tokens: tuple[int, ...]
    seconds: float


def seen(path: Path, layers: int, kv: str) -> Seen:
    types = KvTypes.of(kv)
    asked = EngineOptions(n_ctx=1_024, n_ctx_reading=0, n_gpu_layers=layers, type_k=types.k, type_v=types.v)
    with closing(LlamaEngine(path, asked)) as engine:
        engine._context.evaluate(0, 0, PROMPT)
        logits = np.array(engine._context.logits(), copy=True)
        engine._context.keep(0, 0)
        greedy = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=WRITTEN)
        began = time.perf_counter()
        for _ in engine.generate(Request(PROMPT, greedy)):
            pass
        return Seen(engine.placement, logits, engine.cached()[len(PROMPT) :], time.perf_counter() - began)


def rows(path: Path) -> Iterator[tuple[str, bool]]:
    """Lines of the table, and whether the tokens at f16 are the CPU's."""
    for kv in KINDS:
        cpu = seen(path, 0, kv)
        total = cpu.placement.total_layers
        for layers in (0, max(1, total // 2), total) if devices.build().cards else (0,):
            found = cpu if not layers else seen(path, layers, kv)
            there = [sum(found.placement.size(name, kind) for name, _ in found.placement.layers) for kind in _PARTS]
            difference = float(np.abs(found.logits - cpu.logits).max())
            top = int(found.logits.argmax()) == int(cpu.logits.argmax())
            equal = sum(a == b for a, b in zip(found.tokens, cpu.tokens, strict=False))
            sizes = " | ".join(f"{size / MIB:.1f}" for size in there)
            yield (
                f"| {path.stem} | {kv} | {found.placement.offloaded} of {total} | {sizes} | {difference:.4f} | "
                f"{'same' if top else 'other'} | {equal} of {len(cpu.tokens)} | {found.seconds:.2f} |",
                kv != "f16" or found.tokens == cpu.tokens,
            )


_PARTS = ("weights", "KV", "work")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    build, right = devices.build(), True
    say(
        f"backends: {', '.join(build.backends)}; cards: {', '.join(card.description for card in build.cards) or 'none'}"
    )
    say("| model | KV | layers on a card | weights MiB | KV MiB | work MiB | logits off by | argmax | tokens | s |")
    say("|---|---|--:|--:|--:|--:|--:|---|--:|--:|")
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else [registry.PACKAGE / registry.load()[demo.MODEL].file]:
        for line, same in rows(path):
            say(line)
            right = right and same
    sys.exit(not right)


if __name__ == "__main__":
    main()
