"""`venus-edge sessions`: the records of earlier runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.errors import StorageError, UsageError
from venus_edge.settings import Directories

if TYPE_CHECKING:
    from venus_edge.report import Report

FORMATS = {"html": "one page that stands alone", "md": "Markdown", "json": "one object"}


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
    from venus_edge.sessions import read

    file = _session_file(session)
    text = _written(report(read(file)), kind)
    if out == "-":
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return
    target = Path(out) if out else Path(f"{file.stem}.{kind}")
    _save(text, target, file)
    click.echo(target)


def _session_file(named: str | None) -> Path:
    """The file of a path, of a part of a name, or the newest. Raises UsageError if that is none or several."""
    if named and Path(named).is_file():
        return Path(named)
    directory = Directories.from_environment().sessions
    found = [path for path in sorted(directory.glob("*.jsonl"), reverse=True) if (named or "") in path.stem]
    if not found:
        what = f"no session {named!r}" if named else "no session yet"
        raise UsageError(f"{what} in {directory}; venus-edge sessions list shows them")
    if named and len(found) > 1 and found[0].stem != named:
        raise UsageError(f"{named!r} is in {len(found)} names: {', '.join(path.stem for path in found[:4])}")
    return found[0]


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
