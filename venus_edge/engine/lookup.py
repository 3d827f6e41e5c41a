"""WHAT COMES NEXT, GUESSED FROM WHAT WAS THERE: the ids that followed the last three when they last stood.

In: the ids that a sequence holds. Out: a draft, and how far back its context agrees. Pure; a URL, a title or a quote
that is being copied is found by its own beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

_N = 3
FAR = 12  # ids of agreement beyond which it says nothing more


class Lookup:
    """Looks into the list that it was given, which others extend; who cuts the list says so. It catches up when asked,
    so that it costs nothing where nobody drafts."""

    def __init__(self, ids: list[int]) -> None:
        self._ids = ids
        self._after: dict[tuple[int, ...], int] = {}  # three ids -> where the one behind them stood last
        self._done = _N - 1

    def cut(self, length: int) -> None:
        """The list has been cut to this length. What the table still says of the rest is found wrong when used."""
        self._done = min(self._done, max(length, _N - 1))

    def draft(self, token: int, most: int) -> tuple[list[int], int]:
        """Up to `most` ids that may follow the list and `token`, and how many before them agree (0: no draft)."""
        self._catch_up()
        tail = (*self._ids[1 - _N :], token)
        at = self._after.get(tail, 0)
        if not at or at > len(self._ids) or tuple(self._ids[at - _N : at]) != tail:
            return [], 0
        behind = self._ids[at : at + most]
        if len(behind) < most:  # the end is part of a round: it goes on as it began
            behind = list(islice(cycle([*behind, token]), max(0, most)))
        return behind, self._agreement(at)

    def _catch_up(self) -> None:
        ids = self._ids
        for end in range(self._done + 1, len(ids) + 1):
            self._after[tuple(ids[end - _N : end])] = end
        self._done = max(self._done, len(ids))

    def _agreement(self, at: int) -> int:
        """How many ids before `at` are those before the end of the list, the last three and its token among them."""
        here, there = self._ids[-FAR:][::-1], self._ids[max(0, at - 1 - FAR) : at - 1][::-1]
        return 1 + common_prefix(here, there)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids are equal from the start; compares blocks, because a conversation has 100,000."""
    block, most, at = 1_024, min(len(a), len(b)), 0
    while at < most and a[at : min(at + block, most)] == b[at : min(at + block, most)]:
        at = min(at + block, most)
    while at < most and a[at] == b[at]:
        at += 1
    return at
