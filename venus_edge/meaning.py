"""CORPORA BY MEANING, where a person asks for it: which embedding model, vectors made, and a corpus opened with them.

In: Settings (`dense` is a name under [embedding] in models.toml, or the path of a GGUF file; "" is off), a corpus file.
Out: an open Corpus, its passages embedded first. The vectors are `corpus.dense`'s, the model is `engine.embedding`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge import registry
from venus_edge.corpus.index import Corpus, called
from venus_edge.errors import UsageError
from venus_edge.settings import Settings

if TYPE_CHECKING:
    from venus_edge.engine.embedding import LlamaEmbedder

Note = Callable[[str], None]

_PAUSE = 5.0  # seconds between two words on how far it is


def corpus(file: Path, settings: Settings, note: Note, check: bool = True) -> Corpus:
    """The corpus; by words alone unless `dense` is set. Raises CorpusError, UsageError, ModelError. Vectors of another
    model are a UsageError too: they may have taken hours, so only `embed` makes them again."""
    if not settings.dense:
        opened = Corpus(file, check=check)
        if made_by := opened.embedder():
            note(f"{file.stem}: searched by its words alone; its vectors of {called(made_by)} serve --dense NAME|FILE")
        return opened
    embedder = _opened(model_file(settings), settings.threads)
    with Corpus(file, check=check) as opened:
        made_by = opened.embedder()
    if made_by and made_by != embedder.name:
        raise UsageError(
            f"{file.stem} has vectors of {called(made_by)}, not of {settings.dense}: name that model, or have them "
            f"made again: venus-edge corpus embed {file.stem} --dense {settings.dense}"
        )
    _fill(file, embedder, note)
    return Corpus(file, check=False, embedder=embedder)


def embed(file: Path, settings: Settings, note: Note) -> int:
    """Gives every passage its vector, of the model that is set, and says how many had none. Interrupted, the next call
    goes on. Raises CorpusError, UsageError, ModelError."""
    with Corpus(file) as opened:
        made_by = opened.embedder()
    embedder = _opened(model_file(settings), settings.threads)
    if made_by and made_by != embedder.name:
        note(f"{file.stem}: the vectors of {called(made_by)} go")
    return _fill(file, embedder, note)


def _fill(file: Path, embedder: LlamaEmbedder, note: Note) -> int:
    from venus_edge.corpus import dense

    begun = told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _PAUSE or done == total:
            told = now
            note(f"{file.stem}: {line(done, total, now - begun)}")

    return dense.fill(file, embedder, progress)


def line(done: int, total: int, seconds: float) -> str:
    """How far it is, after so many seconds."""
    rate = done / max(seconds, 1e-3)
    left = (total - done) / rate if done else 0.0
    eta = f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left" if left else ""
    return f"{done:,} of {total:,} passages embedded, {rate:,.0f} a second{eta}"


def model_file(settings: Settings) -> Path:
    """Of the embedding model that was named. Raises UsageError if it is not there."""
    known = registry.embedders(settings.directories.config)
    if not settings.dense:
        raise UsageError(
            f"name an embedding model: --dense NAME or --dense FILE.gguf; known by name: {', '.join(known)}"
        )
    path = Path(settings.dense).expanduser()
    if settings.dense in known:
        path = settings.directories.models / known[settings.dense]
    if not path.is_file():
        raise UsageError(
            f"there is no embedding model at {path}: put a GGUF of it there, or give --dense FILE.gguf; known by "
            f"name: {', '.join(known)}"
        )
    return path


@cache
def _opened(path: Path, threads: int | None) -> LlamaEmbedder:
    """One for all corpora, as long as the process."""
    from venus_edge.engine.embedding import LlamaEmbedder

    return LlamaEmbedder(path, threads)
