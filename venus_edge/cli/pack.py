"""`venus-edge pack` and `venus-edge unpack`: everything that a machine without a network needs, there and back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.cli.place import Place
from venus_edge.errors import StorageError, UsageError

if TYPE_CHECKING:
    from venus_edge.pack import Part, Target
    from venus_edge.pack.wheels import Needs
    from venus_edge.registry import ModelSpec
    from venus_edge.settings import Settings


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("-m", "--model", metavar="NAME|FILE", help="Carry this model.")
@click.option("-c", "--corpus", multiple=True, type=Place(), metavar="NAME|DIR", help="Carry this corpus.")
@click.option("--no-archives", is_flag=True, help="Leave out the ZIM archives that corpora read in place.")
@click.option("--dense", metavar="NAME|FILE", help="Carry this embedding model; corpora are searched by it there too.")
@click.option("--cache", is_flag=True, help="Carry the pages and searches that were fetched.")
@click.option("--wheels", is_flag=True, help="Carry the program and what it needs, for pip.")
@click.option("--python", default="", metavar="3.N", help="The target's Python.  [as here]")
@click.option("--platform", "platforms", multiple=True, metavar="TAG", help="Its platform: win_amd64, ...  [as here]")
@click.option("--source", is_flag=True, help="llama.cpp as source, compiled there: for another processor.")
def pack(
    out: Path,
    model: str | None,
    corpus: tuple[Path, ...],
    no_archives: bool,
    dense: str | None,
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
    from venus_edge.pack import Target, make

    if not (model or corpus or dense or cache or wheels):
        raise UsageError("nothing to pack: name --model, --corpus, --dense, --cache or --wheels")
    if not wheels and (python or platforms or source):
        raise UsageError("--python, --platform and --source say what --wheels are for: add --wheels")
    make.check_out(out)
    given = settings({"model": model or None, "corpus": corpus or None, "dense": dense})
    if wheels and given.offline:
        raise UsageError(
            "offline: --wheels asks a registry of packages; with a network: VENUS_OFFLINE=0 venus-edge pack"
        )
    given = replace(given, corpus=tuple(dict.fromkeys(corpus)), dense=given.dense if dense or corpus else "")
    target = Target(python, platforms, source) if wheels else None
    with _stage(out) as stage:
        digest = _made(out, given, model, cache, target, not no_archives, stage)
    click.echo(f"manifest sha256 {digest}", err=True)
    click.echo(out)


@contextmanager
def _stage(out: Path) -> Iterator[Path]:
    """A folder beside the pack for what is made on the way. Raises StorageError where nothing can be written."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="venus-pack-", dir=out.absolute().parent)
    except OSError as error:
        raise StorageError(f"{out} cannot be written ({error.strerror or error}): name another place") from error
    with folder as stage:
        yield Path(stage)


@dataclass(slots=True)
class _Corpora:
    """Corpora on their way: their files, the paths by which config.toml names them, archives that stay here; the
    path of each archive in the pack."""

    parts: list[Part] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    archives: dict[Path, str] = field(default_factory=dict)

    def free(self, name: str) -> str:
        from venus_edge.pack import make

        return make.free_name(make.fit_name("corpora", name), [*(part.name for part in self.parts), *self.left_out])


def _made(
    out: Path, given: Settings, model: str | None, cache: bool, target: Target | None, archives: bool, stage: Path
) -> str:
    """Collects the parts and writes the pack. Out: the sha256 of its manifest."""
    from venus_edge import __version__, config
    from venus_edge.pack import make
    from venus_edge.pack.wheels import Needs

    corpora = _corpora(given, stage, archives)
    spec, parts, table = _model(model, given)
    dense, embedding, dense_table = _embedding(given)
    pages = _pages(given, stage) if cache else []
    needs = _wheels(target, stage, bool(corpora.archives)) or Needs("", "", extras=())
    name = spec.name if spec else ""
    texts = make.texts(needs.python, needs.compilers, name)
    texts["config/config.toml"] = make.config_text(config.written(given), name, corpora.named, dense)
    if tables := table + dense_table:
        texts["config/models.toml"] = tables
    facts = {
        "made_by": f"venus-edge {__version__}",
        "model": name,
        "left_out": corpora.left_out,
        "python": needs.python,
        "system": needs.system,
        "needs": list(needs.compilers),
        "extras": list(needs.extras),
    }
    written = [_written(stage, path, text) for path, text in texts.items()]
    found = [*written, *_found(stage, "wheels"), *parts, *embedding, *corpora.parts, *pages]
    return make.write(found, facts, out, _say)


