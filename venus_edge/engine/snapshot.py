"""THE CACHE OF A CONVERSATION ON DISK: written whole or not at all, and never believed.

In: a cache that goes to a file and comes back (`Memory`), the token ids it holds, a fingerprint of all that gives them
their meaning. Out: how many bytes were written, how many tokens came back. What does not fit (another model, window or
KV type, another llama.cpp, a damaged or foreign file) gives 0, and the tokens are evaluated as ever.

The file is llama.cpp's own (magic, version, count, token ids, state), the fingerprint before the ids as eight more of
them, and a seal behind the state.
"""

from __future__ import annotations

import glob
import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from venus_edge.engine.kv import Cached
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import StorageError

_HEAD = struct.Struct("=4sII")  # llama.cpp's magic and version, how many ids follow
_MAGIC = b"qsgg"  # LLAMA_STATE_SEQ_MAGIC as it lies on disk
_WORDS = 8  # of 4 bytes: the fingerprint
_SEAL = b"venus-kv"
_BLOCK = 1 << 16
_CHUNK = 1 << 24
_LOOKS = 64  # places of a model file that are read for its fingerprint


class Memory(Protocol):
    """A cache that goes to disk. `words` are the ids in the file, ours before the conversation's."""

    def keep(self, sequence: int, length: int) -> int: ...
    def state_bytes(self, sequence: int) -> int: ...

    def save(self, sequence: int, path: Path, words: Sequence[int]) -> bool:
        """Whether the file is there and whole."""
        ...

    def load(self, sequence: int, path: Path, words: int) -> bool:
        """Whether the sequence, empty before, holds what the file holds. False leaves it in any state."""
        ...


def fingerprint(model: Path, options: EngineOptions, library: str) -> bytes:
    """32 bytes that are others as soon as a cache would mean something else: the model's content (its size, beginning
    and 64 places), window, KV types, flash attention, llama.cpp's version."""
    kind = (options.n_ctx, options.type_k, options.values_type, options.flash, library)
    return content(model, repr(kind).encode())


def content(model: Path, beside: bytes = b"") -> bytes:
    """32 bytes of a model file that tell it from another one, and of what counts `beside` it; reading all of it would
    take longer than opening it."""
    digest = hashlib.sha256(beside)
    with model.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest.update(size.to_bytes(8, "little"))
        for look in range(_LOOKS):
            file.seek(look * max(0, size - _BLOCK) // (_LOOKS - 1))
            digest.update(file.read(_BLOCK))
    return digest.digest()


def save(memory: Memory, cached: Cached, path: Path, mark: bytes, most: int) -> int:
    """Writes sequence 0: the size of the file, 0 if there is nothing to keep or it would be larger than `most` bytes.
    What lay at `path` stays until the new file is whole. Raises StorageError."""
    if not len(cached) or memory.state_bytes(0) + 4 * len(cached) > most:
        return 0
    try:
        with _replacing(path) as part:
            if not memory.save(0, part, [*_words(mark), *cached.ids]):
                raise StorageError(f"{path} cannot be written: is the disk full?")
            return _seal(part)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def restore(memory: Memory, cached: Cached, path: Path, mark: bytes) -> int:
    """Fills sequence 0 from a file: the tokens that it holds now, 0 if the file is not to be had or trusted. Then the
    sequence is as it was, or empty if llama.cpp itself refused."""
    ids = _trusted(path, mark)
    if not ids:
        return 0
    cached.cut(memory.keep(0, 0))
    if not memory.load(0, path, _WORDS + len(ids)):
        memory.keep(0, 0)
        return 0
    cached.extend(ids)
    return len(ids)


# -- the file ---------------------------------------------------------------------------------------------------------


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file that becomes `path` if the block ends well. What a process left that was killed in one is taken away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        left.unlink()
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))  # what was read and thought is nobody else's
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _words(mark: bytes) -> tuple[int, ...]:
    return struct.unpack(f"={_WORDS}i", mark)


def _trusted(path: Path, mark: bytes) -> list[int]:
    """The conversation's ids in a file that is whole and was written under this fingerprint; else none."""
    try:
        with path.open("rb") as file:
            magic, _, count = _HEAD.unpack(file.read(_HEAD.size))
            words = struct.unpack(f"={count}i", file.read(4 * min(count, 1 << 24)))
            body = file.seek(-len(_SEAL) - 32, os.SEEK_END)
            seal = file.read()
            whole = magic == _MAGIC and words[:_WORDS] == _words(mark)
            return list(words[_WORDS:]) if whole and seal == _SEAL + _digest(file, body) else []
    except (OSError, struct.error):
        return []


def _seal(path: Path) -> int:
    """Puts the seal behind the file and the whole on the disk; gives its size."""
    with path.open("r+b") as file:
        body = file.seek(0, os.SEEK_END)
        seal = _SEAL + _digest(file, body)
        file.seek(body)
        file.write(seal)
        file.flush()
        os.fsync(file.fileno())
    return body + len(seal)


def _digest(file: BinaryIO, length: int) -> bytes:
    """Of a file's first bytes, 32: the sums of its words in blocks of 64 KiB, hashed. It finds what disks and cut
    copies do, at the speed of memory; a hash of every byte would take longer than reading the tokens back."""
    digest = hashlib.sha256(length.to_bytes(8, "little"))
    file.seek(0)
    for chunk in _chunks(file, length):
        digest.update(_sums(chunk))
    return digest.digest()


def _chunks(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0 and (chunk := file.read(min(_CHUNK, length))):
        length -= len(chunk)
        yield chunk


def _sums(chunk: bytes) -> bytes:
    import numpy as np

    padded = chunk + bytes(-len(chunk) % _BLOCK)
    return bytes(np.frombuffer(padded, np.uint64).reshape(-1, _BLOCK // 8).sum(axis=1, dtype=np.uint64))
