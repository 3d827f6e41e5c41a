"""ADDRESSES OF A CORPUS: the variants of a URL that mean one document; addresses of files that never had one. Pure.

In: a URL as a page, a person or the model writes it. Out: the key that all of its variants share, its host, the words
in it. What may be fetched is `sources.address`; nothing is fetched here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

_WEB = re.compile(r"^(?:https?:)?/*([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE)
_FILE = re.compile(r"^file:/*", re.IGNORECASE)
_ZIM = re.compile(r"^zim:/*", re.IGNORECASE)
_NAMESPACE = re.compile(r"^([^/]*/)[A-Z]/")  # of an archive's older layout
_WRAPPED = " \t\r\n<>\"'`“”‘’«»"
_MARKS_AFTER = ".,;:!?)]}。，；：！？）】》」"
_INDEX = re.compile(r"/(?:index|default)\.(?:html?|php|asp)$")
_UNSENDABLE = re.compile("[\ud800-\udfff\x00-\x1f\x7f]")
_SLASHES = re.compile(r"/{2,}")
_PORT = re.compile(r":\d*$")
_ENDING = re.compile(r"\.(?:html?|md|txt|php|aspx?|pdf)$")
_BETWEEN_WORDS = re.compile(r"[-_+/.=&?%]+")


def of_file(corpus: str, parts: Sequence[str]) -> str:
    """The address of a file that has no other: `file:NAME/relative/path.md`, nothing of the disk around it."""
    return "file:" + "/".join(quote(part, safe="!$&'()*+,;=@~") for part in (corpus, *parts))


def of_entry(archive: str, path: str) -> str:
    """The address of an entry of a ZIM archive: `zim:NAME/path`."""
    return f"zim:{quote(archive)}/{quote(path)}"


def keys(url: str) -> tuple[str, ...]:
    """The key of an address, then those it has if marks of the sentence around it were taken for part of it."""
    bare = _UNSENDABLE.sub("", url).strip(_WRAPPED)
    return tuple(dict.fromkeys((key(bare), key(bare.rstrip(_MARKS_AFTER)))))


@lru_cache(maxsize=256)  # of one document it is asked three times
def key(url: str) -> str:
    """What all variants of an address have in common: no scheme, www, port, fragment, last slash or escape."""
    if _ZIM.match(url):
        path = _ZIM.sub("", url).partition("#")[0]
        return "zim:" + _NAMESPACE.sub(r"\1", _plain(path).replace(" ", "_"))
    if _FILE.match(url):
        path = _FILE.sub("", url).partition("#")[0].replace("\\", "/")
        return "file:" + _plain(path).rstrip("/")
    match = _WEB.match(url)
    authority, path, query = match.groups() if match else ("", "", "")
    path = _SLASHES.sub("/", _plain(path))
    path = _INDEX.sub("", path).rstrip("/").replace(" ", "_")
    return _host_of(authority) + path + _plain(query or "").replace("+", " ").removesuffix("?")


def host(url: str) -> str:
    """The host of a web address, lower case, without www; "" for a file or an entry of an archive."""
    match = None if _FILE.match(url) or _ZIM.match(url) else _WEB.match(url)
    return _host_of(match[1]) if match else ""


def words(url: str) -> str:
    """What an address says in words: its path, then its host without the ending, for looking up what was meant."""
    bare = _ZIM.sub("", _FILE.sub("", key(url)))
    path = bare.partition("/")[2] or bare
    return _BETWEEN_WORDS.sub(" ", _ENDING.sub("", path)).strip()


def _plain(text: str) -> str:
    """Without percent escapes, its characters composed."""
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return unicodedata.normalize("NFC", _UNSENDABLE.sub("", unquote(text, errors="replace")))


@lru_cache(maxsize=1024)  # many documents are of one host
def _host_of(authority: str) -> str:
    name = _UNSENDABLE.sub("", unquote(authority.rpartition("@")[2], errors="replace"))
    name = _PORT.sub("", name).rstrip(".").casefold().removeprefix("www.")
    if "xn--" in name:
        try:
            return name.encode("ascii").decode("idna")
        except UnicodeError:
            return name
    return unicodedata.normalize("NFC", name)
