"""WHICH TOKENS BEGIN WITH WHICH: so that a grammar which refuses a token need not be asked about those it begins.

In: the bytes of every token. Out: ids to ask about first, and those to ask about once some of them are allowed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

SMALL = 256  # a token that begins no more others than this: they are asked about at once, not step by step


class Prefixes:
    """A forest: above a token stands the longest other one that it begins with. A token without bytes stands alone."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        import numpy as np

        parents = np.array(_flattened(*_parents(pieces)))
        self._size = len(parents)
        self._below = np.argsort(parents, kind="stable")
        self._first = np.searchsorted(parents[self._below], np.arange(-1, self._size + 1))

    def allowed(self, ask: Callable[[Any], Any]) -> list[Any]:
        """What `ask` gives of every token it allows, batch by batch: it takes an array of ids and gives one of those it
        allows, with a field `id`. Of two tokens, one of which begins with the other, it must not allow the longer
        only."""
        import numpy as np

        found, ids = [], self._children(-1)
        while len(ids):
            if len(ids) > self._size // 8:  # nearly anything goes, as in a string
                return [ask(np.arange(self._size))]
            found.append(ask(ids))
            ids = self._joined([self._children(token) for token in found[-1]["id"]])
        return found

    def _children(self, token: int) -> Any:
        return self._below[self._first[token + 1] : self._first[token + 2]]

    @staticmethod
    def _joined(parts: list[Any]) -> Any:
        import numpy as np

        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _parents(pieces: Sequence[bytes]) -> tuple[list[int], list[int], list[int]]:
    """The ids in the order of their bytes, the parent of each id (-1: none), and how many it stands above, itself
    counted."""
    order = sorted(range(len(pieces)), key=pieces.__getitem__)
    parents, sizes, above = [-1] * len(pieces), [1] * len(pieces), list[int]()
    for token in order:
        while above and not pieces[token].startswith(pieces[above[-1]]):
            above.pop()
        if above:
            parents[token] = above[-1]
        if pieces[token]:
            above.append(token)
    for token in reversed(order):
        if parents[token] >= 0:
            sizes[parents[token]] += sizes[token]
    return order, parents, sizes


def _flattened(order: Sequence[int], parents: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The parents again, those of a small tree all its root: fewer steps, each of which has its price."""
    flat = list(parents)
    for token in order:
        parent = parents[token]
        if parent >= 0 and sizes[parent] <= SMALL and flat[parent] >= 0 and sizes[parents[parent]] <= SMALL:
            flat[token] = flat[parent]
    return flat
