"""PDF, WORD, POWERPOINT, EXCEL, OPENDOCUMENT, EPUB -> TEXT, page by page or section by section.

In: the bytes of a document. Out: (title, author, text), each page under a heading of its own ("## Page 3"), or a
Failure: scanned, locked, damaged, or a kind that is not read. PDFs are read in a child process; the others are zip
files of XML, of which so many bytes are looked at.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from venus_edge.sources.markdown import one_line, safe
from venus_edge.values import Failure, Trouble

_CHILD = Path(__file__).with_name("pdfchild.py")
_PDF_SECONDS = 60.0
_MOST_BYTES = 60_000_000  # of all parts of a zip file, unpacked
_MOST_ROWS = 20_000  # of a spreadsheet
_MOST_COLUMNS = 200
_SCANNED = 15  # characters: a page with fewer shows a stamp or its number; nine such pages of ten,
# with pictures on most of them, are a scan
_PDF_TROUBLES = {
    "missing": "it is a PDF document, and no reader for it is installed: pip install 'venus-edge[pdf]'",
    "locked": "it is a PDF document locked with a password",
    "damaged": "it is a damaged PDF document",
}


@dataclass(frozen=True, slots=True)
class Document:
    """What a document says. `text` is Markdown-like."""

    text: str
    title: str = ""
    author: str = ""


def read(body: bytes) -> Document | Failure:
    """The text of a document of any of these kinds."""
    if body.startswith((b"\xd0\xcf\x11\xe0", b"{\\rtf")):
        return _unreadable("it is an office document in a format from before 2007")
    return _pdf(body) if b"%PDF-" in body[:1024] else _zipped(body)


def _unreadable(why: str) -> Failure:
    return Failure(Trouble.UNREADABLE, f"page could not be read: {why}")


# -- PDF -------------------------------------------------------------------------------------------------------------


def _pdf(body: bytes) -> Document | Failure:
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_CHILD)], input=body, capture_output=True, timeout=_PDF_SECONDS, check=False
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return _unreadable(f"the PDF document took more than {_PDF_SECONDS:g} s")
    except (OSError, ValueError):  # the child was ended: by its memory limit, or by what is in the document
        return _unreadable(_PDF_TROUBLES["damaged"])
    if "trouble" in answer:
        return _unreadable(_PDF_TROUBLES[answer["trouble"]])
    pages = [_paragraphs(safe(page)) for page in answer["pages"]]
    bare = [shows for page, shows in zip(pages, answer["pictures"], strict=True) if _is_bare(page)]
    if len(bare) * 10 >= len(pages) * 9 and sum(bare) * 2 >= len(bare):
        return _unreadable(f"it is a scanned PDF document of {len(pages)} pages: images without text")
    if not any(pages):
        return _unreadable(f"it is a PDF document of {len(pages)} pages without text")
    text = "\n\n".join(f"## Page {n}\n\n{page}" for n, page in enumerate(pages, 1) if page)
    return Document(text, one_line(safe(answer["title"])))


def _is_bare(page: str) -> bool:
    """Whether a page says no more than a stamp or its number."""
    return len("".join(page.split())) < _SCANNED


def _paragraphs(page: str) -> str:
    """The lines of a page; a word that was divided at a line's end is whole again."""
    joined = re.sub(r"(?<=[a-zà-ÿ])[-\u00ad\ufffe]\n(?=[a-zà-ÿ])", "", page)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.strip() for line in joined.splitlines())).strip()


