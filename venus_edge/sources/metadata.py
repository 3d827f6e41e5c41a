"""PARSED PAGE -> TITLE, DATE, AUTHOR, and text that only its JSON holds. Reads the tree, changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from venus_edge.sources.markdown import one_line, safe

if TYPE_CHECKING:
    from lxml.html import HtmlElement

# meta names (lower case), and paths into the markup, in the order in which they are believed
_DATE_METAS = (
    "article:published_time date pubdate publishdate publish_date dc.date dc.date.issued dcterms.created dcterms.issued"
    " citation_publication_date citation_date parsely-pub-date sailthru.date datepublished"
)
_DATE_PATHS = (
    "//*[@itemprop='datePublished']/@content | //*[@itemprop='datePublished']/@datetime",
    "//time[@pubdate]/@datetime",
    "//article//time/@datetime | //header//time/@datetime",
    "//time/@datetime",
)
_AUTHOR_METAS = "author article:author dc.creator citation_author parsely-author"
_AUTHOR_PATHS = ("//*[@itemprop='author']//*[@itemprop='name']/text()", "//a[@rel='author']/text()")
_TITLE_METAS = "og:title twitter:title dc.title"
_DATE = re.compile(r"\b(\d{4})[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?")
_FORUMS = frozenset(("DiscussionForumPosting", "QAPage", "Question"))
_LONGEST_JSON = 2_000_000
_DEEPEST_JSON = 60
_MOST_INNER = 2_000
_TAGS = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_PROSE = re.compile(r"\S+(?:\s+\S+){7,}|[\u3040-\u30ff\u3400-\u9fff]{12,}")
_STATE = re.compile(
    r"(?:(?:window|self|globalThis)(?:\.[\w$.]+|\[[\"'][\w$.:-]+[\"']\])|(?:var|let|const)\s+[\w$]+)\s*=\s*"
    r"(?:JSON\.parse\(\s*(?=\")|(?=[{\[]))"
    r"|__next_f\.push\(\s*(?=\[)"
)
_INNER = re.compile(r"(?:^|\n)(?:[0-9a-f]{1,4}:)?(?=[{\[])")  # JSON in a string, or in the lines of one (React's)
_DRAWN = frozenset(("className", "class", "style", "d", "css", "src", "href"))  # of elements: how they look


@dataclass(frozen=True, slots=True)
class About:
    """What a page says about itself. `article` says that it declares itself one, `marked` that its JSON-LD does, which
    is rarely wrong; `body` is the article's text as its JSON-LD gives it."""

    title: str = ""
    date: str = ""
    author: str = ""
    article: bool = False
    marked: bool = False
    body: str = ""


def about(root: HtmlElement) -> About:
    """Title, date, author: from JSON-LD first, then metas, then the markup."""
    linked, metas = list(_linked_data(root)), _metas(root)
    kinds = {k for item in linked for k in _texts(item.get("@type"))}
    declared = metas.get("og:type") == "article" or bool(root.xpath("//*[@itemprop='articleBody']"))
    dates = chain(_values(linked, "datePublished"), _named(metas, _DATE_METAS), _found(root, _DATE_PATHS))
    later = chain(_values(linked, "dateModified"), _named(metas, "article:modified_time og:updated_time"))
    forum = bool(kinds & _FORUMS)
    marked = not forum and any(k.endswith(("Article", "BlogPosting")) for k in kinds)
    return About(
        title=_title(root, metas),
        date=_first_date(chain(dates, later)),
        author=_author(chain(_names(linked), _named(metas, _AUTHOR_METAS), _found(root, _AUTHOR_PATHS))),
        article=marked or (declared and not forum),
        marked=marked,
        body=_untagged(max(_values(linked, "articleBody"), key=len, default="")),
    )


def _metas(root: HtmlElement) -> dict[str, str]:
    """The page's metas by name, the first of each."""
    metas: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        metas.setdefault(name.strip().lower(), meta.get("content") or "")
    return metas


def _named(metas: dict[str, str], names: str) -> list[str]:
    return [metas[name] for name in names.split() if metas.get(name)]


def _title(root: HtmlElement, metas: dict[str, str]) -> str:
    titles = [one_line("".join(t.itertext())) for t in root.iter("title") if next(t.iterancestors("svg"), None) is None]
    h1 = [one_line("".join(h.itertext())) for h in root.iter("h1")]
    return one_line(safe(next((t for t in (*titles, *_named(metas, _TITLE_METAS), *h1) if t.strip()), "")))


def _found(root: HtmlElement, paths: tuple[str, ...]) -> Iterator[str]:
    """What the paths lead to; each is followed only when those before it brought nothing of use."""
    return (str(value) for path in paths for value in root.xpath(path))


def _first_date(values: Iterable[str]) -> str:
    """The first that begins as a date, as YYYY-MM-DD or YYYY-MM."""
    for value in values:
        found = _DATE.search(value[:60])
        if found and 1 <= int(found[2]) <= 12:
            year, month, day = found.groups()
            return f"{year}-{int(month):02d}" + (f"-{int(day):02d}" if day and 1 <= int(day) <= 31 else "")
    return ""


