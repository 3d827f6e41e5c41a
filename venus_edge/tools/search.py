"""SEARCH CALL -> TEXT FOR THE MODEL. In: the queries and a Searcher. Out: a ToolResult in the model's dialect.

Every query keeps its place and its own results; a page is listed once a query. The queries are given to the Searcher
together, which asks them side by side. Where results come from is not known here.
"""

from __future__ import annotations

from venus_edge.protocol import dialects
from venus_edge.tools import MOST, Searcher
from venus_edge.values import DialectName, Failure, Found, Hit, SearchCall, ToolResult, Trouble

LEFT_OUT = Failure(Trouble.LEFT_OUT, f"At most {MOST} queries a call: search for it in another one.")
NO_QUERY = Failure(Trouble.BAD_QUERY, "`query` must not be empty.")


def search(call: SearchCall, searcher: Searcher, dialect: DialectName, limit: int = 10) -> ToolResult:
    """The results of every query, or in words that there was none to search for."""
    asked = [query for query in call.queries[:MOST] if query.strip()]
    answers = iter(searcher.search_all(asked, limit) if asked else ())
    found = tuple(
        _tidied(next(answers), limit) if query.strip() else Found(query, failure=NO_QUERY)
        for query in call.queries[:MOST]
    )
    found += tuple(Found(query, failure=LEFT_OUT) for query in call.queries[MOST:])
    return ToolResult(dialects.search_text(found, dialect), found=found)


def _tidied(found: Found, limit: int) -> Found:
    return Found(found.query, _distinct(found.hits)[:limit], found.failure)


def _distinct(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """The hits, each address once: the first is the best."""
    return tuple({hit.url: hit for hit in reversed(hits)}[url] for url in dict.fromkeys(hit.url for hit in hits))
