"""`venus-edge corpus`: documents on this disk, indexed to be searched instead of the web."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.cli.text import clean, counted
from venus_edge.errors import CorpusError, UsageError
from venus_edge.settings import Settings, path_or_name
from venus_edge.values import Failure

if TYPE_CHECKING:
    from venus_edge.corpora import Opened
    from venus_edge.corpus.collect import Report, Step

FOLDER = click.Path(file_okay=False, path_type=Path)
ENGINE = click.Choice(["fts5", "tantivy"])
SHOWN = 20  # skipped items that are printed; `info --skipped` prints all


@click.group()
def corpus() -> None:
    """Documents on this disk, indexed to be searched instead of the web.

    \b
    venus-edge corpus create papers ./papers ./site.warc.gz ./notes.jsonl
    venus-edge corpus create wiki ./wikipedia_en.zim
    venus-edge corpus search papers "灯塔 高度"
    venus-edge run "..." --corpus papers --corpus wiki --offline
    """


# -- made of named sources --------------------------------------------------------------------------------------------


@corpus.command()
@click.argument("name")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--index", is_flag=True, help="Index ZIM archives too, which are read in place otherwise.")
@click.option("--engine", type=ENGINE, help="tantivy: for more than a million documents, with venus-edge[tantivy].")
def create(name: str, sources: tuple[str, ...], index: bool, engine: str | None) -> None:
    """Make a corpus of folders, documents, .zim, .warc.gz, .wacz and .jsonl files, or cache: (the page cache)."""
    from venus_edge import corpora

    with Meter() as meter:
        report = corpora.create(name, sources, Settings(), index, meter, engine or "")
    _told(report, corpora.in_place(name, Settings()))
    click.echo(corpora.path_of(name, Settings()))


@corpus.command()
@click.argument("name")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--index", is_flag=True, help="Index ZIM archives too, which are read in place otherwise.")
def add(name: str, sources: tuple[str, ...], index: bool) -> None:
    """Add sources to a corpus."""
    from venus_edge import corpora

    with Meter() as meter:
        report = corpora.add(name, sources, Settings(), index, meter)
    _told(report, corpora.in_place(name, Settings()))
    _lacking(name)


@corpus.command()
@click.argument("name")
@click.pass_context
def update(ctx: click.Context, name: str) -> None:
    """Read what has changed in the sources; what is gone goes. Exit code 1 if a source is not there."""
    from venus_edge import corpora

    with Meter() as meter:
        report = corpora.update(name, Settings(), meter)
    _told(report, corpora.in_place(name, Settings()))
    _lacking(name)
    ctx.exit(1 if report.missing else 0)


@corpus.command()
@click.argument("name")
@click.argument("source")
def remove(name: str, source: str) -> None:
    """Take SOURCE, a path or a name of `info`, out of a corpus."""
    from venus_edge import corpora

    _note(f"{counted(corpora.remove(name, source, Settings()), 'document')} removed")


@corpus.command()
@click.argument("name")
@click.option("--engine", type=ENGINE, help="Another one from now on.")
def rebuild(name: str, engine: str | None) -> None:
    """Read all sources again into a new file; the old one stays in use until it is whole. Where a source is not there,
    the texts that it gave are indexed again."""
    from venus_edge import corpora

    with Meter() as meter:
        report = corpora.rebuild(name, Settings(), meter, engine or "")
    _told(report, corpora.in_place(name, Settings()))


@corpus.command()
@click.argument("corpus_", metavar="CORPUS")
@click.option("--dense", metavar="NAME|FILE", help="The embedding model: all-minilm-l6-v2, or a GGUF file.")
def embed(corpus_: str, dense: str | None) -> None:
    """Make vectors of the passages of CORPUS, a name, a folder or a file, so that --dense finds them by meaning.

    Only what has none is embedded; stopped, it goes on where it was. Another model makes all of them again.

    \b
    venus-edge corpus embed papers --dense all-minilm-l6-v2
    venus-edge corpus search papers "how tall is the pharos" --dense all-minilm-l6-v2
    """
    from venus_edge import corpora, world
    from venus_edge.config import settings

    given = settings({"dense": dense})
    world.embedding_model(given)
    file = world.corpus_file(path_or_name(corpus_), replace(given, dense=""), _note)
    try:
        count = corpora.embed(file, given, _note)
    except KeyboardInterrupt:
        _note("what is embedded stays: the same command goes on")
        raise
    _note(f"{counted(count, 'passage')} embedded, all of them have vectors now")


@corpus.command()
@click.argument("name")
@click.confirmation_option("-y", "--yes", prompt="Remove this corpus (its sources stay)?", help="Do not ask.")
def rm(name: str) -> None:
    """Remove a corpus."""
    from venus_edge import corpora

    path, size = corpora.rm(name, Settings())
    _note(f"{path} removed: {size:,} bytes")


# -- looked into ------------------------------------------------------------------------------------------------------


@corpus.command("list")
def list_() -> None:
    """List the corpora: documents, size, sources."""
    from venus_edge import corpora

    for each in corpora.listed(Settings()):
        in_place = f", {each.in_place} read in place" if each.in_place else ""
        in_place += f"; {each.left / 1e6:,.1f} MB that a rebuild left" if each.left else ""
        noun = "document" if each.documents == 1 else "documents"
        held = f"{each.documents:>9,} {noun:<9}  {each.size / 1e6:>9,.1f} MB  sources: {each.sources}{in_place}"
        click.echo(clean(f"{each.name:<20} {each.trouble or held}"))


@corpus.command()
@click.argument("name")
@click.option("--skipped", is_flag=True, help="Every item that was left out, with the reason.")
def info(name: str, skipped: bool) -> None:
    """Say what a corpus holds and where it came from."""
    from venus_edge import corpora
    from venus_edge.corpus import files
    from venus_edge.corpus.index import Corpus
    from venus_edge.corpus.ledger import described, left_out

    path = corpora.there(name, Settings())
    with corpora.said_by_name(path):
        if skipped:
            for source, item, reason in left_out(path, -1):
                click.echo(clean(f"{source}: {item}: {reason}"))
            return
        with Corpus(path, check=False) as opened:
            held = opened.info()
    parts = f"{counted(held.documents, 'document')} in {counted(held.passages, 'passage')}"
    click.echo(f"{parts}, {files.size(path) / 1e6:,.1f} MB")
    if corpora.engine_of(path) == "tantivy":
        click.echo("searched by tantivy")
    if embedded := held.embedded():
        click.echo(clean(embedded))
    for row, documents, out in described(path):
        state = "read in place" if row.kind == "zim" else f"{counted(documents, 'document')}, {out:,} left out"
        unfinished = ", unfinished: go on with corpus update" if row.begun else ""
        where = corpora.gone(row, path) or row.place
        click.echo(clean(f"{row.name} ({row.kind}): {state}{unfinished}\n  {where}"))
    for file in files.left(path):
        click.echo(f"left by a rebuild: {file}, {files.size(file) / 1e6:,.1f} MB (corpus rm takes it too)")


@corpus.command(context_settings={"ignore_unknown_options": True})  # a query may begin with -
@click.argument("corpus_", metavar="CORPUS")
@click.argument("query")
@click.option("--results", type=click.IntRange(min=1), default=10, show_default=True, help="Most hits.")
@click.option("--dense", metavar="NAME|FILE", help="Find by meaning too, with this embedding model.")
def search(corpus_: str, query: str, results: int, dense: str | None) -> None:
    """Search CORPUS, a name, a folder or a file, as the model would."""
    from venus_edge.config import settings

    opened = _opened(corpus_, settings({"dense": dense}))
    try:
        found = opened.search(query, results)
    finally:
        opened.close()
    for hit in found.hits:
        click.echo(clean(f"{hit.title}\n  {hit.url}\n  {hit.snippet}"))
    if found.failure and found.hits:
        click.echo(clean(found.failure.detail), err=True)
    elif found.failure:
        raise click.ClickException(clean(f"nothing for {query!r}: {found.failure.detail}"))


@corpus.command()
@click.argument("corpus_", metavar="CORPUS")
@click.argument("url")
def show(corpus_: str, url: str) -> None:
    """Print the page at URL as the model would read it."""
    opened = _opened(corpus_, Settings())
    try:
        page = opened.open(url)
    finally:
        opened.close()
    if isinstance(page, Failure):
        near = "".join(f"\n  {hit.title}: {hit.url}" for hit in page.nearest)
        raise click.ClickException(
            clean((page.detail or f"{url} is not in the corpus") + (near and f"; near it:{near}"))
        )
    click.echo(clean(f"{page.title}\n{page.url}\n"))
    click.echo(clean(page.full))


@corpus.command()
@click.argument("name")
def check(name: str) -> None:
    """Check a corpus and its archives; exit code 1 if something is wrong."""
    from venus_edge import corpora

    wrong = corpora.check(name, Settings())
    if wrong:
        raise CorpusError("; ".join(wrong))
    click.echo(f"{name} is sound")


@corpus.command()
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export(name: str, file: Path) -> None:
    """Copy a corpus into a new FILE for another machine; it tells nothing of this disk. There: run --corpus FILE."""
    from venus_edge import corpora
    from venus_edge.corpus.ledger import export as copy

    path = corpora.there(name, Settings())
    if file.exists():
        raise UsageError(f"{file} is there already; name a new file")
    with corpora.said_by_name(path):
        copy(path, file)


@corpus.command()
@click.argument("corpus_", metavar="CORPUS")
def path(corpus_: str) -> None:
    """Print where CORPUS, a name or a folder, is kept."""
    from venus_edge import world

    settings, place = Settings(), path_or_name(corpus_)
    click.echo(world.named(place, settings, _note) or world.index_path(place, settings))


# -- known by its folder ----------------------------------------------------------------------------------------------


@corpus.command()
@click.argument("folder", type=FOLDER)
def build(folder: Path) -> None:
    """Index the documents of FOLDER, which is then the corpus's name; what has not changed is not read again."""
    from venus_edge import world

    with Meter() as meter:
        index, report = world.build_corpus(folder, Settings(), meter)
    _told(report)
    click.echo(index)


