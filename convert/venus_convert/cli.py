"""What a person types: `venus-edge convert SOURCE ...` and `python -m venus_convert`.

In: flags. Out: the paths made, or a table of checks, on stdout; on stderr what is happening. Errors are one line. Only
this file of the package knows click, rich and the registry.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from venus_edge.errors import UsageError, VenusError

if TYPE_CHECKING:
    from venus_convert.job import Job, Made, Meter
    from venus_convert.metadata import Provenance
    from venus_edge.registry import ModelSpec

OUTTYPES = ("auto", "bf16", "f16", "f32", "q8_0")
FETCH = "venus_edge.fetch_checkpoint"  # click's context meta: (repo, revision) -> folder
PACKAGE_TEXTS = "protocol"  # venus_edge's folder of the template and the system prompt


class DefaultFiles(click.Group):
    """A group whose default verb is `files`: `convert SOURCE` makes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["files", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=DefaultFiles,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples: convert ./DR-Venus-4B-RL --quant Q4_K_M --quant Q8_0 --out models | "
    "convert verify models/DR-Venus-4B-RL-Q4_K_M.gguf --against ./DR-Venus-4B-RL",
)
def convert_command() -> None:
    """Turn a checkpoint folder into GGUF files, and check them.

    Without a command name, the arguments are those of `files`.
    """


