"""A body is decoded, within bounds; what cannot be read is not offered."""

from __future__ import annotations

import gzip
import importlib
import sys
import tracemalloc
import zlib

import pytest

from venus_edge.sources import encodings
from venus_edge.sources.encodings import decoded, offered

PAGE = b"<p>" + str(list(range(3000))).encode() + b"</p>"
RAW_DEFLATE = zlib.compress(PAGE)[2:-4]
ENCODED = {
    "gzip": (gzip.compress(PAGE), "gzip", (PAGE, True)),
    "gzip in members": (gzip.compress(PAGE[:100]) + gzip.compress(PAGE[100:]), "gzip", (PAGE, True)),
    "gzip with a tail": (gzip.compress(PAGE) + b"\0\0", "gzip", (PAGE, True)),
    "x-gzip": (gzip.compress(PAGE), "X-GZIP", (PAGE, True)),
    "deflate with zlib's header": (zlib.compress(PAGE), "deflate", (PAGE, True)),
    "deflate without": (RAW_DEFLATE, "deflate", (PAGE, True)),
    "twice": (gzip.compress(zlib.compress(PAGE)), "deflate, gzip", (PAGE, True)),
    "not gzip": (b"<p>not gzip</p>", "gzip", (b"<p>not gzip</p>", True)),
    "not deflate": (b"<p>plain</p>", "deflate", (b"<p>plain</p>", True)),
    "UTF-8": (b"<p>hello</p>", "UTF-8", (b"<p>hello</p>", True)),
    "none": (b"<p>hello</p>", "none", (b"<p>hello</p>", True)),
    "identity": (b"<p>hello</p>", "identity", (b"<p>hello</p>", True)),
    "empty": (b"", "gzip", (b"", True)),
    "too long": (b"x" * 100_001, "", (b"x" * 100_000, False)),
}


@pytest.mark.parametrize("name", ENCODED)
def test_a_body_is_decoded_or_taken_as_it_is(name: str) -> None:
    body, named, expected = ENCODED[name]
    assert decoded(body, named, 100_000) == expected


@pytest.mark.parametrize(
    ("cut", "encoding"),
    [(gzip.compress(PAGE)[:-900], "gzip"), (zlib.compress(PAGE)[:-900], "deflate"), (RAW_DEFLATE[:-900], "deflate")],
)
def test_a_cut_encoding_gives_its_part_and_says_so(cut: bytes, encoding: str) -> None:
    body, complete = decoded(cut, encoding, 100_000)
    assert 1000 < len(body) < len(PAGE)
    assert PAGE.startswith(body)
    assert not complete


def test_a_bomb_is_stopped_at_the_limit_with_bounded_memory() -> None:
    once = gzip.compress(b"\0" * (200 << 20))
    bomb = gzip.compress(once)
    tracemalloc.start()
    try:
        body, complete = decoded(once, "gzip", 10_000_000)
        twice, _ = decoded(bomb, "gzip, gzip", 10_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(body), complete, len(twice)) == (10_000_000, False, 10_000_000)
    assert peak < 60_000_000  # a few copies of 10 MB, not 200 MB


def packed(name: str, data: bytes) -> bytes:
    if name == "br":
        return bytes(pytest.importorskip("brotli").compress(data))
    return bytes(pytest.importorskip("zstandard").ZstdCompressor().compress(data))


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_newer_encodings_are_read_where_their_package_is(name: str) -> None:
    body = packed(name, PAGE)
    assert decoded(body, name, 100_000) == (PAGE, True)
    assert decoded(gzip.compress(body), f"{name}, gzip", 100_000) == (PAGE, True)
    assert decoded(b"<p>plain</p>", name, 100_000) == (b"<p>plain</p>", True)
    part, complete = decoded(body[:-900], name, 100_000)
    assert PAGE.startswith(part) or part == body[:-900]
    assert not complete or part == body[:-900]  # too little came for a first block


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_their_bombs_are_stopped_at_the_limit_too(name: str) -> None:
    bomb = packed(name, b"\0" * (200 << 20))
    tracemalloc.start()
    try:
        body, complete = decoded(bomb, name, 10_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(body), complete) == (10_000_000, False)
    assert peak < 120_000_000


def test_what_cannot_be_read_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("brotli", "zstandard"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(encodings, "find_spec", lambda name: None)
    assert offered() == []
    monkeypatch.undo()
    assert set(offered()) <= {"br", "zstd"}
    assert all(importlib.import_module({"br": "brotli", "zstd": "zstandard"}[name]) for name in offered())
