"""RESULTS -> THE TEXT OF A TOOL REPLY, in one of the three wordings that DR-Venus models know (PROTOCOL section 5).

In: what was found or read, failures among it, and the dialect. Out: the text that goes between the tool_response tags.
Byte for byte as in the released runs where those have the case; a failure they do not have is worded in the nearest
form they have, so that refused, timed out, offline and nothing found stay four things. Nothing here searches or reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from venus_edge.protocol.prompt import TOOL_TIMEOUT_TEXT, well_formed
from venus_edge.values import DialectName, Evidence, Failure, Found, Hit, PageReading, Trouble

# What the official reader says of a page that it could not read.
NO_ACCESS_TEXT = "The provided webpage content could not be accessed. Please check the URL or file format."
NO_CONTENT_TEXT = "The webpage content could not be processed, and therefore, no information is available."

PAGE_SEPARATOR = "\n=======\n"

_SEARCH_TROUBLE = {
    Trouble.REFUSED: "The search service refused the request, so this is not an empty result.",
    Trouble.TIMEOUT: "The search service did not answer in time, so this is not an empty result.",
    Trouble.OFFLINE: "Searching the web is switched off in this run, so this is not an empty result.",
    Trouble.BAD_QUERY: "The query cannot be searched.",
    Trouble.LEFT_OUT: "The query was left out.",
}
_PAGE_TROUBLE = {
    Trouble.REFUSED: "The site refused the request.",
    Trouble.TIMEOUT: "The site did not answer in time.",
    Trouble.OFFLINE: "The web is switched off in this run, and the page is not in the local index or cache.",
    Trouble.UNKNOWN: "The page is not in the local corpus.",
    Trouble.BAD_ADDRESS: "The address is not allowed.",
    Trouble.EMPTY: "The page has no text.",
    Trouble.LEFT_OUT: "The page was left out.",
}


# -- search -----------------------------------------------------------------------------------------------------------


def search_text(found: Sequence[Found], dialect: DialectName) -> str:
    """The reply to a search, one entry a query. A query that failed beside others keeps its entry, with an `error`; if
    all failed, the reply is that in words; the official code's reply to nothing at all is a bare `[]`."""
    if not found:
        return _search_failure(Failure(Trouble.BAD_QUERY, "`query` must be a list with at least one search query."))
    failures = [f.failure for f in found if f.failure and f.failure.trouble is not Trouble.EMPTY and not f.hits]
    if len(failures) == len(found):
        return _all_failed(failures, dialect)
    if dialect == "official" and not failures and not any(f.hits for f in found):
        return "[]"
    return well_formed(json.dumps([_entry(f, dialect) for f in found], ensure_ascii=False))


def _entry(found: Found, dialect: DialectName) -> dict[str, object]:
    entry: dict[str, object] = {"query": found.query, "web_page_info_list": [_item(h, dialect) for h in found.hits]}
    if found.failure and found.failure.trouble is not Trouble.EMPTY:
        entry["error"] = _search_failure(found.failure)
    return entry


def _item(hit: Hit, dialect: DialectName) -> dict[str, str]:
    item = {"title": hit.title, "url": hit.url, "snippet": hit.snippet}
    return {**item, "date": hit.date} if dialect == "rl" else item


def _all_failed(failures: Sequence[Failure], dialect: DialectName) -> str:
    if dialect == "rl" and all(failure.trouble is Trouble.TIMEOUT for failure in failures):
        return TOOL_TIMEOUT_TEXT
    return "\n".join(dict.fromkeys(_search_failure(failure) for failure in failures))


def _search_failure(failure: Failure) -> str:
    return well_formed(_sentences(_SEARCH_TROUBLE.get(failure.trouble, "The search failed."), failure.detail))


# -- visit ------------------------------------------------------------------------------------------------------------


def visit_text(readings: Sequence[PageReading], goal: str, dialect: DialectName) -> str:
    """The reply to a visit, one block an address, in the call's order."""
    if not readings:
        return "No page was visited: `url` must be a list with at least one address."
    if dialect == "rl" and all(_is_timeout(reading) for reading in readings):
        return TOOL_TIMEOUT_TEXT
    return well_formed(PAGE_SEPARATOR.join(_block(reading, goal, dialect) for reading in readings))


def _is_timeout(reading: PageReading) -> bool:
    return isinstance(reading.outcome, Failure) and reading.outcome.trouble is Trouble.TIMEOUT


def _block(reading: PageReading, goal: str, dialect: DialectName) -> str:
    told = reading.outcome if isinstance(reading.outcome, Evidence) else _told(reading.outcome, dialect)
    header = f"The useful information in {reading.url} for user goal {goal} as follows: \n\n"
    if dialect == "sft":
        return f"{header}Summary: \n{told.summary}"
    return f"{header}Evidence in page: \n{told.evidence}\n\nSummary: \n{told.summary}\n\n"


def _told(failure: Failure, dialect: DialectName) -> Evidence:
    """A failure in the form of a page that could not be read, its reason in the part that the dialect shows first."""
    reason = _sentences(_PAGE_TROUBLE.get(failure.trouble, ""), failure.detail)
    told = _sentences("", reason) + _offered(failure.nearest)
    if dialect == "sft":
        return Evidence("", _sentences(NO_CONTENT_TEXT, told))
    return Evidence(_sentences(NO_ACCESS_TEXT, told), NO_CONTENT_TEXT)


def _offered(nearest: Sequence[Hit]) -> str:
    if not nearest:
        return ""
    return "\nPages that can be visited instead:" + "".join(f"\n- {hit.title}: {hit.url}" for hit in nearest)


def _sentences(first: str, second: str) -> str:
    """Both, with a space between; the second once only."""
    second = "" if second.strip() in first else second
    return " ".join(part for part in (first, second.rstrip()) if part)
