"""`venus-edge models`: which models there are, where they are, getting, checking and removing them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.errors import ModelError
from venus_edge.settings import Directories

if TYPE_CHECKING:
    from venus_edge.hub import Gate, Listing, Progress, RemoteFile
    from venus_edge.registry import ModelSpec
    from venus_edge.settings import Settings


@click.group()
def models() -> None:
    """Which models there are, and getting them.

    \b
    venus-edge models pull dr-venus-4b-rl
    venus-edge models add ./DR-Venus-4B-RL-Q4_K_M.gguf
    venus-edge models verify dr-venus-4b-rl
    """


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def list_(as_json: bool) -> None:
    """List the models of models.toml, and which are on this machine."""
    from venus_edge import modelfiles, registry

    directories = Directories.from_environment()
    rows, lacking = [], []
    for spec in registry.load(directories.config).values():
        found = modelfiles.here(spec, directories.models)
        path = str(modelfiles.best(found, spec.quant)) if found else ""
        rows.append(
            {"name": spec.name, "title": spec.title, "dialect": spec.dialect, "shipped": bool(spec.file), "path": path}
        )
        lacking.append(_lacking(spec))
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row, otherwise in zip(rows, lacking, strict=True):
        click.echo(f"{row['name']:<16} {row['title']}")
        click.echo(f"{'':<16} {row['path'] or otherwise}")


@models.command()
@click.argument("name")
@click.option(
    "--quant", default="auto", metavar="auto|Q4_K_M|...", show_default=True, help="auto: what the plan takes."
)
@click.option("--convert", is_flag=True, help="Fetch the checkpoint and convert it here instead.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the path.")
def pull(name: str, quant: str, convert: bool, as_json: bool) -> None:
    """Fetch the GGUF file of model NAME from the hub; a broken download is taken up where it broke."""
    from venus_edge import modelfiles

    spec = _spec(name)
    if spec.file:
        raise ModelError(f"model {name} needs no fetching: {modelfiles.locate(spec, Path())}")
    path = fetched(spec, quant, convert)
    size = sum(part.stat().st_size for part in modelfiles.parts(path))
    record = {"name": name, "path": str(path), "bytes": size, "sha256": modelfiles.listed_sha256(path)}
    click.echo(json.dumps(record, ensure_ascii=False) if as_json else path)


def fetched(spec: ModelSpec, quant: str = "auto", convert: bool = False) -> Path:
    """The model's file, from the hub unless it is offline. What left the machine is told on stderr. Raises ModelError,
    StorageError."""
    from venus_edge import hub, modelfiles
    from venus_edge.config import settings

    set_, places = settings({}), Directories.from_environment()
    here = modelfiles.here(spec, places.models)
    if hub.offline() or set_.offline:
        if not here:
            raise ModelError(
                f"offline, and {spec.name} is not here: copy its .gguf into the folder of: venus-edge models path"
            )
        return modelfiles.best(here, spec.quant)
    with _passing(set_) as passing:
        return _fetched(spec, quant, convert, passing)


@contextmanager
def _passing(settings: Settings) -> Iterator[Gate]:
    """The gate to the hub; what went through it is told at the end, on stderr."""
    from venus_edge import hub

    passing = hub.gate(allow_hosts=settings.allow_hosts)
    try:
        yield passing
    finally:
        for line in hub.told(passing):
            click.echo(f"Connections: {line}", err=True)


def _fetched(spec: ModelSpec, quant: str, convert: bool, passing: Gate) -> Path:
    """The file of the wanted quantization; where the hub has no GGUF, or by wish, one that is converted here."""
    from venus_edge import hub

    if convert or not spec.gguf_repo:
        return _convert(spec, _wanted(spec, quant, {}), passing)
    converted = f"venus-edge models pull {spec.name} --convert makes it of its checkpoint" if spec.repo else ""
    found = hub.listing(spec.gguf_repo, passing=passing, otherwise=converted)
    sizes = hub.quants(found)
    wanted = _wanted(spec, quant, sizes)
    if not sizes:
        click.echo(f"{spec.gguf_repo} has no .gguf file: fetching {spec.repo} to convert it here", err=True)
        return _convert(spec, wanted, passing)
    files = hub.choose(found.files, wanted, spec.gguf_repo)
    click.echo(f"{files[0].name}, {sum(file.size for file in files) / 1e9:.2f} GB, from {spec.gguf_repo}", err=True)
    return _fetch(found, files, passing)[0]


def offer(settings: Settings) -> None:
    """On a terminal, a model that is not here is offered with its size and time; elsewhere the run's error says how."""
    from venus_edge import hub, model, modelfiles

    if settings.engine or settings.offline or hub.offline() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    spec = model.spec_of(settings)
    missing = spec.gguf_repo and not modelfiles.here(spec, settings.directories.models)
    if missing and click.confirm(offer_line(spec, _expected(spec)), default=True, err=True):
        fetched(spec)