@convert_command.command("files")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-q", "--quant", "quants", multiple=True, help="Quantization, as Q4_K_M; may be given several times.")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path(), help="Folder, or a .gguf file's name.")
@click.option("--outtype", type=click.Choice(OUTTYPES), default="auto", help="Full-precision type; auto: the source's.")
@click.option("--context", type=click.IntRange(min=1), help="Window wanted, tokens; default the checkpoint's own.")
@click.option("--yarn-factor", "--yarn", type=float, help="YaRN by hand; refused where the window covers --context.")
@click.option("--model", default="", help="Name in models.toml; default: the one that the folder's name holds.")
@click.option("--name", default="", help="general.name; default from the model card or the folder.")
@click.option("--dialect", default="", help="Wording of tool replies it was trained on; default from models.toml.")
@click.option("--revision", default="", help="Commit of the source; default where the folder tells.")
@click.option("--chat-template", type=click.Path(path_type=Path), help="Used where the checkpoint has none.")
@click.option("--imatrix", type=click.Path(path_type=Path), help="Importance matrix, GGUF or .dat.")
@click.option("--token-embedding-type", "embedding", default="", help="Type of the embedding, as Q8_0.")
@click.option("--output-tensor-type", "head", default="", help="Type of the head, as Q8_0.")
@click.option("--threads", type=click.IntRange(min=0), default=0, help="For the quantizer; 0: all.")
@click.option("--keep-full", is_flag=True, help="Keep the full-precision file beside the quantized ones.")
@click.option("--force", is_flag=True, help="Make files that are up to date again.")
@click.option("--no-check", is_flag=True, help="Skip the tokenizer check of the full-precision file.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
def files(as_json: bool, **flags: Any) -> None:
    """SOURCE, a checkpoint folder (or a GGUF file with --quant), becomes GGUF files."""
    from venus_convert.job import run

    job = _job(**flags | {"source": _source(flags["source"], flags["revision"])})
    with _ending_on_sigterm(), _meters() as meter:
        made = run(job, lambda line: click.echo(line, err=True), meter)
    click.echo(_made_json(made) if as_json else "\n".join(map(_line, made)))


@convert_command.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), help="The checkpoint folder it was made from.")
@click.option("--reference", type=click.Path(path_type=Path), help="A GGUF to measure KL divergence and top-1 from.")
@click.option("--text", type=click.Path(path_type=Path), help="A text for the comparison; default a passage of ours.")
@click.option("--max-kl", type=float, default=0.2, show_default=True, help="Mean KL that still passes, nats a token.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def verify_command(
    file: Path, against: Path | None, reference: Path | None, text: Path | None, max_kl: float, as_json: bool
) -> None:
    """Check a GGUF file; exit 1 where a check fails."""
    from venus_convert.verify import verify

    passage = _text(text) if text else ""
    checks = []
    for check in verify(file, against, reference, passage, max_kl):
        checks.append(check)
        if not as_json:
            click.echo(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:24}  {check.detail}")
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=1, ensure_ascii=False))
    sys.exit(0 if all(check.ok for check in checks) else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m venus_convert`: the group by itself, with its errors as one line."""
    try:
        convert_command.main(arguments, prog_name="venus-convert", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except VenusError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; nothing unfinished was left", err=True)
        sys.exit(130)


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """A polite kill ends as an interrupt does: what is unfinished is removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- flags -> a Job


def _source(source: Path, revision: str) -> Path:
    """The folder; a hub name is fetched by whoever mounted this group and knows the network (see FETCH)."""
    if source.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        return source
    fetch: Callable[[str, str], Path] | None = click.get_current_context().meta.get(FETCH)
    if fetch is None:
        raise UsageError(f"{source} is not a folder here; a hub name has to be downloaded first: hf download {source}")
    return fetch(str(source), revision)


def _job(
    source: Path, out: Path, quants: tuple[str, ...], outtype: str, context: int | None, yarn_factor: float | None,
    model: str, name: str, dialect: str, revision: str, chat_template: Path | None, imatrix: Path | None,
    embedding: str, head: str, threads: int, keep_full: bool, force: bool, no_check: bool,
) -> Job:  # fmt: skip
    from venus_convert.convert import Options
    from venus_convert.job import Job
    from venus_convert.quantize import quant
    from venus_convert.values import TensorType

    spec = _spec(model, source)
    options = Options(
        outtype=None if outtype == "auto" else TensorType[outtype.upper()],
        context=context or (spec.n_ctx if spec else None),
        yarn_factor=yarn_factor,
        template=_text(chat_template) if chat_template else _package_text("chat_template.jinja", spec),
        known=_provenance(spec, name, dialect, revision),
    )
    kinds = tuple(quant(kind) for kind in quants)
    types = (_type(embedding), _type(head))
    return Job(source, out, kinds, options, *types, imatrix, threads, keep_full, force, not no_check)


def _provenance(spec: ModelSpec | None, name: str, dialect: str, revision: str) -> Provenance:
    from venus_convert.metadata import Provenance

    prompt = _package_text("system_prompt.txt", spec)
    if spec is None:
        return Provenance(name, dialect, revision=revision)
    return Provenance(name or spec.title, dialect or spec.dialect, spec.repo, revision, prompt)


def _spec(model: str, source: Path) -> ModelSpec | None:
    """The registry's entry: the one named, else the one whose name the folder's or repository's name holds."""
    from venus_convert.job import stem
    from venus_edge.registry import find, load

    known = load()
    if model:
        return find(model, known)
    folder = stem(source).lower()
    return next((spec for name, spec in known.items() if name in folder), None)


def _package_text(name: str, spec: ModelSpec | None) -> str | None:
    """The template or the system prompt that venus-edge carries, for a model of the registry."""
    from importlib.resources import files as package_files

    path = package_files("venus_edge") / PACKAGE_TEXTS / name
    return path.read_text(encoding="utf-8") if spec is not None and path.is_file() else None


def _type(name: str) -> str:
    from venus_convert.quantize import TYPES

    if name and name.upper() not in TYPES:
        raise UsageError(f"unknown tensor type {name!r}; known: {', '.join(TYPES)}")
    return name.upper()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


# --- what is shown


@contextmanager
def _meters() -> Iterator[Meter]:
    """Progress bars on a terminal's stderr, with bytes, speed and the time left; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bars:

        def meter(title: str, total: int) -> Any:
            task = bars.add_task(title, total=total)
            return lambda done: bars.advance(task, done)

        yield meter


def _line(made: Made) -> str:
    how = f"{made.seconds:.1f} s" if made.fresh else "up to date"
    return f"{made.path}  {made.type}  {made.nbytes / 1e9:.2f} GB  {how}"


def _made_json(made: list[Made]) -> str:
    return json.dumps([asdict(one) | {"path": str(one.path)} for one in made], indent=1)
