"""FIRST BYTES -> WHAT IT IS. Pure: the bytes decide, then the header, then the name.

In: a body, its Content-Type and its URL. Out: a `Kind`. Only `READ` kinds are read as text; the others are named.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

Kind = Literal[
    "html", "xml", "markdown", "json", "csv", "plain", "pdf", "office", "epub", "archive", "image", "media", "binary"
]

READ: frozenset[Kind] = frozenset({"html", "xml", "markdown", "json", "csv", "plain"})

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"BM", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"\x00\x00\x01\x00", "image"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "office"),  # Word, Excel and PowerPoint before 2007
    (b"{\\rtf", "office"),
    (b"PK\x05\x06", "archive"),
    (b"\x1f\x8b", "archive"),
    (b"BZh", "archive"),
    (b"7z\xbc\xaf\x27\x1c", "archive"),
    (b"Rar!\x1a\x07", "archive"),
    (b"\xfd7zXZ\x00", "archive"),
    (b"\x28\xb5\x2f\xfd", "archive"),
    (b"ID3", "media"),
    (b"OggS", "media"),
    (b"fLaC", "media"),
    (b"FLV", "media"),
    (b"\x1aE\xdf\xa3", "media"),
    (b"\x7fELF", "binary"),
    (b"MZ\x90", "binary"),
    (b"wOFF", "binary"),
    (b"wOF2", "binary"),
    (b"\x00asm", "binary"),
    (b"SQLite format 3\x00", "binary"),
    (b"GGUF", "binary"),
)
_ZIPPED: tuple[tuple[bytes, Kind], ...] = (
    (b"application/epub+zip", "epub"),
    (b"word/", "office"),
    (b"xl/", "office"),
    (b"ppt/", "office"),
    (b"application/vnd.oasis", "office"),
    (b"META-INF/container.xml", "epub"),
    (b"META-INF/manifest.xml", "office"),
)
_HTML = re.compile(
    rb"<(!doctype\s+html|html|head|body|title|meta|link|script|style|div|p|h[1-6]|table|article|section|main|ul|ol|a|br|img"
    rb"|span|b|i|font|center|header|nav|form|pre|blockquote|!--)\b|<!--",
    re.I,
)
_MARKDOWN_NAMES = (".md", ".markdown", ".mdown", ".mkd")
_BY_TYPE: tuple[tuple[str, Kind], ...] = (
    ("xhtml", "html"),
    ("html", "html"),
    ("markdown", "markdown"),
    ("json", "json"),
    ("csv", "csv"),
    ("xml", "xml"),
)


def kind_of(body: bytes, content_type: str = "", url: str = "") -> Kind:
    """What `body` is."""
    return _binary(body) or _text(body[:4096], content_type.lower(), _name(url))


def _name(url: str) -> str:
    try:
        return urlsplit(url).path.lower()
    except ValueError:
        return ""


def _binary(body: bytes) -> Kind | None:
    if b"%PDF-" in body[:1024]:
        return "pdf"
    if body.startswith(b"PK\x03\x04"):
        head = body[:4096] + body[-65536:]  # the names of the parts: in front of each, and all at the end
        return next((kind for mark, kind in _ZIPPED if mark in head), "archive")
    if body[:4] == b"RIFF":
        return "image" if body[8:12] == b"WEBP" else "media"
    if body[4:8] == b"ftyp":
        return "image" if body[8:12] in (b"avif", b"heic", b"mif1") else "media"
    for magic, kind in _MAGIC:
        if body.startswith(magic):
            return kind
    return None


def _text(head: bytes, content_type: str, name: str) -> Kind:
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff")) or "utf-16" in content_type
    wide = marked or head[:2000].count(0) * 5 >= len(head[:2000]) > 0
    bare = head.replace(b"\0", b"") if wide else head
    start = bare.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\f")
    by_type = next((kind for word, kind in _BY_TYPE if word in content_type), None)
    if _is_binary(bare) or (head and not bare):
        return "binary"
    if start.startswith(b"<"):
        return _markup(start, by_type)
    if by_type == "json" or (start[:1] in (b"{", b"[") and by_type is None and name.endswith(".json")):
        return "json"
    if by_type == "markdown" or (name.endswith(_MARKDOWN_NAMES) and by_type is None):
        return "markdown"
    if by_type == "csv" or (name.endswith(".csv") and by_type is None):
        return "csv"
    if by_type == "html" or (by_type is None and _HTML.search(start[:1024]) and "plain" not in content_type):
        return "html"
    if start[:1] in (b"{", b"[") and b'"' in start[:200] and by_type is None:
        return "json"
    return "plain"


def _is_binary(head: bytes) -> bool:
    """Zeros, or more control bytes than text ever has."""
    control = sum(b < 9 or 13 < b < 27 or 27 < b < 32 for b in head[:1024])
    return control * 10 > len(head[:1024]) or head[:1024].count(0) > 8


def _markup(start: bytes, by_type: Kind | None) -> Kind:
    low = start[:2048].lower()
    if low.startswith(b"<?xml") or low.startswith((b"<rss", b"<feed", b"<rdf", b"<urlset")):
        return "html" if re.search(rb"<html[\s>]|<!doctype\s+html", low) else "xml"
    if _HTML.match(start):
        return "html"
    if by_type == "xml" or (by_type is None and not _HTML.search(start[:2048])):
        return "xml"
    return by_type or "html"
