"""JSON LINES, PLAIN OR GZIPPED, as a source: one document a line, the shape of public retrieval collections.

In: lines with a text (`text`, `contents` or `body`) and, if they have them, `id` or `_id`, `title`, `url`, `date`. Out:
a `Reader` for `collect`; a line that is none of this is left out with its number.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from venus_edge.corpus import address, page
from venus_edge.corpus.collect import DamagedError, Item, Read, Record, Report, Size, Skipped
from venus_edge.corpus.store import Document
from venus_edge.errors import CorpusError

_TEXTS = ("text", "contents", "body", "content")
_NAMES = ("id", "_id", "docid", "doc_id")
_SEEN = 128  # characters of a line's start that are its name where it has none


class JsonLines:
    """A file of JSON lines as a source."""

    def __init__(self, file: Path, name: str) -> None:
        """Raises CorpusError for a file that is not there."""
        if not file.is_file():
            raise CorpusError(f"{file} is not there; name a file of JSON lines")
        self._file = file
        self.name = name

    def stamp(self) -> str:
        return stamp_of(self._file)

    def size(self, report: Report) -> Size:
        return Size(0, self._file.stat().st_size)

    def read(self, cursor: int) -> Iterator[Read]:
        """The lines behind the first `cursor`."""
        with self._file.open("rb") as raw:
            lines: Any = gzip.GzipFile(fileobj=raw) if raw.read(2) == b"\x1f\x8b" else raw
            raw.seek(0)
            number = 0
            try:
                while line := lines.readline(page.LARGEST + 1):
                    number += 1
                    whole = line.endswith(b"\n") or len(line) <= page.LARGEST
                    while not line.endswith(b"\n") and (rest := lines.readline(page.LARGEST)):
                        line = rest
                    if number > cursor and line.strip():
                        yield Read(number, raw.tell(), self._item(number, line, whole))
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DamagedError(f"damaged or cut behind line {number}: what stands there is left out") from error

    def _item(self, number: int, line: bytes, whole: bool) -> Item:
        at = f"line {number}"
        if not whole:
            return Skipped(at, f"too large: more than {page.LARGEST / 1e6:.0f} MB")
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return Skipped(at, "it is not JSON")
        if not isinstance(fields, dict):
            return Skipped(at, "it is not a JSON object")
        name = _first(fields, _NAMES) or _first(fields, ("url",)) or at
        return Record(name, len(line), partial(bytes, line), partial(self._document, name, fields))

    def _document(self, name: str, fields: dict[str, Any], _: bytes) -> Document | str:
        text, url = _first(fields, _TEXTS), _first(fields, ("url", "link"))
        if not text.strip():
            return "it has no text"
        own = address.of_file(self.name, (name,))
        urls = [url, own] if page.is_web(url) else [own]
        title = " ".join(_first(fields, ("title", "headline")).split()) or _opening(text)
        return Document(urls[0], title, text.strip(), _first(fields, ("date",))[:10], tuple(urls[1:]))


def stamp_of(file: Path) -> str:
    """What tells a file from what it was before, without reading it."""
    stat = file.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> str:
    value = next((fields[name] for name in names if fields.get(name) not in (None, "")), "")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _opening(text: str) -> str:
    """The first words of a text that has no title."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _SEEN else line[:_SEEN].rsplit(" ", 1)[0] + " ..."
