"""QUERY -> HITS, by Wikipedia's search in the query's language. No key is needed; the rest of the web is not in it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from urllib.parse import quote

from venus_edge.sources.gate import Gate
from venus_edge.sources.language import Market, market
from venus_edge.sources.provider import Reply, found, refused
from venus_edge.sources.service import Service, items, text
from venus_edge.values import Hit


@dataclass(frozen=True, slots=True)
class Wikipedia:
    """`base` is the address of a wiki, with {language} in it."""

    gate: Gate
    base: str = "https://{language}.wikipedia.org"
    market: Market | None = None
    name: str = "wikipedia"
    whole_web: bool = False
    pause: float = 0.5

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        base = self.base.format(language=(self.market or market(query)).language.partition("-")[0])
        asked: dict[str, str | int] = {
            "action": "query",
            "list": "search",
            "srsearch": query,
            "srlimit": min(limit, 50),
            "srprop": "snippet|timestamp",
            "format": "json",
            "formatversion": 2,
        }
        reply = Service(self.gate).get(f"{base}/w/api.php", asked, deadline)
        if isinstance(reply, Reply):
            return reply
        if isinstance(reply.get("error"), dict):
            code = text(reply["error"], "code")
            return refused(f"it does not take this query ({code[:60]})", "soon" if "limit" in code else "later")
        answered = reply.get("query")
        pages = items(answered.get("search")) if isinstance(answered, dict) else []
        return found((_hit(page, base) for page in pages), limit)


def _hit(page: dict[str, object], base: str) -> Hit:
    title = text(page, "title")
    snippet = html.unescape(re.sub(r"<[^<>]*>", "", text(page, "snippet")))
    url = f"{base}/wiki/{quote(title.replace(' ', '_'), safe='/:@!$()*,;~-._')}" if title else ""
    return Hit(title, url, " ".join(snippet.split()), text(page, "timestamp")[:10])
