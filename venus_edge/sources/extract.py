"""BYTES -> THE TEXT OF A PAGE. In: a body, its URL, its Content-Type. Out: `Extracted`, or the `Failure` that says what
stands there instead (needs JavaScript, consent wall, login, not found, a film). Never raises; opens nothing.

readability-lxml finds the article; `prune` is the second opinion, and it wins where readability loses text, tables or
lists; the whole body is the last resort. That is the main text, `text`. What else a reader of the page sees (a table
beside the article, the list in a sidebar) is `rest`: both together, `full`, is what a visit looks for its goal in, and
the main text counts more there. Charset: `charset`. What it is: `kinds`. Not the page: `notpage`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from venus_edge.sources import charset, kinds, metadata, notpage, prune
from venus_edge.sources.markdown import joined, one_line, plain, safe, to_markdown, written
from venus_edge.values import Failure, Trouble

if TYPE_CHECKING:
    from lxml.html import HtmlElement

VERSION = 5  # of this file's rules: a cache extracts again when it grows
LARGEST = 20_000_000  # bytes that are looked at; more is cut
_LARGEST_FOR_READABILITY = 2_000_000  # characters of text, and
_MOST_ELEMENTS = 30_000  # elements: it is quadratic in places
_DEEPEST = 200  # levels; readability asks every level for all of its text
_DEEPEST_TREE = 1000  # levels of a tree that is laid flat below

_CONTROLS = bytes({*range(32), 127} - {9, 10, 12, 13})  # that no parser wants
# What readability found is the page if it is so much of what the pruner left, by whether the page says that it is an
# article, and says it in JSON-LD (shares picked on WCXB's and AEB's development pages).
_SHARES = {(False, False): 0.6, (True, False): 0.28, (True, True): 0.12}
_ARTICLE_WORDS = 100  # less is no article, whatever the page says
_REGION = 0.9  # of the article's text is in the element that counts as its place
_CONTAINERS = frozenset(
    ("article", "body", "center", "div", "form", "main", "section", "span", "table", "tbody", "td", "tr")
)
_HEADING = re.compile(r"#{2,6} ")
_REPEATED = 40  # characters of a line that is not meant to come twice
_ENOUGH = 20_000  # characters that show whether a text says anything
_MARKS = ("\n| ", "\n- ", "\n```")  # of a row, an item, a code block

_DOCUMENTS = ("pdf", "office", "epub")
_NAMED = {
    "archive": "an archive",
    "image": "an image",
    "media": "an audio or video file",
    "binary": "a binary file",
}


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page as text: Markdown-like, links with absolute addresses. `text` is the main text, `rest` what stands around
    it; `date` is YYYY-MM-DD or "", `note` what a reader should know ("text taken from the page's data")."""

    title: str
    text: str
    date: str = ""
    author: str = ""
    kind: kinds.Kind = "html"
    note: str = ""
    rest: str = ""

    @property
    def full(self) -> str:
        """All that a reader of the page sees, the main text first."""
        return f"{self.text}\n\n{self.rest}" if self.rest else self.text


def extract(body: bytes, url: str, content_type: str = "") -> Extracted | Failure:
    """What `body` says, or why it says nothing."""
    kind = kinds.kind_of(body, content_type, url)
    if kind in _DOCUMENTS:
        return _document(body, kind)
    if kind not in kinds.READ:
        return _unreadable(f"it is {_NAMED[kind]}, which is not read")
    text, _ = charset.decode(body[:LARGEST], content_type)
    cut = "only the first 20 MB were read" if len(body) > LARGEST else ""
    if kind == "html":
        return _html(text, url, cut)
    text = safe(text)
    return _other(text, kind, url, cut) if text.strip() else _unreadable("it is empty")


def _unreadable(why: str) -> Failure:
    return Failure(Trouble.UNREADABLE, f"page could not be read: {why}")


