"""WEB ARCHIVES (WARC, gzipped or not; WACZ) as a source: what a crawler or a browser saved, under its own addresses.

In: a file. Out: a `Reader` for `collect`: the pages of response, resource and conversion records; redirects and
revisits as addresses that lead elsewhere. Bodies are read chunked or compressed as they came. One record is in memory.
ISO 28500:2017; a file that is cut or damaged gives what stands before.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin

from venus_edge.corpus import page
from venus_edge.corpus.collect import DamagedError, Item, Read, Record, Redirect, Report, Size, Skipped
from venus_edge.corpus.jsonl import stamp_of
from venus_edge.corpus.page import Extract
from venus_edge.corpus.store import Document
from venus_edge.errors import CorpusError

_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, ValueError)
_LONGEST_LINE, _MOST_LINES = 65_536, 1_000  # of a header
_BLOCK = 1 << 20
_NOT_PAGES = re.compile(r"^(image|video|audio|font)/|javascript|/css|ecmascript|wasm|font-", re.IGNORECASE)
_DIGEST = "urn:warc-digest:"  # an address for a payload: a revisit may name nothing else


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record: its header, and its block, or None where that is too large."""

    fields: Mapping[str, str]
    block: bytes | None

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<> ")


class Warc:
    """A WARC or WACZ file as a source."""

    def __init__(self, file: Path, name: str, extract: Extract) -> None:
        """Raises CorpusError for a file that is not there, or is none."""
        if not file.is_file():
            raise CorpusError(f"{file} is not there; name a WARC or WACZ file")
        self._file = file
        self._extract = extract
        self.name = name
        if file.suffix.lower() == ".wacz" and not zipfile.is_zipfile(file):
            raise CorpusError(f"{file} is not a WACZ file; fetch it again")

    def stamp(self) -> str:
        return stamp_of(self._file)

    def size(self, report: Report) -> Size:
        return Size(0, self._file.stat().st_size)

    def read(self, cursor: int) -> Iterator[Read]:
        """What stands behind the first `cursor` records."""
        number = 0
        try:
            for entry, at in self._entries():
                number += 1
                if number > cursor:
                    for item in _items(entry, self._extract):
                        yield Read(number, at, item)
        except _DAMAGE as error:
            raise DamagedError(
                f"{self._file.name} is damaged or cut behind record {number}: what stands there is left out"
            ) from error

    def _entries(self) -> Iterator[tuple[_Entry, int]]:
        """The records, and how many bytes of the file are read with each."""
        with ExitStack() as stack:
            if self._file.suffix.lower() != ".wacz":
                raw: IO[bytes] = stack.enter_context(self._file.open("rb"))
                yield from ((entry, raw.tell()) for entry in _records(raw))
                return
            packed = stack.enter_context(zipfile.ZipFile(self._file))
            done = 0
            for info in sorted(packed.infolist(), key=lambda info: info.filename):
                if info.filename.startswith("archive/") and not info.is_dir():
                    with packed.open(info) as part:
                        yield from ((entry, done) for entry in _records(part))
                done += info.compress_size


def _items(entry: _Entry, extract: Extract) -> Iterator[Item]:
    """What a record is for a corpus: nothing, a page, an address that leads elsewhere."""
    kind, url = entry.fields.get("warc-type", "").lower(), entry.url
    if not page.is_web(url) and not (kind in ("resource", "conversion") and url):
        return
    if kind == "revisit":
        yield from _revisit(entry)
    elif kind not in ("response", "resource", "conversion"):
        return
    elif entry.block is None:
        yield Skipped(url, f"too large: more than {page.LARGEST / 1e6:.0f} MB")
    elif kind == "response":
        yield from _response(entry, entry.block, extract)
    elif not _NOT_PAGES.search(entry.fields.get("content-type", "")):
        yield _record(entry, entry.block, entry.fields.get("content-type", ""), extract)


def _revisit(entry: _Entry) -> Iterator[Item]:
    """The same as was there before: at the address that it names, or wherever its payload is known from."""
    target = entry.fields.get("warc-refers-to-target-uri", "").strip("<> ")
    digest = entry.fields.get("warc-payload-digest", "")
    status, headers, _ = _http(entry.block or b"")
    if 300 <= status < 400 and headers.get("location"):
        yield Redirect(entry.url, urljoin(entry.url, headers["location"]))
    elif target or digest:
        yield Redirect(entry.url, target or _DIGEST + digest)


