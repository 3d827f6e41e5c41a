"""MODEL + MACHINE -> TOKENS A SECOND -> MINUTES. Measured once and kept; the estimate is pure.

In: an open engine's work on a passage of tokens, or what it has counted of a run; the shape of the released runs. Out:
a Speed in a file of the cache directory, an Estimate, and a Forecast that follows a run. It says how long research
takes here, not how long a question deserves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from venus_edge.engine import Engine, Request, Sampling, Stats
from venus_edge.engine.options import EngineOptions
from venus_edge.fit.planner import Plan
from venus_edge.protocol import Piece, Trust
from venus_edge.values import DialectName

PREFILL, DECODE = 512, 24  # tokens that are measured: some seconds of a 4B model on two cores
_TEXT = "The tide gauge of Brest has recorded the level of the sea since the year 1807. "
FILE = "speed.json"


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second: reading a prompt, writing."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run takes: tokens of the whole conversation, those generated of it, pages read by the model."""

    conversation: int
    generated: int
    pages: int


# The shortest, the mean and the longest of the released runs (PROTOCOL section 6). What the mean ones generated goes by
# the share of the assistant's characters in ten of them, 21% and 28%; pages are their visits.
SHAPES: dict[str, tuple[Shape, Shape, Shape]] = {
    "rl": (Shape(54_035, 10_012, 6), Shape(79_907, 17_000, 9), Shape(130_235, 29_851, 15)),
    "sft": (Shape(19_674, 4_861, 4), Shape(30_911, 7_900, 8), Shape(46_744, 10_055, 12)),
}
IN_HOURS = 3 * 3600.0  # seconds: a longer run is told in hours
PAGE_READ, PAGE_WRITTEN = 4_000, 400  # tokens of a page that is read with the model: its prompt, its evidence


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds: the usual run, the shortest and the longest of the released ones."""

    usual: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.usual >= IN_HOURS:
            told = tuple(f"{part / 3600:.1f}" for part in (self.usual, self.least, self.most))
            return f"about {told[0]} hours, {told[1]} to {told[2]}"
        usual, least, most = (_minutes(part) for part in (self.usual, self.least, self.most))
        about = f"about {usual} minute{'s' if usual > 1 else ''}"
        return about if least == most else f"{about}, {least} to {most}"


def estimate(speed: Speed, dialect: DialectName, reads: bool, n_ctx: int = 0) -> Estimate:
    """How long a run takes at a speed; `reads`: pages are read by the model. A window of `n_ctx` ends it, if not 0."""
    shapes = (_within(shape, n_ctx) for shape in SHAPES.get(dialect, SHAPES["rl"]))
    least, usual, most = (_seconds(speed, shape, reads) for shape in shapes)
    return Estimate(usual, least, most)


def _within(shape: Shape, n_ctx: int) -> Shape:
    """As much of a run as a window holds."""
    share = min(1.0, n_ctx / shape.conversation) if n_ctx else 1.0
    return Shape(*(round(share * part) for part in (shape.conversation, shape.generated, shape.pages)))


def corrected(before: Estimate, share_done: float, seconds: float) -> Estimate:
    """The estimate after a share of the usual run took so many seconds; what it says weighs by how much is done."""
    if share_done <= 0 or seconds <= 0:
        return before
    weight = min(1.0, share_done)
    scale = (1 - weight) + weight * (seconds / share_done) / before.usual
    usual, least, most = (max(seconds, part * scale) for part in (before.usual, before.least, before.most))
    return Estimate(usual, least, most)


def _seconds(speed: Speed, shape: Shape, reads: bool) -> float:
    pages = shape.pages if reads else 0
    read = shape.conversation - shape.generated + pages * PAGE_READ
    return read / speed.prefill + (shape.generated + pages * PAGE_WRITTEN) / speed.decode


def _minutes(seconds: float) -> int:
    return max(1, round(seconds / 60))


# -- while it runs ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Forecast:
    """What a run will take, from what is known of the speed before it and from what the engine counts meanwhile.

    `known` is a speed that was measured before, None for none: then the run's own first turns tell it. `usual` is False
    for a model whose runs are not of the released ones' kind: nothing is foretold of them. `limit` is the most seconds.
    """

    stats: Stats
    dialect: DialectName
    reads: bool
    n_ctx: int
    limit: float
    known: Speed | None = None
    usual: bool = True
    clock: Callable[[], float] = time.monotonic
    first: Estimate | None = None  # the one that was told first
    _began: float = field(init=False)
    _before: Stats = field(init=False)  # what the engine had done before this run
    _speed: Speed | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._began, self._before = self.clock(), replace(self.stats)
        self.now()

    def now(self) -> Estimate | None:
        """The estimate for the whole run as it stands; None while nothing is known."""
        done = self._done()
        self._speed = self._speed or self.known or of_run(done, FIRST)
        if not self.usual or self._speed is None:
            return None
        before = estimate(self._speed, self.dialect, self.reads, self.n_ctx)
        work = done.prefill_tokens / self._speed.prefill + done.generated_tokens / self._speed.decode
        found = corrected(before, work / before.usual, self.clock() - self._began)
        capped = Estimate(*(min(self.limit, seconds) for seconds in (found.usual, found.least, found.most)))
        self.first = self.first or capped
        return capped

    def line(self) -> str:
        """For a meter: the minutes that are gone, and those that the whole run will take; "" while nothing is known."""
        if (found := self.now()) is None:
            return ""
        usual, least, most = (_minutes(part) for part in (found.usual, found.least, found.most))
        return f"{int((self.clock() - self._began) / 60)} of about {usual} min ({least}-{most})"

    def learned(self) -> Speed | None:
        """The speed that the run had, worth keeping; None where it did too little to tell."""
        return of_run(self._done(), ENOUGH)

    def _done(self) -> Stats:
        """What the engine has done since the run began, as far as it tells a speed."""
        before, now = self._before, self.stats
        return Stats(
            generated_tokens=now.generated_tokens - before.generated_tokens,
            prefill_tokens=now.prefill_tokens - before.prefill_tokens,
            prefill_seconds=now.prefill_seconds - before.prefill_seconds,
            decode_seconds=now.decode_seconds - before.decode_seconds,
        )


FIRST, ENOUGH = (256, 32), (1_000, 200)  # tokens read and written that tell a speed, and that are worth keeping it for


def of_run(stats: Stats, least: tuple[int, int]) -> Speed | None:
    """The speed that an engine has had so far; None for less work than `least` (tokens read, written)."""
    if stats.prefill_tokens < least[0] or stats.generated_tokens < least[1]:
        return None
    if stats.prefill_seconds <= 0 or stats.decode_seconds <= 0:
        return None
    return Speed(stats.prefill_tokens / stats.prefill_seconds, stats.generated_tokens / stats.decode_seconds)


# -- measured ---------------------------------------------------------------------------------------------------------


def measure(engine: Engine, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """Reads a passage and writes a few tokens after it. The engine's cache holds the passage afterwards."""
    ids = engine.tokenize([Piece(_TEXT * (PREFILL // 8), Trust.OUTSIDE)])[:PREFILL]
    sampling = Sampling(temperature=1.0, seed=1, max_tokens=DECODE)
    began = clock()
    written = iter(engine.generate(Request(ids, sampling)))
    next(written, "")
    read, before = clock(), engine.stats.generated_tokens
    for _ in written:
        pass
    count = engine.stats.generated_tokens - before
    return Speed(len(ids) / max(1e-6, read - began), max(1, count) / max(1e-6, clock() - read))


def of_model(model: Path, plan: Plan, options: EngineOptions, directory: Path) -> Speed:
    """The speed of a model opened with these options: as it was measured before, else now."""
    from venus_edge.engine.llama import LlamaEngine

    name = key(model, plan)
    if (speed := kept(directory, name)) is None:
        with closing(LlamaEngine(model, options)) as engine:
            speed = measure(engine)
        keep(directory, name, speed)
    return speed


def key(model: Path, plan: Plan) -> str:
    """What a speed holds for: the file, and how it is opened on this machine."""
    stat = model.stat()
    opened = (plan.kv_type, plan.gpu_layers, plan.main_gpu, plan.tensor_split, plan.threads)
    return _key(model.resolve(), stat.st_size, stat.st_mtime_ns, *opened)


def key_of_server(address: str, model: str) -> str:
    """The same for a model that a server runs."""
    return _key(address, model)


def _key(*parts: object) -> str:
    return sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def kept(directory: Path, name: str) -> Speed | None:
    """The speed that was measured before, None if there is none that can be read."""
    try:
        return Speed(**json.loads((directory / FILE).read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(directory: Path, name: str, speed: Speed) -> None:
    """Keeps a speed beside the others; a file that cannot be written only costs the next measurement."""
    path = directory / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError):
        table = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**table, name: asdict(speed)}), encoding="utf-8")
    except OSError:
        return
