"""TEXT OF OTHERS -> HTML: escaped, without control characters; and an answer's Markdown with its marks. Pure.

In: the answer and the sentences that are marked in it. Out: HTML of a few elements (headings, lists, tables, emphasis,
code, links to http addresses). Whatever else the text holds is shown as text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from venus_edge.citations import Citation

_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_HAN, _KANA = re.compile("[\u3400-\u9fff]"), re.compile("[\u3040-\u30ff]")


def shown(text: str) -> str:
    """A text without control characters, changes of writing direction, and halves of characters."""
    return _UNSHOWN.sub("\ufffd", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """A text as HTML, for the inside of an element and of a quoted attribute."""
    return html.escape(shown(text), quote=True)


def language(text: str) -> str:
    """The lang attribute that picks the right glyphs for a text of Han characters."""
    if not _HAN.search(text):
        return ""
    return ' lang="ja"' if _KANA.search(text) else ' lang="zh"'


def is_http(url: str) -> bool:
    """Whether an address may be a link: http or https and a host, nothing that a browser would run."""
    return bool(re.fullmatch(r"https?://[^\s<>\"'`\\/?#]+[^\s<>\"`\\]*", url, re.IGNORECASE))


def link(url: str, text: str = "") -> str:
    """An address as a link that tells its target nothing; any other address is text."""
    label = escaped(text or url)
    if not is_http(url):
        return label if label == escaped(url) else f"{label} ({escaped(url)})"
    return f'<a href="{escaped(url)}" rel="noreferrer noopener external">{label}</a>'


# -- the answer in blocks ---------------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*(```+|~~~+)")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+")
_ITEM = re.compile(r"(\s*)(?:[-*+•]|(\d{1,3})[.)])\s+")
_RULE = re.compile(r"\s*([-*_])(?:\s*\1){2,}\s*")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_QUOTED = re.compile(r"\s{0,3}>\s?")


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str


def answer(text: str, citations: Sequence[Citation]) -> str:
    """The answer's Markdown as HTML; each cited sentence is a span with id c<number> and a link to #q<number>."""
    writer = _Writer(text, citations)
    return "\n".join(writer.blocks())


class _Writer:
    """Walks over the lines of an answer, block after block."""

    def __init__(self, text: str, citations: Sequence[Citation]) -> None:
        self._text = text
        self._citations = citations
        self._lines = list(_lines(text))
        self._at = 0

    def blocks(self) -> Iterator[str]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.text.strip():
                self._at += 1
            elif _FENCE.match(line.text):
                yield self._code()
            elif heading := _HEADING.match(line.text):
                self._at += 1
                yield f"<h3>{self._inline(line.start + heading.end(), line.end)}</h3>"
            elif _RULE.fullmatch(line.text):
                self._at += 1
                yield "<hr>"
            elif self._is_table():
                yield self._table()
            elif _ITEM.match(line.text):
                yield self._list()
            else:
                yield self._paragraph()

    def _code(self) -> str:
        match = _FENCE.match(self._lines[self._at].text)
        fence = match[1] if match else "```"
        self._at += 1
        first = self._at
        while self._at < len(self._lines) and not self._lines[self._at].text.strip().startswith(fence):
            self._at += 1
        body = "\n".join(line.text for line in self._lines[first : self._at])
        self._at += 1
        return f"<pre><code>{escaped(body)}</code></pre>"

    def _is_table(self) -> bool:
        here = self._lines[self._at : self._at + 2]
        return len(here) == 2 and all("|" in line.text for line in here) and bool(_TABLE_RULE.fullmatch(here[1].text))

    def _table(self) -> str:
        head = self._row("th")
        self._at += 1
        rows = []
        while self._at < len(self._lines) and "|" in self._lines[self._at].text:
            rows.append(self._row("td"))
        return f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'

    def _row(self, cell: str) -> str:
        line = self._lines[self._at]
        self._at += 1
        inner = line.text.strip()
        start = line.start + line.text.index(inner) + inner.startswith("|")
        found = []
        for part in inner.removeprefix("|").removesuffix("|").split("|"):
            found.append(f"<{cell}>{self._inline(start, start + len(part))}</{cell}>")
            start += len(part) + 1
        return f"<tr>{''.join(found)}</tr>"

    def _list(self) -> str:
        items = []
        while self._at < len(self._lines) and (item := _ITEM.match(self._lines[self._at].text)):
            line = self._lines[self._at]
            self._at += 1
            spans = [(line.start + item.end(), line.end), *self._continued()]
            body = "<br>".join(self._inline(*span) for span in spans)
            number = f' value="{item[2]}"' if item[2] else ' class="dot"'
            items.append(f'<li{number} data-depth="{min(len(item[1]) // 2, 3)}">{body}</li>')
        return f"<ol>{''.join(items)}</ol>"

    def _continued(self) -> Iterator[tuple[int, int]]:
        """The indented lines that go on with an item."""
        while self._at < len(self._lines) and re.match(r"\s{2,}\S", line := self._lines[self._at].text):
            if _ITEM.match(line):
                return
            here = self._lines[self._at]
            self._at += 1
            yield here.start, here.end

    def _paragraph(self) -> str:
        lines: list[_Line] = []
        while self._at < len(self._lines) and self._lines[self._at].text.strip():
            line = self._lines[self._at]
            if lines and (_ITEM.match(line.text) or _HEADING.match(line.text) or _FENCE.match(line.text)):
                break
            lines.append(line)
            self._at += 1
        quoted = _QUOTED.match(lines[0].text)
        starts = [line.start + (m.end() if (m := _QUOTED.match(line.text)) else 0) for line in lines]
        body = "<br>".join(self._inline(start, line.end) for start, line in zip(starts, lines, strict=True))
        return f"<blockquote><p>{body}</p></blockquote>" if quoted else f"<p>{body}</p>"

    # -- inside a line

    def _inline(self, start: int, end: int) -> str:
        """A stretch of one line, in pieces that each belong to one sentence or none."""
        found: list[str] = []
        group: list[_Atom] = []
        number: int | None = None
        for atom in _split(_atoms(self._text, start, end), self._citations):
            if group and atom.citation != number:
                found.append(self._marked(group, number))
                group = []
            group.append(atom)
            number = atom.citation
        if group:
            found.append(self._marked(group, number))
        return "".join(found)

    def _marked(self, group: Sequence[_Atom], number: int | None) -> str:
        body = "".join(atom.html for atom in group)
        if number is None:
            return body
        citation = self._citations[number]
        is_first = self._text[citation.start : group[0].start].strip("*_`# |[") == ""
        is_last = self._text[group[-1].end : citation.end].strip("*_`# |[]().") == ""
        identity = f' id="c{number + 1}"' if is_first else ""
        reference = _reference(number + 1, citation) if is_last else ""
        return f'<span class="{_CLASSES[citation.mark]}"{identity}>{body}</span>{reference}'


