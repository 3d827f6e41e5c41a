"""BYTES -> THE TEXT OF A PAGE. In: a body, its URL, its Content-Type. Out: `Extracted`, or the `Failure` that says what
stands there instead (needs JavaScript, consent wall, login, not found, a PDF). Never raises; opens nothing.

readability-lxml finds the article; `prune` is the second opinion, and it wins where readability loses text, tables or
lists; the whole body is the last resort. Charset: `charset`. What it is: `kinds`. Not the page: `notpage`.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from venus_edge.sources import charset, kinds, metadata, notpage, prune
from venus_edge.sources.markdown import one_line, plain, safe, to_markdown
from venus_edge.values import Failure, Trouble

if TYPE_CHECKING:
    from lxml.html import HtmlElement

VERSION = 1  # of this file's rules: a cache extracts again when it grows
LARGEST = 20_000_000  # bytes that are looked at; more is cut
_LARGEST_FOR_READABILITY = 3_000_000  # bytes; it is quadratic in places
_MOST_ELEMENTS = 30_000
_DEEPEST = 200  # levels; readability asks every level for all of its text

_NAMED = {
    "pdf": "a PDF document",
    "office": "an office document",
    "epub": "an e-book",
    "archive": "an archive",
    "image": "an image",
    "media": "an audio or video file",
    "binary": "a binary file",
}


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page as text: Markdown-like, links with absolute addresses. `date` is YYYY-MM-DD or "", `note` what a reader
    should know ("text taken from the page's data")."""

    title: str
    text: str
    date: str = ""
    author: str = ""
    kind: kinds.Kind = "html"
    note: str = ""


def extract(body: bytes, url: str, content_type: str = "") -> Extracted | Failure:
    """What `body` says, or why it says nothing."""
    kind = kinds.kind_of(body, content_type, url)
    if kind not in kinds.READ:
        return _unreadable(f"it is {_NAMED[kind]}, which is not read yet")
    text, _ = charset.decode(body[:LARGEST], content_type)
    text = safe(text)
    if not text.strip():
        return _unreadable("it is empty")
    cut = "only the first 20 MB were read" if len(body) > LARGEST else ""
    if kind == "html":
        return _html(text, url, cut)
    return _other(text, kind, url, cut)


def _unreadable(why: str) -> Failure:
    return Failure(Trouble.UNREADABLE, f"page could not be read: {why}")


# -- not HTML --------------------------------------------------------------------------------------------------------


def _other(text: str, kind: kinds.Kind, url: str, note: str) -> Extracted | Failure:
    if kind == "xml":
        return _xml(text, url, note)
    if kind == "json":
        text = _pretty(text)
    first = next((one_line(line) for line in text.splitlines() if line.strip()), "")
    title = first.lstrip("# ")[:200] if kind in ("markdown", "plain") else ""
    return Extracted(title, text.strip(), kind=kind, note=note)


def _pretty(text: str) -> str:
    """JSON with its characters readable and its levels shown; what does not parse stays as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text


def _xml(text: str, url: str, note: str) -> Extracted | Failure:
    """The texts of an XML document or feed, one element a line."""
    root = _parse_xml(text)
    if root is None:
        return _html(text, url, note)
    from lxml import etree

    lines: list[str] = []
    for element in root.iter():
        name = etree.QName(element).localname if isinstance(element.tag, str) else ""
        value = one_line(re.sub(r"<[^<>]{1,2000}>", " ", element.text or ""))
        if name and value:
            lines.append(f"{name}: {value}")
    if not lines:
        return _unreadable("it is an XML document without text")
    title = next((line.partition(": ")[2] for line in lines if line.startswith("title: ")), "")
    return Extracted(title, safe("\n".join(lines)), kind="xml", note=note)


def _parse_xml(text: str) -> HtmlElement | None:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    declared = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    try:
        return etree.fromstring(declared.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


# -- HTML ------------------------------------------------------------------------------------------------------------


def parse(text: str) -> HtmlElement | None:
    """The tree of a page, however deep; None where there is none."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(text.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None
    return root


