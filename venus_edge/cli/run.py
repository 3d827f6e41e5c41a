"""`venus-edge run`: a question -> the answer on stdout, the live view on stderr, the session file on disk."""

from __future__ import annotations

import contextlib
import sys
from datetime import datetime
from typing import Any

import click

from venus_edge.cli.place import Place
from venus_edge.errors import UsageError

QUESTION_LIMIT = 1_000_000  # characters; a longer one is a file given by mistake


@click.command()
@click.argument("question", required=False)
@click.option("--demo", is_flag=True, help="Use venus-tiny and the demo corpus that ship with the package.")
@click.option("-m", "--model", metavar="NAME|FILE", help="A name of `venus-edge models list`, or a .gguf file.")
@click.option(
    "-c",
    "--corpus",
    multiple=True,
    type=Place(),
    metavar="NAME|PATH",
    help="Search this corpus, folder or ZIM archive, not the web.",
)
@click.option("--dense", metavar="NAME|FILE", help="Search corpora by meaning too, with this embedding model.")
@click.option("--engine", metavar="URL", help="Run the model on this llama-server or vLLM.")
@click.option("--engine-key", envvar="VENUS_ENGINE_KEY", metavar="KEY", help="The key that the server asks for.")
@click.option("--dialect", type=click.Choice(["rl", "sft", "official"]), help="Wording of tool replies.")
@click.option("--context", "n_ctx", type=int, metavar="TOKENS", help="Context window to open (n_ctx).")
@click.option("--kv-type", metavar="TYPE[,TYPE]", help="Type of the KV cache, or of K and of V: f16, q8_0, q4_0.")
@click.option("--gpu-layers", metavar="auto|all|N", help="Layers on the GPU.  [auto]")
@click.option("--main-gpu", type=int, metavar="N", help="Put them on this card alone, counted from 0.")
@click.option("--tensor-split", metavar="A,B,...", help="Share them between the cards in these proportions.")
@click.option("--flash-attention", type=click.Choice(["auto", "on", "off"]), help="On wherever V is quantized.  [auto]")
@click.option("-t", "--threads", type=int, metavar="N", help="Threads of llama.cpp.")
@click.option("--seed", type=int, metavar="N", help="Random seed; the same one gives the same run.")
@click.option("--temperature", type=float, metavar="T", help="0 is greedy.")
@click.option(
    "--reader", type=click.Choice(["extractive", "model"]), help="Who reads pages: BM25 over passages, or the model."
)
@click.option("--results", type=int, metavar="N", help="Hits of a search.")
@click.option("--max-turns", type=int, metavar="N", help="Turns before the answer is asked for.  [200]")
@click.option("--max-minutes", type=float, metavar="M", help="Minutes before the answer is asked for.  [300]")
@click.option("--max-tokens", type=int, metavar="N", help="Tokens of conversation before the answer is asked for.")
@click.option(
    "--context-policy",
    type=click.Choice(["answer", "fold"]),
    help="Before the window is full: ask for the answer, or fold old replies.  [fold below 131,072 tokens]",
)
@click.option(
    "--grammar/--no-grammar", default=True, help="Keep tool calls well formed as they are written.", show_default=True
)
@click.option("--date", metavar="YYYY-MM-DD", help="The date the model is told.  [today]")
@click.option("--offline", is_flag=True, help="Open no connection whatever.")
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="HOST", help="Let visits reach this private host.")
@click.option(
    "--search",
    metavar="A,B,C",
    help="Order of search services: searxng serper brave tavily ddgs wikipedia; corpus: the folders beside them.",
)
@click.option("--region", metavar="CC-LANG", help="Market of searches, like de-de.  [by the query's script]")
@click.option("--language", metavar="LANG-CC", help="Language of searches and pages, like zh-CN.")
@click.option("--proxy", metavar="URL|none", help="Proxy of searches and pages.  [the environment's]")
@click.option("--read-tokens", type=int, metavar="N", help="Tokens of a page that the model reads for a goal.")
@click.option("--robots/--no-robots", default=False, help="Leave out pages that a site's robots.txt names.")
@click.option("--user-agent", metavar="TEXT", help="What pages are told of who asks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the answer.")
@click.option("-q", "--quiet", is_flag=True, help="No live view.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    question: str | None,
    demo: bool,
    max_minutes: float | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Answer QUESTION by searching and reading ("-" reads it from stdin).

    \b
    venus-edge run --demo
    venus-edge run "Which river passes Durham?" --corpus ./notes --offline
    venus-edge run "..." --model ./DR-Venus-4B-RL-Q4_K_M.gguf --json > answer.json
    venus-edge run "..." --engine http://127.0.0.1:8080
    """
    from venus_edge import config, runtime
    from venus_edge.cli import keys, models, play
    from venus_edge.sessions.journal import Journal, check_writable

    seconds = max_minutes * 60 if max_minutes is not None else None
    settings = config.settings({**_flags(ctx, given), "max_seconds": seconds})
    if demo:
        settings = runtime.demo(settings)
    question = _question(question, demo)
    models.offer(settings)
    check_writable(settings.directories.sessions)
    view = play.view_of(quiet)
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(keys.Watch())
        ready = stack.enter_context(runtime.prepare(settings, view.note))
        watch.answer, view.hint = ready.agent.answer_now, watch.hint
        journal = Journal.create(settings.directories.sessions, question, datetime.now().astimezone())
        events = ready.events(question, str(journal.path))
        outcome = play.play(ready, journal, events, view)
        play.tell(outcome, ready, as_json)
    ctx.exit(play.exit_code(outcome))


def _flags(ctx: click.Context, values: dict[str, Any]) -> dict[str, Any]:
    """The flags that were typed: only they outweigh the environment and config.toml."""
    default = click.core.ParameterSource.DEFAULT
    return {name: value for name, value in values.items() if ctx.get_parameter_source(name) is not default}


def _question(given: str | None, demo: bool) -> str:
    """The question to ask. Raises UsageError if there is none, or one that nobody can have typed."""
    if given is None and demo:
        from venus_edge.demo import questions

        given = questions()[0].text
    if given == "-":
        given = sys.stdin.read(QUESTION_LIMIT + 1)
    given = given or ""
    text = given.replace("\x00", "").strip()
    if not text:
        raise UsageError('no question; venus-edge run "..." asks one, venus-edge run --demo shows how it looks')
    if len(given) > QUESTION_LIMIT:  # before the strip, which may end on the limit what was cut there
        raise UsageError(
            f"the question is longer than {QUESTION_LIMIT:,} characters; put documents in a --corpus folder"
        )
    return text.encode("utf-8", "replace").decode("utf-8")  # bytes of argv that were no UTF-8
