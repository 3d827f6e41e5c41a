"""Everything that can go wrong with a download, one thing at a time: the file comes whole, or one line says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.loopback_hub import LoopbackHub, serving
from venus_edge import hub, modelfiles, registry
from venus_edge.errors import VenusError

REPO = registry.load()["dr-venus-4b-rl"].gguf_repo
NAME = "DR-Venus-4B-RL-Q4_K_M.gguf"
DATA = b"GGUF" + bytes(range(256)) * 40_000
AWAY = {"HF_ENDPOINT": "http://192.0.2.1"}  # an address that leads nowhere (RFC 5737)


@dataclass(frozen=True)
class Fault:
    """What is broken, and how it ends: `said` is part of the one line, "" where the file comes whole all the same."""

    name: str
    broken: dict[str, object]
    said: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def refuse(where: str, status: int, times: int = 1_000, **headers: str) -> dict[str, object]:
    return {
        "refuse": {where: (status, {name.replace("_", "-"): value for name, value in headers.items()})},
        "refusals": times,
    }


FAULTS = [
    Fault("nothing", {}),
    Fault("connection cut three times", {"cut": 3_000_000, "cuts": 3}),
    Fault("connection cut after each byte, 1,000 times", {"cut": 1, "cuts": 1_000}),
    Fault("connection cut, ranges ignored", {"cut": 3_000_000, "cuts": 1, "ranges": False}),
    Fault("always cut, ranges ignored", {"cut": 3_000_000, "cuts": 99, "ranges": False}, "3 of 10 MB are kept"),
    Fault("wrong bytes, always", {"lie": True}, "came damaged (hash"),
    Fault("wrong bytes in the first piece only", {"lie": True, "lies": 1, "cut": 3_000_000, "cuts": 1}),
    Fault("listed longer than it is", {"longer": 7}, "has 10,240,004 bytes where it is fetched from, the hub lists"),
    Fault("listed shorter than it is", {"longer": -7}, "has 10,240,004 bytes where it is fetched from, the hub lists"),
    Fault("list: 401", refuse("^/api/", 401, X_Error_Code="RepoNotFound"), "HF_TOKEN is not valid (HTTP 401)"),
    Fault("list: 403 gated", refuse("^/api/", 403, X_Error_Code="GatedRepo"), "accept its terms at"),
    Fault("list: 404", refuse("^/api/", 404, X_Error_Code="RepoNotFound"), "is not on the hub"),
    Fault("list: 429", refuse("^/api/", 429, Retry_After="40"), "try again in 40 s"),
    Fault("list: 500", refuse("^/api/", 500), "the hub answers HTTP 500"),
    Fault("file: 401", refuse("/resolve/", 401), "HF_TOKEN is not valid (HTTP 401)"),
    Fault("file: 403 gated", refuse("/resolve/", 403, X_Error_Code="GatedRepo"), "accept its terms at"),
    Fault("file: 404", refuse("/resolve/", 404, X_Error_Code="EntryNotFound"), "not this file of it"),
    Fault("file: 429 twice, Retry-After 3", refuse("/resolve/", 429, 2, Retry_After="3")),
    Fault("file: 429, Retry-After 900", refuse("/resolve/", 429, Retry_After="900"), "retry after 900 s"),
    Fault("file: 503 twice", refuse("/resolve/", 503, 2)),
    Fault("store: 500 always", refuse("^/store/", 500), "answers 500; 0 of 10 MB are kept"),
    Fault("store: signature ran out once (403)", refuse("^/store/", 403, 1)),
    Fault("store: 416 once", refuse("^/store/", 416, 1)),
    Fault("store: relative redirect", {"store": ""}),
    Fault("store: a private host", {"store": "http://10.0.0.1"}, "address not allowed: 10.0.0.1"),
    Fault("store: an address of this network's cloud", {"store": "http://169.254.169.254"}, "address not allowed"),
    Fault("no hub there", {}, "cannot be reached", {"HF_ENDPOINT": "http://127.0.0.1:1"}),
    Fault("a proxy that is not there", {}, "the proxy 127.0.0.1", {**AWAY, "HTTP_PROXY": "http://me:s3cr3t@127.0.0.1:1"}),
    Fault("a proxy that is none", {}, "is not the address of a proxy", {**AWAY, "HTTP_PROXY": "gopher://me:s3cr3t@x"}),
    Fault("HF_HUB_OFFLINE", {}, "HF_HUB_OFFLINE is set", {"HF_HUB_OFFLINE": "1"}),
    Fault("a cache that may not be written", {}, "set HF_HOME to a folder", {"HF_HUB_CACHE": "/proc/venus/hub"}),
]  # fmt: skip


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HOME", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with serving(LoopbackHub({REPO: {NAME: DATA}})) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


def outcome() -> str:
    """One line of a pull whose waits take no time; "" for a whole file."""
    try:
        found = hub.listing(REPO)
        (path,) = hub.fetch(found, hub.choose(found.files, "Q4_K_M", REPO), wait=lambda _: None)
    except VenusError as error:
        return str(error)
    assert path.read_bytes() == DATA
    return ""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_ends_in_a_whole_file_or_in_one_line(
    served: LoopbackHub, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fault.broken.items():
        setattr(served, name, value)
    for name, value in fault.environment.items():
        monkeypatch.setenv(name, value)
    line = outcome()
    assert (fault.said in line, bool(line)) == (True, bool(fault.said))
    assert "\n" not in line
    assert "s1gned" not in line
    assert "s3cr3t" not in line
    if line and not fault.environment:
        assert not list(modelfiles.hub_cache().rglob("*.gguf"))


def test_what_another_file_left_is_not_taken_for_a_part_of_this_one(served: LoopbackHub) -> None:
    found = hub.listing(REPO)
    blobs = modelfiles.folder(REPO) / "blobs"
    blobs.mkdir(parents=True)
    hub._partial(blobs / found.files[0].etag).write_bytes(b"x" * 5_000_000)
    assert outcome() == ""


# -- in processes of their own ----------------------------------------------------------------------------------------


def pulling(home: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "HOME": str(home), **{f"VENUS_{n}_DIR": str(home / n) for n in ("DATA", "CONFIG")}}
    command = [sys.executable, "-m", "venus_edge", "models", "pull", "dr-venus-4b-rl", "--quant", "Q4_K_M"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def partial() -> Path | None:
    return next(iter(modelfiles.hub_cache().rglob("*.incomplete")), None)


def test_a_pull_that_was_killed_goes_on_where_it_was(served: LoopbackHub, tmp_path: Path) -> None:
    served.slow = 0.1
    first = pulling(tmp_path)
    until = time.monotonic() + 60
    while (there := partial()) is None or there.stat().st_size < 2_000_000:
        assert time.monotonic() < until
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept, served.slow = there.stat().st_size, 0.0
    served.requests.clear()
    second = pulling(tmp_path)
    out, told = second.communicate(timeout=60)
    assert second.returncode == 0, told
    assert Path(out.strip()).read_bytes() == DATA
    assert [r.range for r in served.requests if r.path.startswith("/store/")] == [f"bytes={kept}-"]
    assert f"(went on at {kept / 1e6:,.0f} MB)" in told


def test_a_pull_asks_for_what_it_needs_and_nothing_else(served: LoopbackHub, tmp_path: Path) -> None:
    process = pulling(tmp_path)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert [request.path.split("/")[1] for request in served.requests] == ["api", "inclusionAI", "store"]
    assert served.requests[0].path == f"/api/models/{REPO}"
    assert not any("agent/" in request.agent for request in served.requests)


def test_two_pulls_at_once_fetch_one_file_once(served: LoopbackHub, tmp_path: Path) -> None:
    served.slow = 0.05
    both = [pulling(tmp_path), pulling(tmp_path)]
    ends = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert {Path(out.strip()).read_bytes() == DATA for out, _ in ends} == {True}
    assert [r.range for r in served.requests if r.path.startswith("/store/")] == [""]
