"""docs/sessions.md is true: every record and every field that the code writes is told, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from venus_edge.events import AttemptDropped, DropReason, LimitKind
from venus_edge.sessions import SCHEMA
from venus_edge.sessions.decode import KINDS
from venus_edge.sessions.journal import Journal
from venus_edge.sessions.reading import read
from venus_edge.values import Termination, Trouble

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "sessions.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0]: part for part in TEXT.split("### ")[1:]}


def told(name: str) -> set[str]:
    """The fields in the first column of a section's table."""
    rows = [line.split("|")[1] for line in SECTIONS[name].splitlines() if line.startswith("| `")]
    return {field for row in rows for field in re.findall(r"`(\w+)`", row)}


def reached(kind: type, seen: dict[str, type]) -> dict[str, type]:
    """The dataclasses that a value may hold, by name, itself among them."""
    if kind.__name__ not in seen:
        seen[kind.__name__] = kind
        for hint in get_type_hints(kind).values():
            for inner in parts(hint):
                reached(inner, seen)
    return seen


def parts(hint: Any) -> Iterator[type]:
    if is_dataclass(hint):
        yield hint  # type: ignore[misc]  # a class, as annotations are
    for inner in get_args(hint):
        yield from parts(inner)


def test_every_record_and_field_is_told_and_no_other() -> None:
    kinds: dict[str, type] = {}
    for kind in KINDS.values():
        reached(kind, kinds)
    written = {name: {field.name for field in fields(kind)} for name, kind in kinds.items()}
    assert {name: told(name) for name in SECTIONS if name != "head"} == written


def test_the_head_is_told(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    with Journal.create(tmp_path, "q", datetime(2026, 3, 1, tzinfo=UTC)) as journal:
        pass
    (head,) = read(journal.path)
    assert told("head") - {"reopened"} == set(head)
    assert f"the version of this format: {SCHEMA}" in SECTIONS["head"]


def test_the_words_that_a_field_may_have_are_told() -> None:
    for section, words in (
        ("AttemptDropped", get_args(DropReason)),
        ("AttemptDropped", get_args(get_type_hints(AttemptDropped)["finish"])),
        ("LimitReached", get_args(LimitKind)),
        ("RunResult", get_args(Termination)),
        ("Failure", [trouble.name.lower() for trouble in Trouble]),
    ):
        assert [word for word in words if f"`{word}`" not in SECTIONS[section]] == []
