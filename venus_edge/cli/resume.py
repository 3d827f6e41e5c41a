"""`venus-edge sessions resume`: a run that stopped goes on from its last whole turn, in the same session."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime

import click

from venus_edge.errors import UsageError
from venus_edge.settings import Directories


@click.command()
@click.argument("session", required=False)
@click.option("--anyway", is_flag=True, help="Go on although the model or a setting is not the one it began with.")
@click.option("--offline", is_flag=True, help="Open no connection from here on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the answer.")
@click.option("-q", "--quiet", is_flag=True, help="No live view.")
@click.pass_context
def resume(ctx: click.Context, session: str | None, anyway: bool, offline: bool, as_json: bool, quiet: bool) -> None:
    """Go on with SESSION, a file or part of its name; the newest that is unfinished if none is given.

    \b
    venus-edge sessions resume
    venus-edge sessions resume 20260301-123000 --json > answer.json

    Nothing that was written is asked or fetched again. Model and settings are those that the session began with.
    """
    from venus_edge import recorded, runtime
    from venus_edge.cli import keys, play
    from venus_edge.sessions.journal import Journal
    from venus_edge.sessions.reading import load
    from venus_edge.sessions.snapshot import Snapshots
    from venus_edge.sessions.summary import find

    file = find(Directories.from_environment().sessions, session, unfinished=True)
    view = play.view_of(quiet)
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(Journal.reopen(file, datetime.now().astimezone()))
        kept = load(file)
        if not kept.can_go_on:
            raise UsageError(f"session {file.stem} is over ({kept.ending}); venus-edge sessions show {file.stem}")
        if of := kept.started.settings.get("replay_of"):
            raise UsageError(
                f"session {file.stem} replays {of}, from its beginning only: venus-edge sessions replay {of}"
            )
        runtime.standing(kept)  # what was edited is said before a model is loaded for nothing
        watch = stack.enter_context(keys.Watch())
        chosen = recorded.settings_of(kept)
        chosen = replace(chosen, offline=chosen.offline or offline)
        ready = stack.enter_context(runtime.prepare(chosen, view.note, kept.traffic))
        watch.answer, view.hint = ready.agent.answer_now, watch.hint
        snapshots = Snapshots(ready.engine, file)
        events = ready.resume(kept, snapshots.restore(), anyway)
        outcome = play.play(ready, journal, events, view, snapshots)
        play.tell(outcome, ready, as_json)
    ctx.exit(play.exit_code(outcome))
