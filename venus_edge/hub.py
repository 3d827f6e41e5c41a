"""Model files: where they are on this machine, and getting them from the hub (the only huggingface_hub import).

In: a ModelSpec. Out: the path of a GGUF file. Files are kept in the hub's own cache (HF_HOME, HF_HUB_CACHE, HF_TOKEN,
HF_ENDPOINT, HF_HUB_OFFLINE and proxies mean what they always mean), or in `<data>/models` where a person put them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from venus_edge.errors import ModelError
from venus_edge.registry import PACKAGE, ModelSpec


def locate(spec: ModelSpec, models_dir: Path) -> Path:
    """The GGUF file of a model on this machine. Raises ModelError, naming the command that gets it, for none."""
    if spec.file:
        path = PACKAGE / spec.file  # an absolute path stays what it is
        if path.is_file():
            return path
        raise ModelError(f"{path} is not there; give --model the path of a .gguf file, or try: venus-edge run --demo")
    found = [*_placed(spec, models_dir), *_cached(spec)]
    if found:
        return best(found, spec.quant)
    raise ModelError(
        f"model {spec.name} is not on this machine; get it with: venus-edge models pull {spec.name} "
        f"(about {spec.size_gb:.1f} GB, or copy its .gguf into {models_dir}); without it: venus-edge run --demo"
    )


def pull(spec: ModelSpec, quant: str | None = None) -> Path:
    """Fetches the model's GGUF file, resuming what was begun. Raises ModelError in one line for whatever failed."""
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    if not spec.gguf_repo:
        raise ModelError(f"model {spec.name} has no repository to fetch from")
    try:
        name = choose(HfApi().list_repo_files(spec.gguf_repo), quant or spec.quant, spec.gguf_repo)
        return Path(hf_hub_download(spec.gguf_repo, name))
    except OfflineModeIsEnabled as error:
        raise ModelError(f"HF_HUB_OFFLINE is set: unset it to fetch {spec.name}, or copy its file here") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{spec.gguf_repo} could not be fetched: {reason}; run the command again to resume") from error


def choose(names: Iterable[str], quant: str, repo: str) -> str:
    """The GGUF file of that quantization among a repository's files; the error for a miss lists what is there."""
    files = sorted(name for name in names if name.lower().endswith(".gguf"))
    fitting = [name for name in files if _quant_in(name, quant)]
    if not fitting:
        there = ", ".join(files) or "no .gguf file at all"
        raise ModelError(f"{repo} has no {quant} file; it has {there}; choose one with --quant")
    return min(fitting, key=len)


def best(paths: Iterable[Path], quant: str) -> Path:
    """Of several files of a model the one of the wanted quantization, else the newest."""
    return max(paths, key=lambda path: (_quant_in(path.name, quant), path.stat().st_mtime))


def _quant_in(name: str, quant: str) -> bool:
    return quant.lower().replace("-", "_") in name.lower().replace("-", "_")


def _placed(spec: ModelSpec, models_dir: Path) -> list[Path]:
    if not models_dir.is_dir():
        return []
    return [path for path in sorted(models_dir.glob("*.gguf")) if _names(spec, path.name)]


def _cached(spec: ModelSpec) -> list[Path]:
    """GGUF files of the model's repository in the hub's cache, found without importing the hub library."""
    if not spec.gguf_repo:
        return []
    snapshots = hub_cache() / f"models--{spec.gguf_repo.replace('/', '--')}" / "snapshots"
    return sorted(snapshots.glob("*/*.gguf")) if snapshots.is_dir() else []


def hub_cache() -> Path:
    """The hub's cache directory, as huggingface_hub finds it (HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache)."""
    if given := os.environ.get("HF_HUB_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(os.environ.get("HF_HOME", f"{base}/huggingface")).expanduser() / "hub"


def _names(spec: ModelSpec, file: str) -> bool:
    return spec.name.replace("-", "") in file.lower().replace("-", "").replace("_", "")
