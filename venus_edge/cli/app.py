"""The group of all commands: the default verb, errors as one line, exit codes.

0 answered or done, 1 no answer or a failure, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from venus_edge import __version__
from venus_edge.cli.text import clean
from venus_edge.errors import UsageError, VenusError

COMMANDS = {  # name -> module:attribute, loaded when the command is run or asked for help
    "run": "venus_edge.cli.run:run",
    "demo": "venus_edge.cli.demo:demo",
    "corpus": "venus_edge.cli.corpus:corpus",
    "models": "venus_edge.cli.models:models",
    "plan": "venus_edge.cli.plan:plan",
    "doctor": "venus_edge.cli.doctor:doctor",
    "sessions": "venus_edge.cli.sessions:sessions",
    "cache": "venus_edge.cli.cache:cache",
    "config": "venus_edge.cli.config:config",
    "convert": "venus_convert.cli:convert_command",
    "pack": "venus_edge.cli.pack:pack",
    "unpack": "venus_edge.cli.pack:unpack",
}
SUMMARIES = {
    "run": "Answer a question by searching and reading.",
    "demo": "List the questions of the demo corpus.",
    "corpus": "Documents on this disk, indexed to be searched instead of the web.",
    "models": "Which models there are, and getting them.",
    "plan": "What this machine, or one that is described, can open.",
    "doctor": "What is wrong here, and what to do about it.",
    "sessions": "The records of earlier runs.",
    "cache": "The pages that were fetched.",
    "config": "What the settings are, and where each came from.",
    "convert": "Turn a checkpoint folder into GGUF files.",
    "pack": "Put what a machine without a network needs into one folder or .tar.",
    "unpack": "Take such a pack in, every file checked.",
}


OWN_FLAGS = ("-v", "--verbose", "-h", "--help", "--version")  # those of the group, before a command


class Refused(click.ClickException):
    """A usage error in one line, without click's four."""

    exit_code = 2


class DefaultRun(click.Group):
    """A group whose default verb is `run`: `venus-edge "a question"` asks it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = next((at for at, arg in enumerate(args) if arg not in OWN_FLAGS), len(args))
        if own < len(args) and args[own] not in COMMANDS:
            _refuse_typo(args[own:])
            args = [*args[:own], "run", *args[own:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except VenusError as error:
            kind = Refused if isinstance(error, UsageError) else click.ClickException
            raise kind(clean(str(error))) from error
        except click.exceptions.NoArgsIsHelpError:  # `venus-edge models`: its help
            raise
        except click.UsageError as error:
            raise _in_a_line(error, ctx) from error
        except (KeyboardInterrupt, EOFError):
            click.echo("interrupted", err=True)
            ctx.exit(130)
        except BrokenPipeError:  # `venus-edge ... | head`
            _forget(sys.stdout)
            ctx.exit(1)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename:
                raise
            _forget(sys.stdout)
            raise click.ClickException(f"the output cannot be written: {error.strerror}") from error


def _in_a_line(error: click.UsageError, ctx: click.Context) -> Refused:
    """A wrong flag or argument of a command, in one line that ends with where its help is."""
    command = error.ctx.command_path.removeprefix(ctx.command_path) if error.ctx is not None else ""
    is_text = isinstance(error, click.NoSuchOption) and not error.possibilities
    hint = "; put -- before a text that begins so" if is_text else ""
    return Refused(clean(f"{error.format_message().rstrip('.')}{hint}; see: venus-edge{command} --help"))


def _fetch_checkpoint(repo: str, revision: str) -> Path:
    """What `convert` asks for a hub name: loaded when it asks."""
    from venus_edge.cli.models import fetch_checkpoint

    return fetch_checkpoint(repo, revision)


def _forget(stream: TextIO) -> None:
    """What is still to be written to a stream that takes nothing more goes nowhere, also at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _refuse_typo(args: list[str]) -> None:
    """One lower-case word that is almost a command is a typing error, not a question; so are words without quotes."""
    if args == ["help"]:
        raise Refused("for help: venus-edge --help")
    words = [arg for arg in args if not arg.startswith("-")]
    if len(args) > 1 and len(words) == len(args):
        raise Refused(f'put the question in quotes: venus-edge "{" ".join(words)}"')
    if len(args) == 1 and args[0].isalpha():
        near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.75)
        if near:
            raise Refused(
                f"no command {args[0]!r}; did you mean 'venus-edge {near[0]}'? To ask it: venus-edge run {args[0]}"
            )


@click.group(
    cls=DefaultRun,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Examples: venus-edge run --demo | venus-edge "Who keeps the Brest tide gauge?" --corpus ./papers --offline',
)
@click.version_option(__version__, prog_name="venus-edge")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens underneath to stderr.")
def cli(verbose: bool) -> None:
    """A deep-research agent on the computer in front of you.

    A question goes in; a local model searches, reads and answers with its sources. Without a command name, the
    arguments are those of `run`.
    """
    click.get_current_context().meta["venus_edge.fetch_checkpoint"] = _fetch_checkpoint
    if verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname).1s %(name)s: %(message)s")
