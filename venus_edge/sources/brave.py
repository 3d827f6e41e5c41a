"""QUERY -> HITS, by the search API of Brave (VENUS_BRAVE_KEY), an index of its own."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from venus_edge.sources.gate import Gate
from venus_edge.sources.language import Market, market
from venus_edge.sources.provider import Reply, found, refused
from venus_edge.sources.service import Service, items, text
from venus_edge.values import Hit

_LONGEST = (400, 50)  # characters and words of a query
_LANGUAGES = {  # what it calls some languages; a language that it does not know is an error there
    "zh-CN": "zh-hans", "zh-TW": "zh-hant", "ja-JP": "jp", "ko-KR": "ko", "ru-RU": "ru", "de-DE": "de", "en-US": "en",
    "fr-FR": "fr", "es-ES": "es", "it-IT": "it", "uk-UA": "uk", "he-IL": "he", "ar": "ar", "th-TH": "th",
}  # fmt: skip
_COUNTRIES = frozenset(("CN", "TW", "JP", "KR", "RU", "DE", "US", "FR", "ES", "IT"))


@dataclass(frozen=True, slots=True)
class Brave:
    gate: Gate
    key: str = field(repr=False)
    url: str = "https://api.search.brave.com/res/v1/web/search"
    market: Market | None = None
    name: str = "brave"
    whole_web: bool = True
    pause: float = 1.0  # its free plan's limit

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        if len(query) > _LONGEST[0] or len(query.split()) > _LONGEST[1]:
            return refused(f"it takes queries of at most {_LONGEST[0]} characters and {_LONGEST[1]} words")
        place = self.market or market(query)
        country = place.country.upper()
        asked: dict[str, str | int] = {
            "q": query,
            "count": min(limit, 20),
            "country": country if country in _COUNTRIES else "ALL",
            "search_lang": _LANGUAGES.get(place.language, ""),
            "text_decorations": "false",
        }
        reply = Service(self.gate, {"X-Subscription-Token": self.key}).get(self.url, asked, deadline)
        if isinstance(reply, Reply):
            return reply
        web = reply.get("web")
        results = items(web.get("results")) if isinstance(web, dict) else []
        return found(
            (Hit(_bare(r, "title"), text(r, "url"), _bare(r, "description"), _date(r)) for r in results), limit
        )


def _bare(item: dict[str, object], name: str) -> str:
    """A field without the <strong> that marks the query's words."""
    return html.unescape(re.sub(r"</?strong>", "", text(item, name)))


def _date(item: dict[str, object]) -> str:
    return text(item, "page_age", "age")
