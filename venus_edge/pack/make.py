"""PARTS -> A PACK. In: files with their paths in the pack, what the wheels are for. Out: one folder or, by its suffix,
a .tar, with a manifest of sizes and hashes, an install script and a README.

Written beside its name and given it at the end, so that half a pack is never taken for one. Nothing of a file is kept
in memory but the piece that is being copied.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from venus_edge.errors import StorageError, UsageError
from venus_edge.pack import Part, unpack
from venus_edge.registry import ModelSpec

HERE = Path(__file__).resolve().parent
_CHUNK = 1024 * 1024
_OTHERS = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z")
Say = Callable[[str], None]
# What a person set that means the same on another machine; nothing of networks, keys, paths or this one's processor.
CARRIED = frozenset({
    "dialect", "context", "kv_type", "reader", "results", "max_turns", "max_minutes", "max_tokens", "context_policy",
    "grammar", "read_tokens", "region", "language", "temperature", "cache_mb",
})  # fmt: skip


def config_text(written: Mapping[str, Any], model: str, corpora: Sequence[str], dense: str = "") -> str:
    """The config.toml of the machine without a network: what was set here, what is carried, and offline."""
    values = {name: value for name, value in written.items() if name in CARRIED}
    if model:
        values["model"] = model
    if corpora:
        values["corpus"] = [f"../data/{name}" for name in corpora]
    if dense:
        values["dense"] = dense
    values["offline"] = True
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def model_text(spec: ModelSpec) -> str:
    """The model's table for models.toml, so that its file is found by its name in the models directory."""
    values = {name: value for name, value in asdict(spec).items() if name not in ("name", "file", "sampling", "sha256")}
    rows = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    sampling = ", ".join(f"{name} = {json.dumps(value)}" for name, value in asdict(spec.sampling).items())
    return "\n".join([f'["{spec.name}"]', *rows, f"sampling = {{ {sampling} }}"]) + "\n"


def embedding_text(name: str, file: str) -> str:
    """The table of an embedding model, so that it is found as the model is."""
    return f"[embedding.{json.dumps(name, ensure_ascii=False)}]\nfile = {json.dumps(file, ensure_ascii=False)}\n"


def free_name(name: str, taken: Collection[str]) -> str:
    """A path in the pack that nothing has yet, on any file system: this one, or with a number."""
    used = {path.casefold() for path in taken}
    stem, dot, suffix = name.rpartition(".")
    names = (name if number == 1 else f"{stem}-{number}{dot}{suffix}" for number in count(1))
    return next(each for each in names if each.casefold() not in used)


def fit_name(folder: str, name: str) -> str:
    """A file's path in the pack: nothing that a file system, or whoever unpacks it, would refuse."""
    stem, dot, suffix = re.sub(r'[\x00-\x1f\x7f<>:"|?*\\/]+', "-", name).rpartition(".")
    room = 85 - len(f"{folder}/.{suffix}".encode())
    return f"{folder}/{stem.encode()[:room].decode(errors='ignore').strip('. ') or 'x'}{dot}{suffix}"


def texts(python: str, needs: Sequence[str], model: str) -> dict[str, str]:
    """What a pack has to read and to run, by its path. `python` "": any that the program runs with."""
    known = {
        "@PYTHON@": python or "3.11",
        "@ANY@": "" if python else "+",
        "@PY@": f"py -{python}" if python else "py",
        "@MODEL@": model or "-",
        "@NEEDS@": ", ".join(needs) or "-",
    }
    found = {name: (HERE / name).read_text(encoding="utf-8") for name in unpack.TOP_FILES}
    for name in ("README.txt", "install.sh"):
        for mark, text in known.items():
            found[name] = found[name].replace(mark, text)
    return found


