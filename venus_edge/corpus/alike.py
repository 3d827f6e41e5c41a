"""WHICH TEXTS SAY THE SAME: copies of a page, word for word or nearly, told from pages that only look alike. Pure.

In: passages with their titles, best first. Out: whether one is new. Compared are the passages that a search has found,
when it has found them: three words in a row are a piece, and texts are as alike as the share of pieces that both have.
Short of the same words, passages are never copies where one has a word of the query that the other lacks, nor, under
different titles, where their numbers differ: those are pages of one pattern, not of one content.
"""

from __future__ import annotations

import zlib
from collections.abc import Set
from dataclasses import dataclass

from venus_edge import terms

COPY = 0.85  # of all pieces, under one title
_OTHER_TITLE = 0.95
_SHORT = 20  # pieces; of a shorter text every word counts
_KEYS = 8  # of the least pieces: texts that are COPY alike share one of them but once in a million times


@dataclass(frozen=True, slots=True)
class _Seen:
    title: str
    pieces: frozenset[int]
    asked: frozenset[str]  # words of the query that are in it
    numbers: frozenset[str]


class Copies:
    """What was new so far, for one query."""

    def __init__(self, asked: Set[str]) -> None:
        self._asked = asked
        self._known: dict[int, list[_Seen]] = {}

    def is_new(self, title: str, text: str) -> bool:
        """Whether no passage that was new before says the same; then it is kept in mind."""
        words = terms.words(text)
        stems = {terms.stem(word) for word in words}
        numbers = frozenset(word for word in words if any(character.isdigit() for character in word))
        seen = _Seen(terms.fold(title), _pieces(words), frozenset(self._asked & stems), numbers)
        keys = sorted(seen.pieces)[:_KEYS]
        if any(_is_copy(seen, other) for key in keys for other in self._known.get(key, ())):
            return False
        for key in keys:
            self._known.setdefault(key, []).append(seen)
        return True


def _pieces(words: list[str]) -> frozenset[int]:
    """Checksums of all three words in a row, of the whole where there are fewer."""
    rows = zip(words, words[1:], words[2:], strict=False) if len(words) > 3 else [tuple(words)]
    return frozenset(zlib.crc32(" ".join(row).encode("utf-8", "replace")) for row in rows)


def _is_copy(one: _Seen, other: _Seen) -> bool:
    if one.pieces == other.pieces:
        return True
    if min(len(one.pieces), len(other.pieces)) < _SHORT or one.asked != other.asked:
        return False
    common = len(one.pieces & other.pieces)
    alike = common / (len(one.pieces) + len(other.pieces) - common)
    if one.title == other.title:
        return alike >= COPY
    return alike >= _OTHER_TITLE and one.numbers == other.numbers
