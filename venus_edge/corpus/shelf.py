"""SEVERAL PLACES AS ONE: corpora, and the web beside them where it is asked too. A Searcher and an Opener over all.

In: open places, in the order in which pages are looked for. Out: hits ranked together by reciprocal rank (Cormack et
al. 2009, k = 60), each address once; the first page that any of them has at an address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from venus_edge.abreast import abreast
from venus_edge.corpus import fusion
from venus_edge.values import Failure, Found, Hit, Page, Trouble

NEAREST = 5  # pages offered for an unknown address
_NOTHING = (Trouble.EMPTY, Trouble.BAD_QUERY)  # says no more than that it has nothing
_UNTOLD = Failure(Trouble.EMPTY, "nothing found")


class Place(Protocol):
    """A corpus, or the web."""

    def search_all(self, queries: Sequence[str], limit: int) -> Sequence[Found]: ...
    def open(self, url: str) -> Page | Failure: ...


class Shelf:
    """The places of a run, in the order they were named."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = tuple(places)

    def search_all(self, queries: Sequence[str], limit: int = 10) -> tuple[Found, ...]:
        """The best of all places for each query. Where one of them could not be asked, that is said beside the hits of
        the others; where none has any, what the first says that does not only say "nothing"."""
        found = abreast(lambda place: place.search_all(queries, limit), self._places)
        by_place = [item for item in found if item is not None]
        return tuple(_joined(query, [found[n] for found in by_place], limit) for n, query in enumerate(queries))

    def search(self, query: str, limit: int = 10) -> Found:
        return self.search_all([query], limit)[0]

    def open(self, url: str) -> Page | Failure:
        """The page, or the failure with the nearest pages of all corpora."""
        failures: list[Failure] = []
        for place in self._places:
            page = place.open(url)
            if isinstance(page, Page):
                return page
            failures.append(page)
        nearest = fused([failure.nearest for failure in failures])[:NEAREST]
        first = next((failure for failure in failures if failure.trouble is not Trouble.UNKNOWN), failures[0])
        return Failure(first.trouble, first.detail, nearest)


def _joined(query: str, found: Sequence[Found], limit: int) -> Found:
    hits = fused([item.hits for item in found])[:limit]
    failures = [item.failure for item in found if item.failure is not None]
    said = next((failure for failure in failures if failure.trouble not in _NOTHING), None)
    if hits:
        return Found(query, hits, None if said is None or said.trouble is Trouble.OFFLINE else said)
    return Found(query, failure=said or next(iter(failures), _UNTOLD))


def fused(rankings: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Several rankings as one; the first wording of an address stays."""
    hits: dict[str, Hit] = {}
    for ranking in rankings:
        for hit in ranking:
            hits.setdefault(hit.url, hit)
    return tuple(hits[url] for url in fusion.fused([[hit.url for hit in ranking] for ranking in rankings]))