def write(parts: Sequence[Part], facts: Mapping[str, Any], out: Path, say: Say) -> str:
    """The pack at `out`. Out: its manifest's sha256, which stands for all of it. Raises UsageError, StorageError."""
    _check_names(parts)
    check_out(out)
    rows = [{"path": part.name, **_measured(part.path)} for part in parts]
    manifest = json.dumps({"venus-edge-pack": unpack.FORMAT, **facts, "files": rows}, ensure_ascii=False, indent=1)
    half = out.with_name(f"{out.name}.part")
    with _disk(out):
        _clear(half)
        _check_space(out, sum(row["size"] for row in rows))
        written = _tar if out.suffix.lower() == ".tar" else _folder
        try:
            written(half, out.stem, manifest.encode(), list(zip(parts, rows, strict=True)), say)
        except BaseException:
            _clear(half)
            raise
        os.replace(half, out)
    return hashlib.sha256(manifest.encode()).hexdigest()


def _check_names(parts: Sequence[Part]) -> None:
    try:
        unpack.check_names([part.name for part in parts])
    except unpack.Broken as error:
        raise UsageError(f"{error}: rename it, or pack it alone") from error


def check_out(out: Path) -> None:
    """Raises UsageError for what is no new folder or .tar beside which there is room to write."""
    if out.exists():
        raise UsageError(f"{out} is there already: name a new folder or .tar")
    if out.suffix.lower() in _OTHERS:
        raise UsageError(f"{out} would be a folder of that name: a pack is a folder or a .tar, which compress little")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out.absolute().parent} is not there: make it first")


def _measured(path: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as source:
            for chunk in _chunks(source):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    return {"size": size, "sha256": digest.hexdigest()}


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


Rows = Sequence[tuple[Part, Mapping[str, Any]]]


def _folder(half: Path, _: str, manifest: bytes, rows: Rows, say: Say) -> None:
    half.mkdir()
    (half / unpack.MANIFEST).write_bytes(manifest)
    for part, row in rows:
        target = half / part.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            _copy(part, row, out)
        with suppress(PermissionError):  # of FAT: its files have no modes, and `sh install.sh` needs none
            target.chmod(0o755 if target.suffix == ".sh" else 0o644)
        say(f"  {part.name}  {row['size']:,} bytes")


def _tar(half: Path, top: str, manifest: bytes, rows: Rows, say: Say) -> None:
    with half.open("wb") as out:
        out.write(_header(f"{top}/{unpack.MANIFEST}", len(manifest)))
        out.write(manifest + b"\0" * (-len(manifest) % tarfile.BLOCKSIZE))
        for part, row in rows:
            out.write(_header(f"{top}/{part.name}", row["size"]))
            _copy(part, row, out)
            out.write(b"\0" * (-row["size"] % tarfile.BLOCKSIZE))
            say(f"  {part.name}  {row['size']:,} bytes")
        out.write(b"\0" * 2 * tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    """A member that any tar reads: a plain file, no owner, no date, so that the same parts make the same pack."""
    if len(name.encode()) >= tarfile.BLOCKSIZE:
        raise UsageError(f"{name} is too long for a .tar: give the pack a shorter name")
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o755 if name.endswith(".sh") else 0o644
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _copy(part: Part, row: Mapping[str, Any], out: BinaryIO) -> None:
    digest = hashlib.sha256()
    with part.path.open("rb") as source:
        for chunk in _chunks(source):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != row["sha256"]:
        raise StorageError(f"{part.path} changed while it was packed: run it again")


def _check_space(out: Path, need: int) -> None:
    place = out.absolute().parent
    if need + unpack.SPARE > (free := shutil.disk_usage(place).free):
        said, there = unpack.size_text(need + unpack.SPARE), unpack.size_text(free)
        raise StorageError(f"the pack takes {said}, {there} are free in {place}: name another")


def _clear(half: Path) -> None:
    if half.is_dir() and not half.is_symlink():
        shutil.rmtree(half)
    else:
        half.unlink(missing_ok=True)


@contextmanager
def _disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = "its file system takes no file of that size" if error.errno == errno.EFBIG else error.strerror or error
        raise StorageError(f"{error.filename or out}: {why}: name another place") from error
