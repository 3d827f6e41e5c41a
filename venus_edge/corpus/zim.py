"""A ZIM ARCHIVE (Kiwix: Wikipedia and more), READ IN PLACE: a Searcher, an Opener, and a source for an index of ours.

In: a file, and `extract`, which makes text of pages. Out: `Found`, `Page | Failure`; CorpusError in one line for what
is no sound archive. libzim (the extra `zim`) is loaded when an archive is opened, and asked under a lock: its searches
are not for several threads. How its all-words index is made to rank any words is `zimrank`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from venus_edge.corpus import address, page, snippets
from venus_edge.corpus.collect import Item, Read, Record, Redirect, Report, Size
from venus_edge.corpus.jsonl import stamp_of
from venus_edge.corpus.page import Extract
from venus_edge.corpus.query import parse
from venus_edge.corpus.store import Document
from venus_edge.corpus.zimrank import Ranker
from venus_edge.errors import CorpusError
from venus_edge.values import Failure, Found, Hit, Page, Trouble

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

NEAREST = 5  # pages offered for an unknown address
_MOST_REDIRECTS = 10
_SNIPPET_FROM = 60_000  # characters of an entry in which its best passage is looked for
_NAMESPACE = re.compile(r"^[A-Z]/(?=.)")
_BASE = "http://zim.invalid/"  # stands for `zim:` while links are made absolute
_READ = ("text/", "application/xhtml", "application/pdf", "application/epub", "officedocument", "opendocument")
_ERRORS = (RuntimeError, KeyError, ValueError)  # libzim's, for damage and for what is not there
NO_INDEX = (
    "{} has no full-text index: only its titles are searched; index it with: venus-edge corpus create NAME {} --index"
)


def opened(file: Path) -> Archive:
    """The archive. Raises CorpusError: not there, none, cut, or nothing here reads it."""
    try:
        from libzim.reader import Archive
    except ImportError as error:
        raise CorpusError(
            f"{file} is a ZIM archive, and no reader is installed: pip install 'venus-edge[zim]'"
        ) from error
    if not file.is_file():
        raise CorpusError(f"there is no archive at {file}; name a .zim file")
    if file.stat().st_size == 0:
        raise CorpusError(f"{file} is empty; fetch the archive again")
    with file.open("rb") as start:
        if start.read(4) != b"ZIM\x04":
            raise CorpusError(f"{file} is not a ZIM archive; name a .zim file")
    try:
        return Archive(file.with_suffix(".zim") if file.suffix == ".zimaa" else file)
    except _ERRORS as error:
        raise CorpusError(f"{file}: the archive is damaged or cut; fetch it again") from error


class Zim:
    """An archive opened for reading."""

    def __init__(self, file: Path, extract: Extract, name: str = "") -> None:
        """`name` is what the addresses of its entries begin with. Raises CorpusError."""
        self.file, self.name = file, name or file.stem
        self._archive = opened(file)
        self._extract = extract
        self._lock = RLock()
        self._known: dict[str, str] = {}  # key of a web address -> path of the entry that names it as its own
        self._ranker = Ranker(self._archive)

    @property
    def note(self) -> str:
        """What a person should know of it, "" if nothing."""
        return "" if self._archive.has_fulltext_index else NO_INDEX.format(self.file.name, self.file)

    def close(self) -> None:
        """An archive is closed when nobody holds it."""

    def count(self) -> int:
        return int(self._archive.article_count)

    def is_sound(self) -> bool:
        """Whether its checksum is right. Reads all of it."""
        with self._lock:
            try:
                return bool(self._archive.check())
            except _ERRORS:
                return False

    # -- search

    def search_all(self, queries: Sequence[str], limit: int = 10) -> tuple[Found, ...]:
        return tuple(self.search(query, limit) for query in queries)

    def search(self, query: str, limit: int = 10) -> Found:
        """The best entries for a query, whose words are alternatives; each entry once."""
        asked = parse(query)
        if asked is None:
            return Found(query, failure=Failure(Trouble.BAD_QUERY, "It has no word to search for."))
        with self._lock:
            try:
                hits = tuple(self._hit(path, asked.words) for path in self._ranker.best(query, max(limit, 1)))
            except _ERRORS:
                return Found(query, failure=Failure(Trouble.UNREADABLE, f"The archive {self.name} is damaged."))
        return Found(query, hits, None if hits else Failure(Trouble.EMPTY, "No document has any of these words."))

    def _hit(self, path: str, words: frozenset[str]) -> Hit:
        title = self._archive.get_entry_by_path(path).title
        text = self._ranker.text(path)[:_SNIPPET_FROM]
        return Hit(title, address.of_entry(self.name, path), snippets.snippet(text, words, title))

    # -- open

    def open(self, url: str) -> Page | Failure:
        """The page at an address of this archive, a path in it, or the web address that it was taken from."""
        with self._lock:
            try:
                entry = self._entry(url)
                if entry is None:
                    return Failure(Trouble.UNKNOWN, "", self._nearest(url))
                path, kind, body = _contents(entry)
            except _ERRORS:
                return Failure(Trouble.UNREADABLE, f"page could not be read: the archive {self.name} is damaged here")
            return self._page(path, entry.title, kind, body)

    def _page(self, path: str, title: str, kind: str, body: bytes) -> Page | Failure:
        made = document(self.name, path, title, kind, self._extract, body)
        if isinstance(made, str):
            return Failure(Trouble.UNREADABLE, made)
        text = made.text
        return Page(address.of_entry(self.name, path), made.title, text, hashlib.sha256(text.encode()).hexdigest())

    def _entry(self, url: str) -> Entry | None:
        bare = url.strip(" \t\r\n<>\"'`“”")
        for path in self._paths(bare):
            for form in _forms(path):
                if form and self._archive.has_entry_by_path(form):
                    return _followed(self._archive.get_entry_by_path(form))
        for path in self._paths(bare):
            title = unquote(_NAMESPACE.sub("", path.partition("#")[0])).replace("_", " ")
            if title and self._archive.has_entry_by_title(title):
                return _followed(self._archive.get_entry_by_title(title))
        return None

    def _paths(self, url: str) -> list[str]:
        """What an address may be called in the archive."""
        if re.match(r"zim:", url, re.IGNORECASE):
            name, _, path = url[4:].lstrip("/").partition("/")
            return [path] if unquote(name).casefold() == self.name.casefold() else []
        if not page.is_web(url):
            return [] if re.match(r"[a-z]+:", url, re.IGNORECASE) else [url]
        parts = urlsplit(url)
        host, path = parts.netloc, parts.path.lstrip("/")
        whole = f"{host}/{path}" + (f"?{parts.query}" if parts.query else "")
        paths = [whole, whole.removeprefix("www."), f"www.{whole}", whole.rstrip("/"), whole + "/"]
        return [*paths, *([path.removeprefix("wiki/"), path] if self._is_of(host) else [])]

    def _is_of(self, host: str) -> bool:
        """Whether the archive says that it was made from this site."""
        if "Source" not in self._archive.metadata_keys:
            return False
        source = self._archive.get_metadata("Source").decode("utf-8", "replace").strip()
        return address.host(source) == address.host(host) != ""

    def _nearest(self, url: str) -> tuple[Hit, ...]:
        words = address.words(url)
        paths = self._ranker.by_title(words, NEAREST) if words else []
        return tuple(self._hit(path, frozenset()) for path in paths)


def _forms(path: str) -> Iterator[str]:
    """The ways in which a path may stand in an archive: escapes or none, no fragment, with the namespace of an older
    layout or without, a capital first letter."""
    for written in dict.fromkeys((path, path.partition("#")[0], path.partition("#")[0].partition("?")[0])):
        for plain in dict.fromkeys((written, unquote(written), unquote(written).replace(" ", "_"))):
            bare = _NAMESPACE.sub("", plain.lstrip("/"))
            yield from (
                plain,
                bare,
                f"A/{bare}",
                f"C/{bare}",
                bare[:1].upper() + bare[1:],
                f"A/{bare[:1].upper()}{bare[1:]}",
            )


def _followed(entry: Entry) -> Entry | None:
    """Where an entry leads; None for a circle."""
    for _ in range(_MOST_REDIRECTS):
        if not entry.is_redirect:
            return entry
        entry = entry.get_redirect_entry()
    return None


def _contents(entry: Entry) -> tuple[str, str, bytes]:
    item = entry.get_item()
    return entry.path, item.mimetype, bytes(item.content)


def document(name: str, path: str, title: str, kind: str, extract: Extract, body: bytes) -> Document | str:
    """The document of an entry; links to other entries are addresses of the archive."""
    own = address.of_entry(name, path)
    made = page.from_page(body, [own.replace("zim:", _BASE, 1)], extract, kind)
    if isinstance(made, str):
        return made
    web = page.addresses_in(body) if "html" in kind else []
    return Document(own, made.title or title, made.text.replace(_BASE, "zim:"), made.date, tuple(web))


class ZimReader:
    """An archive as a source of an index of ours."""

    def __init__(self, file: Path, name: str, extract: Extract) -> None:
        self.name = name
        self._file = file
        self._archive = opened(file)
        self._extract = extract

    def stamp(self) -> str:
        return stamp_of(self._file)

    def size(self, report: Report) -> Size:
        return Size(self._archive.all_entry_count, self._file.stat().st_size)

    def read(self, cursor: int) -> Iterator[Read]:
        """The entries behind the first `cursor`, in the archive's order."""
        total, size = self._archive.all_entry_count, self._file.stat().st_size
        for number in range(cursor, total):
            item = self._item(number)
            if item is not None:
                yield Read(number + 1, size * (number + 1) // total, item)

    def _item(self, number: int) -> Item | None:
        try:
            entry = self._archive._get_entry_by_id(number)
            if not self._archive.has_entry_by_path(entry.path):
                return None  # of the archive's own: metadata, indexes
            own = address.of_entry(self.name, entry.path)
            if entry.is_redirect:
                return Redirect(own, address.of_entry(self.name, entry.get_redirect_entry().path))
            item = entry.get_item()
            kind = item.mimetype
            if not any(part in kind for part in _READ) or "css" in kind or "javascript" in kind:
                return None
            make = partial(document, self.name, entry.path, entry.title, kind, self._extract)
            return Record(entry.path, min(item.size, page.LARGEST), partial(_body, item, own), make)
        except _ERRORS:
            return None


def _body(item: object, own: str) -> bytes:
    """The bytes of an entry. Raises OSError where the archive is damaged."""
    try:
        return bytes(item.content)  # type: ignore[attr-defined]  # libzim's Item
    except _ERRORS as error:
        raise OSError(0, f"the archive is damaged at {own}") from error
