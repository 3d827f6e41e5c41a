"""How fast the engine is beside what it is made of: ratios of pairs measured in turn, because a machine is never quiet.

    python -m tests.bench.engine [MODEL.gguf] [--small SMALL.gguf] [--server llama-server] [--pairs 5]
                                  [--only start,batch,prefill,snapshot,decode,long,slice]

MODEL is what decode, prefill, batches and snapshots are measured on: without one a file of the real geometry and no
weights (`geometry`), which costs the same. SMALL is a small model that can write (SmolLM2-135M), for the long turn and
the twenty turns beside other programs. A row without its file or program is left out.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import geometry
from tests.bench.others import ChatCompletion, OurSlice, ServerSlice, long_completion
from venus_edge import guards
from venus_edge.agent import CALLS
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.machine import cores
from venus_edge.engine.options import EngineOptions
from venus_edge.protocol import stream

TINY = Path("venus_edge/demo/venus-tiny.gguf")
SAMPLING = Sampling(max_tokens=100_000)


@dataclass(frozen=True)
class Row:
    """What was measured, pair by pair, and what it should be: at least, or at most, `wanted` (None: only shown)."""

    what: str
    values: list[float]
    wanted: float | None = None
    at_most: bool = False
    note: str = ""

    def __str__(self) -> str:
        middle = statistics.median(self.values)
        good = self.wanted is None or (middle <= self.wanted if self.at_most else middle >= self.wanted)
        bound = "" if self.wanted is None else f"{'<=' if self.at_most else '>='} {self.wanted:g}"
        spread = f"{min(self.values):.3g} .. {max(self.values):.3g}"
        return f"{self.what:58} {middle:8.3g}  {spread:18} {bound:9} {'' if good else 'MISSED':7}{self.note}"


# -- the bare loop ----------------------------------------------------------------------------------------------------


def bare_decode(engine: LlamaEngine, start: int, count: int) -> float:
    """Seconds of `count` greedy tokens behind position `start`, by nothing but llama.cpp's own calls."""
    lib, context = engine._context.lib, engine._context
    context.keep(0, start)
    engine._cached[0].cut(start)
    chain = lib.llama_sampler_init_greedy()
    token = (lib.llama_token * 1)(100)
    began = time.perf_counter()
    for _ in range(count):
        assert lib.llama_decode(context.pointer, lib.llama_batch_get_one(token, 1)) == 0
        token[0] = lib.llama_sampler_sample(chain, context.pointer, -1)
    seconds = time.perf_counter() - began
    lib.llama_sampler_free(chain)
    context.keep(0, start)
    return seconds


def bare_prefill(engine: LlamaEngine, ids: list[int]) -> float:
    lib, context = engine._context.lib, engine._context
    context.keep(0, 0)
    engine._cached[0].cut(0)
    array = (lib.llama_token * len(ids))(*ids)
    began = time.perf_counter()
    for at in range(0, len(ids), context.batch):
        part = (lib.llama_token * min(context.batch, len(ids) - at)).from_buffer(array, 4 * at)
        assert lib.llama_decode(context.pointer, lib.llama_batch_get_one(part, len(part))) == 0
    lib.llama_synchronize(context.pointer)
    seconds = time.perf_counter() - began
    context.keep(0, 0)
    return seconds


# -- the engine -------------------------------------------------------------------------------------------------------


def decode(engine: LlamaEngine, prompt: list[int], count: int) -> float:
    """Seconds of `count` tokens behind the prompt, which is in the cache: sampled, streamed, watched for loops, split
    into thinking and calls, the grammar armed."""
    seconds, left, seed = 0.0, count, 0
    while left:
        sampling = replace(SAMPLING, max_tokens=left, seed=seed)
        watch, splitter = guards.LoopWatch(), stream.Splitter()
        generation = engine.generate(Request(prompt, sampling, ("<tool_response>",), triggered=CALLS))
        began = time.perf_counter()
        for text in generation:
            list(splitter.feed(text))
            watch.feed(text)
        seconds += time.perf_counter() - began
        left -= generation.usage.evaluated_tokens
        seed += 1
    return seconds


def prefill(engine: LlamaEngine, ids: list[int]) -> float:
    engine._cached[0].cut(engine._context.keep(0, 0))
    before = engine.stats.prefill_seconds
    list(engine.generate(Request(ids, replace(SAMPLING, max_tokens=1))))
    return engine.stats.prefill_seconds - before


