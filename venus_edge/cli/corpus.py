"""`venus-edge corpus`: folders of documents, indexed to be searched instead of the web."""

from __future__ import annotations

from pathlib import Path

import click

from venus_edge.cli.text import clean
from venus_edge.settings import Settings

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group()
def corpus() -> None:
    """Documents on this disk, indexed to be searched instead of the web.

    \b
    venus-edge corpus build ./notes
    venus-edge corpus search ./notes "灯塔 高度"
    venus-edge run "..." --corpus ./notes --offline
    """


@corpus.command()
@click.argument("folder", type=FOLDER)
def build(folder: Path) -> None:
    """Index FOLDER's .html, .md and .txt files; what has not changed is not read again."""
    from venus_edge import runtime

    index, report = runtime.build_corpus(folder, Settings(), _progress)
    for skipped in report.skipped:
        click.echo(clean(f"left out {skipped.path}: {skipped.reason}"), err=True)
    click.echo(
        f"{report.documents} indexed: {report.added} new, {report.updated} changed, {report.unchanged} as before, "
        f"{report.removed} gone",
        err=True,
    )
    click.echo(index)


@corpus.command()
@click.argument("folder", type=FOLDER)
@click.argument("query")
@click.option("--results", default=10, show_default=True, help="Most hits.")
def search(folder: Path, query: str, results: int) -> None:
    """Search FOLDER as the model would."""
    from venus_edge import runtime

    with runtime.open_corpus(folder, Settings(), lambda text: click.echo(text, err=True)) as opened:
        found = opened.search(query, results)
    for hit in found.hits:
        click.echo(clean(f"{hit.title}\n  {hit.url}\n  {hit.snippet}"))
    if found.failure:
        raise click.ClickException(f"nothing for {query!r}: {found.failure.detail}")


@corpus.command()
@click.argument("folder", type=FOLDER)
def path(folder: Path) -> None:
    """Print where the index of FOLDER is kept."""
    from venus_edge import runtime

    click.echo(runtime.index_path(folder, Settings()))


def _progress(done: int, total: int, name: str) -> None:
    if done == total or done % 100 == 0:
        click.echo(f"\r{done:,} of {total:,} files", nl=done == total, err=True)
