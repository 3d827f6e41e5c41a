"""What something is, its first bytes say before its header, and its header before its name."""

from __future__ import annotations

import io
import zipfile

import pytest

from venus_edge.sources.kinds import Kind, kind_of


def zipped(name: str, text: str = "x") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, text)
    return data.getvalue()


CASES: list[tuple[bytes, str, str, Kind]] = [
    (b"%PDF-1.7\n", "text/html", "https://x.example/a.html", "pdf"),
    (b"\n\n%PDF-1.4", "", "", "pdf"),
    (zipped("word/document.xml"), "application/octet-stream", "", "office"),
    (zipped("xl/workbook.xml"), "", "", "office"),
    (zipped("mimetype", "application/epub+zip"), "", "", "epub"),
    (zipped("a.txt"), "text/html", "", "archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "text/plain", "", "office"),
    (b"\x1f\x8b\x08\0", "", "", "archive"),
    (b"\x89PNG\r\n\x1a\n", "text/html", "", "image"),
    (b"RIFF\0\0\0\0WEBPVP8 ", "", "", "image"),
    (b"RIFF\0\0\0\0WAVEfmt ", "", "", "media"),
    (b"\0\0\0 ftypisom", "text/html", "", "media"),
    (b"\0\0\0 ftypavif", "", "", "image"),
    (b"\x7fELF\2\1\1", "text/plain", "", "binary"),
    (b"\0\1\2\3" * 300, "text/html", "", "binary"),
    (b"<!DOCTYPE html><p>x", "application/json", "", "html"),
    (b"\xef\xbb\xbf \n<HTML>", "text/plain", "", "html"),
    (b"<!-- hello --><p>x", "", "", "html"),
    (b"<p>x</p>", "text/html", "", "html"),
    ("<html><p>x".encode("utf-16"), "", "", "html"),
    (b"hello <b>there</b>", "text/html", "", "html"),
    (b"hello there", "text/html", "", "html"),
    (b'<?xml version="1.0"?><rss><channel/></rss>', "text/html", "", "xml"),
    (b'<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">', "", "", "html"),
    (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "", "", "xml"),
    (b"<note><to>x</to></note>", "application/xml", "", "xml"),
    (b'{"a": 1}', "application/json", "", "json"),
    (b'{"a": 1}', "application/ld+json; charset=utf-8", "", "json"),
    (b'[{"a": 1}]', "", "", "json"),
    (b"# Title\n\ntext", "text/markdown", "", "markdown"),
    (b"# Title\n\ntext", "", "https://x.example/README.md", "markdown"),
    (b"# Title\n\ntext", "text/plain", "https://x.example/README.md", "markdown"),
    (b"a,b\n1,2\n", "text/csv", "", "csv"),
    (b"a,b\n1,2\n", "", "https://x.example/t.csv", "csv"),
    (b"plain words", "", "", "plain"),
    (b"", "", "", "plain"),
    ("灯塔的高度".encode("gbk"), "text/plain", "", "plain"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_it_is(case: int) -> None:
    body, content_type, url, kind = CASES[case]
    assert kind_of(body, content_type, url) == kind
