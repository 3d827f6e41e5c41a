"""CORPORA BY MEANING, where a person asks for it: which embedding model, and a corpus opened with it.

In: Settings (`dense` is a name under [embedding] in models.toml, or the path of a GGUF file; "" is off), a corpus file.
Out: an open Corpus, its passages embedded first. The vectors are `corpus.dense`'s, the model is `engine.embedding`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge import registry
from venus_edge.corpus.index import Corpus
from venus_edge.errors import UsageError
from venus_edge.settings import Settings

if TYPE_CHECKING:
    from venus_edge.engine.embedding import LlamaEmbedder

Note = Callable[[str], None]


def corpus(file: Path, settings: Settings, note: Note, check: bool = True) -> Corpus:
    """The corpus; by words alone unless `dense` is set. Raises CorpusError, UsageError, ModelError."""
    if not settings.dense:
        return Corpus(file, check=check)
    from venus_edge.corpus import dense

    embedder = _opened(model_file(settings), settings.threads)
    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if done >= told + 1_000 or done == total:
            told = done
            note(f"{file.stem}: {done:,} of {total:,} passages embedded")

    dense.fill(file, embedder, progress)
    return Corpus(file, check=check, embedder=embedder)


def model_file(settings: Settings) -> Path:
    """Of the embedding model that was named. Raises UsageError if it is not there."""
    known = registry.embedders(settings.directories.config)
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
