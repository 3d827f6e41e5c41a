"""The two tools together, as the agent sees them: a call in, a ToolResult out."""

from __future__ import annotations

from dataclasses import dataclass

from venus_edge.tools import Opener, Reader, Searcher
from venus_edge.tools.search import search
from venus_edge.tools.visit import visit
from venus_edge.values import DialectName, SearchCall, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Implements `Tools`. `results` is the most hits of a query."""

    searcher: Searcher
    opener: Opener
    reader: Reader
    dialect: DialectName
    results: int = 10

    def call(self, call: ToolCall, question: str) -> ToolResult:
        """Does what the model asked for; nothing in a call makes it raise."""
        if isinstance(call, SearchCall):
            return search(call, self.searcher, self.dialect, self.results)
        return visit(call, self.opener, self.reader, self.dialect, question)
