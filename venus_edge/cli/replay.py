"""`venus-edge sessions replay`: a session played again from its record, or its tools for a model that answers anew."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from venus_edge.cli.text import clean
from venus_edge.errors import UsageError, VenusError
from venus_edge.settings import Directories

if TYPE_CHECKING:
    from venus_edge.sessions.reading import Session
    from venus_edge.settings import Settings


@click.command()
@click.argument("session", required=False)
@click.option("-m", "--model", metavar="NAME|FILE", help="Let this model answer anew; only the tools are replayed.")
@click.option(
    "-s", "--set", "changes", multiple=True, metavar="KEY=VALUE", help="With --model: a setting (`config keys`) anew."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No live view.")
@click.pass_context
def replay(
    ctx: click.Context, session: str | None, model: str | None, changes: tuple[str, ...], as_json: bool, quiet: bool
) -> None:
    """Play SESSION again, without its model and the network: exit code 1 if a turn comes out otherwise than it did.

    \b
    venus-edge sessions replay
    venus-edge sessions replay 20260301-123000 --model ./DR-Venus-4B-RL-Q8_0.gguf --set temperature=0.7
    """
    from venus_edge.sessions.reading import load
    from venus_edge.sessions.summary import find

    kept = load(find(Directories.from_environment().sessions, session))
    if changes and model is None:
        raise UsageError("--set is for a model that answers anew: name it with --model")
    if model is not None:
        ctx.exit(_anew(kept, _for(kept, model, changes), as_json, quiet))
    ctx.exit(_again(kept, as_json))


def _again(kept: Session, as_json: bool) -> int:
    """The loop on the record: prints the differences."""
    from venus_edge import recorded, runtime
    from venus_edge.replay import replay as played

    turns = runtime.standing(kept).done
    found = played(kept.started, kept.events, recorded.config_of(kept))
    gone = _changed_pages(kept)
    if as_json:
        differences = [asdict(difference) for difference in found]
        click.echo(json.dumps({"id": kept.path.stem, "turns": turns, "differences": differences, "pages": gone}))
        return 1 if found else 0
    for line in gone:
        click.echo(clean(line), err=True)
    for difference in found:
        click.echo(clean(str(difference)))
    told = f"{len(found)} of {turns} turns are not as they were" if found else f"{turns} turns, all as they were"
    click.echo(f"{kept.path.stem}: {told}")
    return 1 if found else 0


def _changed_pages(kept: Session) -> list[str]:
    from venus_edge import recorded, world

    try:
        return list(world.changed_pages(kept, recorded.settings_of(kept)))
    except VenusError as error:
        return [f"whether its pages are still here cannot be told: {error}"]


def _anew(kept: Session, settings: Settings, as_json: bool, quiet: bool) -> int:
    """Another model on the recorded tools: a session of its own."""
    from venus_edge import runtime
    from venus_edge.cli import keys, play
    from venus_edge.replay import Cassette
    from venus_edge.sessions.journal import Journal

    question, view, cassette = kept.started.question, play.view_of(quiet), Cassette.of(kept.events)
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(keys.Watch())
        ready = stack.enter_context(runtime.prepare(settings, view.note, cassette=cassette))
        ready = replace(ready, recorded={**ready.recorded, "replay_of": kept.path.stem})
        watch.answer, view.hint = ready.agent.answer_now, watch.hint
        journal = Journal.create(settings.directories.sessions, question, datetime.now().astimezone())
        outcome = play.play(ready, journal, ready.events(question, str(journal.path)), view)
        play.tell(outcome, ready, as_json)
    _tell_missed(cassette.missed)
    return play.exit_code(outcome)


def _for(kept: Session, model: str, changes: tuple[str, ...]) -> Settings:
    """The session's settings for another model: its own window and KV types, in this process, nothing to fetch; and
    what was set anew."""
    from venus_edge import config, recorded

    here = Path(model).expanduser()
    named = str(here.absolute()) if here.is_file() else model
    usual = replace(recorded.settings_of(kept), model=named, engine="", n_ctx=None, kv_type=None)
    given = dict(change.partition("=")[::2] for change in changes)
    anew = config.again(given)
    changed = {key.field: key.of(anew) for key in config.KEYS if key.name in given and "." not in key.field}
    return replace(usual, **{**changed, "offline": True, "corpus": (), "search": "auto"})


def _tell_missed(missed: list[str]) -> None:
    if missed:
        click.echo(clean(f"Not in the record ({len(missed)}): {'; '.join(dict.fromkeys(missed))}"[:500]), err=True)
