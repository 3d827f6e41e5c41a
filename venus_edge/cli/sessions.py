"""`venus-edge sessions`: the records of earlier runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from venus_edge.settings import Directories


@click.group()
def sessions() -> None:
    """The records of earlier runs."""


@sessions.command()
def path() -> None:
    """Print the directory of the session files."""
    click.echo(Directories.from_environment().sessions)


@sessions.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def list_(as_json: bool) -> None:
    """List the sessions, newest first: when, how it ended, the question."""
    from venus_edge.sessions import Summary, summaries

    rows: list[Summary] = summaries(Directories.from_environment().sessions)
    if as_json:
        click.echo(json.dumps([{**row.as_dict(), "path": str(row.path)} for row in rows], ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row.created}  {row.state:<12}  {row.question}\n    {row.path}")


@sessions.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def show(file: Path) -> None:
    """Print the events of a session FILE, one JSON object a line."""
    from venus_edge.sessions import read

    for record in read(file):
        click.echo(json.dumps(record, ensure_ascii=False))
