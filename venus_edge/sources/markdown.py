"""ELEMENT TREE -> MARKDOWN-LIKE TEXT, and text made safe.

In: an lxml element and the address that its links are relative to. Out: headings, lists, tables (cells apart), code,
quotes and links with absolute addresses, as text. It walks without recursion: markup nests as deep as it likes. What
is worth reading is decided elsewhere (`prune`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

if TYPE_CHECKING:
    from lxml.etree import _Element


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS = _names(
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer"
    " form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p section summary table tbody td"
    " tfoot th thead tr ul caption optgroup option"
)
_SKIPPED = _names(
    "head script style noscript template svg iframe object embed canvas audio video select textarea datalist rp"
)
_HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_AROUND = {"rt": "()", "q": "“”", "del": ("~~", "~~"), "s": ("~~", "~~"), "strike": ("~~", "~~")}
_POWER = re.compile(r"\s*[-+−]?\d+\s*$")
_TEX = re.compile(r"\\[a-zA-Z]+")
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_DEEPEST_INDENT = 6  # list levels that are shown by indentation; deeper ones stay at that
_WIDEST_SPAN = 50  # columns that a colspan may claim
_LOCAL = re.compile(r"((?:file|zim):[^/]+/)(.*)", re.DOTALL)  # an address in a corpus or an archive: root, path


# -- text ------------------------------------------------------------------------------------------------------------

# C1 controls in a page are windows-1252 written as &#146; and the like: browsers show those (HTML 13.2.5.80).
_C1 = {chr(code): bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_LINE_ENDS = re.compile("\r\n|[\r\x0c\x85\u2028\u2029]")
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f"
    # invisible: soft hyphen, zero-width and direction marks, byte-order mark, tag characters, non-characters
    "\u00ad\u200b\u2060\ufeff\ufffe\uffff\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)


def safe(text: str) -> str:
    """`text` without what a reader cannot see and a parser or a database may choke on."""
    return _UNSAFE.sub(lambda m: _C1.get(m.group(), ""), _LINE_ENDS.sub("\n", text))


def plain(markdown: str) -> str:
    """The words alone: link targets, table bars and fences taken out. For counting and comparing."""
    text = re.sub(r"\]\((?:[^()\s]|\([^()\s]*\))*\)", "]", markdown)
    return re.sub(r"^```.*$|(?<!\\)\|", " ", text, flags=re.M)


def one_line(text: str) -> str:
    """`text` with every run of white space as one space."""
    return " ".join(text.split())


# -- addresses -------------------------------------------------------------------------------------------------------


def joined(base: str, href: str) -> str:
    """The address of a link on the page `base`; "" for what leads to no page. On a page of a disk (`file:NAME/path`,
    `zim:NAME/path`) relative ones lead to pages of the same NAME: "/" is its root. Above the root of an archive is the
    root, as on a site; above that of a folder is nothing of the corpus."""
    try:
        page, link = _LOCAL.match(base), urlsplit(href)
        if page and not link.scheme and not link.netloc:
            return _beside(page[1], page[2], link)
        address = urljoin("http:" if page else base, href)
    except ValueError:  # "http://[..." is no address
        return ""
    return address if address.lower().startswith(("http://", "https://")) else ""


def _beside(root: str, own: str, link: SplitResult) -> str:
    path = link.path.replace("\\", "/")
    whole = path if path.startswith("/") else f"{own.rpartition('/')[0]}/{path}" if path else own
    kept: list[str] = []
    segments = whole.removeprefix("/").split("/")
    for segment in segments:
        if segment == ".." and not kept and root.startswith("file:"):
            return ""
        kept = kept[:-1] if segment == ".." else [*kept, segment] if segment != "." else kept
    if segments[-1] in (".", ".."):
        kept.append("")
    query = link.query and root.startswith("zim:")  # is in an entry's name; that of a file says nothing
    return root + "/".join(kept) + (f"?{link.query}" if query else "") + (f"#{link.fragment}" if link.fragment else "")


# -- the walk --------------------------------------------------------------------------------------------------------


def to_markdown(root: _Element, base: str = "") -> str:
    """The text of `root` and everything in it. `base` makes links absolute; without it they lose their address."""
    return written(root, base).text()


def written(root: _Element, base: str = "", parts: Collection[_Element] = ()) -> Written:
    """The same, and where in it each of `parts` stands, as far as they are blocks of their own: one walk for all."""
    from lxml import etree

    writer = _Writer(base)
    begun: dict[_Element, int] = {}
    places: dict[_Element, range] = {}
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        if event == "start":
            if writer.start(element):
                walk.skip_subtree()
            elif parts and element in parts and _tag(element) in _BLOCKS:
                begun[element] = len(writer.blocks)
        elif event == "end":
            writer.end(element)
            if element in begun:
                places[element] = range(begun[element], len(writer.blocks))
        if event != "start" and element is not root and element.tail:
            writer.say(element.tail)
    writer.flush()
    return Written(writer.blocks, places)


def _tag(element: _Element) -> str:
    return element.tag.lower() if isinstance(element.tag, str) else ""


@dataclass(slots=True)
class _Block:
    text: str
    tight: bool  # follows the line above without an empty line (list items, rows)


@dataclass(frozen=True, slots=True)
class Written:
    """A tree as blocks of text; `places` says which of them are whose."""

    blocks: list[_Block]
    places: dict[_Element, range]

    def text(self, within: range | None = None, without: Iterable[Iterable[int]] = ()) -> str:
        """All of it, or the blocks `within` a place, but for those of some places."""
        left_out = {number for place in without for number in place}
        pieces: list[str] = []
        for number in within if within is not None else range(len(self.blocks)):
            if number in left_out:
                continue
            block = self.blocks[number]
            pieces += [("\n" if block.tight else "\n\n") if pieces else "", block.text]
        return safe("".join(pieces))


@dataclass
class _Writer:
    """What has been written so far: finished blocks, and the pieces of the paragraph being written."""

    base: str
    blocks: list[_Block] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    lists: list[list[int]] = field(default_factory=list)  # for each open list [next number], or [] for bullets
    lead: str = ""  # what stands before the next paragraph: a bullet, a heading's marks
    quotes: int = 0
    links: list[tuple[str, int, int]] = field(default_factory=list)  # (address, block count, piece count) at the start

    def start(self, element: _Element) -> bool:
        """Opens `element`; True if it was written whole or is to be left out, and its children must not be walked."""
        tag = _tag(element)
        if tag in _SKIPPED:
            return True
        if tag in _BLOCKS:
            self.flush()
            self._open_block(element, tag)
        if tag == "pre":
            return self._verbatim(element)
        if tag == "table" and _is_data(element):
            return self._table(element)
        formula = _formula(element) if tag in ("math", "img") else ""
        if formula:
            self.inline.append(f" {formula} ")
            return True
        self._open_inline(element, tag)
        if element.text:
            self.say(element.text)
        return False

    def say(self, text: str) -> None:
        """Adds running text: its line ends are white space, only a <br> breaks a line."""
        line = " ".join(text.split())
        before, after = (" " if edge.isspace() else "" for edge in (text[:1], text[-1:]))
        self.inline.append(f"{before}{line}{after}" if line else before)

    def _open_block(self, element: _Element, tag: str) -> None:
        if tag in _LISTS:
            self.lists.append([_number(element.get("start"), 1)] if tag == "ol" else [])
        elif tag == "li":
            self.lead = self._bullet()
        elif tag == "dd":
            self.lead = ": "
        elif tag == "blockquote":
            self.quotes += 1
        elif tag in _HEADINGS:
            self.lead = _HEADINGS[tag]

    def _bullet(self) -> str:
        indent = "  " * min(max(len(self.lists) - 1, 0), _DEEPEST_INDENT)
        if not self.lists or not self.lists[-1]:
            return f"{indent}- "
        number = self.lists[-1][0]
        self.lists[-1][0] += 1
        return f"{indent}{number}. "

    def _open_inline(self, element: _Element, tag: str) -> None:
        if tag == "a":
            self.links.append((self._address(element.get("href")), len(self.blocks), len(self.inline)))
        elif tag == "br":
            self.inline.append("\n")
        elif tag == "code":
            self.inline.append("`")
        elif tag in _AROUND:
            self.inline.append(_AROUND[tag][0])
        elif tag == "sup" and self.inline and self.inline[-1][-1:].isalnum() and _POWER.match(element.text or ""):
            self.inline.append("^")  # 10 to the third is not 103

    def end(self, element: _Element) -> None:
        """Closes `element`."""
        tag = _tag(element)
        if tag in _SKIPPED or tag == "pre":
            return
        if tag == "a" and self.links:
            self._close_link(*self.links.pop())
        elif tag == "code":
            self.inline.append("`")
        elif tag in _AROUND:
            self.inline.append(_AROUND[tag][1])
        if tag in _BLOCKS:
            self.flush()
            self._close_block(tag)

    def _close_block(self, tag: str) -> None:
        if tag in _LISTS and self.lists:
            self.lists.pop()
        elif tag == "blockquote":
            self.quotes = max(0, self.quotes - 1)
        if tag in ("li", "dd") or tag in _HEADINGS:
            self.lead = ""

    def _close_link(self, address: str, blocks: int, pieces: int) -> None:
        """`[text](address)`; a link around whole blocks stays text."""
        if blocks != len(self.blocks) or not address:
            return
        text = one_line("".join(self.inline[pieces:]))
        if not text:
            return
        spaced = " " if self.inline[pieces:] and self.inline[pieces][:1].isspace() else ""
        del self.inline[pieces:]
        self.inline.append(f"{spaced}<{address}>" if text == address else f"{spaced}[{text}]({address})")

    def _address(self, href: str | None) -> str:
        """The absolute address of a link that leads to another page, else ""."""
        if not href or not self.base or href.lstrip().startswith("#"):
            return ""
        address = joined(self.base, one_line(href).replace(" ", "%20"))
        return address.replace("(", "%28").replace(")", "%29") if address.count("(") != address.count(")") else address

    def _verbatim(self, element: _Element) -> bool:
        self.flush()
        text = _verbatim_text(element).strip("\n")
        if text.strip():
            self.blocks.append(_Block(f"```\n{text.rstrip()}\n```", tight=False))
        return True

    def _table(self, table: _Element) -> bool:
        rows = [row for row in _rows(table, self.base) if any(row)]
        caption = next((one_line(to_markdown(c)) for c in table.iter("caption")), "")
        if caption:
            self.blocks.append(_Block(caption, tight=False))
        for n, row in enumerate(rows):
            self.blocks.append(_Block("| " + " | ".join(row) + " |", tight=n > 0))
            if n == 0 and len(rows) > 1:
                self.blocks.append(_Block("|" + " --- |" * len(row), tight=True))
        return True

    def flush(self) -> None:
        """Ends the paragraph being written."""
        lines = [one_line(line) for line in "".join(self.inline).split("\n")]
        text = "\n".join(line for line in lines if line)
        self.inline.clear()
        if not text:
            return
        lead, self.lead = self.lead, " " * len(self.lead) if self.lead.lstrip().startswith(("-", ":")) else ""
        if lead.startswith("#"):
            text = text.replace("\n", " ")
        tight = bool(lead.strip()) and not lead.startswith("#") and bool(self.blocks)
        quoted = "> " * min(self.quotes, 3)
        self.blocks.append(_Block(quoted + lead + text.replace("\n", "\n" + quoted + " " * len(lead)), tight))


def _formula(element: _Element) -> str:
    """A formula as its author wrote it (TeX), of <math> or of an image of it; "" if that is not there."""
    if _tag(element) == "img":
        alt = element.get("alt") or ""
        return one_line(alt) if _TEX.search(alt) else ""
    named = (a.text for a in element.iter("{*}annotation") if "tex" in (a.get("encoding") or ""))
    return one_line(element.get("alttext") or next(named, "") or "")


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.strip().isdecimal() and len(text) < 9 else default


def _verbatim_text(element: _Element) -> str:
    """The text of a <pre> as it stands, a <br> as a line end."""
    from lxml import etree

    pieces: list[str] = []
    for event, inner in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            pieces.append("\n" if _tag(inner) == "br" else inner.text or "")
        elif inner is not element:
            pieces.append(inner.tail or "")
    return "".join(pieces)


# -- tables ----------------------------------------------------------------------------------------------------------


def _is_data(table: _Element) -> bool:
    """Whether a table holds rows of cells, and not the layout of a page."""
    if next(table.iterdescendants("table"), None) is not None:
        return False
    rows = [[c for c in tr if _tag(c) in ("td", "th")] for tr in table.iter("tr")]
    if max((len(cells) for cells in rows), default=0) < 2:
        return False
    return not any(_is_layout_cell(cell) for cells in rows for cell in cells)


def _is_layout_cell(cell: _Element) -> bool:
    """A cell with several paragraphs, headings or code is a part of the page, not a value."""
    blocks = sum(1 for _ in cell.iterdescendants("p", "h1", "h2", "h3", "pre", "article", "section"))
    return blocks > 3 and sum(len(t) for t in cell.itertext()) > 800


def _rows(table: _Element, base: str) -> list[list[str]]:
    """The rows with every cell in its column: spans leave empty cells."""
    rows: list[list[str]] = []
    below: dict[int, int] = {}  # column -> rows that a cell above still covers
    for tr in table.iter("tr"):
        row: list[str] = []
        for cell in (c for c in tr if _tag(c) in ("td", "th")):
            _skip_covered(row, below)
            width = min(max(_number(cell.get("colspan"), 1), 1), _WIDEST_SPAN)
            height = min(max(_number(cell.get("rowspan"), 1), 1), 1000)
            for column in range(len(row), len(row) + width):
                below[column] = height - 1
            row += [_cell(cell, base), *[""] * (width - 1)]
        _skip_covered(row, below)
        rows.append(row)
    return rows


def _skip_covered(row: list[str], below: dict[int, int]) -> None:
    while below.get(len(row), 0) > 0:
        below[len(row)] -= 1
        row.append("")


def _cell(cell: _Element, base: str) -> str:
    """A cell's text in one line, its blocks apart."""
    if len(cell) == 0:
        return one_line(safe(cell.text or "")).replace("|", "\\|")
    return one_line(to_markdown(cell, base)).replace("|", "\\|")
