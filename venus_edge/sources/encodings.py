"""A BODY AND ITS Content-Encoding -> THE BYTES, at most so many: a bomb is never in memory. Pure.

gzip and deflate (with zlib's header and without) always; br and zstd where the packages brotli and zstandard are
installed (the extra `fast`): only what can be read is `offered`.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

_PIECE = 1 << 20  # bytes that come out at a time
_SIP = 1 << 10  # bytes of zstd that go in at a time: it makes up to 32 MB of them


class _Cut(Exception):
    """The body ends before its encoding does."""


class _Wrong(Exception):
    """The body is not in this encoding."""


def offered() -> list[str]:
    """The encodings that can be read only where a package is there, and are."""
    return [name for name, package in (("br", "brotli"), ("zstd", "zstandard")) if find_spec(package) is not None]


def decoded(wire: bytes, named: str, limit: int) -> tuple[bytes, bool]:
    """A body without its Content-Encoding, at most `limit` bytes, and whether that is all of it.

    An encoding that is none ("UTF-8") is passed over; a body that is not in the encoding it claims is taken as it is.
    """
    complete = True
    for name in reversed([e.strip().lower() for e in named.split(",")]):
        pieces = _DECODERS.get(name)
        if pieces is not None and wire:
            wire, whole = _collected(wire, pieces, limit)
            complete = complete and whole
    return wire[:limit], complete and len(wire) <= limit


def _collected(wire: bytes, pieces: Callable[[bytes], Iterator[bytes]], limit: int) -> tuple[bytes, bool]:
    """(what comes out, whether all of it did); the wire's own bytes where nothing comes out."""
    out = bytearray()
    try:
        for piece in pieces(wire):
            out += piece
            if len(out) > limit:
                return bytes(out[:limit]), False
    except (_Cut, _Wrong):
        return (bytes(out), False) if out else (wire, True)
    return bytes(out), True


def _gzip(data: bytes) -> Iterator[bytes]:
    """One member after the other; what follows the last and is none is no part of the body."""
    first = True
    while data:
        if data[:2] != b"\x1f\x8b":
            if first:
                raise _Wrong
            return
        stream = zlib.decompressobj(31)
        yield from _inflated(stream, data)
        data, first = stream.unused_data, False


def _deflate(data: bytes) -> Iterator[bytes]:
    """With zlib's header, as RFC 9110 says, or without it, as some servers do."""
    wrapped = len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    yield from _inflated(zlib.decompressobj(15 if wrapped else -15), data)


def _inflated(stream: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    try:
        while not stream.eof:
            piece = stream.decompress(data, _PIECE)
            yield piece
            data = stream.unconsumed_tail
            if not data and not piece:
                raise _Cut
    except zlib.error:
        raise _Wrong from None


def _brotli(data: bytes) -> Iterator[bytes]:
    module: Any = importlib.import_module("brotli")
    stream = module.Decompressor()
    try:
        while not stream.is_finished():
            piece = stream.process(data, output_buffer_limit=_PIECE)
            yield piece
            data = b""
            if not piece:
                raise _Cut
    except module.error:
        raise _Wrong from None


def _zstd(data: bytes) -> Iterator[bytes]:
    """One frame after the other."""
    module: Any = importlib.import_module("zstandard")
    reader = module.ZstdDecompressor(max_window_size=1 << 23)  # RFC 9659: 8 MB on the web
    stream = reader.decompressobj()
    try:
        for start in range(0, len(data), _SIP):
            sip = data[start : start + _SIP]
            while sip:
                stream = reader.decompressobj() if stream.eof else stream
                yield stream.decompress(sip)
                sip = stream.unused_data if stream.eof else b""
    except module.ZstdError:
        raise _Wrong from None
    if not stream.eof:
        raise _Cut


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    **{name: pieces for name, pieces in (("br", _brotli), ("zstd", _zstd)) if name in offered()},
}
