"""`venus-edge cache`: the pages that were fetched and kept."""

from __future__ import annotations

import click

from venus_edge.settings import Directories


@click.group()
def cache() -> None:
    """The pages that were fetched."""


@cache.command()
def path() -> None:
    """Print the directory of the page cache."""
    click.echo(Directories.from_environment().cache)
