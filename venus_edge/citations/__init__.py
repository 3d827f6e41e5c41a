"""ANSWER x WHAT WAS READ -> MARKS: which sentence of an answer stands in which passage. No model, no clock, no files.

In: the answer's text and the texts that the run read. Out: one `Citation` a sentence, with the passage that speaks of
it best, and the addresses that the answer names and the run never read. The rule is strict: a number or a name that
the passage does not have forbids "supported". `cite.cite` does it; the values are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["supported", "partly", "not found"]
Origin = Literal["page", "evidence", "snippet"]


@dataclass(frozen=True, slots=True)
class Text:
    """Something that the run read: a page, what was quoted of a page that was not kept, or a search result's lines."""

    url: str
    title: str
    text: str
    origin: Origin = "page"


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage: `start` and `end` count characters of the `source`-th text that was given, `text` is what is there."""

    source: int
    url: str
    title: str
    start: int
    end: int
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Citation:
    """One sentence of the answer (`start`, `end` in it), its mark, the passages (one for each part of the sentence that
    needed its own), and in words why it is not supported."""

    start: int
    end: int
    mark: Mark
    quotes: tuple[Quote, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadUrl:
    """An address in the answer that the run never read; `listed` if a search result named it."""

    start: int
    end: int
    url: str
    listed: bool


@dataclass(frozen=True, slots=True)
class Citations:
    """Everything that is marked in an answer, in its order."""

    sentences: tuple[Citation, ...] = ()
    unread: tuple[UnreadUrl, ...] = ()
