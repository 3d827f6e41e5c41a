"""A ZIM ARCHIVE (Kiwix: Wikipedia and more), READ IN PLACE: a Searcher, an Opener, and a source for an index of ours.

In: a file, and `extract`, which makes text of pages. Out: `Found`, `Page | Failure`; CorpusError in one line for what
is no sound archive. libzim (the extra `zim`) is loaded when an archive is opened, and asked under a lock: its searches
are not for several threads. How its all-words index is made to rank any words is `zimrank`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from venus_edge.corpus import address, page, snippets
from venus_edge.corpus.alike import Copies
from venus_edge.corpus.collect import Item, Read, Record, Redirect, Report, Size, Skipped
from venus_edge.corpus.jsonl import stamp_of
from venus_edge.corpus.page import Extract
from venus_edge.corpus.query import parse, phrases
from venus_edge.corpus.store import Document
from venus_edge.corpus.zimrank import ERRORS, NAMESPACE, Ranked, Ranker, followed, is_document, title_of
from venus_edge.errors import CorpusError
from venus_edge.values import Failure, Found, Hit, Page, Trouble

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

NEAREST = 5  # pages offered for an unknown address
_SNIPPET_FROM = 60_000  # characters of an entry in which its best passage is looked for
_COMPARED = 4_000  # characters by which copies are told
_MAIN = ("", "mainPage", "W/mainPage")  # the first page, by whatever name
_OF_A_WIKI = re.compile(  # openZIM's names of archives
    r"(?:^|\.)(wikipedia|wiktionary|wiki(?:books|news|quote|source|versity|voyage))_([a-z]{2,3}(?:-[a-z]+)?)(?:_|$)"
)
_OF_A_SITE = re.compile(r"((?:[a-z0-9-]+\.)+[a-z]{2,})_")
_WRAPPED, _MARKS_AFTER = " <>\"'`“”‘’«»", ".,;:!?)]}。，；：！？）】》」"
_ELSEWHERE = re.compile(r"(?:file|ftp|mailto|tel|javascript|data|blob|about|urn):", re.IGNORECASE)
_PIECE = re.compile(r"\.zim[a-z][a-z]")  # an end of a name
MAKE_INDEX = "venus-edge corpus create NAME"
NO_INDEX = f"{{}} has no full-text index: only its titles are searched; index it with: {MAKE_INDEX} {{}} --index"


def opened(file: Path) -> Archive:
    """The archive. Raises CorpusError: not there, none, cut, or nothing here reads it."""
    try:
        from libzim.reader import Archive
    except ImportError as error:
        raise CorpusError(
            f"{file} is a ZIM archive, and no reader is installed: pip install 'venus-edge[zim]'"
        ) from error
    if not file.is_file():
        raise CorpusError(_not_there(file))
    try:
        with file.open("rb") as start:
            magic = start.read(4)
    except OSError as error:
        raise CorpusError(f"{file} cannot be read: {error.strerror}") from error
    if not magic:
        raise CorpusError(f"{file} is empty; fetch the archive again")
    if _PIECE.fullmatch(file.suffix.lower()) and file.suffix.lower() != ".zimaa":
        raise CorpusError(f"{file} is a part of an archive; name the first one, {file.with_suffix('.zimaa')}")
    if magic != b"ZIM\x04":
        raise CorpusError(f"{file} is not a ZIM archive; name a .zim file")
    try:
        with _quiet():
            return Archive(whole(file))
    except ERRORS as error:
        if file.suffix.lower() == ".zimaa":
            raise CorpusError(
                f"{file}: a part is missing or damaged; fetch all parts ({_parts(file)}) again"
            ) from error
        raise CorpusError(f"{file}: the archive is damaged or cut; fetch it again") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """What libzim writes past Python on stderr goes nowhere: as it opens an archive it tells of a language that it does
    not stem, and of damage to its indexes, which is said otherwise."""
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is no stderr
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _not_there(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a folder; name a .zim file"
    if (first := file.with_suffix(".zimaa")).is_file():
        return f"{file} is there in parts; name the first one, {first}"
    return f"there is no archive at {file}; name a .zim file"


def whole(file: Path) -> Path:
    """The name by which libzim opens an archive that may be in parts (.zimaa, .zimab and so on)."""
    return file.with_suffix(".zim") if file.suffix.lower() == ".zimaa" else file


def _parts(file: Path) -> str:
    return f"{file.stem}.zimaa, {file.stem}.zimab, ..."


class Zim:
    """An archive opened for reading."""

    def __init__(self, file: Path, extract: Extract, name: str = "") -> None:
        """`name` is what the addresses of its entries begin with. Raises CorpusError."""
        self.file, self.name = file, name or file.stem
        self._archive = opened(file)
        self._extract = extract
        self._lock = RLock()
        self._ranker = Ranker(self._archive, whole(file))

    @property
    def note(self) -> str:
        """What a person should know of it, "" if nothing."""
        return "" if self._ranker.has_text else NO_INDEX.format(self.file.name, shlex.quote(str(self.file)))

    def close(self) -> None:
        """It can be used again, and closed again."""
        with self._lock:
            self._ranker.close()

    def count(self) -> int:
        """How many entries it has, redirects and pictures among them."""
        return int(self._archive.entry_count)

    def is_sound(self) -> bool:
        """Whether its checksum is right. Reads all of it."""
        with self._lock:
            try:
                return bool(self._archive.check())
            except ERRORS:
                return False

    # -- search

    def search_all(self, queries: Sequence[str], limit: int = 10) -> tuple[Found, ...]:
        return tuple(self.search(query, limit) for query in queries)

    def search(self, query: str, limit: int = 10) -> Found:
        """The best entries for a query, whose words are alternatives; each entry once, copies of another not at all.
        Where the full-text index cannot be read, that is said beside what the titles give."""
        asked = parse(query)
        if asked is None:
            return Found(query, failure=Failure(Trouble.BAD_QUERY, "It has no word to search for."))
        with self._lock:
            try:
                ranked = self._ranker.best(asked.text, phrases(query))
            except ERRORS:
                return Found(query, failure=Failure(Trouble.UNREADABLE, f"The archive {self.name} is damaged."))
            hits = self._hits(ranked.paths, asked.words, max(limit, 1))
        return Found(query, hits, self._lack(ranked, hits))

    def _hits(self, paths: Sequence[str], words: frozenset[str], limit: int) -> tuple[Hit, ...]:
        seen = Copies(words)
        hits: list[Hit] = []
        for path in paths:
            if len(hits) >= limit:
                break
            try:
                title, text = self._ranker.title(path), self._ranker.text(path)
            except ERRORS:
                continue  # damaged: it could not be opened either
            if text is None or (text and seen.is_new(title, text[:_COMPARED])):
                snippet = snippets.snippet((text or "")[:_SNIPPET_FROM], words, title)
                hits.append(Hit(title, address.of_entry(self.name, path), snippet))
        return tuple(hits)

    def _lack(self, ranked: Ranked, hits: Sequence[Hit]) -> Failure | None:
        """What is to be said beside the hits, or in their place."""
        if ranked.is_damaged:
            said = f"The full-text index of {self.name} is damaged: only titles were searched."
            return Failure(Trouble.UNREADABLE, said)
        if hits:
            return None
        if self._ranker.has_text:
            return Failure(Trouble.EMPTY, "No document has any of these words.")
        return Failure(Trouble.EMPTY, f"No title has any of these words, and {self.name} has no full-text index.")

    # -- open

    def open(self, url: str) -> Page | Failure:
        """The page at an address of this archive, a path in it, or the web address that it was taken from."""
        with self._lock:
            try:
                entry = self._entry(url)
                if entry is None:
                    return Failure(Trouble.UNKNOWN, "", self._nearest(url))
                item = entry.get_item()
                kind, body = item.mimetype, bytes(item.content)
            except ERRORS:
                return Failure(Trouble.UNREADABLE, f"page could not be read: the archive {self.name} is damaged here")
            made = document(self.name, entry, kind, self._extract, body)
        if isinstance(made, str):
            return Failure(Trouble.UNREADABLE, made)
        return Page(made.url, made.title, made.text, made.sha256, made.date, rest=made.rest)

    def _entry(self, url: str) -> Entry | None:
        """What an address leads to, as it is or without the marks of a sentence around it."""
        bare = url.strip().strip(_WRAPPED)
        written = dict.fromkeys((url.strip(), bare or url, bare.rstrip(_MARKS_AFTER) or url))
        return next((entry for each in written if (entry := self._found(each)) is not None), None)

    def _found(self, bare: str) -> Entry | None:
        paths = self._paths(bare)
        is_main = any(path.partition("#")[0].strip("/") in _MAIN for path in paths) and self._archive.has_main_entry
        found = self._by_path(paths) or self._by_title(paths)
        if found is None and is_main:
            return followed(self._archive.main_entry)
        if found is None and page.is_web(bare):  # of a site that only its pages name
            entry = self._by_path(_on_site(bare))
            return entry if self._says_so(entry, _host(bare)) else None
        return found

    def _by_path(self, paths: Sequence[str]) -> Entry | None:
        for form in (form for path in paths for form in _forms(path)):
            if form and self._archive.has_entry_by_path(form):
                return followed(self._archive.get_entry_by_path(form))
        return None

    def _by_title(self, paths: Sequence[str]) -> Entry | None:
        for path in paths:
            title = unquote(NAMESPACE.sub("", path.partition("#")[0])).replace("_", " ")
            if title and self._archive.has_entry_by_title(title):
                return followed(self._archive.get_entry_by_title(title))
        return None

    def _paths(self, url: str) -> list[str]:
        """What an address may be called in the archive; "" is its first page."""
        if re.match(r"zim:", url, re.IGNORECASE):
            name, _, path = url[4:].lstrip("/").partition("/")
            names = {unquote(each).casefold() for each in (name, name.partition("#")[0])}
            return [path] if self.name.casefold() in names else []
        if not page.is_web(url):
            return [] if _ELSEWHERE.match(url) else [url]
        bare = re.sub(r"^https?:/*", "", url.partition("#")[0], flags=re.IGNORECASE)
        paths = [bare, bare.removeprefix("www."), f"www.{bare}", bare.rstrip("/"), bare + "/"]
        return [*paths, *_on_site(url)] if _host(url) in self._sites else paths

    # -- the site that it was made from

    @cached_property
    def _sites(self) -> frozenset[str]:
        """The hosts from which the archive was made, as it says and as its name says."""
        sites = {address.host(self._said("Source"))}
        name = self._said("Name")
        if wiki := _OF_A_WIKI.search(name):
            sites.add(f"{wiki[2]}.{wiki[1]}.org")
        elif site := _OF_A_SITE.match(name):
            sites.add(site[1])
        return frozenset(sites - {""})

    def _said(self, field: str) -> str:
        if field not in self._archive.metadata_keys:
            return ""
        return bytes(self._archive.get_metadata(field)).decode("utf-8", "replace").strip()

    def _says_so(self, entry: Entry | None, host: str) -> bool:
        """Whether a page names an address on this host as its own."""
        if entry is None or "html" not in entry.get_item().mimetype:
            return False
        return host in map(_host, page.addresses_in(bytes(entry.get_item().content)))

    def _nearest(self, url: str) -> tuple[Hit, ...]:
        words = address.words(url)
        paths = self._ranker.by_title(words, 4 * NEAREST) if words else []
        return self._hits(paths, frozenset(), NEAREST)


def _on_site(url: str) -> list[str]:
    """What the page of a web address may be called on its site; of a wiki, the page's name."""
    try:
        parts = urlsplit(url)
    except ValueError:  # "http://[x"
        return []
    path = parts.path.lstrip("/")
    named = parse_qs(parts.query).get("title", []) if path.endswith("index.php") else []
    return [*named, path.removeprefix("wiki/"), path]


