"""`venus-edge demo`: the questions that the demo corpus answers."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """List the questions of the demo corpus, to be asked with `venus-edge run --demo "..."`."""
    from venus_edge.demo import questions

    for question in questions():
        click.echo(question.text)