_MONTHS = (
    "jan", "feb", "m[aä]r|mar", "apr|abr|avr", "ma[iyg]", "jun|giu|juin", "jul|lug|juil", "aug|ago|ao[uû]t", "sep|set",
    "o[ck]t|ott|out", "nov", "de[cz]|dic|d[ée]c",
)  # fmt: skip


def says_date(text: str, date: str) -> bool:
    """Whether a text shows a date (YYYY-MM-DD) in some way of writing it."""
    year, month, *days = (int(part) for part in date.split("-"))
    if not days:
        return date in text
    m, d, name = f"0?{month}", f"0?{days[0]}", rf"(?:{_MONTHS[month - 1]})\w*\.?"
    forms = (
        rf"(?<!\d){year}\s?[-/.年]\s?{m}\s?[-/.月]\s?{d}(?!\d)",
        rf"(?<!\d)(?:{m}[-/.]{d}|{d}[-/.]{m})[-/.]{year}",
        rf"\b{name}\s{d}(?:st|nd|rd|th)?,?\s{year}",
        rf"(?<!\d){d}(?:st|nd|rd|th|\.|º)?\s(?:de\s|of\s)?{name},?\s(?:de\s)?{year}",
    )
    return re.search("|".join(forms), text, re.I) is not None


def _author(names: Iterable[str]) -> str:
    tidy = (one_line(safe(n)) for n in names)
    return next((n for n in tidy if 1 < len(n) < 80 and not n.lower().startswith("http")), "")


# -- JSON inside the page --------------------------------------------------------------------------------------------


def _linked_data(root: HtmlElement) -> Iterator[dict[str, Any]]:
    """Every object of the page's JSON-LD; what does not parse is not there."""
    for script in root.xpath("//script[contains(@type, 'ld+json')]"):
        yield from _objects(_loads(script.text or ""))


def _loads(text: str) -> object:
    if len(text) > _LONGEST_JSON:
        return None
    try:
        return json.loads(re.sub(r"^\s*(?://)?<!\[CDATA\[|(?://)?\]\]>\s*$", "", text), strict=False)
    except (ValueError, RecursionError):
        return None


def _objects(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST_JSON:
        return
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner, depth + 1)


def _texts(value: object) -> list[str]:
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]


def _values(items: list[dict[str, Any]], key: str) -> list[str]:
    return [text for item in items for text in _texts(item.get(key))]


def _names(items: list[dict[str, Any]]) -> list[str]:
    authors = [a for item in items for a in _as_list(item.get("author"))]
    return [name for a in authors for name in (_texts(a.get("name")) if isinstance(a, dict) else _texts(a))]


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def states(root: HtmlElement) -> list[tuple[str, str]]:
    """(type, text) of the page's scripts, from which `prose` can read when the markup turns out to be empty."""
    return [(script.get("type") or "", script.text or "") for script in root.iter("script")]


def prose(scripts: list[tuple[str, str]]) -> str:
    """The sentences in the JSON that a page's script would have drawn."""
    values = (value for kind, text in scripts for value in _states(kind, text))
    found = [text for value in values for text in _strings(value) if _PROSE.search(text)]
    return safe("\n\n".join(dict.fromkeys(_bare(text) for text in found)))


def _states(kind: str, text: str) -> Iterator[object]:
    if "json" in kind:
        yield _loads(text)
        return
    for start in _STATE.finditer(text[:_LONGEST_JSON]):
        try:
            yield json.JSONDecoder(strict=False).raw_decode(text, start.end())[0]
        except (ValueError, RecursionError):
            continue


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        inner = list(_inner(value)) if depth < _DEEPEST_JSON else []
        yield from (text for found in inner for text in _strings(found, depth + 1)) if inner else [value]
    elif depth < _DEEPEST_JSON:
        for held in _held(value):
            yield from _strings(held, depth + 1)


def _held(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return [held for key, held in value.items() if key not in _DRAWN]
    return value if isinstance(value, list) else ()


def _inner(text: str) -> Iterator[object]:
    """The JSON that a string holds."""
    read = 0
    for start in islice(_INNER.finditer(text), _MOST_INNER):
        if start.end() < read:
            continue
        try:
            value, read = json.JSONDecoder(strict=False).raw_decode(text, start.end())
        except (ValueError, RecursionError):
            continue
        yield value


def _untagged(text: str) -> str:
    """An article's body, which some give as markup."""
    paragraphs = re.split(r"</(?:p|h\d|li|div)>|<br\s*/?>", text) if _TAGS.search(text) else []
    return "\n\n".join(filter(None, map(_bare, paragraphs))) if paragraphs else text


def _bare(text: str) -> str:
    """A string of the state without the markup that it may hold."""
    return one_line(_TAGS.sub(" ", text))
