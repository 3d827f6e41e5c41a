"""Asking about prefixes first finds every allowed token, and asks about few of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.engine import prefixes
from venus_edge.engine.prefixes import Prefixes


class Texts:
    """Allows the tokens that some text begins with, as a grammar does; a token without bytes by its id."""

    def __init__(self, pieces: list[bytes], texts: list[bytes], alone: set[int]) -> None:
        self.asked = 0
        self.allowed = np.array(
            [i in alone if not p else any(t.startswith(p) for t in texts) for i, p in enumerate(pieces)]
        )

    def ask(self, ids: Any) -> Any:
        self.asked += len(ids)
        return np.array([(i,) for i in ids if self.allowed[i]], [("id", np.int32)])


def found(pieces: list[bytes], texts: Texts) -> list[int]:
    return sorted(int(i) for part in Prefixes(pieces).allowed(texts.ask) for i in part["id"])


words = st.text("ab灯", max_size=5).map(str.encode)


@given(st.lists(words, max_size=60), st.lists(words, max_size=4), st.sets(st.integers(0, 59)))
def test_every_allowed_token_is_found_once(pieces: list[bytes], texts: list[bytes], alone: set[int]) -> None:
    language = Texts(pieces, texts, alone)
    assert found(pieces, language) == list(np.flatnonzero(language.allowed))


def test_what_begins_with_a_refused_token_is_not_asked_about() -> None:
    letters = [bytes([i]) for i in range(256)]
    pieces = [*letters, *(a + b for a in letters for b in letters), *(b"the" + b for b in letters)]
    language = Texts(pieces, [b"the1"], set())
    assert [pieces[i] for i in found(pieces, language)] == [b"t", b"th", b"the1"]
    assert language.asked == 256 + 256 + 256  # the letters, those behind t, those behind th


def test_a_small_tree_is_asked_about_at_once() -> None:
    spaces = [b" " * count for count in range(1, prefixes.SMALL)]
    pieces = [*spaces, *(b"%d" % i for i in range(10, 5_000))]
    language = Texts(pieces, [b" " * 100], set())
    assert found(pieces, language) == list(range(100))
    assert language.asked == 1 + 90 + 254  # what begins with no other token, then all the longer spaces