# -- said to the person -----------------------------------------------------------------------------------------------


def _lacking(name: str) -> None:
    """Says that there are passages without vectors in a corpus that has such."""
    from venus_edge import corpora
    from venus_edge.corpus.index import Corpus

    with Corpus(corpora.there(name, Settings()), check=False) as opened:
        held = opened.info()
    if held.embedder and held.vectors < held.passages:
        _note(f"{held.embedded()}; the others with: venus-edge corpus embed {name} --dense MODEL")


def _note(text: str) -> None:
    click.echo(clean(text), err=True)


def _opened(named: str, settings: Settings) -> Opened:
    from venus_edge import world

    return world.open_corpus(path_or_name(named), settings, _note)


def _told(report: Report, in_place: Sequence[str] = ()) -> None:
    for skipped in report.skipped[:SHOWN]:
        click.echo(clean(f"left out {skipped.path}: {skipped.reason}"), err=True)
    more = len(report.skipped) - SHOWN + report.unlisted
    if more > 0:
        click.echo(f"left out {more:,} more; all of them: venus-edge corpus info NAME --skipped", err=True)
    if report.others:
        kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(report.others.items()))
        click.echo(clean(f"not looked at, by their kind: {kinds}"), err=True)
    for line in in_place:
        click.echo(clean(line), err=True)
    if in_place and not report.documents and not report.removed:
        return
    counts = (
        f"{report.added:,} new, {report.updated:,} changed, {report.unchanged:,} as before, {report.removed:,} gone"
    )
    click.echo(f"{report.documents:,} indexed: {counts}", err=True)


