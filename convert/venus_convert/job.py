"""SOURCE and what is wanted -> files, each made once.

In: a Job. Out: one Made a file, new or found up to date. The full-precision file is written once for all quants of a
run, checked by llama.cpp's tokenizer, and kept or removed as asked. An interrupt or a kill at any moment leaves no file
that looks finished and is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from venus_convert.convert import Options, Plan, convert, need_space, prepare
from venus_convert.quantize import Quant, Recipe, fallback, quantize
from venus_convert.read import read_gguf
from venus_convert.record import fingerprint, up_to_date, write_record
from venus_convert.verify import check_tokenizer
from venus_convert.write import Progress, part_path, sweep
from venus_edge.errors import ConversionError, UsageError

Say = Callable[[str], None]
Meter = Callable[[str, int], Progress]  # a title and a number of bytes -> what takes the bytes done
TEXTS = ("*.json", "*.jinja", "merges.txt", "README.md")


@dataclass(frozen=True, slots=True)
class Job:
    """What is wanted. Without quants the full-precision file itself; `out` is a folder, or one file's name."""

    source: Path
    out: Path
    quants: tuple[Quant, ...] = ()
    options: Options = field(default_factory=Options)
    embedding: str = ""
    head: str = ""
    imatrix: Path | None = None
    threads: int = 0
    keep: bool = False
    force: bool = False
    check: bool = True

    def recipe(self, quant: Quant) -> Recipe:
        return Recipe(quant, self.embedding, self.head, self.imatrix, self.threads)


@dataclass(frozen=True, slots=True)
class Made:
    """A file that is there now; `fresh` is False where it was up to date already."""

    path: Path
    type: str
    nbytes: int
    seconds: float
    fresh: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The full-precision side of a job: a checkpoint's plan, or a GGUF that is already there."""

    label: str
    nbytes: int
    parameters: int
    columns: tuple[int, ...]
    files: tuple[Path, ...]
    plan: Plan | None
    gguf: Path


def run(job: Job, say: Say, meter: Meter) -> list[Made]:
    """Do the job. Raises the VenusErrors of its steps; what was finished before stays."""
    source = opened(job)
    targets = _targets(job, source)
    for note in (*(source.plan.notes if source.plan else ()), *(fallback(kind, source.columns) for kind in job.quants)):
        if note:
            say(note)
    for path in sweep(job.out if not _is_file(job.out) else job.out.parent):
        say(f"removed what a killed conversion left: {path.name}")
    prints = {path: inputs(job, source, quant) for path, quant in targets.items()}
    fresh = {path: quant for path, quant in targets.items() if job.force or not up_to_date(path, prints[path])}
    _need(job, source, fresh)
    made = [_found(path, quant, source) for path, quant in targets.items() if path not in fresh]
    made += _make(job, source, fresh, prints, meter)
    return sorted(made, key=lambda one: list(targets).index(one.path))


def _make(
    job: Job, source: Source, fresh: dict[Path, Quant | None], prints: dict[Path, str], meter: Meter
) -> list[Made]:
    made = []
    for path, quant in fresh.items():
        if quant is None:
            made.append(_timed(path, source.label, prints[path], partial(_full, job, source, path, meter)))
    rest = {path: quant for path, quant in fresh.items() if quant is not None}
    if not rest:
        return made
    with _intermediate(job, source, meter) as full:
        for path, quant in rest.items():
            progress = meter(path.name, full.stat().st_size)
            action = partial(quantize, full, path, job.recipe(quant), progress)
            made.append(_timed(path, quant.name, prints[path], action))
    return made


def _timed(path: Path, kind: str, record: str, action: Callable[[], None]) -> Made:
    start = time.monotonic()
    action()
    write_record(path, record)
    return Made(path, kind, path.stat().st_size, time.monotonic() - start, True)


def _found(path: Path, quant: Quant | None, source: Source) -> Made:
    return Made(path, quant.name if quant else source.label, path.stat().st_size, 0.0, False)


def _full(job: Job, source: Source, path: Path, meter: Meter) -> None:
    """The full-precision file, checked before it has its name."""
    assert source.plan is not None
    convert(source.plan, path, meter(path.name, source.nbytes), _refuse_other_ids if job.check else lambda path: None)