def _response(entry: _Entry, block: bytes, extract: Extract) -> Iterator[Item]:
    status, headers, body = _http(block)
    kind = headers.get("content-type", "")
    if 300 <= status < 400 and headers.get("location"):
        yield Redirect(entry.url, urljoin(entry.url, headers["location"]))
    elif 200 <= status < 300 and not _NOT_PAGES.search(kind):
        plain = _plain(body, headers)
        yield Skipped(entry.url, plain) if isinstance(plain, str) else _record(entry, plain, kind, extract)
    elif not 200 <= status < 300 and status:
        yield Skipped(entry.url, f"the server answered {status}")


def _record(entry: _Entry, body: bytes, content_type: str, extract: Extract) -> Record:
    make = partial(_document, entry.url, entry.fields.get("warc-payload-digest", ""), content_type, extract)
    return Record(entry.url, len(body), partial(bytes, body), make)


def _document(url: str, digest: str, content_type: str, extract: Extract, body: bytes) -> Document | str:
    if not body.strip():
        return "it is empty"
    named = page.addresses_in(body) if body.lstrip()[:1] == b"<" else []
    return page.from_page(body, [url, *named, *([_DIGEST + digest] if digest else [])], extract, content_type)


# -- records ----------------------------------------------------------------------------------------------------------


def _records(raw: IO[bytes]) -> Iterator[_Entry]:
    """The records of a file. Raises one of `_DAMAGE`."""
    head = raw.read(2)
    raw.seek(0)
    stream: Any = gzip.GzipFile(fileobj=raw) if head == b"\x1f\x8b" else raw
    while (line := _next_line(stream)) is not None:
        if not line.startswith(b"WARC/"):
            raise ValueError("no record begins here")
        fields = _fields(stream)
        length = int(fields.get("content-length", ""))
        if length < 0:
            raise ValueError("a length below nothing")
        yield _Entry(fields, _taken(stream, length))


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


def _taken(stream: IO[bytes], length: int) -> bytes | None:
    """The block; one that is too large is read past."""
    if length <= page.LARGEST:
        block = stream.read(length)
        if len(block) < length:
            raise EOFError
        return block
    while length:
        part = stream.read(min(length, _BLOCK))
        if not part:
            raise EOFError
        length -= len(part)
    return None


# -- HTTP messages ----------------------------------------------------------------------------------------------------


def _http(block: bytes) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of a message; (0, {}, b"") if it is none."""
    first = re.match(rb"HTTP/\d(?:\.\d)? +(\d{3})[^\n]*\n", block)
    if first is None:
        return 0, {}, b""
    end = re.compile(rb"\r?\n\r?\n|\A\r?\n").search(block, first.end() - 2)
    head, body = (block[: end.start()], block[end.end() :]) if end else (block, b"")
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines()[1:]:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return int(first[1]), headers, body


def _plain(body: bytes, headers: Mapping[str, str]) -> bytes | str:
    """The body without chunks and compression, or why it cannot be read. Crawlers that undo both leave the headers."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    for coding in reversed(re.split(r"[,\s]+", headers.get("content-encoding", "").lower())):
        try:
            plain = _unpacked(body, coding)
        except ImportError:
            return f"its body is packed as {coding}: pip install 'venus-edge[fast]'"
        if plain is None:
            return f"its body is packed as {coding}, which is not read, or is damaged"
        body = plain
    return body if len(body) <= page.LARGEST else f"too large: more than {page.LARGEST / 1e6:.0f} MB"


def _joined(body: bytes) -> bytes:
    """Without its chunks' lengths; as it is where it has none."""
    parts: list[bytes] = []
    at = 0
    while match := re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n").match(body, at):
        length = int(match[1], 16)
        if length == 0:
            return b"".join(parts)
        parts.append(body[match.end() : match.end() + length])
        at = match.end() + length + 2
    return b"".join(parts) if parts and at >= len(body) else body


def _unpacked(body: bytes, coding: str) -> bytes | None:
    """Of at most a little more than what is read; None if that cannot be."""
    most = page.LARGEST + 1
    if coding in ("", "identity") or not body:
        return body
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, 31, most) if body[:2] == b"\x1f\x8b" else body
    if coding == "deflate":
        return _inflated(body, 15, most) or _inflated(body, -15, most)
    if coding == "br":
        import brotli

        try:
            return bytes(brotli.Decompressor().process(body))
        except brotli.error:
            return body if body.lstrip()[:1] == b"<" else None
    if coding == "zstd":
        import zstandard

        try:
            with zstandard.ZstdDecompressor().stream_reader(body) as stream:
                return bytes(stream.read(most))
        except zstandard.ZstdError:
            return body if body.lstrip()[:1] == b"<" else None
    return None


def _inflated(body: bytes, window: int, most: int) -> bytes | None:
    try:
        return zlib.decompressobj(window).decompress(body, most)
    except zlib.error:
        return None