# -- zip files of XML ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Parts:
    """The parts of a zip file, as many bytes of them as may be unpacked."""

    file: zipfile.ZipFile
    left: int
    names: frozenset[str]

    def bytes(self, name: str) -> bytes:
        """A part, b"" if it is not there. Raises ValueError if that would be too much."""
        if name not in self.names:
            return b""
        with self.file.open(name) as part:
            data = part.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("too large")
        return data

    def xml(self, name: str) -> Any:
        """The tree of a part; None if there is none."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
        data = self.bytes(name)
        return etree.fromstring(data, parser) if data.strip() else None


def _zipped(body: bytes) -> Document | Failure:
    try:
        with zipfile.ZipFile(BytesIO(body)) as file:
            parts = _Parts(file, _MOST_BYTES, frozenset(file.namelist()))
            for name, reader in _READERS.items():
                if name in parts.names:
                    return _told(reader(parts), parts)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, NotImplementedError, EOFError, OSError):
        return _unreadable("it is a damaged, cut or locked document")
    except ValueError:
        return _unreadable("it is a document that unpacks to too much, or is damaged")
    except SyntaxError:  # lxml's
        return _unreadable("it is a damaged document")
    return _unreadable("it is a document of a kind that is not read")


def _told(text: str, parts: _Parts) -> Document | Failure:
    about = parts.xml("docProps/core.xml")
    if about is None:
        about = parts.xml("meta.xml")
    if about is None and "META-INF/container.xml" in parts.names:
        about = parts.xml(_package(parts))
    title, author = (_first(about, name) for name in ("title", "creator"))
    text = safe(text).strip()
    return Document(text, title, author) if text else _unreadable("it is a document without text")


def _first(tree: Any, name: str) -> str:
    found = next((e for e in tree.iter(f"{{*}}{name}") if e.text), None) if tree is not None else None
    return one_line(safe(found.text)) if found is not None else ""


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _attribute(element: Any, name: str) -> str:
    return next((str(v) for k, v in element.attrib.items() if k.rpartition("}")[2] == name), "")


def _numbered(parts: _Parts, pattern: str) -> list[str]:
    """The parts whose names have this form, by their number."""
    found = [(int(m[1]), name) for name in parts.names if (m := re.fullmatch(pattern, name))]
    return [name for _, name in sorted(found)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(one_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _grid(rows: list[list[str]]) -> str:
    head = f"{_row(rows[0])}\n|{' --- |' * len(rows[0])}" if rows else ""
    return "\n".join([head, *map(_row, rows[1:])])


# Word


def _word(parts: _Parts) -> str:
    tree = parts.xml("word/document.xml")
    blocks = _blocks(tree, partial(_word_paragraph, _styles(parts))) if tree is not None else []
    notes = [t for name in ("word/footnotes.xml", "word/endnotes.xml") for t in _notes(parts.xml(name))]
    return "\n\n".join([*blocks, *(["## Notes", *notes] if notes else [])])


def _blocks(tree: Any, paragraph: Callable[[Any], str]) -> list[str]:
    """Paragraphs and tables in their order; what is in a table is written there."""
    found: list[str] = []
    inside: set[Any] = set()
    for element in tree.iter("{*}p", "{*}tbl"):
        if any(a in inside for a in element.iterancestors("{*}tbl")):
            continue
        if _name(element) == "tbl":
            inside.add(element)
            rows = [[_runs(cell) for cell in row.iterchildren("{*}tc")] for row in element.iter("{*}tr")]
            found.append(_grid([row for row in rows if any(row)]))
        elif text := paragraph(element):
            found.append(text)
    return found


def _runs(element: Any) -> str:
    """The text of the runs in an element: tabs and breaks are white space, deleted text is not there."""
    pieces: list[str] = []
    for e in element.iter():
        name = _name(e)
        if name == "t":
            pieces.append(e.text or "")
        elif name in ("tab", "br", "cr"):
            pieces.append("\n" if name != "tab" else "\t")
        elif name == "p" and pieces:
            pieces.append("\n")
    return "".join(pieces).strip()


def _styles(parts: _Parts) -> dict[str, str]:
    """The names of styles by their ids: these are numbers in documents of some languages."""
    tree = parts.xml("word/styles.xml")
    found = tree.iter("{*}style") if tree is not None else ()
    return {_attribute(s, "styleId"): _attribute(n, "val") for s in found for n in s.iterchildren("{*}name")}


def _word_paragraph(styles: Mapping[str, str], element: Any) -> str:
    text = _runs(element)
    style = next((_attribute(s, "val") for s in element.iter("{*}pStyle")), "")
    style = styles.get(style, style)
    outline = next((_attribute(o, "val") for o in element.iter("{*}outlineLvl")), "")
    if text and outline in ("0", "1", "2", "3", "4", "5"):
        return f"{'#' * (int(outline) + 1)} {one_line(text)}"
    level = re.fullmatch(r"(?:heading|berschrift|titre|标题|標題|見出し)?\s*([1-6])", style, re.I)
    if text and (level or style.lower() == "title"):
        return f"{'#' * (int(level[1]) if level else 1)} {one_line(text)}"
    return f"- {text}" if text and next(element.iter("{*}numPr"), None) is not None else text


def _notes(tree: Any) -> list[str]:
    kinds = ("footnote", "endnote")
    return [f"- {text}" for e in tree.iter() if _name(e) in kinds and (text := _runs(e))] if tree is not None else []


# PowerPoint


def _slides(parts: _Parts) -> str:
    found: list[str] = []
    for n, name in enumerate(_numbered(parts, r"ppt/slides/slide(\d+)\.xml"), 1):
        tree = parts.xml(name)
        blocks = _blocks(tree, _runs) if tree is not None else []
        notes = parts.xml(name.replace("slides/slide", "notesSlides/notesSlide"))
        said = [f"Note: {t}" for t in (_blocks(notes, _runs) if notes is not None else []) if not t.isdecimal()]
        found.append("\n\n".join([f"## Slide {n}", *blocks, *said]))
    return "\n\n".join(found)


# Excel


def _sheets(parts: _Parts) -> str:
    shared = parts.xml("xl/sharedStrings.xml")
    texts = ["".join(t.text or "" for t in e.iter("{*}t")) for e in shared.iter("{*}si")] if shared is not None else []
    book = parts.xml("xl/workbook.xml")
    titles = [s.get("name") or "" for s in book.iter("{*}sheet")] if book is not None else []
    found: list[str] = []
    for n, name in enumerate(_numbered(parts, r"xl/worksheets/sheet(\d+)\.xml")):
        tree = parts.xml(name)
        rows = [row for row in (_cells(r, texts) for r in _rows_of(tree)) if any(row)]
        title = titles[n] if n < len(titles) else f"Sheet {n + 1}"
        if rows:
            width = max(map(len, rows))
            found.append(f"## {title}\n\n" + _grid([row + [""] * (width - len(row)) for row in rows]))
    return "\n\n".join(found)


def _rows_of(tree: Any) -> Iterator[Any]:
    for n, row in enumerate(tree.iter("{*}row") if tree is not None else ()):
        if n >= _MOST_ROWS:
            return
        yield row


def _cells(row: Any, texts: list[str]) -> list[str]:
    cells: list[str] = []
    for cell in row.iterchildren("{*}c"):
        column = _column(cell.get("r") or "", len(cells))
        cells += [""] * (column - len(cells))
        value = next((v.text or "" for v in cell.iterchildren("{*}v")), "")
        if cell.get("t") == "s":
            value = texts[int(value)] if value.isdecimal() and int(value) < len(texts) else ""
        elif cell.get("t") == "inlineStr":
            value = "".join(t.text or "" for t in cell.iter("{*}t"))
        cells.append(value)
    return cells


def _column(reference: str, following: int) -> int:
    """The column of "C7", from 0; one before what is written already cannot be."""
    number = 0
    for letter in re.match(r"[A-Z]{0,3}", reference)[0]:  # type: ignore[index]  # it matches always
        number = number * 26 + ord(letter) - 64
    return number - 1 if following < number <= _MOST_COLUMNS else following


# OpenDocument


def _opendocument(parts: _Parts) -> str:
    tree = parts.xml("content.xml")
    found: list[str] = []
    for e in tree.iter("{*}h", "{*}p", "{*}table-row") if tree is not None else ():
        if _name(e) == "table-row":
            found.append(_row(["".join(c.itertext()) for c in e.iterchildren("{*}table-cell")]))
        elif next(e.iterancestors("{*}table-row"), None) is None and (text := "".join(e.itertext()).strip()):
            level = _attribute(e, "outline-level")
            found.append(f"{'#' * min(int(level), 6)} {one_line(text)}" if level.isdecimal() and level != "0" else text)
    return "\n\n".join(found)


# EPUB


def _book(parts: _Parts) -> str:
    package = _package(parts)
    tree = parts.xml(package)
    if tree is None:
        return ""
    folder = posixpath.dirname(package)
    files = {e.get("id"): e.get("href") or "" for e in tree.iter("{*}item")}
    chapters = [files.get(e.get("idref"), "") for e in tree.iter("{*}itemref")]
    found = [_chapter(parts.bytes(posixpath.normpath(posixpath.join(folder, unquote(c))))) for c in chapters if c]
    about = [line for name in ("title", "creator") if (line := _first(tree, name))]
    texts = [f"## Section {n}\n\n{text}" for n, text in enumerate(filter(None, found), 1)]
    return "\n\n".join([*(["# " + ", ".join(about)] if about else []), *texts])


def _package(parts: _Parts) -> str:
    container = parts.xml("META-INF/container.xml")
    files = container.iter("{*}rootfile") if container is not None else ()
    return next((_attribute(e, "full-path") for e in files), "")


def _chapter(body: bytes) -> str:
    from lxml import etree, html

    from venus_edge.sources.markdown import to_markdown
    from venus_edge.sources.prune import clean, whole

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(body, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return ""
    clean(root)
    return to_markdown(whole(root))


_READERS: dict[str, Callable[[_Parts], str]] = {  # the part that a kind of document always has -> its reader
    "word/document.xml": _word,
    "ppt/presentation.xml": _slides,
    "xl/workbook.xml": _sheets,
    "META-INF/container.xml": _book,
    "content.xml": _opendocument,
}