def _html(text: str, url: str, note: str) -> Extracted | Failure:
    root = parse(text)
    if root is None:
        return _unreadable("it is empty")
    about = metadata.about(root)
    states = metadata.states(root)
    noscript = prune.without_script(root)
    asks = bool(root.xpath("//input[@type='password']"))
    content = _content(root, _base(root, url), about)
    shown = notpage.Shown(about.title, content.headings, plain(content.whole), asks, noscript)
    instead = notpage.instead(shown)
    if instead is not None and instead != notpage.NEEDS_JAVASCRIPT:
        return _unreadable(instead)
    best = content.text
    if notpage.words(shown.text) < notpage.EMPTY:
        best = max((best, about.body, metadata.prose(states)), key=notpage.words)
    if notpage.words(best) < (notpage.EMPTY if instead else 1):
        return _unreadable(instead or "it shows no text")
    if best is not content.text:
        note = note or "text taken from the page's own data"
    return Extracted(about.title, _with_byline(safe(best), about), about.date, about.author, note=note)


def _base(root: HtmlElement, url: str) -> str:
    """What the page's links are relative to."""
    named = next((str(b.get("href")) for b in root.iter("base") if b.get("href")), "")
    try:
        return urljoin(url, named)
    except ValueError:
        return url


def _with_byline(text: str, about: metadata.About) -> str:
    """The date goes into the text where the text does not have it: what is quoted from a page should be datable."""
    if not about.date or about.date in text:
        return text
    return f"Published: {about.date}\n\n{text}"


@dataclass(frozen=True, slots=True)
class _Content:
    """`text` is what is worth reading; `whole` the pruner's view, `headings` its first ones: what a page shows."""

    text: str
    whole: str
    headings: str


def _content(root: HtmlElement, base: str, about: metadata.About) -> _Content:
    """The content of a page; empties `root`."""
    prune.clean(root)
    article = _readable(root)
    kept = prune.prune(root)
    whole = to_markdown(kept, base) or to_markdown(prune.whole(root), base)
    headings = "\n".join(one_line("".join(h.itertext())) for h in list(kept.iter("h1", "h2"))[:3])
    text = to_markdown(article, base) if article is not None else ""
    return _Content(text if _is_enough(text, whole, about) else whole, whole, headings)


def _is_enough(text: str, whole: str, about: metadata.About) -> bool:
    """Whether the article is as good as the pruned page: long enough, and with its tables, lists and code."""
    share = 0.3 if about.article else 0.5
    if len(plain(text)) < share * len(plain(whole)):
        return False
    return about.article or all(text.count(mark) >= 0.5 * whole.count(mark) for mark in ("\n| ", "\n- ", "\n```"))


def _readable(root: HtmlElement) -> HtmlElement | None:
    """The article as readability-lxml sees it; None where it sees none or the page would take it too long."""
    if not _suits_readability(root):
        return None
    reader = _reader_class()(copy.deepcopy(root), handle_failures=None)
    try:
        reader.summary(html_partial=True)
    except Exception:  # noqa: BLE001 - it wraps everything, recursion and its own bugs too, and the pruner stands in
        return None
    return cast("HtmlElement", reader.html)


def _suits_readability(root: HtmlElement) -> bool:
    from lxml import etree

    elements = depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        elements += event == "start"
        if depth > _DEEPEST or elements > _MOST_ELEMENTS:
            return False
    return True


@cache
def _reader_class() -> Any:
    """readability's Document, made to keep its tree: as text it would be parsed again, and its attribute cleaning is
    quadratic."""
    import logging

    from lxml import etree
    from readability import Document

    class Reader(Document):  # type: ignore[misc]  # readability carries no types
        def get_clean_html(self) -> str:
            return str(etree.tostring(self.html, encoding="unicode", method="html"))

    logging.getLogger("readability").addHandler(logging.NullHandler())  # or its tracebacks go to the terminal
    return Reader
