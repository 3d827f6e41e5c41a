"""What runs with nothing downloaded: venus-tiny, a corpus of invented places, and questions about them.

`questions.toml` says for each question what the corpus answers, so that tests and people can check.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

MODEL = "venus-tiny"
HERE = Path(__file__).resolve().parent
CORPUS = HERE / "atlas"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the words that a right answer holds."""

    text: str
    expect: str


def questions() -> tuple[Question, ...]:
    """The demo corpus's questions; the first is what `venus-edge run --demo` asks."""
    tables = tomllib.loads((HERE / "questions.toml").read_text(encoding="utf-8"))
    return tuple(Question(**table) for table in tables["question"])
