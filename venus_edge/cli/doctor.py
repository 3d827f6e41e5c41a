"""`venus-edge doctor`: what is wrong here, and what to do about it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from venus_edge.cli.place import Place

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "-   "}


@click.command()
@click.option("-m", "--model", metavar="NAME|FILE", help="The model to check.")
@click.option("-c", "--corpus", multiple=True, type=Place(), metavar="DIR", help="A corpus to check.")
@click.option("--offline", is_flag=True, help="Open no connection.")
@click.option("--quick", is_flag=True, help="Do not load the model for a turn.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@click.pass_context
def doctor(
    ctx: click.Context, /, model: str | None, corpus: tuple[Path, ...], offline: bool, quick: bool, as_json: bool
) -> None:
    """Check the installation, the GPU, the model, the corpus and the network; exit 1 if something fails.

    \b
    venus-edge doctor
    venus-edge doctor --model venus-tiny --offline
    """
    from venus_edge.fit.doctor import Finding, Patient, examine

    flags = {"model": model, "corpus": corpus or None, "offline": offline or None}
    found: list[Finding] = []
    for finding in examine(Patient(flags, quick, environment=os.environ)):
        found.append(finding)
        if not as_json:
            click.echo(line(finding.name, finding.state, finding.detail, finding.remedy))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], ensure_ascii=False))
    ctx.exit(1 if any(finding.state == "fail" for finding in found) else 0)


def line(name: str, state: str, detail: str, remedy: str) -> str:
    """A finding as a person reads it; what to do on a line of its own."""
    return f"{MARKS[state]}  {name:<16} {detail}" + (f"\n{'':<23}-> {remedy}" if remedy else "")
