"""QUERY -> HITS, by a SearXNG of one's own (VENUS_SEARXNG_URL). It asks many engines and needs no key.

Its JSON is off as it is installed: `formats: [html, json]` under `search:` in its settings.yml switches it on. No
results while engines did not answer is an outage, not "nothing found".
"""

from __future__ import annotations

from dataclasses import dataclass

from venus_edge.sources.gate import Gate
from venus_edge.sources.language import Market, market
from venus_edge.sources.provider import Reply, found, refused
from venus_edge.sources.service import Service, items, text
from venus_edge.values import Failure, Hit, Trouble

_MEANINGS = {
    403: refused("its JSON is switched off (formats: [html, json] in its settings.yml switches it on)", "never"),
}


@dataclass(frozen=True, slots=True)
class SearXNG:
    """`base` is its address, with or without /search."""

    gate: Gate
    base: str
    market: Market | None = None
    name: str = "searxng"
    whole_web: bool = True
    pause: float = 0.0

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        language = (self.market or market(query)).language
        url = self.base.rstrip("/").removesuffix("/search") + "/search"
        asked: dict[str, str | int] = {"q": query, "format": "json", "language": language, "pageno": 1}
        reply = Service(self.gate, meanings=_MEANINGS).get(url, asked, deadline)
        if isinstance(reply, Reply):
            return reply
        if not isinstance(reply.get("results"), list):
            return refused("its reply is not what it should be")
        results = items(reply["results"])
        silent = reply.get("unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            engines = ", ".join(str(e[0]) for e in silent if isinstance(e, list) and e)
            failure = Failure(Trouble.TIMEOUT, f"search service got no answer from its engines ({engines[:200]})")
            return Reply(failure=failure, again="soon")
        hits = (Hit(text(r, "title"), text(r, "url"), text(r, "content"), text(r, "publishedDate")) for r in results)
        return found(hits, limit)