def ids_of(count: int) -> list[int]:
    return [100 + i * 7 % 900 for i in range(count)]


# -- rows -------------------------------------------------------------------------------------------------------------


def decode_rows(engine: LlamaEngine, pairs: int, depths: list[int], count: int) -> Iterator[Row]:
    for depth in depths:
        prompt = ids_of(depth + 1)
        list(engine.generate(Request(prompt, replace(SAMPLING, max_tokens=1))))
        bare, whole = [], []
        for _ in range(pairs):
            bare.append(bare_decode(engine, depth, count))
            engine._cached[0].extend(prompt[len(engine.cached()) : depth])
            whole.append(decode(engine, prompt, count))
        ratios = [b / w for b, w in zip(bare, whole, strict=True)]
        speed = count / statistics.median(whole)
        yield Row(f"decode, engine / bare loop, at {depth:,} tokens", ratios, 0.97, note=f"{speed:.1f} tokens/s")


def prefill_row(engine: LlamaEngine, pairs: int, count: int) -> Row:
    ids = ids_of(count)
    prefill(engine, ids)
    values = [(bare_prefill(engine, ids), prefill(engine, ids)) for _ in range(pairs)]
    speed = count / statistics.median(ours for _, ours in values)
    return Row(f"prefill of {count:,}, engine / bare", [b / o for b, o in values], 0.98, note=f"{speed:.0f} tokens/s")


def batch_row(engine: LlamaEngine, pairs: int) -> Iterator[Row]:
    """What a batch of a few tokens costs: the slope that speculation is paced by."""
    prompt = ids_of(64)
    list(engine.generate(Request(prompt, replace(SAMPLING, max_tokens=1))))
    costs: dict[int, list[float]] = {size: [] for size in (1, 2, 3, 5, 9)}
    for _ in range(pairs):
        for size, seconds in costs.items():
            engine._context.keep(0, 64)
            began = time.perf_counter()
            engine._context.evaluate(0, 64, prompt[:size], size)
            engine._context.lib.llama_synchronize(engine._context.pointer)
            seconds.append(time.perf_counter() - began)
    engine._cached[0].cut(engine._context.keep(0, 0))
    for size, seconds in costs.items():
        if size > 1:
            yield Row(f"batch of {size} / of 1", [s / one for s, one in zip(seconds, costs[1], strict=True)])


def snapshot_row(engine: LlamaEngine, pairs: int, count: int = 2_000) -> Row:
    ids, values = ids_of(count), []
    seconds = prefill(engine, ids)
    with tempfile.TemporaryDirectory() as folder:
        size = engine.save(Path(folder) / "talk.kv")
        for _ in range(pairs):
            began = time.perf_counter()
            assert engine.restore(Path(folder) / "talk.kv") == count
            values.append((time.perf_counter() - began) / seconds)
    note = f"{size / 1e6:.0f} MB, {1_000 * statistics.median(values) * seconds:.1f} ms"
    return Row(f"{count:,} tokens: restored / evaluated", values, 0.01, at_most=True, note=note)


def long_turn_rows(path: Path, pairs: int, tokens: int = 3_000) -> Iterator[Row]:
    """One turn of 3,000 tokens: how much dearer its end is than its beginning, beside the bare loop at these depths."""
    values, growths = [], []
    with closing(endless(path, EngineOptions(n_ctx=4_096, n_ctx_reading=0, speculate=False))) as engine:
        for number in range(pairs):
            growth = _growth(_times(engine, tokens, number), tokens)
            list(engine.generate(Request(ids_of(tokens - 200), replace(SAMPLING, max_tokens=1))))
            late, early = bare_decode(engine, tokens - 200, 60), bare_decode(engine, 200, 60)
            growths.append(growth)
            values.append(growth / (late / early))
    yield Row(f"{tokens:,} tokens in a turn: last / first, engine / bare", values, 1.1, at_most=True)
    yield Row("  of which the engine's last / first", growths)
    yield Row("  beside it Llama.create_completion, last / first", [_growth(long_completion(path, tokens), tokens)])


def _growth(times: list[float], tokens: int) -> float:
    """The cost of a token around 200 before the end, as a multiple of that around the 200th."""
    return statistics.median(times[-350:-50]) / statistics.median(times[50:350]) if len(times) > tokens // 2 else 0.0