def _host(url: str) -> str:
    """The host of a web address; that of its pages for phones is the same."""
    return address.host(url).replace(".m.", ".")


def _forms(path: str) -> Iterator[str]:
    """The ways in which a path may stand in an archive: escapes or none, no fragment, with the namespace of an older
    layout or without, a capital first letter, the ending of a file."""
    for written in dict.fromkeys((path, path.partition("#")[0], path.partition("#")[0].partition("?")[0])):
        for plain in dict.fromkeys((written, unquote(written), unquote(written).replace(" ", "_"))):
            bare = NAMESPACE.sub("", plain.lstrip("/"))
            capital = bare[:1].upper() + bare[1:]
            yield from (plain, bare, f"A/{bare}", f"C/{bare}", capital, f"A/{capital}")
            yield from (f"{capital}.html", f"A/{capital}.html") if bare else ()


def document(name: str, entry: Entry, kind: str, extract: Extract, body: bytes) -> Document | str:
    """The document of an entry; links to other entries are addresses of the archive."""
    own = address.of_entry(name, entry.path)
    web = page.addresses_in(body) if "html" in kind else []
    made = page.from_page(body, [own, *web], extract, kind)
    return made if isinstance(made, str) else replace(made, title=title_of(entry, made.title))


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
        return Size(self._archive.all_entry_count, self._archive.filesize)

    def read(self, cursor: int) -> Iterator[Read]:
        """The entries behind the first `cursor`, in the archive's order."""
        total, size = self._archive.all_entry_count, self._archive.filesize
        for number in range(cursor, total):
            try:
                item = self._item(number)
            except ERRORS:
                item = Skipped(f"entry {number + 1:,}", "the archive is damaged here")
            if item is not None:
                yield Read(number + 1, size * (number + 1) // total, item)

    def _item(self, number: int) -> Item | None:
        entry = self._archive._get_entry_by_id(number)
        if not self._archive.has_entry_by_path(entry.path):
            return None  # of the archive's own: metadata, indexes
        own = address.of_entry(self.name, entry.path)
        if entry.is_redirect:
            return Redirect(own, address.of_entry(self.name, entry.get_redirect_entry().path))
        if not is_document(self._archive, entry):
            return None
        item = entry.get_item()
        make = partial(document, self.name, entry, item.mimetype, self._extract)
        return Record(entry.path, min(item.size, page.LARGEST), partial(_body, item, own), make)


def _body(item: object, own: str) -> bytes:
    """The bytes of an entry. Raises OSError where the archive is damaged."""
    try:
        return bytes(item.content)  # type: ignore[attr-defined]  # libzim's Item
    except ERRORS as error:
        raise OSError(0, f"the archive is damaged at {own}") from error