def offer_line(spec: ModelSpec, gigabytes: float) -> str:
    """The question of the first run."""
    minutes = gigabytes * 8_000 / 50 / 60  # at 50 Mbit/s
    return (
        f"{spec.title} is not on this machine. Fetch it now: {gigabytes:.1f} GB, about {minutes:.0f} minutes at "
        "50 Mbit/s?"
    )


def _expected(spec: ModelSpec) -> float:
    """The GB of the file that a pull would take, as far as they can be known before the hub is asked."""
    from venus_edge.fit import sizes

    known = sizes.known(spec.name)
    wanted = _wanted(spec, "auto", dict.fromkeys(known.weights, 0))
    return known.weights[wanted].total / 1e9 if wanted in known.weights else spec.size_gb


def _wanted(spec: ModelSpec, quant: str, there: dict[str, int]) -> str:
    """The quantization to fetch: the one asked for, or what the plan for this machine takes of those that are there."""
    if quant != "auto":
        return quant
    from venus_edge import model
    from venus_edge.config import settings
    from venus_edge.fit import machine, planner, sizes

    known = sizes.known(spec.name, quants=list(there))
    if not known.weights:
        return spec.quant
    return planner.plan(known, machine.probe(), model.wishes(spec, settings({}))).quant


def fetch_checkpoint(repo: str, revision: str = "") -> Path:
    """A repository's checkpoint, fetched: its folder. What is here already is kept. Raises ModelError."""
    from venus_edge import hub
    from venus_edge.config import settings

    set_ = settings({})
    if hub.offline() or set_.offline:
        raise ModelError(f"offline, so {repo} cannot be fetched: copy its checkpoint folder here and name that")
    with _passing(set_) as passing:
        return _checkpoint(repo, revision, passing)


def _checkpoint(repo: str, revision: str, passing: Gate) -> Path:
    from venus_edge import hub

    found = hub.listing(repo, revision, passing)
    return _fetch(found, hub.checkpoint(found), passing)[0].parent


def _convert(spec: ModelSpec, quant: str, passing: Gate) -> Path:
    """Fetches the checkpoint and converts it into the models directory."""
    from venus_convert.cli import convert_command

    folder = _checkpoint(spec.repo, spec.revision, passing)
    out = Directories.from_environment().models
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{spec.name}-{quant}.gguf"
    arguments = [str(folder), "--quant", quant, "--out", str(target), "--model", spec.name]
    convert_command.main(arguments, standalone_mode=False)
    return target


def _fetch(found: Listing, files: Sequence[RemoteFile], passing: Gate) -> list[Path]:
    from venus_edge import hub

    paths = hub.fetch(found, files, _meter(), passing=passing)
    if sys.stderr.isatty():
        click.echo(err=True)
    return paths


def _meter() -> Callable[[Progress], None]:
    """Progress on stderr: a line that is redrawn on a terminal, one line for every tenth elsewhere."""
    live, last = sys.stderr.isatty(), -1

    def show(progress: Progress) -> None:
        nonlocal last
        step = int((1_000 if live else 10) * progress.done / max(1, progress.total))
        if step != last:
            last = step
            click.echo(("\r" if live else "") + meter_line(progress), nl=not live, err=True)

    return show


def meter_line(progress: Progress) -> str:
    """Share, bytes, rate and the time left of a download."""
    share = 100 * progress.done / max(1, progress.total)
    eta = "" if progress.eta is None else f"  {int(progress.eta) // 60}:{int(progress.eta) % 60:02d} left"
    again = f"  (went on at {progress.resumed / 1e6:,.0f} MB)" if progress.resumed else ""
    return f"{share:3.0f}%  {progress.done / 1e6:,.0f} MB  {progress.rate / 1e6:.1f} MB/s{eta}{again}  "