def _times(engine: LlamaEngine, tokens: int, seed: int) -> list[float]:
    """Seconds between the texts of one turn."""
    times, last = [], time.perf_counter()
    watch, splitter = guards.LoopWatch(), stream.Splitter()
    for text in engine.generate(Request(ids_of(8), replace(SAMPLING, max_tokens=tokens, seed=seed), triggered=CALLS)):
        list(splitter.feed(text))
        watch.feed(text)
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    return times


def endless(path: Path, options: EngineOptions) -> LlamaEngine:
    """An engine whose turns go on to their limit, whatever the model says."""
    engine = LlamaEngine(path, options)
    engine.vocabulary.ends = lambda token: False  # type: ignore[method-assign]  # for measuring
    return engine


def slice_rows(path: Path, server: Path | None, pairs: int) -> Iterator[Row]:
    """Twenty turns of 60 tokens, each answered by 250: the same ids through three programs in turn."""
    players: dict[str, Any] = {"ours": OurSlice(path), "Llama.create_chat_completion": ChatCompletion(path)}
    if server is not None:
        players["llama-server, prompt cache"] = ServerSlice(path, server)
    seconds: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(pairs):
        for name, player in players.items():
            seconds[name].append(player.play())
    for player in players.values():
        player.close()
    for name in list(players)[1:]:
        ratios = [theirs / ours for theirs, ours in zip(seconds[name], seconds["ours"], strict=True)]
        yield Row(f"twenty turns: {name} / ours", ratios, 1.0, note=f"ours {statistics.median(seconds['ours']):.1f} s")


START = """
import sys
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=2_048))
next(iter(engine.generate(Request(range(100, 400), Sampling()))))
"""


def start_row(pairs: int) -> Row:
    values = []
    for _ in range(pairs):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", START, str(TINY)], check=True)
        values.append(time.perf_counter() - began)
    return Row("seconds from python's start to venus-tiny's first token", values, 1.0, at_most=True)


# -- the table --------------------------------------------------------------------------------------------------------

GROUPS = ("start", "batch", "prefill", "snapshot", "decode", "long", "slice")


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows of the groups that were asked for, those of one model while it is open."""
    pairs, only = arguments.pairs, arguments.only
    if "start" in only and TINY.is_file():
        yield start_row(pairs)
    if {"batch", "prefill", "snapshot", "decode"} & only:
        yield from big_rows(arguments)
        gc.collect()
    if "long" in only and arguments.small:
        yield from long_turn_rows(arguments.small, pairs)
    if "slice" in only and arguments.small:
        yield from slice_rows(arguments.small, arguments.server, pairs)


def big_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    pairs, only, depths = arguments.pairs, arguments.only, [int(text) for text in arguments.depths.split(",")]
    options = EngineOptions(n_ctx=max(2_000, *depths) + 1_024, n_ctx_reading=0, type_k=arguments.kv, speculate=False)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or geometry.write(Path(folder) / "qwen3-4b-q4_k_m.gguf", with_vocabulary=True)
        with closing(endless(path, options)) as engine:
            if "batch" in only:
                yield from batch_row(engine, pairs)
            if "prefill" in only:
                yield prefill_row(engine, pairs, arguments.prefill)
            if "snapshot" in only:
                yield snapshot_row(engine, pairs)
            if "decode" in only:
                yield from decode_rows(engine, pairs, depths, arguments.tokens)


def _only(text: str) -> set[str]:
    asked = {name.strip() for name in text.split(",")}
    if asked - set(GROUPS):
        raise argparse.ArgumentTypeError(f"known: {', '.join(GROUPS)}")
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--small", type=Path, help="a small model that can write")
    parser.add_argument("--server", type=Path, help="llama-server of the same llama.cpp")
    parser.add_argument("--only", type=_only, default=set(GROUPS), help=f"groups of rows, of {','.join(GROUPS)}")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48, help="decoded tokens of one measurement")
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--depths", default="0,8000", help="tokens of context at which decode is measured")
    parser.add_argument("--kv", default="q8_0", help="KV type")
    arguments = parser.parse_args()
    sys.stdout.write(f"{machine()}\n{'':58} {'median':>8}  {'spread':18} {'wanted':9}\n")
    for row in rows(arguments):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


def machine() -> str:
    """What the figures are of: threads, and what else was running."""
    try:
        load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    except OSError:
        load = "unknown"
    return f"{cores()} threads; load of 1, 5, 15 minutes at the start: {load}"


if __name__ == "__main__":
    main()
