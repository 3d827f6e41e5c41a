"""A RUN IN FRONT OF A PERSON: every event to the session file first and then to the view; at the end the answer.

In: a runtime, its events, an open journal. Out: the answer on stdout, the rest on stderr. Which run it is, a new one or
one that goes on, is not known here.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from venus_edge.cli.text import clean

if TYPE_CHECKING:
    from venus_edge.cli.view import View
    from venus_edge.events import Event
    from venus_edge.fit.speed import Estimate
    from venus_edge.runtime import Runtime
    from venus_edge.sessions.journal import Journal
    from venus_edge.sessions.snapshot import Snapshots
    from venus_edge.values import RunResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its record, its session file, the error that ended it ("" if none did), and how long it was
    foretold to take."""

    result: RunResult
    session: Path
    error: str
    estimate: Estimate | None = None


def view_of(quiet: bool) -> View:
    """The view that suits the terminal, or the lack of one."""
    from venus_edge.cli import view

    if quiet:
        return view.QuietView()
    return view.LiveView() if sys.stderr.isatty() else view.PlainView()


def play(
    ready: Runtime, journal: Journal, events: Generator[Event, None, None], view: View, kept: Snapshots | None = None
) -> Outcome:
    """Runs to the end. Ctrl-C, wherever it falls, reaches the run itself, so that the record is whole."""
    from venus_edge.events import Failed, Finished, ToolReturned
    from venus_edge.sessions import UNFINISHED
    from venus_edge.sessions.snapshot import Snapshots

    kept, forecast, error = kept or Snapshots(ready.engine, journal.path), ready.forecast(), ""
    if forecast.first is not None:
        view.note(f"Time: {forecast.first}")
    view.expected = forecast.line
    with journal, view:
        event, unwritten = next(events), True
        while True:
            try:
                if unwritten:
                    journal.write(event)
                    unwritten = False
                view.show(event)
                if isinstance(event, Finished):
                    break
                if isinstance(event, ToolReturned):
                    kept.turn_ended()
                error = event.error if isinstance(event, Failed) else error
                event, unwritten = next(events), True
            except KeyboardInterrupt:
                if unwritten:
                    journal.write(event)
                event, unwritten = events.throw(KeyboardInterrupt()), True
        if event.result.termination not in UNFINISHED:
            kept.remove()
    ready.learn(forecast)
    return Outcome(event.result, journal.path, error, forecast.first)


def tell(outcome: Outcome, ready: Runtime, as_json: bool) -> None:
    """The answer on stdout; sources, connections and session on stderr. Nothing of a page drives the terminal."""
    result = outcome.result
    if as_json:
        click.echo(json.dumps(record(outcome, ready), ensure_ascii=False))
        return
    if result.prediction:
        click.echo(clean(result.prediction))
    with contextlib.suppress(OSError):  # the answer is out; a stderr that takes no more changes nothing of that
        click.echo("\n".join(afterwards(outcome, ready)), err=True)


def exit_code(outcome: Outcome) -> int:
    """0 answered, 1 not, 130 interrupted."""
    return 130 if outcome.result.termination == "interrupted" else 0 if outcome.result.prediction else 1


def afterwards(outcome: Outcome, ready: Runtime) -> Iterator[str]:
    """The lines that follow the answer, or that the run was stopped."""
    from venus_edge.sessions import UNFINISHED

    if outcome.result.termination in UNFINISHED:
        yield f"To go on: venus-edge sessions resume {outcome.session.stem}"
    yield from sources(outcome.result)
    yield ready.ledger()
    yield f"Session: {outcome.session}"


def sources(result: RunResult) -> Iterator[str]:
    """What the answer rests on, or that it rests on nothing."""
    if result.sources:
        yield "\nSources:"
        yield from (clean(f"  [{number}] {one.title} {one.url}") for number, one in enumerate(result.sources, 1))
    elif result.prediction:
        yield "\nSources: none; the answer rests on no page that was read"


def record(outcome: Outcome, ready: Runtime) -> dict[str, Any]:
    """The object of --json: question, prediction, termination, sources, counts, tokens, seconds, session."""
    result, stats = outcome.result, ready.engine.stats
    return {
        "question": result.question,
        "prediction": result.prediction,
        "termination": result.termination,
        "error": outcome.error,
        "answer_cut": result.answer_cut,
        "sources": [{"title": s.title, "url": s.url, "sha256": s.sha256} for s in result.sources],
        "turns": result.turns,
        "tool_calls": result.tool_call_count,
        "parse_errors": result.parse_error_count,
        "repeated_calls": result.dedup_count,
        "folds": result.fold_count,
        "folded_replies": result.folded_reply_count,
        "tokens": {
            "conversation": result.final_token_count,
            "evaluated": stats.evaluated_tokens,
            "reused": stats.reused_tokens,
            "generated": stats.generated_tokens,
            "evaluated_again": result.refilled_token_count,
        },
        "seconds": round(result.elapsed_seconds, 3),
        "estimate": None if outcome.estimate is None else asdict(outcome.estimate),
        "model": ready.spec.name,
        "seed": ready.seed,
        "connections": ready.hosts(),
        "session": str(outcome.session),
    }
