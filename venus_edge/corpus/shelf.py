"""SEVERAL CORPORA AS ONE: a Searcher and an Opener over all of them.

In: open corpora. Out: hits ranked together by reciprocal rank (Cormack et al. 2009, k = 60), each address once; the
first page that any of them has at an address.
"""

from __future__ import annotations

from collections.abc import Sequence

from venus_edge.corpus.index import Corpus
from venus_edge.values import Failure, Found, Hit, Page, Trouble

K = 60
NEAREST = 5  # pages offered for an unknown address


class Shelf:
    """The corpora of a run, in the order they were named."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self._corpora = tuple(corpora)

    def search(self, query: str, limit: int = 10) -> Found:
        """The best documents of all corpora; where none has any, the first one's reason."""
        found = [corpus.search(query, limit) for corpus in self._corpora]
        hits = fused([item.hits for item in found])[:limit]
        return Found(query, hits, None if hits else found[0].failure)

    def open(self, url: str) -> Page | Failure:
        """The page, or the failure with the nearest pages of all corpora."""
        failures: list[Failure] = []
        for corpus in self._corpora:
            page = corpus.open(url)
            if isinstance(page, Page):
                return page
            failures.append(page)
        nearest = fused([failure.nearest for failure in failures])[:NEAREST]
        first = next((failure for failure in failures if failure.trouble is not Trouble.UNKNOWN), failures[0])
        return Failure(first.trouble, first.detail, nearest)


def fused(rankings: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Several rankings as one; the first wording of an address stays."""
    hits: dict[str, Hit] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            hits.setdefault(hit.url, hit)
            scores[hit.url] = scores.get(hit.url, 0.0) + 1 / (K + rank)
    return tuple(hits[url] for url in sorted(hits, key=lambda url: -scores[url]))