class Meter:
    """Progress as one line that is written over: how far, documents a second, bytes, and how long it will take yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._last = clock()
        self._source = ""
        self._from = 0
        self._is_open = False

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        """What is said next has a line of its own."""
        if self._is_open:
            self._is_open = False
            click.echo(err=True)

    def __call__(self, step: Step) -> None:
        now = self._clock()
        if step.source != self._source:
            self._source, self._begun, self._from = step.source, now, step.bytes
        is_last = bool(step.total) and step.done == step.total
        if now - self._last >= 0.2 or is_last:
            self._last, self._is_open = now, not is_last
            click.echo("\r" + clean(self.line(step, now - self._begun)).ljust(79), nl=is_last, err=True)

    def line(self, step: Step, seconds: float) -> str:
        """The line after so many seconds at this source."""
        far = f"{step.done:,} of {step.total:,}" if step.total else f"{step.done:,}"
        rate = f"{step.documents / seconds:,.0f} documents/s" if step.documents and seconds > 0 else ""
        size = f"{step.bytes / 1e6:,.1f} of {step.bytes_total / 1e6:,.1f} MB" if step.bytes_total else ""
        read = step.bytes - self._from
        left = seconds * (step.bytes_total - step.bytes) / read if read > 0 else 0.0
        eta = f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left" if step.bytes_total else ""
        return ", ".join(part for part in (f"{step.source}: {far}", rate, size, eta) if part)