def _document(body: bytes, kind: kinds.Kind) -> Extracted | Failure:
    from venus_edge.sources import documents

    found = documents.read(body)
    if isinstance(found, Failure):
        return found
    lines = (line.lstrip("# ") for line in found.text.splitlines() if not line.startswith(("## ", "|")))
    first = next(filter(None, map(one_line, lines)), "")  # "## Page 1" and tables apart
    return Extracted(found.title or first[:200], found.text, author=found.author, kind=kind)


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
        root = html.document_fromstring(text.encode("utf-8", "replace").translate(None, _CONTROLS), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None
    last = parser.error_log.last_error
    if last is not None and "depth" in last.message:  # libxml2 2.14 stops at 2,048 levels, huge_tree or not
        return _flattened(text)
    return root


def _flattened(text: str) -> HtmlElement | None:
    """The tree of a page with what nests deeper than `_DEEPEST_TREE` laid flat."""
    from lxml import etree

    parser: Any = etree.HTMLParser(target=_target_class()(), huge_tree=True)
    try:
        parser.feed(text)
        return cast("HtmlElement | None", parser.close())
    except (etree.ParserError, etree.XMLSyntaxError, ValueError, AssertionError):
        return None


@cache
def _target_class() -> Any:
    """What the parser calls as it goes through a page that nests too deep: builds a tree of bounded depth."""
    from lxml import etree, html

    make: Any = html.HTMLParser().makeelement

    class Flat:
        def __init__(self) -> None:
            self.builder: Any = etree.TreeBuilder(element_factory=make)
            self.depth = 0

        def start(self, tag: str, attributes: dict[str, str]) -> None:
            self.depth += 1
            if self.depth <= _DEEPEST_TREE:
                named = {k: v for k, v in attributes.items() if k in ("class", "id", "href", "hidden", "style", "role")}
                self.builder.start(tag if tag.isalnum() else "span", named)

        def end(self, tag: str) -> None:
            if self.depth <= _DEEPEST_TREE:
                self.builder.end(tag if tag.isalnum() else "span")
            self.depth -= 1

        def data(self, text: str) -> None:
            self.builder.data(text)

        def close(self) -> Any:
            return self.builder.close()

    return Flat


def _html(text: str, url: str, note: str) -> Extracted | Failure:
    root = parse(text)
    if root is None:
        return _unreadable("it is empty")
    alive = list(islice(root.iter(), _MOST_ELEMENTS))  # lxml makes an element anew each time that nobody holds it
    about = metadata.about(root)
    states = metadata.states(root)
    noscript = prune.without_script(root)
    asks = bool(root.xpath("//input[@type='password']"))
    content = _content(root, _base(root, url), about)
    del alive
    shown = notpage.Shown(about.title, content.headings, plain(content.whole), asks, noscript)
    instead = notpage.instead(shown)
    if instead is not None and instead != notpage.NEEDS_JAVASCRIPT:
        return _unreadable(instead)
    best = content.text
    if notpage.words(shown.text[:_ENOUGH]) < notpage.EMPTY:
        best = max((best, about.body, metadata.prose(states)), key=notpage.words)
    if notpage.words(best[:_ENOUGH]) < (notpage.EMPTY if instead else 1):
        return _unreadable(instead or "it shows no text")
    if best is not content.text:
        note = note or "text taken from the page's own data"
    return Extracted(
        about.title, _with_byline(safe(best), about), about.date, about.author, note=note, rest=content.rest
    )


def _base(root: HtmlElement, url: str) -> str:
    """What the page's links are relative to."""
    named = next((str(b.get("href")) for b in root.iter("base") if b.get("href")), "")
    return joined(url, named) or url if named else url


def _with_byline(text: str, about: metadata.About) -> str:
    """The date goes into the text where the text does not have it: what is quoted from a page should be datable."""
    if not about.date or metadata.says_date(text, about.date):
        return text
    return f"Published: {about.date}\n\n{text}"


@dataclass(frozen=True, slots=True)
class _Content:
    """`text` is what is worth reading, `rest` what else there is; `whole` the pruner's view, `headings` its first ones:
    what a page shows."""

    text: str
    rest: str
    whole: str
    headings: str


def _content(root: HtmlElement, base: str, about: metadata.About) -> _Content:
    """The content of a page; uses `root` up.

    readability says where the article is; what of it is worth reading, the pruner says: inside the article it keeps
    the tables, lists and forms that readability drops. An article that is too small a part of the page is not it.
    """
    prune.clean(root)
    article = _readable(root)
    body = prune.whole(root)
    kept, dropped = prune.prune(root)
    region = _region(kept, article) if article is not None else kept
    agreed = _agreed(region, article) if about.article and article is not None and region is not kept else []
    seen = _Seen(body, base, {kept, region, *agreed})
    whole = seen.text(kept) or seen.text(body)
    headings = "\n".join(one_line("".join(h.itertext())) for h in list(kept.iter("h1", "h2"))[:3])
    text, bare = _without_repeats(seen.text(region, agreed)), _without_repeats(whole)
    if _is_page(text, bare, about):
        beside = seen.beside(region, agreed)
    else:
        text, beside = bare, seen.beside(kept)
    rest = "\n\n".join(filter(None, [beside, *(to_markdown(element, base) for element in dropped)]))
    return _Content(text, _without_repeats(rest, text), whole, headings)


class _Seen:
    """A page's body as text, and the text of those of its elements that were asked for: written once."""

    def __init__(self, body: HtmlElement, base: str, parts: Set[HtmlElement]) -> None:
        self._body, self._base = body, base
        self._all = written(body, base, parts)

    def _place(self, element: HtmlElement) -> range | None:
        return range(len(self._all.blocks)) if element is self._body else self._all.places.get(element)

    def text(self, element: HtmlElement, without: Sequence[HtmlElement] = ()) -> str:
        """The text of an element, without that of some elements in it."""
        place, places = self._place(element), [self._place(e) for e in without]
        marked = next(element.iterancestors("blockquote", "ul", "ol"), None) is not None
        if place is not None and None not in places and not marked:
            return self._all.text(place, [p for p in places if p is not None])
        for inner in without:  # within a line, a table, a list or a quote it is written anew
            prune.drop(inner)
        return to_markdown(element, self._base)

    def beside(self, element: HtmlElement, without: Sequence[HtmlElement] = ()) -> str:
        """The text of the body that `text` leaves out; all of it where that is not known."""
        place = self._place(element) or range(0)
        left_out = [p for e in without if (p := self._place(e)) is not None]
        inside = set(place) - {number for p in left_out for number in p}
        return self._all.text(None, [inside])


def _is_page(text: str, whole: str, about: metadata.About) -> bool:
    """Whether the article is the page: long enough, and, where the page does not say that it is an article, with most
    of its tables, lists and code."""
    long = notpage.words(text[:_ENOUGH]) >= _ARTICLE_WORDS
    share = _SHARES[about.article and long, about.marked and long]
    if _prose(text) < share * _prose(whole):
        return False
    return about.article or all(f"\n{text}".count(mark) * 2 >= f"\n{whole}".count(mark) for mark in _MARKS)


def _without_repeats(text: str, before: str = "") -> str:
    """The text without lines that stood there, or in the text `before` it, already: pages carry their parts twice, for
    wide and for narrow screens. Short lines, rows of tables and code repeat themselves with reason. Nor do headings end
    it."""
    seen = {line.strip() for line in before.split("\n") if len(line) >= _REPEATED}
    kept: list[str] = []
    code = False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if len(line) >= _REPEATED and not code and not line.startswith("|"):
            bare = line.strip()
            if bare in seen:
                continue
            seen.add(bare)
        kept.append(line)
    while kept and (not kept[-1].strip() or _HEADING.match(kept[-1])):  # what the last headings are of was left out
        kept.pop()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def _prose(text: str) -> int:
    """The characters of a text that are no link."""
    return len("".join(re.sub(r"\[[^\[\]]*\]", "", plain(text)).split()))


def _region(kept: HtmlElement, article: Set[HtmlElement]) -> HtmlElement:
    """The smallest element of the pruned page that holds nine tenths of the article's text."""
    held: dict[HtmlElement, int] = {}
    for element in reversed(list(kept.iter())):  # children before parents
        own = _own_text(element) if element in article else 0
        held[element] = held.get(element, 0) + own
        parent = element.getparent()
        if parent is not None and element is not kept:
            held[parent] = held.get(parent, 0) + held[element]
    region = kept
    while held[kept]:
        inner = next((c for c in region if c.tag in _CONTAINERS and held[c] >= _REGION * held[kept]), None)
        if inner is None:
            break
        region = inner
    return region


def _agreed(region: HtmlElement, article: Set[HtmlElement]) -> list[HtmlElement]:
    """The lists and headings of an article that are nothing but links where readability leaves them out too: other
    stories of the site."""
    named = region.iter("ul", "ol", "h2", "h3", "h4", "h5", "h6")
    return [e for e in named if e not in article and e is not region and prune.is_links(e)]


def _own_text(element: HtmlElement) -> int:
    """The characters of text that stand in an element itself, not in its children."""
    return len((element.text or "").strip()) + sum(len((child.tail or "").strip()) for child in element)


def _readable(root: HtmlElement) -> Set[HtmlElement] | None:
    """The elements of the article as readability-lxml sees it; None where it sees none or the page would take it too
    long."""
    if not _suits_readability(root):
        return None
    from venus_edge.sources.reader import reader

    found = reader(root)
    try:
        found.summary(html_partial=True)
    except Exception:  # noqa: BLE001 - it wraps everything, recursion and its own bugs too, and the pruner stands in
        return None
    return cast("Set[HtmlElement]", found.elements())


def _suits_readability(root: HtmlElement) -> bool:
    from lxml import etree

    if prune.weight(root) > _LARGEST_FOR_READABILITY:
        return False
    elements = depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        elements += event == "start"
        if depth > _DEEPEST or elements > _MOST_ELEMENTS:
            return False
    return True