@models.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Name to give it; default the file's.")
@click.option("--dialect", type=click.Choice(["rl", "sft", "official"]), help="Wording of tool replies.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def add(file: Path, name: str | None, dialect: str | None, as_json: bool) -> None:
    """Register a GGUF FILE of your own under a name; its header is checked and it stays where it is."""
    from venus_edge import modelfiles, registry
    from venus_edge.fit import card, header

    directories = Directories.from_environment()
    found = header.read(file)
    made = card.of(found, name, dialect, registry.load(directories.config))
    if not as_json:
        click.echo("\n".join(made.lines))
    digest = modelfiles.sha256(file)
    card.register(directories.config, made, digest)
    if as_json:
        record = {"name": made.name, "path": str(made.path), "dialect": made.dialect, "quant": made.quant}
        click.echo(json.dumps({**record, "sha256": digest, "says": made.lines}, ensure_ascii=False))
    click.echo(f'venus-edge run "..." --model {made.name}', err=True)


@models.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a file.")
def verify(name: str, as_json: bool) -> None:
    """Check the file of model NAME: its header, and its hash where one is known. Exit 1 if it is damaged."""
    from venus_edge import modelfiles
    from venus_edge.fit import header

    spec = _spec(name)
    path = modelfiles.locate(spec, Directories.from_environment().models)
    found = header.read(path)
    header_line = f"{found.architecture}, {found.quant}, {len(found.tensors)} tensors, {found.size:,} bytes"
    if not as_json:
        click.echo(f"header  ok: {header_line}")
    for part in modelfiles.parts(path):
        known = (spec.sha256 if part == path else "") or modelfiles.listed_sha256(part)
        actual = modelfiles.sha256(part) if known or as_json else ""
        if known and actual != known:
            raise ModelError(f"{part} is damaged: sha256 {actual[:12]}... instead of {known[:12]}...; fetch it again")
        if as_json:
            record = {"name": spec.name, "path": str(part), "header": header_line, "sha256": actual}
            click.echo(json.dumps({**record, "checked": bool(known)}, ensure_ascii=False))
        else:
            click.echo(f"sha256  ok: {known}" if known else f"sha256  not known for {part.name}")


@models.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(name: str, yes: bool) -> None:
    """Remove the files of model NAME from this machine, or the entry of a file that you added (the file stays)."""
    from venus_edge import modelfiles, registry
    from venus_edge.fit import card

    directories = Directories.from_environment()
    spec = _spec(name)
    if spec.file:
        if not card.forget(directories.config, spec.name):
            shipped = name in registry.load()
            raise ModelError(
                f"model {name} ships with the package" if shipped else f"{name} was not added: remove the file itself"
            )
        click.echo(f"forgotten: {name}; its file stays: {spec.file}")
        return
    paths = modelfiles.here(spec, directories.models)
    if not paths:
        raise ModelError(f"model {name} is not on this machine")
    for path in paths:
        if yes or click.confirm(f"remove {path}?", err=True):
            click.echo(f"removed {path}: {sum(map(modelfiles.remove, modelfiles.parts(path))) / 1e9:.2f} GB")


@models.command()
@click.argument("name", required=False)
def path(name: str | None) -> None:
    """Print where the file of model NAME is, or the directory that your own files may be put in."""
    from venus_edge import modelfiles

    directories = Directories.from_environment()
    click.echo(directories.models if name is None else modelfiles.locate(_spec(name), directories.models))


@models.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(name: str, as_json: bool) -> None:
    """Print what is known of model NAME, and what its file says of itself."""
    from venus_edge import modelfiles
    from venus_edge.fit import card, header

    spec = _spec(name)
    found = modelfiles.here(spec, Directories.from_environment().models)
    if as_json:
        files = [{"path": str(file), "says": card.lines(header.read(file))} for file in found]
        click.echo(json.dumps({**asdict(spec), "files": files}, ensure_ascii=False))
        return
    click.echo(f"{spec.name}: {spec.title}")
    click.echo(
        f"dialect {spec.dialect}, pages read by {spec.reader}, window {spec.n_ctx:,} of {spec.n_ctx_train:,} tokens"
    )
    for label, value in (("checkpoint", spec.repo), ("GGUF", spec.gguf_repo)):
        if value:
            click.echo(f"{label}: {value}")
    for file in found:
        click.echo(str(file))
        for line in card.lines(header.read(file)):
            click.echo(f"  {line}")
    if not found:
        click.echo(_lacking(spec))


def _lacking(spec: ModelSpec) -> str:
    """What to do about a model whose file is not here."""
    if not spec.file:
        return f"not here: venus-edge models pull {spec.name}"
    return f"missing: {spec.file}" + (f"; to forget it: venus-edge models rm {spec.name}" if spec.sha256 else "")


def _spec(name: str) -> ModelSpec:
    """The model of that name, or a file's. Raises UsageError that lists the known ones."""
    from venus_edge import registry

    return registry.named(name, registry.load(Directories.from_environment().config))
