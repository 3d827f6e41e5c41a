"""`venus-edge pack` and `venus-edge unpack`: everything that a machine without a network needs, there and back."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.errors import StorageError, UsageError

if TYPE_CHECKING:
    from venus_edge.pack import Part, Target
    from venus_edge.pack.wheels import Needs
    from venus_edge.registry import ModelSpec
    from venus_edge.settings import Settings


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("-m", "--model", metavar="NAME|FILE", help="Carry this model.")
@click.option(
    "-c", "--corpus", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="Carry this corpus."
)
@click.option("--cache", is_flag=True, help="Carry the pages and searches that were fetched.")
@click.option("--wheels", is_flag=True, help="Carry the program and what it needs, for pip.")
@click.option("--python", default="", metavar="3.N", help="The target's Python.  [as here]")
@click.option("--platform", "platforms", multiple=True, metavar="TAG", help="Its platform: win_amd64, ...  [as here]")
@click.option("--source", is_flag=True, help="llama.cpp as source, compiled there: for another processor.")
def pack(
    out: Path,
    model: str | None,
    corpus: tuple[Path, ...],
    cache: bool,
    wheels: bool,
    python: str,
    platforms: tuple[str, ...],
    source: bool,
) -> None:
    """Put what a machine without a network needs into OUT, a new folder or a .tar.

    \b
    venus-edge pack kit.tar --model dr-venus-4b-rl --corpus ./documents --cache --wheels
    venus-edge pack kit --wheels --python 3.12 --platform manylinux_2_28_aarch64

    There: sh kit/install.sh FOLDER, or with the program already there: venus-edge unpack kit.tar FOLDER
    """
    from venus_edge.config import settings
    from venus_edge.pack import Target

    if not (model or corpus or cache or wheels):
        raise UsageError("nothing to pack: name --model, --corpus, --cache or --wheels")
    if not wheels and (python or platforms or source):
        raise UsageError("--python, --platform and --source say what --wheels are for: add --wheels")
    if out.exists():
        raise UsageError(f"{out} is there already: name a new folder or .tar")
    given = settings({"model": model or None, "corpus": corpus or None})
    target = Target(python, platforms, source) if wheels else None
    with tempfile.TemporaryDirectory(prefix="venus-pack-", dir=_beside(out)) as stage:
        digest = _made(out, replace(given, corpus=corpus), model, cache, target, Path(stage))
    click.echo(f"manifest sha256 {digest}", err=True)
    click.echo(out)


def _beside(out: Path) -> Path:
    folder = out.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{folder} is not there: make it first")
    return folder


def _made(out: Path, given: Settings, model: str | None, cache: bool, target: Target | None, stage: Path) -> str:
    """Collects the parts and writes the pack. Out: the sha256 of its manifest."""
    from venus_edge import __version__, config
    from venus_edge.pack import make

    needs = _wheels(target, stage)
    spec, parts = _model(model, given, stage)
    corpora = _corpora(given, stage)
    pages = _pages(given, stage) if cache else []
    name = spec.name if spec else ""
    texts = make.texts(needs.python if needs else "", needs.compilers if needs else (), name)
    texts["config/config.toml"] = make.config_text(config.written(given), name, [part.name for part in corpora])
    facts = {
        "made_by": f"venus-edge {__version__}",
        "model": name,
        "python": needs.python if needs else "",
        "system": needs.system if needs else "",
        "needs": list(needs.compilers) if needs else [],
    }
    written = [_written(stage, path, text) for path, text in texts.items()]
    return make.write([*written, *_found(stage, "wheels"), *parts, *corpora, *pages], facts, out, _say)


def _written(stage: Path, name: str, text: str) -> Part:
    from venus_edge.pack import Part

    path = stage / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return Part(path, name)


def _found(stage: Path, folder: str) -> list[Part]:
    from venus_edge.pack import Part

    return [Part(path, f"{folder}/{path.name}") for path in sorted((stage / folder).glob("*"))]


def _wheels(target: Target | None, stage: Path) -> Needs | None:
    from venus_edge.pack import wheels

    (stage / "wheels").mkdir()
    return wheels.gather(target, stage / "wheels", _say) if target else None


def _model(name: str | None, given: Settings, stage: Path) -> tuple[ModelSpec | None, list[Part]]:
    """The model as the other machine will know it, and its files; none for one that ships with the program."""
    from venus_edge import model, modelfiles, registry
    from venus_edge.pack import Part, make

    if not name:
        return None, []
    spec, shipped = model.spec_of(given), registry.load()
    path = modelfiles.locate(spec, given.directories.models)
    if spec.name in shipped and shipped[spec.name].file == spec.file and spec.file:
        return spec, []
    known = spec.name.lower().replace("_", "-")
    if known in shipped and shipped[known].file:
        known += "-carried"
    spec = replace(spec, name=known, file="", gguf_repo=spec.gguf_repo)
    table = _written(stage, "config/models.toml", make.model_text(spec))
    files = [Part(part, make.fit_name("models", modelfiles.name_for(spec, part))) for part in modelfiles.parts(path)]
    return spec, [table, *files]


def _corpora(given: Settings, stage: Path) -> list[Part]:
    """The indexes of the corpora, which hold their texts, as they are now."""
    from venus_edge import world
    from venus_edge.pack import Part, make

    (stage / "corpora").mkdir()
    parts = []
    for number, folder in enumerate(given.corpus):
        copied = stage / "corpora" / str(number)
        index = world.copy_corpus(folder, given, copied)
        parts.append(Part(copied, make.fit_name("corpora", index.name)))
    return parts


def _pages(given: Settings, stage: Path) -> list[Part]:
    from venus_edge import world
    from venus_edge.pack import Part, unpack

    copied = stage / "pages.sqlite"
    with world.page_cache(given.directories) as kept:
        if not kept.export(copied):
            raise StorageError(f"the page cache cannot be copied: {kept.trouble}")
    return [Part(copied, unpack.PAGES)]


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@click.argument("home", required=False, type=click.Path(path_type=Path), default=Path("~/venus-edge"))
@click.option("--files-only", is_flag=True, help="Check and copy the files; install nothing.")
@click.pass_context
def unpack(ctx: click.Context, pack: Path, home: Path, files_only: bool) -> None:
    """Take PACK, a folder or a .tar, into HOME, every file checked; then install the program and run the doctor.

    What is there and right is not copied again, so it goes on after an interruption. Exit 1 if the doctor finds a
    fault.
    """
    from venus_edge.pack import unpack as taking

    try:
        ctx.exit(taking.unpack(pack, home, _say, program=not files_only))
    except taking.Broken as error:
        raise StorageError(str(error)) from error


def _say(line: str) -> None:
    from venus_edge.cli.text import clean

    click.echo(clean(line), err=True)
