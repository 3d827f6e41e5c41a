"""BYTES OF A FILE OR RESPONSE -> A DOCUMENT with its addresses, or the reason why it has none. Opens nothing.

Markdown and plain text are read here, with what their front matter says; everything else by `extract`, which world
gives (the one of `sources`: HTML, PDF, office documents, EPUB). A page saved from the web names its own address.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import urljoin

from venus_edge.corpus import address
from venus_edge.corpus.store import Document
from venus_edge.values import Failure

LARGEST = 20_000_000  # bytes that are read
TEXT = frozenset((".md", ".markdown", ".txt", ".text", ".rst", ".org", ""))
PAGES = frozenset(
    (".html", ".htm", ".xhtml", ".shtml", ".xml", ".json", ".csv", ".tsv", ".pdf", ".epub", ".docx", ".pptx", ".xlsx")
) | frozenset((".odt", ".odp", ".ods", ".doc", ".xls", ".ppt", ".rtf"))


class Extracted(Protocol):
    """What an extractor makes of a page."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def date(self) -> str: ...
    @property
    def rest(self) -> str: ...


Extract = Callable[[bytes, str, str], Extracted | Failure]  # body, address, content type

_TAG = re.compile(r"<(link|meta)\b([^>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([a-zA-Z:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_SAVED = re.compile(r"<!--\s*saved from url=\(\d+\)(\S+?)\s*-->", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_-]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$|^(?![-*+>|][ \t])(\S.*)\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
_RULE = r"""(?:={3,}|-{3,}|[*]{3,}|#{3,}|~{3,}|\^{3,}|"{3,}|'{3,}|`{3,}|[+]{3,}|:{3,}|[.]{3,}|_{3,})"""
_SECTION = re.compile(  # of reStructuredText: a title under a line, or between two that are alike
    rf"^(?:(?P<over>{_RULE})[ \t]*\n[ \t]*(?=.*\n(?P=over)[ \t]*$)|(?=\S))(?!\.\. )"
    rf"(?P<title>.*\w.*)\n(?P<under>{_RULE})[ \t]*$",
    re.MULTILINE,
)
_SETEXT = re.compile(
    r"(?:\A|(?<=\n\n))(?P<over>)(?P<title>(?![-*+>#|`~]|\d+[.)]\s)\S.*)\n(?P<under>=+|-{2,})[ \t]*$", re.MULTILINE
)
_FENCED = re.compile(r"(^ {0,3}(?P<f>```+|~~~+).*?(?:^ {0,3}(?P=f)|\Z))", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r"(?::[\w.+:-]+:)?(?:``(?P<code>.+?)``|`[!~]?(?P<text>[^`<]+?)(?:\s*<[^<>]*>)?`_{0,2})")
_ASIDE = re.compile(r"\.\.(?:\s|$)|:[\w -]+:|\s")  # directives, labels, comments, fields and what is in them
_LINK = re.compile(r"(?<=\]\()(?![a-zA-Z][a-zA-Z0-9+.-]*:|[#/])([^()\s]+)(?=[)\s])")
_HTML = (".html", ".htm", ".xhtml", ".shtml")
_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_SCRIPT = re.compile(  # how one begins behind its comments, or a style sheet
    rb"""["']use\ strict["'] | [!;+(]{0,4}(?:async\s)?function\b[\w$\s]{0,80}\([\w$,\s]{0,200}\)\s{0,9}\{
    | [\w$.]{1,80}\s?=\s?function\b | (?:var|const)\s[\w$]{1,80}\s?= | if\s?\((?:typeof\b|!) | import\s?[{*"'(]
    | export\s(?:const|function|class)\b | (?:window|document|self|jQuery|mw|\$)(?:\.[\w$.]{1,80}\s?[=(]|\()
    | @(?:charset|import|media|font-face)\b | [.\#*:]?[\w\x80-\xff-][\w\x80-\xff\s,>.:\#*-]{0,200}
      \{\s{0,9}[\w-]{1,40}\s?:[^{}"]{0,200};
    """,
    re.VERBOSE,
)
_OFFICE = frozenset((".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub", ".pdf"))
_PACKED = (b"PK\3\4", b"\xd0\xcf\x11\xe0")  # how they begin; with a password, as those before 2007 did
_NO_TEXT = "it is not text"
_TELLING = 8  # bytes above ASCII, from which on they may tell a charset of one byte a character
_LARGEST_START = 4_096  # bytes by which a script is told
_HEAD = 65_536  # bytes of a page in which its addresses are looked for


def of_file(body: bytes, path: str, own: str, extract: Extract) -> Document | str:
    """The document of a file at `path`, whose address is `own` unless it names another."""
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if not body.strip():
        return "it is empty"
    if suffix in _HTML or (not suffix and _PAGE.match(body)):
        kind = "text/html; charset=utf-8" if _is_utf8(body) else ""  # whatever it says of itself
        made = from_page(body, [*addresses_in(body), own], extract, kind) if not _is_binary(body) else _NO_TEXT
    elif suffix in TEXT:
        text = _text_of(body, own, extract)
        made = _NO_TEXT if text is None else _from_text(text, own, name.name.lower())
    elif suffix in _OFFICE and not (body.startswith(_PACKED) or b"%PDF-" in body[:1024]):
        return f"it is called {suffix} and is something else"
    else:
        made = from_page(body, [own], extract)
    return _titled(made, name.stem.replace("_", " ").strip())


def _text_of(body: bytes, own: str, extract: Extract) -> str | None:
    """A plain text: UTF-8 or what its mark says; else in the charset that a page would be read in. None: it is none."""
    is_plain = not _is_binary(body)
    if not is_plain and not _is_wide(body):
        return None
    if is_plain and (body.startswith(tuple(mark for mark, _ in _MARKS)) or _is_utf8(body, ascii_too=True)):
        return decode(body)
    high = sum(byte > 0x7F for byte in body)
    if is_plain and high < _TELLING and high < len(body) / 3:  # too few accents to tell more
        return decode(body)
    page = extract(body, own, "text/plain")
    if isinstance(page, Failure):
        return decode(body) if is_plain else None
    return page.text


def _is_wide(body: bytes) -> bool:
    """Whether every other byte is mostly NUL, as in UTF-16 without a mark."""
    first, second = body[:8_192:2].count(0), body[1:8_192:2].count(0)
    return max(first, second) > min(len(body), 8_192) / 5 > 10 * min(first, second)


def _is_utf8(body: bytes, ascii_too: bool = False) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return ascii_too or not body.isascii()


def _titled(made: Document | str, otherwise: str) -> Document | str:
    if isinstance(made, str):
        return made
    if not made.text.strip():
        return "it has no text"
    return replace(made, title=" ".join((made.title or otherwise).split()))


def from_page(body: bytes, urls: Sequence[str], extract: Extract, content_type: str = "") -> Document | str:
    """The document of a page that is known by all of these addresses."""
    page = extract(body, urls[0], content_type)
    if isinstance(page, Failure):
        return page.detail
    text, rest = (part.encode("utf-8", "replace").decode() for part in (page.text, page.rest))
    if not text.strip():
        return "it has no text"
    return Document(urls[0], " ".join(page.title.split()), text, page.date, tuple(dict.fromkeys(urls[1:])), rest)


def is_script(body: bytes) -> bool:
    """Whether what is called a page or a text is a script or a style sheet, as sites send those for data, too."""
    start = body[:_LARGEST_START].removeprefix(codecs.BOM_UTF8).lstrip()
    while start.startswith((b"/*", b"//")):
        start = start.partition(b"*/" if start.startswith(b"/*") else b"\n")[2].lstrip()
    return bool(_SCRIPT.match(start))


def addresses_in(body: bytes) -> list[str]:
    """The web addresses that a page names as its own: canonical, og:url, where it was saved from."""
    head = decode(body[:_HEAD], cut=len(body) > _HEAD)
    named: dict[str, str] = {}
    for tag in _TAG.finditer(head):
        fields = {m[1].lower(): html.unescape(m[2] or m[3] or m[4] or "") for m in _ATTRIBUTE.finditer(tag[2])}
        if "canonical" in fields.get("rel", "").lower().split():
            named.setdefault("canonical", fields.get("href", ""))
        elif fields.get("property", fields.get("name", "")).lower() == "og:url":
            named.setdefault("og:url", fields.get("content", ""))
    saved = _SAVED.search(head)
    found = (named.get("canonical", ""), named.get("og:url", ""), saved[1] if saved else "")
    return list(dict.fromkeys(url.strip() for url in found if is_web(url)))


def is_web(url: str) -> bool:
    return url.strip().lower().startswith(("http://", "https://")) and bool(address.host(url.strip()))


def _from_text(text: str, own: str, name: str) -> Document:
    """Markdown, reStructuredText or plain text, as the file's name says; a front matter may name its address, title and
    date."""
    front = _FRONT_MATTER.match(text)
    fields = {name.lower(): _unquoted(value) for name, value in _FIELD.findall(front[1])} if front else {}
    is_rst = name.endswith((".rst", ".rst.txt"))
    body = _marked(text[front.end() :] if front else text, is_rst, name.endswith((".md", ".markdown", ".md.txt")))
    heading = _HEADING.search(body[:4_000])
    lines = (line.strip() for line in body.splitlines() if line.strip() and not (is_rst and _ASIDE.match(line)))
    first = next(lines, "")
    title = fields.get("title") or (heading[1] or heading[2] if heading else "") or (first if len(first) <= 100 else "")
    named = [url for url in (fields.get(n, "") for n in ("url", "canonical", "source", "link")) if is_web(url)]
    addresses = [*dict.fromkeys(named), own]
    return Document(addresses[0], title, _linked(body.strip(), own), fields.get("date", "")[:10], tuple(addresses[1:]))


def _marked(text: str, is_rst: bool, is_markdown: bool) -> str:
    """The text with the headings that are underlined in it behind marks: a line of signs says nothing."""
    if is_rst:
        return _SECTION.sub(partial(_with_marks, []), text)
    if not is_markdown:
        return text
    pieces = _FENCED.split(text)  # between two pieces that are text are one that is code, and its fence
    return "".join(
        _SETEXT.sub(partial(_with_marks, ["=", "-"]), p) if n % 3 == 0 else p for n, p in enumerate(pieces) if n % 3 < 2
    )


def _with_marks(styles: list[str], heading: re.Match[str]) -> str:
    """A heading as Markdown has it; how deep it is, the order says in which the kinds of lines are met (`styles`)."""
    style = (heading["over"] or "")[:1] + heading["under"][0]
    if style not in styles:
        styles.append(style)
    title = _ROLE.sub(lambda role: role["code"] or _named(role), heading["title"].strip())
    return f"{'#' * min(styles.index(style) + 1, 6)} {title}"


def _named(role: re.Match[str]) -> str:
    """What is shown of a role: of `~pkg.name` the end."""
    return role["text"].rpartition(".")[2] if "`~" in role[0] else role["text"]


def _linked(text: str, own: str) -> str:
    """Links to files beside this one, with the addresses under which those are in the corpus."""
    base = "http://x/" + own.removeprefix("file:")
    root = base[: base.find("/", len("http://x/")) + 1]  # of the source: what leads out of it stays as it is written

    def at(link: re.Match[str]) -> str:
        whole = urljoin(base, link[1])
        return "file:" + whole.removeprefix("http://x/") if whole.startswith(root) else link[1]

    return _LINK.sub(at, text)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# -- bytes -> text ----------------------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _is_binary(body: bytes) -> bool:
    """NUL bytes without a mark that explains them."""
    return b"\0" in body[:8_192] and not body.startswith(tuple(mark for mark, _ in _MARKS))


def decode(body: bytes, cut: bool = False) -> str:
    """By its mark, as UTF-8, as GB18030 where that reads as Chinese, else as windows-1252. `cut`: the end may be the
    middle of a character."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return _newlines(body.decode(codec, "replace"))
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(body, final=not cut)
    except UnicodeDecodeError:
        text = _chinese(body) or body.decode("cp1252", "replace")
    return _newlines(text)


def _chinese(body: bytes) -> str:
    """The body as GB18030, "" unless its high bytes stand in pairs: accents of Latin letters stand alone."""
    paired = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", body))
    text = body.decode("gb18030", "replace")
    return text if paired >= 0.8 * sum(byte > 0x7F for byte in body) and "\ufffd" not in text[:-1] else ""


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
