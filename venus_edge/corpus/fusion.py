"""SEVERAL RANKINGS AS ONE, by reciprocal rank (Cormack et al. 2009, k = 60). Pure.

In: rankings of anything that can be told apart, best first. Out: one ranking. Scores of different kinds (BM25, cosines,
another program's) are never compared: only places are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

K = 60
Item = TypeVar("Item", bound=Hashable)


def fused(rankings: Sequence[Sequence[Item]]) -> list[Item]:
    """Each item once; of equals, the one that an earlier ranking has first."""
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + 1 / (K + rank)
    return sorted(scores, key=lambda item: -scores[item])