def _written(stage: Path, name: str, text: str) -> Part:
    from venus_edge.pack import Part

    path = stage / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return Part(path, name)


def _found(stage: Path, folder: str) -> list[Part]:
    from venus_edge.pack import Part

    return [Part(path, f"{folder}/{path.name}") for path in sorted((stage / folder).glob("*"))]


def _wheels(target: Target | None, stage: Path, with_zim: bool) -> Needs | None:
    from venus_edge.pack import wheels

    (stage / "wheels").mkdir()
    extras = (*wheels.EXTRAS, "zim") if with_zim else wheels.EXTRAS
    return wheels.gather(target, stage / "wheels", _say, extras) if target else None


def _model(name: str | None, given: Settings) -> tuple[ModelSpec | None, list[Part], str]:
    """The model as the other machine will know it, its files, its table; no files for one that the program has."""
    from venus_edge import model, modelfiles, registry
    from venus_edge.pack import Part, make

    if not name:
        return None, [], ""
    spec, shipped = model.spec_of(given), registry.load()
    path = modelfiles.locate(spec, given.directories.models)
    if spec.name in shipped and shipped[spec.name].file == spec.file and spec.file:
        return spec, [], ""
    known = spec.name.lower().replace("_", "-")
    if known in shipped and shipped[known].file:
        known += "-carried"
    spec = replace(spec, name=known, file="", gguf_repo=spec.gguf_repo)
    files = [Part(part, make.fit_name("models", modelfiles.name_for(spec, part))) for part in modelfiles.parts(path)]
    return spec, files, make.model_text(spec)


def _embedding(given: Settings) -> tuple[str, list[Part], str]:
    """The embedding model as the other machine will know it, its file, its table."""
    from venus_edge import registry, world
    from venus_edge.pack import Part, make

    if not given.dense:
        return "", [], ""
    path = world.embedding_model(given)
    is_name = given.dense in registry.embedders(given.directories.config)
    name = given.dense if is_name else path.stem.lower()
    file = make.fit_name("models", path.name)
    return name, [Part(path, file)], make.embedding_text(name, file.removeprefix("models/"))


def _corpora(given: Settings, stage: Path, archives: bool) -> _Corpora:
    """The indexes of the corpora, which hold their texts, as they are now, and the archives that are read in place."""
    from venus_edge import corpora, world
    from venus_edge.corpus import dense, ledger
    from venus_edge.corpus.index import called
    from venus_edge.pack import Part

    (stage / "corpora").mkdir()
    found = _Corpora()
    for number, named in enumerate(given.corpus):
        file = world.corpus_file(named, given, _say)
        for archive in corpora.archives(file):
            _add_archive(found, archive, file, archives)
        if file in found.archives:
            found.named.append(found.archives[file])
            continue
        copied = stage / "corpora" / str(number)
        ledger.export(file, copied, {str(path): Path(name).name for path, name in found.archives.items()})
        found.parts.append(Part(copied, found.free(file.name)))
        found.named.append(found.parts[-1].name)
        if not given.dense and (made_by := dense.made_by(copied)):
            _say(f"corpus {file.stem}: its vectors go in, the model {called(made_by)!r} does not: --dense carries it")
    return found


def _add_archive(found: _Corpora, archive: Path, file: Path, wanted: bool) -> None:
    """An archive with all its pieces, or its name where it is to stay here."""
    from venus_edge import corpora
    from venus_edge.pack import Part

    if archive in found.archives:
        return
    pieces = corpora.pieces(archive)
    size = sum(piece.stat().st_size for piece in pieces)
    stem = found.free(archive.name).removesuffix(archive.suffix)
    names = [f"{stem}{piece.suffix}" for piece in pieces]
    found.archives[archive] = names[0]
    if wanted or archive == file:
        found.parts += [Part(piece, name) for piece, name in zip(pieces, names, strict=True)]
    else:
        found.left_out += names
    if archive != file:
        goes = "goes in (--no-archives: it does not)" if wanted else f"stays out; its place there is data/{names[0]}"
        _say(f"{archive.name}, which corpus {file.stem} reads in place, {goes}: {size:,} bytes")


def _pages(given: Settings, stage: Path) -> list[Part]:
    from venus_edge import world
    from venus_edge.pack import Part, unpack

    copied = stage / "pages.sqlite"
    with world.page_cache(given.directories) as kept:
        if not kept.export(copied):
            raise StorageError(f"the page cache cannot be copied: {kept.trouble}")
        if not (held := kept.stats()).pages + held.searches:
            _say("the page cache is empty: it goes in as it is")
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
