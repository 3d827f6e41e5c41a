"""README's commands and tree are true: every command parses, every path exists, every module is in the tree."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from venus_edge.cli.app import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", README, re.S | re.M)
LINES = [line.split("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]
INLINE = re.findall(r"`(venus-edge [^`]+)`", README)


def commands() -> list[str]:
    shell = [line.split(" > ")[0] for line in LINES if line.startswith("venus-edge ")]
    return sorted({*shell, *INLINE})


def test_the_readme_has_commands_to_check() -> None:
    assert len(commands()) >= 5


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_is_one_that_the_program_has(command: str) -> None:
    words = shlex.split(command)[1:]
    target: click.Command = cli
    context = click.Context(cli)
    while isinstance(target, click.Group) and words and (found := target.get_command(context, words[0])):
        target, words = found, words[1:]
    if isinstance(target, click.Group):  # a group with a default verb
        target = target.get_command(context, "run" if target is cli else "files") or target
    target.make_context(target.name, words, resilient_parsing=False)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_a_make_target_of_the_readme_exists(line: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(line.split()[1])}:", makefile, re.M)


def tree_paths() -> list[str]:
    """Every path that the tree names, as written from the root."""
    block = next(block for block in BLOCKS if block.startswith("venus_edge/\n"))
    found, inside = [], ""
    for line in block.splitlines():
        names = re.findall(r"(?<!\S)([\w./]+(?:\.py|\.toml|/))(?=\s|$)", line)
        if not line.startswith("  "):
            inside = ""
        found += [inside + name for name in names]
        if not line.startswith("  ") and line.endswith("/"):
            inside = line
    return found


def test_every_path_of_the_tree_exists() -> None:
    missing = [path for path in tree_paths() if not (ROOT / path).exists()]
    assert missing == []


def test_every_module_and_folder_of_the_package_is_in_the_tree() -> None:
    package = ROOT / "venus_edge"
    modules = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file()}
    named = {path.removeprefix("venus_edge/") for path in tree_paths()}
    assert modules | folders <= named


def test_every_link_of_the_readme_into_the_project_exists() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("group", ["models", "sessions"])
def test_every_command_of_a_group_is_told_of(group: str) -> None:
    found = cli.get_command(click.Context(cli), group)
    assert isinstance(found, click.Group)
    assert [name for name in found.commands if f"{group} {name}" not in README] == []
