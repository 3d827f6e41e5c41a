"""PAGES THAT SOMEBODY ELSE KEEPS (the page cache, the pages of sessions) as a source.

In: an iterator of `Kept`, made anew for every pass; what keeps them is not known here. Out: a `Reader` for `collect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from venus_edge.corpus.collect import Read, Record, Report, Size
from venus_edge.corpus.store import Document


@dataclass(frozen=True, slots=True)
class Kept:
    """A page as it was read: its addresses, the one it is known by first."""

    urls: tuple[str, ...]
    title: str
    text: str
    date: str = ""
    trouble: str = ""
    rest: str = ""


class KeptPages:
    """Kept pages as a source."""

    def __init__(self, name: str, pages: Callable[[], Iterable[Kept]]) -> None:
        self.name = name
        self._pages = pages

    def stamp(self) -> str:
        return ""

    def size(self, report: Report) -> Size:
        return Size(0, 0)

    def read(self, cursor: int) -> Iterator[Read]:
        for number, kept in enumerate(self._pages(), 1):
            body = "\n".join((kept.title, kept.date, kept.trouble, kept.text, kept.rest)).encode("utf-8", "replace")
            yield Read(number, 0, Record(kept.urls[0], len(body), partial(bytes, body), partial(_document, kept)))


def _document(kept: Kept, _: bytes) -> Document | str:
    if kept.trouble:
        return kept.trouble
    if not kept.text.strip():
        return "it has no text"
    text, rest = (part.encode("utf-8", "replace").decode() for part in (kept.text, kept.rest))
    return Document(kept.urls[0], " ".join(kept.title.split()), text, kept.date, kept.urls[1:], rest)
