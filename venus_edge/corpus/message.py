"""AN HTTP MESSAGE AS A CRAWLER SAVED IT -> STATUS, HEADERS, PLAIN BODY. Pure.

In: the block of a record. Out: header fields in lower case, and the body without its chunks and compression, or why it
cannot be read; a little more than `page.LARGEST` of it at most, whatever it unpacks to.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from venus_edge.corpus import page

LARGEST_WINDOW = 1 << 27  # bytes of a zstd frame that are in memory


def parsed(block: bytes) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of a message; (0, {}, b"") if it is none."""
    first = re.match(rb"HTTP/\d(?:\.\d)? +(\d{3})[^\n]*\n", block)
    if first is None:
        return 0, {}, b""
    end = re.compile(rb"\r?\n\r?\n|\A\r?\n").search(block, first.end() - 2)
    head, body = (block[: end.start()], block[end.end() :]) if end else (block, b"")
    return int(first[1]), headers_of(head), body


def headers_of(head: bytes) -> dict[str, str]:
    """The header lines of a message, behind its first line and up to the empty one."""
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines()[1:]:
        if not line:
            break
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return headers


def plain(body: bytes, headers: Mapping[str, str]) -> bytes | str:
    """The body without chunks and compression, or why it cannot be read. Crawlers that undo both leave the headers."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    for coding in reversed(re.split(r"[,\s]+", headers.get("content-encoding", "").lower())):
        try:
            made = _unpacked(body, coding)
        except ImportError:
            return f"its body is packed as {coding}: pip install 'venus-edge[fast]'"
        if made is None:
            return f"its body is packed as {coding}, which is not read, or is damaged"
        body = made
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
        return _unbrotlied(body, most)
    if coding == "zstd":
        return unzstd(body, most)
    return None


def _unbrotlied(body: bytes, most: int) -> bytes | None:
    import brotli

    unpacker, found, left = brotli.Decompressor(), bytearray(), body
    try:
        while len(found) < most and not unpacker.is_finished():
            part = unpacker.process(left, output_buffer_limit=most)
            left = b""
            if not part and unpacker.can_accept_more_data():
                break  # it is cut
            found += part
    except brotli.error:
        return body if body.lstrip()[:1] == b"<" else None
    return bytes(found[:most])


def unzstd(body: bytes, most: int) -> bytes | None:
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(body) as stream:
            return bytes(stream.read(most))
    except zstandard.ZstdError:
        return body if body.lstrip()[:1] == b"<" else None


def _inflated(body: bytes, window: int, most: int) -> bytes | None:
    try:
        return zlib.decompressobj(window).decompress(body, most)
    except zlib.error:
        return None
