"""WEB ARCHIVES (WARC, plain, gzip or zstd; WACZ) as a source: what a crawler or a browser saved, under its addresses.

In: a file. Out: a `Reader` for `collect`: the pages of response, resource and conversion records; redirects and
revisits as addresses that lead elsewhere. What a page loaded (pictures, scripts, data) is no page. Bodies are read
chunked or compressed as they came. A record or two are in memory. ISO 28500:2017; a file that is cut or damaged gives
what stands before.
"""

from __future__ import annotations

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urljoin

from venus_edge.corpus import message, page
from venus_edge.corpus.collect import DamagedError, Item, Read, Record, Redirect, Report, Size, Skipped
from venus_edge.corpus.jsonl import stamp_of
from venus_edge.corpus.page import Extract
from venus_edge.corpus.store import Document
from venus_edge.errors import CorpusError

_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, ValueError)
_LONGEST_LINE, _MOST_LINES = 65_536, 1_000  # of a header
_BLOCK = 1 << 20
_ZSTD, _ZSTD_DICTIONARY = b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"  # how a frame begins; IIPC, WARC with zstd 1.0
_SIP = 1 << 12  # bytes of zstd that go in at a time: it makes megabytes of them
_HEAD = 65_536  # of a record that is too large, by which it is told whether that matters
_NOT_PAGES = re.compile(
    r"^(image|video|audio|font)/|javascript|/css|ecmascript|wasm|font-|(?:manifest|ld)\+json", re.IGNORECASE
)
_NO_PAGE = re.compile(  # the end of an address
    r"\.(?:js|mjs|css|map|json|webmanifest|png|jpe?g|gif|svg|webp|avif|ico|bmp|woff2?|ttf|otf|eot|mp[34]|m4[av]|webm|ogg|wav|wasm|ts|m3u8)$",
    re.IGNORECASE,
)
_WEB = ("document", "other", "")  # of WARC-Resource-Type, which Browsertrix writes
_SHOWN = ("document", "iframe", "frame", "embed", "object")  # of Sec-Fetch-Dest, which browsers send
_PLAIN = re.compile(r"(?:file|ftp):", re.IGNORECASE)
_PART = re.compile(r"(?:^|/)archive/.*\.warc(?:\.gz|\.zst)?$", re.IGNORECASE)  # of a WACZ file
_DIGEST = "urn:warc-digest:"  # an address for a payload: a revisit may name nothing else


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record: its header, and its block, or the start of one that is too large."""

    fields: Mapping[str, str]
    block: bytes
    is_whole: bool = True

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<> ")

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "").lower()


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A record, which one it is, how many bytes of the file are read with it, and the request that it answers."""

    entry: _Entry
    number: int
    at: int
    request: _Entry | None = None


class Warc:
    """A WARC or WACZ file as a source."""

    def __init__(self, file: Path, name: str, extract: Extract) -> None:
        """Raises CorpusError for a file that is not there, or is none."""
        if not file.is_file():
            raise CorpusError(f"{file} is not there; name a WARC or WACZ file")
        self._file = file
        self._extract = extract
        self.name = name
        with file.open("rb") as start:
            head = start.read(4)
        if not head:
            raise CorpusError(f"{file} is empty; fetch it again")
        if file.suffix.lower() == ".wacz" and not zipfile.is_zipfile(file):
            raise CorpusError(f"{file} is not a WACZ file, or cut; fetch it again")
        if head in (_ZSTD, _ZSTD_DICTIONARY) and find_spec("zstandard") is None:
            raise CorpusError(f"{file} is packed with zstd: pip install 'venus-edge[fast]'")

    def stamp(self) -> str:
        return stamp_of(self._file)

    def size(self, report: Report) -> Size:
        return Size(0, self._file.stat().st_size)

    def read(self, cursor: int) -> Iterator[Read]:
        """What stands behind the first `cursor` records."""
        for each in _paired(self._entries()):
            if each.number > cursor:
                for item in _items(each, self._extract):
                    yield Read(each.number, each.at, item)

    def _entries(self) -> Iterator[_Numbered]:
        """The records. Raises DamagedError behind the last one that can be read."""
        if self._file.suffix.lower() != ".wacz":
            with self._file.open("rb") as raw:
                yield from self._numbered(self._file.name, raw, 0, raw.tell)
            return
        number = done = 0
        damaged: list[str] = []

        def so_far() -> int:
            return done

        try:
            with zipfile.ZipFile(self._file) as packed:
                for info in sorted(packed.infolist(), key=lambda info: info.filename):
                    if _PART.search(info.filename):
                        try:
                            with packed.open(info) as part:
                                for each in self._numbered(info.filename, part, number, so_far):
                                    number = each.number
                                    yield each
                        except DamagedError as error:  # the others may be whole
                            damaged.append(str(error))
                    done += info.compress_size
        except _DAMAGE as error:
            damaged.append(f"{self._file.name} is damaged: {error}")
        if damaged:
            raise DamagedError("; ".join(damaged))

    def _numbered(self, name: str, raw: IO[bytes], number: int, tell: Callable[[], int]) -> Iterator[_Numbered]:
        first = number
        try:
            for entry in _records(raw):
                number += 1
                yield _Numbered(entry, number, tell())
        except _DAMAGE as error:
            if number == first:
                raise DamagedError(f"{name} is not a web archive, or damaged at its start; fetch it again") from error
            behind = f"behind record {number - first:,}: what stands there is left out"
            raise DamagedError(f"{name} is damaged or cut {behind}") from error


