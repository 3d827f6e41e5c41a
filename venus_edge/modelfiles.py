"""MODEL FILES ON THIS MACHINE: where a model's GGUF is, which of several is the best, what its bytes hash to.

In: a ModelSpec. Out: paths. Files are in the hub's own cache (HF_HUB_CACHE, HF_HOME), or in `<data>/models` where a
person put them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from venus_edge.errors import ModelError, StorageError
from venus_edge.registry import PACKAGE, ModelSpec

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_CHUNK = 1024 * 1024
_QUANT = re.compile(
    r"(?:^|[-_.])((?:IQ|Q|TQ)\d(?:_K_XL|_K_[SML]|_K|_[01]|_XXS|_XS|_NL|_[SM])|BF16|FP16|F16|F32)(?=[-_.]|$)"
)
PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


def locate(spec: ModelSpec, models_dir: Path, quant: str | None = None) -> Path:
    """The GGUF file of a model on this machine. Raises ModelError, naming the command that gets it, for none."""
    if spec.file:
        path = PACKAGE / spec.file  # an absolute path stays what it is
        if os.path.lexists(path):  # what else it may be than a file is said by whoever reads it
            return path
        if spec.sha256:  # one that was added
            raise ModelError(f"{path} is not there: put it back, or forget it: venus-edge models rm {spec.name}")
        raise ModelError(f"{path} is not there: give --model the path of a .gguf file, or try: venus-edge run --demo")
    found = here(spec, models_dir)
    if found:
        return best(found, quant or spec.quant)
    raise ModelError(
        f"model {spec.name} is not on this machine; get it with: venus-edge models pull {spec.name} "
        f"(about {spec.size_gb:.1f} GB, or copy its .gguf into {models_dir}); without it: venus-edge run --demo"
    )


def here(spec: ModelSpec, models_dir: Path) -> list[Path]:
    """Every GGUF file of a model on this machine: put into the models directory, or in the hub's cache."""
    if spec.file:
        return [path for path in [PACKAGE / spec.file] if path.is_file()]
    found = [*_placed(spec, models_dir), *_cached(spec)]
    return [path for path in found if not (part := PART.search(path.name)) or int(part[1]) == 1]


def parts(path: Path) -> list[Path]:
    """The files of a model on this machine: the one, or all of a split one whose first this is."""
    named = PART.search(path.name)
    if not named:
        return [path]
    stem = path.name[: named.start()]
    return [other for n in range(1, int(named[2]) + 1) if (other := _part(path, stem, n, named[2])).is_file()]


def name_for(spec: ModelSpec, path: Path) -> str:
    """The name by which a model's file is found in a models directory: its own, or the model's before its part."""
    if _names(spec, path.name):
        return path.name
    part = PART.search(path.name)
    return f"{spec.name}{part[0] if part else '.gguf'}"


def _part(path: Path, stem: str, number: int, count: str) -> Path:
    return path.with_name(f"{stem}-{number:05d}-of-{count}.gguf")


def best(paths: Iterable[Path], quant: str) -> Path:
    """Of several files of a model the one of the wanted quantization, else the newest."""
    return max(paths, key=lambda path: (quant_of(path.name) == canonical(quant), path.stat().st_mtime))


def quant_of(name: str) -> str:
    """The quantization that a file's name tells, as `Q4_K_M`; "" for none."""
    found = _QUANT.findall(canonical(PurePosixPath(name).name.removesuffix(".gguf")))
    return str(found[-1]) if found else ""


def canonical(quant: str) -> str:
    return quant.upper().replace("-", "_")


def _placed(spec: ModelSpec, models_dir: Path) -> list[Path]:
    if not models_dir.is_dir():
        return []
    return [path for path in sorted(models_dir.glob("*.gguf")) if _names(spec, path.name)]


def _cached(spec: ModelSpec) -> list[Path]:
    """GGUF files of the model's repository in the hub's cache, found without importing the hub library."""
    if not spec.gguf_repo:
        return []
    snapshots = folder(spec.gguf_repo) / "snapshots"
    return [path for path in sorted(snapshots.glob("*/**/*.gguf")) if path.is_file()] if snapshots.is_dir() else []


def _names(spec: ModelSpec, file: str) -> bool:
    return spec.name.replace("-", "") in file.lower().replace("-", "").replace("_", "")


def hub_cache() -> Path:
    """The hub's cache directory, as huggingface_hub finds it (HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache)."""
    if given := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):  # its older name
        return Path(os.path.expandvars(given)).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(os.path.expandvars(os.environ.get("HF_HOME", f"{base}/huggingface"))).expanduser() / "hub"


def folder(repo: str) -> Path:
    return hub_cache() / f"models--{repo.replace('/', '--')}"


def remove(path: Path) -> int:
    """Deletes a model's file, in the hub's cache with the bytes that it points to. Out: the bytes that are free now."""
    try:
        target = path.resolve()
        size = target.stat().st_size
        path.unlink()
        if target != path and target.parent.name == "blobs":
            target.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be removed: {error.strerror or error}") from error
    return size


def listed_sha256(path: Path) -> str:
    """The sha256 that the hub lists for a file in its cache (an LFS blob is named by it); "" for any other file."""
    target = path.resolve()
    return target.name if target.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", target.name) else ""


def sha256(path: Path, step: Callable[[int], None] = lambda _: None) -> str:
    """The sha256 of a file; `step` hears the bytes read so far. Raises StorageError."""
    return digest(path, hashlib.sha256(), step)


def digest(path: Path, hashing: Hash, step: Callable[[int], None]) -> str:
    """The file's bytes through a hash, as hex; `step` hears the bytes read so far. Raises StorageError."""
    try:
        with path.open("rb") as source:
            while chunk := source.read(_CHUNK):
                hashing.update(chunk)
                step(source.tell())
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    return hashing.hexdigest()
