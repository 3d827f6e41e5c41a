"""`venus-edge cache`: the pages that were fetched and kept."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from venus_edge.cli.text import clean, counted
from venus_edge.errors import StorageError, UsageError
from venus_edge.settings import Directories, Settings

FILE = click.Path(dir_okay=False, path_type=Path)
NOT_THERE = "{} is not in the cache; venus-edge cache ls lists what is"


@click.group()
def cache() -> None:
    """The pages that were fetched.

    \b
    venus-edge cache ls lighthouse
    venus-edge cache show https://example.org/page
    venus-edge cache export pages.sqlite
    venus-edge cache pack SESSION --name lighthouses
    """


@cache.command()
def path() -> None:
    """Print the directory of the page cache."""
    click.echo(Directories.from_environment().cache)


@cache.command()
@click.argument("part", default="")
def ls(part: str) -> None:
    """List the pages whose address has PART in it, the last used first."""
    from venus_edge import world

    with world.page_cache(Directories.from_environment()) as kept:
        for line in kept.lines(part):
            day = datetime.fromtimestamp(line.fetched_at, UTC).date()
            click.echo(f"{day} {line.size:>10,} {line.key}  {line.trouble or line.title}")


@cache.command()
@click.argument("url")
@click.option("--raw", is_flag=True, help="The bytes as they came, not the text.")
def show(url: str, raw: bool) -> None:
    """Print what was read of URL."""
    from venus_edge import world

    with world.page_cache(Directories.from_environment()) as kept:
        copy = kept.find(url)
        body = kept.body(copy.key) if copy is not None else None
    if copy is None or body is None:
        raise UsageError(NOT_THERE.format(url))
    if raw:
        click.echo(body, nl=False)
    else:
        click.echo(copy.said)


@cache.command()
@click.argument("url")
def rm(url: str) -> None:
    """Remove the page of URL."""
    from venus_edge import world

    with world.page_cache(Directories.from_environment()) as kept:
        copy = kept.find(url)
        if copy is None or not kept.remove(copy.key):
            raise UsageError(NOT_THERE.format(url))


@cache.command()
@click.confirmation_option("-y", "--yes", prompt="Remove every page and search?", help="Do not ask.")
def clear() -> None:
    """Remove every page and every search."""
    from venus_edge import world

    with world.page_cache(Directories.from_environment()) as kept:
        kept.clear()


@cache.command()
def stats() -> None:
    """Print how much is kept."""
    from venus_edge import world

    with world.page_cache(Directories.from_environment()) as kept:
        found = kept.stats()
    pages, readings = counted(found.pages, "page"), counted(found.readings, "reading")
    searches = counted(found.searches, "search", "searches")
    click.echo(f"{pages}, {found.bytes / 1e6:,.1f} MB, {searches}, {readings}")


@cache.command()
@click.argument("file", type=FILE)
def export(file: Path) -> None:
    """Copy everything into a new FILE, for a machine without a network."""
    from venus_edge import world

    if file.exists():
        raise UsageError(f"{file} is there already; name a new file")
    with world.page_cache(Directories.from_environment()) as kept:
        if not kept.export(file):
            raise StorageError(f"the cache cannot be copied into {file}: {kept.trouble}")


@cache.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--name", default="sessions", show_default=True, help="The corpus; more sessions may join one.")
def pack(sessions: tuple[str, ...], name: str) -> None:
    """Make a corpus of the pages that SESSIONs read: what was researched online is there offline.

    \b
    venus-edge cache pack 20260301-123000 --name lighthouses
    venus-edge run "..." --corpus lighthouses --offline
    """
    from venus_edge import corpora
    from venus_edge.sessions.summary import find

    settings = Settings()
    files = [find(settings.directories.sessions, session) for session in sessions]
    report = corpora.pack_sessions(name, files, settings)
    for skipped in report.skipped:
        click.echo(clean(f"left out {skipped.path}: {skipped.reason}"), err=True)
    again = report.unchanged + report.updated + report.removed  # a page that a later session read goes over to it
    click.echo(f"{counted(report.documents, 'page')}: {report.documents - again:,} new, {again:,} as before", err=True)
    click.echo(corpora.path_of(name, settings))


@cache.command("import")
@click.argument("file", type=FILE)
def take_in(file: Path) -> None:
    """Add what an exported FILE has newer."""
    from venus_edge import world

    if not file.is_file():
        raise UsageError(f"{file} is not there; venus-edge cache export {file} makes one, where the pages are")
    with world.page_cache(Directories.from_environment()) as kept:
        added = kept.take_in(file)
    if added < 0:
        raise StorageError(f"{file} is not an export of this program's cache, or is damaged")
    click.echo(f"{added:,} pages and searches added", err=True)
