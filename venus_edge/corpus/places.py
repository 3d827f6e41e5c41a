"""PLACES -> SOURCES: what a person named, told apart by what it is on the disk, each of it once.

In: folders, files, archives as they were typed, or `cache:`. Out: (kind, whole path, name). Nothing is opened here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

CACHE = "cache:"
PIECE = re.compile(r"\.zim[a-z][a-z]")  # the end of the name of a part of an archive
_KINDS = (  # of a file, by the end of its name
    ((".zim", ".zimaa"), "zim"),
    ((".warc", ".warc.gz", ".warc.zst", ".wacz"), "warc"),
    ((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"), "jsonl"),
)
AGAIN = "it is a source already"


def source_at(named: str) -> tuple[str, str, str]:
    """(kind, whole path, name) of a source as it was named."""
    if named == CACHE:
        return "cache", CACHE, "cache"
    path = Path(named).expanduser().absolute()
    if path.is_dir():  # whatever it is called
        return "folder", str(path), path.name
    for ends, kind in _KINDS:
        end = next((end for end in ends if path.name.lower().endswith(end)), "")
        if end:
            return kind, str(path), path.name[: -len(end)] or path.name
    return "file", str(path), path.name


def where(whole: str) -> str:
    """The same for two whole paths of one place; `cache:` is one, too."""
    return whole if whole == CACHE else os.path.realpath(whole)


def holder(kind: str, whole: str, folders: Iterable[str]) -> str:
    """Which of the folders is read with this file or folder in it; "" if none is."""
    if kind not in ("file", "folder"):  # a folder's archives are not read with it
        return ""
    path = Path(os.path.realpath(whole))
    for folder in folders:
        root = Path(os.path.realpath(folder))
        inside = path.relative_to(root).parts if path.is_relative_to(root) else ()
        if inside and not any(part.startswith(".") for part in inside):
            return folder
    return ""


def distinct(named: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Those that are to be read, and those that would be read twice, with the reason."""
    kept: dict[str, str] = {}
    twice: list[tuple[str, str]] = []
    folders = [whole for kind, whole, _ in map(source_at, named) if kind == "folder"]
    for each in named:
        kind, whole, _ = source_at(each)
        if (here := where(whole)) in kept:
            twice.append((each, AGAIN))
        elif folder := holder(kind, whole, folders):
            twice.append((each, f"it is read with {folder}"))
        else:
            kept[here] = each
    return [*kept.values()], twice