def _paired(entries: Iterator[_Numbered]) -> Iterator[_Numbered]:
    """All but requests; responses with theirs, which stands right before or behind."""
    held: _Numbered | None = None
    request: _Entry | None = None
    try:
        for each in entries:
            if each.entry.kind == "request":
                request = each.entry
                if held and held.entry.url == request.url:
                    held, request = replace(held, request=request), None
                continue
            if held:
                yield held
            held = replace(each, request=request if request and request.url == each.entry.url else None)
            request = None
    except DamagedError:
        if held:
            yield held
        raise
    if held:
        yield held


def _items(each: _Numbered, extract: Extract) -> Iterator[Item]:
    """What a record is for a corpus: nothing, a page, an address that leads elsewhere."""
    entry, url = each.entry, each.entry.url
    if not page.is_web(url) and not (entry.kind in ("resource", "conversion") and _PLAIN.match(url)):
        return  # crawlers put notes and pictures of pages under addresses of their own (urn:pageinfo:...)
    if entry.kind == "revisit":
        yield from _revisit(entry)
    elif entry.kind == "response":
        yield from _response(each, extract)
    elif entry.kind in ("resource", "conversion") and _is_page(url, entry.fields.get("content-type", "")):
        yield from _record(entry, entry.block, entry.fields.get("content-type", ""), extract)


def _is_page(url: str, kind: str) -> bool:
    return not _NOT_PAGES.search(kind) and ("html" in kind or not _NO_PAGE.search(url.partition("?")[0]))


def _is_asked_for(each: _Numbered) -> bool:
    """Whether a browser loaded it to show it, as far as can be told: not a page's script for its data."""
    named = each.entry.fields.get("warc-resource-type", "").lower()
    if named or each.request is None:
        return named in _WEB
    headers = message.headers_of(each.request.block)
    if destination := headers.get("sec-fetch-dest", "").lower():
        return destination in _SHOWN
    return not each.request.block.startswith(b"POST ") and "x-requested-with" not in headers


def _revisit(entry: _Entry) -> Iterator[Item]:
    """The same as was there before: at the address that it names, or wherever its payload is known from."""
    target = entry.fields.get("warc-refers-to-target-uri", "").strip("<> ")
    digest = entry.fields.get("warc-payload-digest", "")
    status, headers, _ = message.parsed(entry.block)
    if 300 <= status < 400 and headers.get("location"):
        yield Redirect(entry.url, urljoin(entry.url, headers["location"]))
    elif target or digest:
        yield Redirect(entry.url, target or _DIGEST + digest)


def _response(each: _Numbered, extract: Extract) -> Iterator[Item]:
    entry = each.entry
    status, headers, body = message.parsed(entry.block)
    kind = headers.get("content-type", "")
    if 300 <= status < 400 and headers.get("location"):
        yield Redirect(entry.url, urljoin(entry.url, headers["location"]))
    elif not status or not _is_page(entry.url, kind) or not _is_asked_for(each):
        return
    elif not 200 <= status < 300:
        yield Skipped(entry.url, f"the server answered {status}")
    elif not entry.is_whole:
        yield from _record(entry, b"", kind, extract)
    else:
        plain = message.plain(body, headers)
        yield from [Skipped(entry.url, plain)] if isinstance(plain, str) else _record(entry, plain, kind, extract)


