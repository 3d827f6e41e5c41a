"""readability-lxml, MADE FASTER: the same article from a tree that is cleaned already.

In: a tree. Out: readability's Document over a copy of it; after `summary()`, `elements()` are those of the tree that
are the article. What it decides is unchanged; what is replaced is how it measures (regular expressions over serialised
markup, text copied for every length): more than half of its time.
"""

from __future__ import annotations

import copy
import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from venus_edge.sources.prune import weight

if TYPE_CHECKING:
    from lxml.html import HtmlElement

# a <div> with one of these in it is no paragraph (its divToPElementsRe, which looks at how tag names begin)
_IN_DIVS = "blockquote dl div img ol p param picture pre progress table ul".split()  # noqa: SIM905 - as names elsewhere
_INLINE = frozenset("a b cite code em font i small span strong sub sup u".split())  # noqa: SIM905 - as names elsewhere


def reader(root: HtmlElement) -> Any:
    """A Document over `root`, which it does not change."""
    return _class()(root, handle_failures=None)


@cache
def _class() -> Any:
    from readability import Document, readability

    patterns: dict[str, Any] = readability.REGEXES
    unlikely, maybe = patterns["unlikelyCandidatesRe"], patterns["okMaybeItsACandidateRe"]
    positive, negative = patterns["positiveRe"], patterns["negativeRe"]

    class Reader(Document):  # type: ignore[misc]  # readability carries no types
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.weights: dict[str, int] = {}
            self.unlikely: dict[str, bool] = {}
            self.twins: dict[Any, Any] = {}  # element of the copy -> of the page

        def _parse(self, tree: Any) -> Any:
            copied = copy.deepcopy(tree)
            self.twins = dict(zip(copied.iter(), tree.iter(), strict=True))
            return copied

        def elements(self) -> set[Any]:
            """The elements of the page that the article has."""
            return {self.twins[e] for e in self.html.iter() if e in self.twins}

        def get_clean_html(self) -> str:
            """Only whether it is long enough is asked: as text it would be parsed again."""
            return " " * weight(self.html)

        def get_link_density(self, elem: Any) -> float:
            links = sum(weight(a) for a in elem.iterdescendants("a"))
            return links / max(weight(elem), 1) if links else 0.0

        def class_weight(self, e: Any) -> int:
            return sum(self._weight(feature) for feature in (e.get("class"), e.get("id")) if feature)

        def _weight(self, name: str) -> int:
            if name not in self.weights:
                self.weights[name] = 25 * (bool(positive.search(name)) - bool(negative.search(name)))
            return self.weights[name]

        def remove_unlikely_candidates(self) -> None:
            for elem in self.html.xpath(".//*[@class or @id]"):
                if elem.tag != "body" and self._is_unlikely(elem) and not self._is_needed(elem):
                    elem.drop_tree()

        def _is_unlikely(self, elem: Any) -> bool:
            names = f"{elem.get('class', '')} {elem.get('id', '')}"
            if names not in self.unlikely:
                self.unlikely[names] = bool(unlikely.search(names)) and not maybe.search(names)
            return self.unlikely[names]

        def _is_needed(self, elem: Any) -> bool:
            inside = next(elem.iter("main", "article", "math"), None)
            return inside is not None or bool(elem.xpath("ancestor-or-self::pre | ancestor-or-self::code"))

        def transform_misused_divs_into_paragraphs(self) -> None:
            for elem in list(self.html.iter("div")):
                if next(elem.iterdescendants(*_IN_DIVS), None) is None:
                    elem.tag = "p"
            for elem in list(self.html.iter("div")):
                _paragraphs(elem)

    logging.getLogger("readability").addHandler(logging.NullHandler())  # or its tracebacks go to the terminal
    return Reader


def _paragraphs(elem: Any) -> None:
    """Puts the running text that stands in a <div> itself into paragraphs."""
    from lxml.html import Element

    def paragraph(text: str | None = None) -> Any:
        made = Element("p")
        made.text = text
        return made

    children = list(elem)
    current = None
    if elem.text and elem.text.strip():
        current = paragraph(elem.text)
        elem.text = None
        elem.insert(0, current)
    for child in children:
        if child.tag not in _INLINE or next(child.iterdescendants(*_IN_DIVS), None) is not None:
            current = None
            continue
        if current is None:
            current = paragraph()
            child.addprevious(current)
        current.append(child)
    for position, child in reversed(list(enumerate(elem))):
        if child.tail and child.tail.strip():
            elem.insert(position + 1, paragraph(child.tail))
            child.tail = None
        if child.tag == "br":
            child.drop_tree()
