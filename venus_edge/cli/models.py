"""`venus-edge models`: which models there are, where they are, and getting them."""

from __future__ import annotations

import json

import click

from venus_edge.errors import ModelError
from venus_edge.settings import Directories


@click.group()
def models() -> None:
    """Which models there are, and getting them."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def list_(as_json: bool) -> None:
    """List the models of models.toml, and which are on this machine."""
    from venus_edge import hub, registry

    directories = Directories.from_environment()
    rows = []
    for spec in registry.load(directories.config).values():
        try:
            path = str(hub.locate(spec, directories.models))
        except ModelError:
            path = ""
        rows.append(
            {"name": spec.name, "title": spec.title, "dialect": spec.dialect, "shipped": bool(spec.file), "path": path}
        )
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        here = row["path"] or ("missing" if row["shipped"] else f"not here: venus-edge models pull {row['name']}")
        click.echo(f"{row['name']:<16} {row['title']}")
        click.echo(f"{'':<16} {here}")


@models.command()
@click.argument("name")
@click.option("--quant", metavar="Q4_K_M|...", help="Quantization to fetch.")
def pull(name: str, quant: str | None) -> None:
    """Fetch the GGUF file of model NAME from the hub; a broken download is resumed."""
    from venus_edge import hub, registry

    spec = registry.find(name, registry.load(Directories.from_environment().config))
    if spec.file:
        raise ModelError(f"model {name} ships with the package: {registry.PACKAGE / spec.file}")
    click.echo(hub.pull(spec, quant))


@models.command()
@click.argument("name", required=False)
def path(name: str | None) -> None:
    """Print where the file of model NAME is, or the directory that your own files may be put in."""
    from venus_edge import hub, registry

    directories = Directories.from_environment()
    if name is None:
        click.echo(directories.models)
        return
    click.echo(hub.locate(registry.find(name, registry.load(directories.config)), directories.models))