_CLASSES = {"supported": "yes", "partly": "part", "not found": "no"}
_SIGNS = {"supported": "✓", "partly": "≈", "not found": "✗"}


def mark_class(citation: Citation) -> str:
    return _CLASSES[citation.mark]


def sign(citation: Citation) -> str:
    """The mark as a character, so that it is not told by colour alone."""
    return _SIGNS[citation.mark]


def _reference(number: int, citation: Citation) -> str:
    return (
        f'<a class="ref {_CLASSES[citation.mark]}" href="#q{number}" '
        f'aria-label="{citation.mark}, passage {number}">{number}{_SIGNS[citation.mark]}</a>'
    )


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for part in text.split("\n"):
        yield _Line(start, start + len(part), part)
        start += len(part) + 1


# -- emphasis, code, links --------------------------------------------------------------------------------------------

_INLINE = re.compile(
    r"(?P<code>`[^`\n]+`)|(?P<link>\[(?P<label>[^\]\n]+)\]\((?P<url>(?:[^()\s]|\([^()\s]*\))+)[^)\n]*\))"
    r"|(?P<bare>https?://[^\s<>\"'`，。；、）】」》|*]*[^\s<>\"'`，。；、）】」》|*.,;:!?)\]_])|(?P<strong>\*\*|__)|(?P<em>\*|(?<!\w)_|_(?!\w))"
)


@dataclass(frozen=True, slots=True)
class _Atom:
    """A stretch of the answer with one look: its place, its tag ("" for none), its HTML if it is not plain text."""

    start: int
    end: int
    text: str
    tags: tuple[str, ...] = ()
    made: str = ""
    citation: int | None = None

    @property
    def html(self) -> str:
        body = self.made or escaped(self.text)
        for tag in self.tags:
            body = f"<{tag}>{body}</{tag}>"
        return body


def _atoms(text: str, start: int, end: int) -> Iterator[_Atom]:
    marks = [match[0] for match in _INLINE.finditer(text, start, end) if match["strong"] or match["em"]]
    left = {mark: marks.count(mark) // 2 * 2 for mark in set(marks)}  # one without a partner is text
    open_tags: list[str] = []
    at = start
    for match in _INLINE.finditer(text, start, end):
        if match.start() > at:
            yield _Atom(at, match.start(), text[at : match.start()], tuple(open_tags))
        at = match.end()
        if not (match["strong"] or match["em"]):
            yield _Atom(match.start(), at, match[0], tuple(open_tags), _made(match))
        elif left[match[0]]:
            left[match[0]] -= 1
            _toggle(open_tags, "strong" if match["strong"] else "em")
        else:
            yield _Atom(match.start(), at, match[0], tuple(open_tags))
    if end > at:
        yield _Atom(at, end, text[at:end], tuple(open_tags))


def _made(match: re.Match[str]) -> str:
    if match["code"]:
        return f"<code>{escaped(match['code'][1:-1])}</code>"
    return link(match["url"], match["label"]) if match["link"] else link(match["bare"])


def _toggle(tags: list[str], tag: str) -> None:
    if tag in tags:
        tags.remove(tag)
    else:
        tags.append(tag)


def _split(atoms: Iterator[_Atom], citations: Sequence[Citation]) -> Iterator[_Atom]:
    """The atoms cut where sentences begin and end, each with the number of its sentence."""
    for atom in atoms:
        if atom.made:
            yield replace(atom, citation=_citation_at(atom.start, citations))
            continue
        borders = {edge for c in citations for edge in (c.start, c.end) if atom.start < edge < atom.end}
        edges = [atom.start, *sorted(borders), atom.end]
        for start, end in pairwise(edges):
            part = atom.text[start - atom.start : end - atom.start]
            yield replace(atom, start=start, end=end, text=part, citation=_citation_at(start, citations))


def _citation_at(at: int, citations: Sequence[Citation]) -> int | None:
    return next((number for number, c in enumerate(citations) if c.start <= at < c.end), None)
