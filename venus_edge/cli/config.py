"""`venus-edge config`: what the settings are, and where each came from."""

from __future__ import annotations

import json

import click

from venus_edge.settings import Directories


@click.group()
def config() -> None:
    """What the settings are, and where each came from.

    \b
    venus-edge config show
    venus-edge config keys
    """


@config.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(as_json: bool) -> None:
    """Print every setting: its value, and the file or variable that it came from."""
    from venus_edge.config import resolve, unknown_variables
    from venus_edge.settings import check

    resolved = resolve({})
    check(resolved.settings)
    if as_json:
        record = {name: {"value": value, "from": origin} for name, value, origin in resolved.rows()}
        click.echo(json.dumps(record, ensure_ascii=False))
        return
    for name, value, origin in resolved.rows():
        click.echo(f"{name:<15} {'-' if value in (None, '', []) else value!s:<28} {origin}")
    for name in unknown_variables():
        click.echo(f"{name} is set, but no setting of that name is known (see: venus-edge config keys)", err=True)


@config.command()
def keys() -> None:
    """Print the keys of config.toml, each with its variable and meaning."""
    from venus_edge.config import KEYS

    for key in KEYS:
        click.echo(f"{key.name:<15} {key.variable:<21} {key.meaning}")


@config.command()
def path() -> None:
    """Print where config.toml is looked for."""
    from venus_edge.config import FILE

    click.echo(Directories.from_environment().config / FILE)