def _refuse_other_ids(path: Path) -> None:
    found = check_tokenizer(read_gguf(path))
    if not found.ok:
        raise ConversionError(f"llama.cpp would not tokenize as this checkpoint does: {found.detail}")


@contextmanager
def _intermediate(job: Job, source: Source, meter: Meter) -> Iterator[Path]:
    """The full-precision file for the quantizer: the source itself, one that is up to date, or a passing one."""
    if source.plan is None:
        yield source.gguf
        return
    inputs_now = inputs(job, source, None)
    if up_to_date(source.gguf, inputs_now):
        yield source.gguf
        return
    if job.keep:
        _full(job, source, source.gguf, meter)
        write_record(source.gguf, inputs_now)
        yield source.gguf
        return
    passing = part_path(source.gguf.with_name(f"{source.gguf.stem}.passing.gguf"))
    try:
        _full(job, source, passing, meter)
        yield passing
    finally:
        passing.unlink(missing_ok=True)


# --- names, sizes, fingerprints


def opened(job: Job) -> Source:
    """The job's source, read as far as headers and configuration. Raises ConversionError, UsageError."""
    if job.source.is_file() and job.source.suffix == ".gguf":
        if not job.quants:
            raise UsageError(f"{job.source} is a GGUF file already; say --quant to make it smaller")
        file = read_gguf(job.source)
        shapes = [tensor.shape for tensor in file.tensors.values()]
        return Source("", file.size, sum(map(prod, shapes)), _columns(shapes), (job.source,), None, job.source)
    plan = prepare(job.source, job.options)
    texts = {path for pattern in TEXTS for path in job.source.glob(pattern) if path.is_file()}
    shards = {tensor.path for tensor in plan.checkpoint.tensors.values()}
    folder = job.out.parent if _is_file(job.out) else job.out
    full = folder / f"{stem(job.source)}-{plan.type.label}.gguf"
    columns = _columns([tensor.source.shape for tensor in plan.tensors])
    return Source(plan.type.label, plan.nbytes, plan.parameters, columns, tuple(sorted(texts | shards)), plan, full)


def _columns(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(shape[-1] for shape in shapes if len(shape) > 1)


def _targets(job: Job, source: Source) -> dict[Path, Quant | None]:
    wanted: list[Quant | None] = list(dict.fromkeys(job.quants)) or [None]
    if _is_file(job.out):
        if len(wanted) > 1:
            raise UsageError(f"--out {job.out} is one file and {len(wanted)} are asked for; name a folder")
        return {job.out: wanted[0]}
    targets: dict[Path, Quant | None] = {source.gguf: None} if job.keep and source.plan else {}
    for quant in wanted:
        path = job.out / f"{stem(job.source)}-{quant.name}.gguf" if quant else source.gguf
        if path == job.source:
            raise UsageError(f"{path} is the source itself; name another --out")
        targets[path] = quant
    return targets


def _is_file(out: Path) -> bool:
    return out.suffix == ".gguf" and not out.is_dir()


def stem(source: Path) -> str:
    """The model's name for files: the folder's, the hub's for a folder of its cache, a GGUF's without its type."""
    if source.is_file():
        return source.stem.removesuffix("-BF16").removesuffix("-F16").removesuffix("-F32")
    path = source.resolve()
    if path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--"):
        return path.parent.parent.name.rsplit("--", 1)[-1]
    return path.name


def inputs(job: Job, source: Source, quant: Quant | None) -> str:
    """The fingerprint of everything that one output depends on."""
    said: dict[str, Any] = {"options": asdict(job.options), "type": source.label, "venus-edge": version("venus-edge")}
    files = source.files
    if quant is not None:
        said |= {"recipe": asdict(job.recipe(quant)) | {"threads": 0}, "llama.cpp": version("llama-cpp-python")}
        files += (job.imatrix,) if job.imatrix else ()
    return fingerprint(files, said)


def _need(job: Job, source: Source, fresh: dict[Path, Quant | None]) -> None:
    """Room for everything that is to be written, before the first byte is."""
    quants = [quant for quant in fresh.values() if quant is not None]
    full = source.plan is not None and (None in fresh.values() or (quants and not source.gguf.exists()))
    size = (source.nbytes if full else 0) + sum(source.parameters * quant.bits / 8 for quant in quants)
    if fresh:
        need_space(next(iter(fresh)).parent, size)
