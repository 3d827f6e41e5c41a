"""What a person types: `venus-edge convert SOURCE ...` and `python -m venus_convert`.

In: flags. Out: files, and on stderr what is happening. Errors are one line. Only this file of the package knows click.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from venus_edge.errors import VenusError

OUTTYPES = ("auto", "bf16", "f16", "f32", "q8_0")


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write, or a folder for it.")
@click.option(
    "--outtype", type=click.Choice(OUTTYPES), default="auto", help="Tensor type; auto keeps the checkpoint's."
)
@click.option("--context", type=click.IntRange(min=1), help="Window wanted, tokens; default the checkpoint's own.")
@click.option("--yarn-factor", type=float, help="Ask for YaRN by hand; refused where the window covers --context.")
@click.option("--name", default="", help="general.name; default from the model card or the folder.")
def convert_command(
    source: Path, out: Path, outtype: str, context: int | None, yarn_factor: float | None, name: str
) -> None:
    """Turn a checkpoint folder into a GGUF file."""
    from venus_convert.convert import Options, convert, prepare
    from venus_convert.metadata import Provenance
    from venus_convert.values import TensorType

    kind = None if outtype == "auto" else TensorType[outtype.upper()]
    try:
        plan = prepare(source, Options(kind, context, yarn_factor, known=Provenance(name)))
        for note in plan.notes:
            click.echo(note, err=True)
        convert(plan, out)
    except VenusError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo(str(out))
