"""QUERY -> HITS, by Serper (VENUS_SERPER_KEY): Google's results, and what DR-Venus itself was trained with."""

from __future__ import annotations

from dataclasses import dataclass, field

from venus_edge.sources.gate import Gate
from venus_edge.sources.language import Market, market
from venus_edge.sources.provider import Reply, found
from venus_edge.sources.service import Service, items, text
from venus_edge.values import Hit


@dataclass(frozen=True, slots=True)
class Serper:
    gate: Gate
    key: str = field(repr=False)
    url: str = "https://google.serper.dev/search"
    market: Market | None = None
    name: str = "serper"
    whole_web: bool = True
    pause: float = 0.0

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        place = self.market or market(query)
        asked: dict[str, object] = {"q": query, "num": limit, "gl": place.country, "hl": place.language.lower()}
        if place.language == "zh-CN":  # as DR-Venus's own tool asks
            asked["location"] = "China"
        elif place.language.startswith("en"):
            asked |= {"hl": "en", "location": "United States"}
        reply = Service(self.gate, {"X-API-KEY": self.key}).post(self.url, asked, deadline)
        if isinstance(reply, Reply):
            return reply
        organic = items(reply.get("organic"))
        return found(
            (Hit(text(r, "title"), text(r, "link"), text(r, "snippet"), text(r, "date")) for r in organic), limit
        )