def _record(entry: _Entry, body: bytes, content_type: str, extract: Extract) -> Iterator[Item]:
    """The page, and its payload's address, which leads to it."""
    if not entry.is_whole:
        yield Skipped(entry.url, f"too large: more than {page.LARGEST / 1e6:.0f} MB")
        return
    yield Record(entry.url, len(body), partial(bytes, body), partial(_document, entry.url, content_type, extract))
    if digest := entry.fields.get("warc-payload-digest", ""):
        yield Redirect(_DIGEST + digest, entry.url)


def _document(url: str, content_type: str, extract: Extract, body: bytes) -> Document | str:
    if not body.strip():
        return "it is empty"
    if page.is_script(body):
        return "it is a script or a style sheet"
    named = page.addresses_in(body) if body.lstrip()[:1] == b"<" else []
    return page.from_page(body, [url, *named], extract, content_type)


# -- records ----------------------------------------------------------------------------------------------------------


def _records(raw: IO[bytes]) -> Iterator[_Entry]:
    """The records of a file. Raises one of `_DAMAGE`."""
    stream = _unpacked_stream(raw)
    while (line := _next_line(stream)) is not None:
        if not line.startswith(b"WARC/"):
            raise ValueError("no record begins here")
        fields = _fields(stream)
        length = int(fields.get("content-length", ""))
        if length < 0:
            raise ValueError("a length below nothing")
        yield _Entry(fields, *_taken(stream, length))


def _unpacked_stream(raw: IO[bytes]) -> IO[bytes]:
    """The file without its compression. zstd may have its dictionary in a frame that stands first."""
    head = raw.read(8)
    raw.seek(0)
    if head[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if head[:4] not in (_ZSTD, _ZSTD_DICTIONARY):
        return raw
    import zstandard

    dictionary = None
    if head[:4] == _ZSTD_DICTIONARY:
        (size,) = struct.unpack("<I", head[4:])
        body = raw.read(8 + min(size, page.LARGEST))[8:]
        plain = message.unzstd(body, page.LARGEST) if body.startswith(_ZSTD) else body
        if plain is None:
            raise ValueError("a damaged dictionary")
        dictionary = zstandard.ZstdCompressionDict(plain)
    unpacker = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=message.LARGEST_WINDOW)
    return cast("IO[bytes]", io.BufferedReader(_Frames(raw, unpacker.decompressobj)))


class _Frames(io.RawIOBase):
    """The bytes of zstd frames, one behind the other. Raises ValueError for what is none, EOFError for one that is cut:
    the library's own stream takes that for the end."""

    def __init__(self, raw: IO[bytes], begun: Callable[[], Any]) -> None:
        self._raw, self._begun = raw, begun
        self._frame: Any = None
        self._plain = self._packed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            self._packed = self._packed or self._raw.read(_SIP)
            if not self._packed and self._frame:
                raise EOFError
            if not self._packed:
                return 0
            self._plain = self._unpacked()
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _unpacked(self) -> bytes:
        import zstandard

        self._frame = self._frame or self._begun()
        try:
            plain = bytes(self._frame.decompress(self._packed))
        except zstandard.ZstdError as error:
            raise ValueError("no zstd frame") from error
        self._packed = self._frame.unused_data if self._frame.eof else b""
        self._frame = None if self._frame.eof else self._frame
        return plain


def _next_line(stream: IO[bytes]) -> bytes | None:
    """The first line that is not empty."""
    while line := stream.readline(_LONGEST_LINE):
        if line.strip():
            return line
    return None


def _fields(stream: IO[bytes]) -> dict[str, str]:
    """The header up to its empty line, names in lower case; folded lines are joined."""
    fields: dict[str, str] = {}
    name = ""
    for _ in range(_MOST_LINES):
        line = stream.readline(_LONGEST_LINE)
        if not line.strip():
            return fields
        if line[:1] in b" \t" and name:
            fields[name] += " " + line.decode("utf-8", "replace").strip()
            continue
        before, _, after = line.decode("utf-8", "replace").partition(":")
        name = before.strip().lower()
        fields[name] = after.strip()
    raise ValueError("a header without end")


def _taken(stream: IO[bytes], length: int) -> tuple[bytes, bool]:
    """(the block, True); of one that is too large the start, and False, and it is read past."""
    is_whole = length <= page.LARGEST
    block = stream.read(length if is_whole else min(length, _HEAD))
    left = length - len(block)
    if is_whole and left:
        raise EOFError
    while left > 0:
        part = stream.read(min(left, _BLOCK))
        if not part:
            raise EOFError
        left -= len(part)
    return block, is_whole
