"""MODEL FILES FROM THE HUB, into its own cache (the only huggingface_hub import).

In: a ModelSpec. Out: the path of a GGUF file. HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and proxies
mean what they always mean. The download is our own loop: the library's keeps no partial file once the process has
ended. A file gets its name only after its size and hash were found to be those that the hub lists. Every connection
passes a gate.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venus_edge import modelfiles
from venus_edge.errors import ModelError, StorageError, VenusError
from venus_edge.registry import ModelSpec

if TYPE_CHECKING:
    from venus_edge.sources.gate import Gate as Gate  # noqa: PLC0414  (those who hand one over name it by here)

ENDPOINT = "https://huggingface.co"
CHECKPOINT_FILES = re.compile(r"[^/]+\.(safetensors|json|jinja|txt|model)$|LICENSE$|README\.md$")
TRIES = 5  # without one new byte between them
PATIENCE = 60.0  # seconds of a Retry-After that are waited out
SPARE = 256 * 1024**2  # bytes that a download leaves free
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the hub lists it: bytes, and the sha256 of an LFS file or else the git hash (`blob_id`)."""

    name: str
    size: int
    sha256: str
    blob_id: str

    @property
    def etag(self) -> str:
        return self.sha256 or self.blob_id


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a download is: bytes of this file, those that an earlier try had left, seconds of this try."""

    name: str
    done: int
    total: int
    resumed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Bytes a second of this try; 0 before it can be told."""
        return (self.done - self.resumed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds to the end, None before they can be told."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None


Watch = Callable[[Progress], None]
Wait = Callable[[float], None]


def _unwatched(_: Progress) -> None:
    """Nobody looks."""


def gate(offline: bool = False, allow_hosts: tuple[str, ...] = ()) -> Gate:
    """The gate that the hub is reached through: the person's own endpoint may be a private host, a redirect may not."""
    from venus_edge.sources import hubclient

    return hubclient.gate(_endpoint(), offline, allow_hosts)


def told(passed: Gate) -> list[str]:
    """The gate's ledger, a line a host and purpose: connections, bytes up and down."""
    totals: dict[tuple[str, str], list[int]] = {}
    for entry in passed.ledger.entries:
        total = totals.setdefault((entry.host, entry.purpose), [0, 0, 0])
        for place, count in enumerate((1, entry.sent, entry.received)):
            total[place] += count
    return [
        f"{host} ({purpose}): {n} connection{'s' if n > 1 else ''}, {sent:,} bytes up, {received:,} down"
        for (host, purpose), (n, sent, received) in totals.items()
    ]


def listing(repo: str, revision: str = "", passing: Gate | None = None, otherwise: str = "") -> Listing:
    """What a repository holds, at a commit, branch or tag. Raises ModelError in one line for whatever failed;
    `otherwise` is what to do where the repository is not there."""
    _quiet()
    from huggingface_hub import HfApi

    with _translated(repo, otherwise), _through(passing or gate(), "list of files"):
        info = HfApi(endpoint=_endpoint()).model_info(repo, revision=revision or None, files_metadata=True, timeout=20)
    siblings = info.siblings or []
    files = tuple(
        RemoteFile(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else "", s.blob_id or "") for s in siblings
    )
    return Listing(repo, info.sha or "", files)


def quants(found: Listing) -> dict[str, int]:
    """The quantizations of a repository's GGUF files -> bytes, all parts of a split file together."""
    sizes: dict[str, int] = {}
    for quant in sorted({modelfiles.quant_of(file.name) for file in found.files if _is_gguf(file.name)} - {""}):
        sizes[quant] = sum(file.size for file in choose(found.files, quant, found.repo))
    return sizes


def choose(files: Sequence[RemoteFile], quant: str, repo: str) -> list[RemoteFile]:
    """The GGUF file of that quantization, or all parts of a split one; the error for a miss lists what is there."""
    every = sorted((file for file in files if _is_gguf(file.name)), key=lambda file: file.name)
    fitting = [file for file in every if modelfiles.quant_of(file.name) == modelfiles.canonical(quant)]
    if not fitting:
        there = ", ".join(file.name for file in every) or "no .gguf file at all"
        raise ModelError(f"{repo} has no {quant} file; it has {there}; choose one with --quant")
    first = min(fitting, key=lambda file: (len(file.name), file.name))
    if not modelfiles.PART.search(first.name):
        return [first]
    stem = modelfiles.PART.sub("", first.name)
    return [
        file for file in fitting if modelfiles.PART.sub("", file.name) == stem and modelfiles.PART.search(file.name)
    ]


def checkpoint(found: Listing) -> list[RemoteFile]:
    """The files that a conversion reads: weights, configuration, tokenizer. Raises ModelError without weights."""
    files = [file for file in found.files if CHECKPOINT_FILES.fullmatch(file.name)]
    if not any(file.name.endswith(".safetensors") for file in files):
        raise ModelError(f"{found.repo} has no safetensors to convert; it has {', '.join(f.name for f in found.files)}")
    return files


def fetch(
    found: Listing,
    files: Sequence[RemoteFile],
    watch: Watch = _unwatched,
    wait: Wait = time.sleep,
    passing: Gate | None = None,
) -> list[Path]:
    """Fetches files into the hub's cache, going on where an earlier try ended; one that is there already is kept.

    Raises ModelError or StorageError in one line; what has come is kept for the next try, unless its hash is wrong.
    """
    folder = modelfiles.folder(found.repo)
    missing = [file for file in files if not _whole(folder / "blobs" / file.etag, file)]
    with _translated(found.repo), _through(passing or gate(), "model file"):
        _check_space(folder, missing)
        for file in missing:
            _download(found, file, folder / "blobs" / file.etag, watch, wait)
        return [_point(folder, found.commit, file) for file in files]


def pull(spec: ModelSpec, quant: str | None = None, watch: Watch = _unwatched) -> Path:
    """Fetches the model's GGUF file. Raises ModelError or StorageError in one line for whatever failed."""
    if not spec.gguf_repo:
        raise ModelError(f"model {spec.name} has no repository to fetch from")
    found = listing(spec.gguf_repo)
    return fetch(found, choose(found.files, quant or spec.quant, spec.gguf_repo), watch)[0]


def reach(passing: Gate) -> str:
    """Asks the hub for one page; "" if it answers, whatever it says, else why not. Raises UsageError for a proxy that
    is none."""
    import httpx2

    from venus_edge.sources import hubclient

    try:
        with hubclient.client(passing, "hub") as client:
            client.head(_endpoint(), timeout=10)
    except (httpx2.HTTPError, ModelError) as error:
        return _reason(error)
    return ""


@contextmanager
def _through(passing: Gate, purpose: str) -> Iterator[None]:
    """While it lasts, every connection of huggingface_hub passes the gate."""
    _quiet()
    from huggingface_hub import close_session, set_client_factory

    from venus_edge.sources import hubclient

    set_client_factory(lambda: hubclient.client(passing, purpose))
    try:
        yield
    finally:
        close_session()


def _quiet() -> None:
    """Loads the library without its telemetry, for which it asks the hub which programs count as agents."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when it loads
    from huggingface_hub import constants

    constants.HF_HUB_DISABLE_TELEMETRY = True


def offline() -> bool:
    """Whether the environment forbids the hub (HF_HUB_OFFLINE)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")


def _shown(address: str) -> str:
    """An address without its password."""
    return re.sub(r"//[^/@]*@", "//***@", address)


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf") and "mmproj" not in name.lower()


# -- the download -----------------------------------------------------------------------------------------------------


class _Again(Exception):
    """A try that failed in a way that may pass; `after` seconds, if the hub says so."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


def _whole(blob: Path, file: RemoteFile) -> bool:
    return blob.is_file() and blob.stat().st_size == file.size


def _check_space(folder: Path, files: Sequence[RemoteFile]) -> None:
    blobs = folder / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    need = sum(file.size - _size(_partial(blobs / file.etag)) for file in files)
    free = shutil.disk_usage(blobs).free
    if files and need + SPARE > free:
        raise StorageError(
            f"{need / 1e9:.1f} GB are needed in {blobs}, {free / 1e9:.1f} GB are free: make room, "
            "or set HF_HOME to a folder on a larger disk"
        )


def _download(found: Listing, file: RemoteFile, blob: Path, watch: Watch, wait: Wait) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]  # documented, not in its __all__

    url = hf_hub_url(found.repo, file.name, revision=found.commit, endpoint=_endpoint())
    lock = modelfiles.hub_cache() / ".locks" / blob.parents[1].name / f"{file.etag}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(blob)
    with WeakFileLock(lock):
        if _whole(blob, file):  # somebody else has fetched it meanwhile
            return
        pieced = _until_whole(url, file, partial, watch, wait)
        if _hash(file, partial) != file.etag and pieced:  # what an earlier try left may be of another file
            partial.unlink()
            _until_whole(url, file, partial, watch, wait)
        if (got := _hash(file, partial)) != file.etag:
            partial.unlink()
            raise ModelError(
                f"{file.name} of {found.repo} came damaged (hash {got[:12]}..., the hub lists {file.etag[:12]}...) and "
                "was deleted: run the command again"
            )
        os.replace(partial, blob)


def _until_whole(url: str, file: RemoteFile, partial: Path, watch: Watch, wait: Wait) -> bool:
    """Reads on until the size is there; gives up after `TRIES` tries in a row that brought nothing. Out: whether the
    file was put together from more than one answer."""
    failed, begun = 0, _size(partial)
    pieces = 1 if begun else 0
    while (have := _size(partial)) != file.size:
        fault: _Again | None = None
        try:
            _read_on(url, file, partial, watch)
        except _Again as error:
            fault = error
        if _size(partial) > have:
            failed, pieces = 0, pieces + 1
        else:
            failed += 1
            fault = fault or _Again("the connection ends without a byte")
        if fault is not None:
            pause = 2.0**failed if fault.after is None else fault.after
            if failed >= TRIES or pause > PATIENCE:
                raise ModelError(
                    f"{file.name} could not be fetched: {fault}; {_size(partial) / 1e6:.0f} of "
                    f"{file.size / 1e6:.0f} MB are kept: run the command again to go on"
                ) from fault
            wait(pause)
    return pieces > 1


def _read_on(url: str, file: RemoteFile, partial: Path, watch: Watch) -> None:
    """One connection: appends what comes. Raises _Again for what may pass."""
    import httpx2
    from huggingface_hub import get_session
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # as above

    have = _size(partial)
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    began = time.monotonic()
    try:
        with get_session().stream("GET", url, headers=headers, timeout=30) as response:
            if response.status_code == 416:  # what is here is more than what is there
                partial.unlink(missing_ok=True)
                raise _Again("the hub has nothing after what is here (HTTP 416)", 0.0)
            _check_status(response)
            start = have if _goes_on(response, have) else 0
            _check_size(file, start, response)
            with partial.open("ab" if start else "wb") as out:
                for chunk in response.iter_bytes():
                    out.write(chunk)
                    watch(Progress(file.name, out.tell(), file.size, start, time.monotonic() - began))
    except httpx2.TransportError as error:
        raise _Again(_reason(error)) from error


def _goes_on(response: Any, have: int) -> bool:
    """Whether the answer goes on from `have`; a hub that ignores the range sends the file from its start."""
    return response.status_code == 206 and str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _check_size(file: RemoteFile, start: int, response: Any) -> None:
    """Raises ModelError where the answer is of another size than the hub lists: nothing of it is read."""
    length = str(response.headers.get("Content-Length", ""))
    if length.isdigit() and start + int(length) != file.size and not response.headers.get("Content-Encoding"):
        raise ModelError(
            f"{file.name} has {start + int(length):,} bytes where it is fetched from, the hub lists {file.size:,}: "
            "nothing of it is taken; try again later, or another --quant"
        )


def _check_status(response: Any) -> None:
    from huggingface_hub import hf_raise_for_status

    if response.status_code == 429 or response.status_code >= 500:
        after = str(response.headers.get("Retry-After", ""))
        said = f"the hub answers {response.status_code}" + (f", retry after {after} s" if after.isdigit() else "")
        raise _Again(said, float(after) if after.isdigit() else None)
    if response.history and response.status_code in (401, 403, 404):  # the hub itself let us through
        raise _Again(f"the store that the hub sends to answers {response.status_code}")
    hf_raise_for_status(response)


def _point(folder: Path, commit: str, file: RemoteFile) -> Path:
    """The file's name in the snapshot of its commit, as huggingface_hub lays it: a link to the blob, or a copy."""
    pointer = folder / "snapshots" / commit / file.name
    if folder not in Path(os.path.normpath(pointer)).parents or ".." in Path(file.name).parts:
        raise ModelError(f"the hub lists a file outside its repository: {file.name}")
    blob = folder / "blobs" / file.etag
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not pointer.exists():
        pointer.unlink(missing_ok=True)  # a link to a blob that is gone
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:  # Windows without the right to link
            shutil.copyfile(blob, pointer)
    main = folder / "refs" / "main"
    main.parent.mkdir(parents=True, exist_ok=True)
    main.write_text(commit, encoding="utf-8")
    return pointer


def _hash(file: RemoteFile, path: Path) -> str:
    """The hash by which the hub names the file: sha256 for LFS, else git's, which begins with the length."""
    if file.sha256:
        return modelfiles.sha256(path)
    return modelfiles.digest(path, hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False), lambda _: None)


