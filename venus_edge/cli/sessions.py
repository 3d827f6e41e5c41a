"""`venus-edge sessions`: the records of earlier runs, listed, shown, exported, gone on with and played again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.cli.replay import replay
from venus_edge.cli.resume import resume
from venus_edge.cli.text import clean
from venus_edge.errors import StorageError, UsageError
from venus_edge.settings import Directories

if TYPE_CHECKING:
    from venus_edge.report import Report
    from venus_edge.sessions.summary import Summary

FORMATS = {"html": "one page that stands alone", "md": "Markdown", "json": "one object"}


@click.group()
def sessions() -> None:
    """The records of earlier runs. SESSION is a file or a part of its name; without one, the newest."""


@sessions.command()
@click.argument("session", required=False)
def path(session: str | None) -> None:
    """Print the directory of the session files, or the file of SESSION."""
    click.echo(_found(session) if session else Directories.from_environment().sessions)


@sessions.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def list_(as_json: bool) -> None:
    """List the sessions, newest first: when, state, turns, tokens, minutes, model, question, name."""
    from venus_edge.sessions.summary import summaries

    rows = summaries(Directories.from_environment().sessions)
    if as_json:
        click.echo(json.dumps([row.as_dict() for row in rows], ensure_ascii=False))
        return
    for row in rows:
        click.echo(_line(row))


def _line(row: Summary) -> str:
    when = row.created[:16].replace("T", " ")
    counts = f"{row.turns} turns, {row.tokens:,} tokens, {row.seconds / 60:.1f} min"
    return f"{when}  {row.state}, {counts}, {clean(row.model)}  {clean(row.question)[:200]}\n    {row.path.stem}"


@sessions.command()
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="The records as they are, one JSON object a line.")
def show(session: str | None, as_json: bool) -> None:
    """Tell SESSION again, as the run told it."""
    from venus_edge.sessions.reading import load, read

    file = _found(session)
    if as_json:
        for record in read(file):
            click.echo(json.dumps(record, ensure_ascii=False))
        return
    from venus_edge.cli.view import lines

    kept = load(file)
    for event in kept.events:
        for line in lines(event):
            click.echo(line)
    if kept.can_go_on:
        click.echo(f"To go on: venus-edge sessions resume {file.stem}")


@sessions.command()
@click.argument("session", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON list of the files.")
def rm(session: tuple[str, ...], as_json: bool) -> None:
    """Delete each SESSION, and what lies beside it. A run that still writes one keeps it."""
    from venus_edge.sessions.summary import remove

    files = [_found(named) for named in session]
    for file in dict.fromkeys(files):
        remove(file)
        if not as_json:
            click.echo(f"deleted {file}")
    if as_json:
        click.echo(json.dumps([str(file) for file in dict.fromkeys(files)], ensure_ascii=False))


@sessions.command()
@click.argument("session", required=False)
@click.option("-f", "--format", "kind", type=click.Choice(list(FORMATS)), default="html", show_default=True)
@click.option("-o", "--out", metavar="FILE", help="Where to write it; - is stdout.  [the session's name, here]")
def export(session: str | None, kind: str, out: str | None) -> None:
    """Write a report of SESSION, a file or part of its name; the newest if none is given.

    \b
    venus-edge sessions export
    venus-edge sessions export 20260301-123000 --format md --out - | less
    """
    from venus_edge.report.session import report
    from venus_edge.sessions.reading import read

    file = _found(session)
    text = _written(report(read(file)), kind)
    if out == "-":
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return
    target = Path(out) if out else Path(f"{file.stem}.{kind}")
    _save(text, target, file)
    click.echo(target)


sessions.add_command(resume)
sessions.add_command(replay)


def _found(named: str | None) -> Path:
    from venus_edge.sessions.summary import find

    return find(Directories.from_environment().sessions, named)


def _written(report: Report, kind: str) -> str:
    from venus_edge.report import page, plain

    return {"html": page.html, "md": plain.markdown, "json": plain.json_text}[kind](report)


def _save(text: str, target: Path, session: Path) -> None:
    if target.exists() and target.samefile(session):
        raise UsageError(f"{target} is the session itself; name another file with --out")
    try:
        target.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(f"the report cannot be written to {target}: {error.strerror}; try --out FILE") from error
