"""QUERY -> HITS, by Tavily (VENUS_TAVILY_KEY)."""

from __future__ import annotations

from dataclasses import dataclass, field

from venus_edge.sources.gate import Gate
from venus_edge.sources.provider import Reply, found, refused
from venus_edge.sources.service import Service, items, text
from venus_edge.values import Hit

_USED_UP = refused("the plan of this key is used up", "never")


@dataclass(frozen=True, slots=True)
class Tavily:
    gate: Gate
    key: str = field(repr=False)
    url: str = "https://api.tavily.com/search"
    name: str = "tavily"
    whole_web: bool = True
    pause: float = 0.0

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        asked = {"query": query, "max_results": min(limit, 20), "search_depth": "basic", "include_answer": False}
        service = Service(self.gate, {"Authorization": f"Bearer {self.key}"}, {432: _USED_UP, 433: _USED_UP})
        reply = service.post(self.url, asked, deadline)
        if isinstance(reply, Reply):
            return reply
        results = items(reply.get("results"))
        return found(
            (Hit(text(r, "title"), text(r, "url"), text(r, "content"), text(r, "published_date")) for r in results),
            limit,
        )