def _partial(blob: Path) -> Path:
    return blob.with_name(f"{blob.name}.venus.incomplete")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# -- what went wrong --------------------------------------------------------------------------------------------------


@contextmanager
def _translated(repo: str, otherwise: str = "") -> Iterator[None]:
    """The errors of the hub's client and of the disk, as ours: one line that says what to do."""
    import httpx2
    from huggingface_hub import errors

    if offline():
        raise ModelError(f"HF_HUB_OFFLINE is set: unset it to fetch {repo}, or copy its .gguf file here and name it")
    try:
        yield
    except (VenusError, _Again):
        raise
    except errors.OfflineModeIsEnabled as error:
        raise ModelError(f"HF_HUB_OFFLINE is set: unset it to fetch {repo}") from error
    except errors.HFValidationError as error:
        raise ModelError(f"{repo!r} is not the name of a repository (owner/name)") from error
    except errors.HfHubHTTPError as error:
        raise ModelError(_refused(repo, error.response, otherwise)) from error
    except httpx2.HTTPError as error:
        raise ModelError(
            f"{_shown(_endpoint())} cannot be reached ({_reason(error)}): check the network, the proxy and HF_ENDPOINT"
        ) from error
    except OSError as error:
        raise StorageError(_disk(error)) from error


def _refused(repo: str, response: Any, otherwise: str) -> str:
    status, page = int(response.status_code), f"{_shown(_endpoint())}/{repo}"
    instead = f"; {otherwise}" if otherwise else ""
    if status == 403 or response.headers.get("X-Error-Code") == "GatedRepo":
        return f"{repo} is gated (HTTP {status}): accept its terms at {page}, then set HF_TOKEN"
    if status == 401:
        return f"{repo} is private, or not there, or HF_TOKEN is not valid (HTTP 401): see {page}{instead}"
    if status == 404:
        return f"{repo} is not on the hub, or not this file of it (HTTP 404): see {page}{instead}"
    if status == 429:
        after = str(response.headers.get("Retry-After", ""))
        when = f"in {after} s" if after.isdigit() else "in some minutes"
        return (
            f"the hub takes no more requests for now (HTTP 429): try again {when}, or set HF_TOKEN for a higher limit"
        )
    return f"the hub answers HTTP {status} for {repo}: try again later"


def _disk(error: OSError) -> str:
    where = error.filename or modelfiles.hub_cache()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({modelfiles.hub_cache()}): make room, then run the command again to go on"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where} may not be written: change its rights, or set HF_HOME to a folder of your own"
    return f"{where}: {error.strerror or error}: set HF_HOME to a folder that can be written"


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
