"""VISIT CALL -> TEXT FOR THE MODEL. In: addresses, a goal, an Opener and a Reader. Out: a ToolResult in the model's
dialect, one block an address, in the call's order.

Several pages are opened side by side, under one deadline; they are read one after the other, because a model may be
the reader.
"""

from __future__ import annotations

import time

from venus_edge.abreast import abreast
from venus_edge.protocol import dialects
from venus_edge.tools import MOST, Opener, Reader, leads
from venus_edge.values import DialectName, Evidence, Failure, Page, PageReading, ToolResult, Trouble, VisitCall

SECONDS = 100.0  # for the pages of a call to open; the released runs gave up a tool after 120
LATE = Failure(Trouble.TIMEOUT, f"It was not there after {SECONDS:g} s.")
LEFT_OUT = Failure(Trouble.LEFT_OUT, f"At most {MOST} addresses a call: visit it in another one.")


def visit(call: VisitCall, opener: Opener, reader: Reader, dialect: DialectName, question: str) -> ToolResult:
    """What every page says about the goal; `question` stands in for a goal that the model left out."""
    goal = call.goal.strip() or question
    urls = tuple(dict.fromkeys(call.urls))
    opened = [*abreast(opener.open, urls[:MOST], time.monotonic() + SECONDS), *[LEFT_OUT for _ in urls[MOST:]]]
    readings = tuple(_reading(url, page or LATE, reader, goal) for url, page in zip(urls, opened, strict=True))
    return ToolResult(dialects.visit_text(readings, goal, dialect), readings=readings)


def _reading(url: str, page: Page | Failure, reader: Reader, goal: str) -> PageReading:
    if isinstance(page, Failure):
        return PageReading(url, page)
    if not page.text.strip():
        return PageReading(url, Failure(Trouble.EMPTY, page.note), page)
    read = reader.read(page, goal)
    links = leads.told(leads.leads(page, read.evidence, goal))
    return PageReading(url, _noted(Evidence(read.evidence, read.summary + links), page.note), page)


def _noted(read: Evidence, note: str) -> Evidence:
    """The evidence with what a reader should know of this copy of the page ("incomplete: ...") after it."""
    return Evidence(f"{read.evidence}\n\n(Note: {note}.)", read.summary) if note else read
