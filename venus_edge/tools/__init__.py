"""TOOL CALL -> TEXT FOR THE MODEL. What `search` and `visit` need from the world, as Protocols.

In: a call and a dialect. Out: a ToolResult whose text is worded as the model was trained. No sockets here: `sources`
and `corpus` bring the hits and pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from venus_edge.values import Evidence, Failure, Found, Page, ToolCall, ToolResult

MOST = 5  # queries or addresses done of one call: the released runs have one, and a reply must fit into the window


class Searcher(Protocol):
    """Something that answers queries, in their order: corpora, a chain of search services, both. One deadline is for
    all of them. Never raises for a bad query."""

    def search_all(self, queries: Sequence[str], limit: int) -> tuple[Found, ...]: ...


class Opener(Protocol):
    """Something that opens an address: a corpus, the web, a chain of them. Never raises for a bad address."""

    def open(self, url: str) -> Page | Failure: ...


class Reader(Protocol):
    """Page and goal -> evidence and summary."""

    def read(self, page: Page, goal: str) -> Evidence: ...


class Tools(Protocol):
    """The two tools together, as the agent sees them. `question` stands in for a goal the model left out."""

    def call(self, call: ToolCall, question: str) -> ToolResult: ...
