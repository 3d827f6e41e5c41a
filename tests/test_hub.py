"""Where model files are, which of a repository's files is meant, and getting them from a hub on loopback."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.loopback_hub import COMMIT, LoopbackHub, serving
from venus_edge import hub, modelfiles, registry
from venus_edge.errors import ModelError, StorageError, VenusError
from venus_edge.hub import Listing, Progress, RemoteFile

SPEC = registry.load()["dr-venus-4b-rl"]
REPO = SPEC.gguf_repo
FILES = ["README.md", "DR-Venus-4B-RL-Q8_0.gguf", "DR-Venus-4B-RL-Q4_K_M.gguf", "sub/other-q4-k-m-long.gguf"]
NAME = "DR-Venus-4B-RL-Q4_K_M.gguf"
DATA = b"GGUF" + bytes(range(256)) * 40_000  # ten chunks of the download


def remote(names: list[str]) -> list[RemoteFile]:
    return [RemoteFile(name, 100, name, "") for name in names]


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    repos = {REPO: {"README.md": b"# card", NAME: DATA, "DR-Venus-4B-RL-Q8_0.gguf": DATA * 2}}
    with serving(LoopbackHub(repos)) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


def fetched(watch: Callable[[Progress], None] = lambda _: None, quant: str = "Q4_K_M") -> Path:
    """The file of the served repository, with waits that take no time."""
    found = hub.listing(REPO)
    return hub.fetch(found, hub.choose(found.files, quant, REPO), watch, lambda _: None)[0]


def left() -> list[str]:
    """The blobs in the cache."""
    return sorted(path.name for path in (modelfiles.folder(REPO) / "blobs").glob("*"))


# -- on this machine --------------------------------------------------------------------------------------------------


def test_a_model_that_is_nowhere_names_the_command_the_place_and_the_demo(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        modelfiles.locate(SPEC, tmp_path)
    message = str(raised.value)
    assert "venus-edge models pull dr-venus-4b-rl" in message
    assert str(tmp_path) in message
    assert "venus-edge run --demo" in message


def test_a_file_that_a_person_put_there_is_found_by_its_name(tmp_path: Path) -> None:
    put(tmp_path / "DR-Venus-4B-SFT.Q4_K_M.gguf")
    mine = put(tmp_path / "DR_Venus_4B_RL.Q4_K_M.gguf")
    assert modelfiles.locate(SPEC, tmp_path) == mine


def test_a_file_in_the_hubs_cache_is_found_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--inclusionAI--DR-Venus-4B-RL-GGUF" / "snapshots" / "abc"
    put(folder / "x-Q8_0.gguf")
    wanted = put(folder / "x-Q4_K_M.gguf")
    assert modelfiles.locate(SPEC, tmp_path / "models") == wanted


@pytest.mark.parametrize(
    "environment",
    [{}, {"HF_HOME": "/x"}, {"HF_HUB_CACHE": "/y"}, {"HUGGINGFACE_HUB_CACHE": "/z"}, {"XDG_CACHE_HOME": "/w"},
     {"HF_HOME": "/x", "HUGGINGFACE_HUB_CACHE": "/z", "HF_HUB_CACHE": "/y"}],
)  # fmt: skip
def test_the_cache_is_where_the_library_has_it(environment: dict[str, str], tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE", "XDG_"))}
    asked = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    ours = "from venus_edge import modelfiles; print(modelfiles.hub_cache())"
    found = {
        subprocess.check_output(
            [sys.executable, "-c", code], env={**kept, "HOME": str(tmp_path), **environment}, text=True
        )
        for code in (asked, ours)
    }
    assert len(found) == 1


def test_a_split_model_is_its_first_part(tmp_path: Path) -> None:
    first = put(tmp_path / "dr-venus-4b-rl-Q4_K_M-00001-of-00002.gguf")
    put(tmp_path / "dr-venus-4b-rl-Q4_K_M-00002-of-00002.gguf")
    assert modelfiles.here(SPEC, tmp_path) == [first]


def test_a_shipped_file_is_the_packages_own(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not there: give --model the path"):
        modelfiles.locate(replace(SPEC, file="demo/none.gguf"), tmp_path)


# -- which file -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("DR-Venus-4B-RL-Q4_K_M.gguf", "Q4_K_M"),
        ("dr-venus.q8_0.gguf", "Q8_0"),
        ("sub/a-q4-k-m-long.gguf", "Q4_K_M"),
        ("Qwen3-4B-UD-Q4_K_XL-00001-of-00002.gguf", "Q4_K_XL"),
        ("x-IQ4_XS.gguf", "IQ4_XS"),
        ("x-BF16.gguf", "BF16"),
        ("x-Q4_K.gguf", "Q4_K"),
        ("Q4_K_M/x.gguf", ""),
        ("qwen3-4b.gguf", ""),
    ],
)
def test_a_quantization_is_read_from_a_files_name(name: str, quant: str) -> None:
    assert modelfiles.quant_of(name) == quant


@pytest.mark.parametrize(("quant", "name"), [("Q8_0", FILES[1]), ("q4_k_m", FILES[2]), ("Q4-K-M", FILES[2])])
def test_a_repositorys_file_is_chosen_by_its_quantization(quant: str, name: str) -> None:
    assert [file.name for file in hub.choose(remote(FILES), quant, "a/b")] == [name]


def test_a_quantization_is_not_taken_for_another_that_begins_like_it() -> None:
    with pytest.raises(ModelError, match="a/b has no Q4_K file"):
        hub.choose(remote(FILES), "Q4_K", "a/b")


def test_all_parts_of_a_split_file_are_chosen() -> None:
    names = [f"m-Q8_0-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    assert [file.name for file in hub.choose(remote([*FILES[2:], *names]), "Q8_0", "a/b")] == names
    assert hub.quants(Listing("a/b", "c", tuple(remote([*names, FILES[2]])))) == {"Q4_K_M": 100, "Q8_0": 300}


def test_a_quantization_that_is_not_there_lists_what_is() -> None:
    with pytest.raises(ModelError, match=r"a/b has no Q6_K file; it has DR-Venus-4B-RL-Q4_K_M.gguf, .*--quant"):
        hub.choose(remote(FILES), "Q6_K", "a/b")


def test_a_model_without_a_repository_cannot_be_pulled() -> None:
    with pytest.raises(ModelError, match="has no repository to fetch from"):
        hub.pull(registry.load()["venus-tiny"])


def test_a_conversion_needs_weights() -> None:
    names = ["config.json", "tokenizer.json", "model-00001-of-00001.safetensors", "pytorch_model.bin", "x/y.json"]
    assert [file.name for file in hub.checkpoint(Listing("a/b", "c", tuple(remote(names))))] == names[:3]
    with pytest.raises(ModelError, match=r"a/b has no safetensors to convert; it has config.json"):
        hub.checkpoint(Listing("a/b", "c", tuple(remote(["config.json"]))))


# -- the download -----------------------------------------------------------------------------------------------------


def test_a_pull_lists_the_repository_and_brings_the_file_under_its_name(served: LoopbackHub, tmp_path: Path) -> None:
    path = hub.pull(SPEC)
    assert (path.read_bytes(), path.name, path.parent.name) == (DATA, NAME, COMMIT)
    assert modelfiles.locate(SPEC, tmp_path) == path
    assert modelfiles.listed_sha256(path) == modelfiles.sha256(path)
    assert left() == [modelfiles.sha256(path)]


def test_what_is_there_is_not_fetched_again(served: LoopbackHub) -> None:
    fetched()
    served.requests.clear()
    fetched()
    assert [request.path for request in served.requests] == [f"/api/models/{REPO}"]


def test_the_librarys_own_reader_finds_the_file(served: LoopbackHub) -> None:
    from huggingface_hub import try_to_load_from_cache

    path = fetched()
    assert try_to_load_from_cache(REPO, NAME, cache_dir=modelfiles.hub_cache()) == str(path)


def test_a_file_without_lfs_is_checked_by_its_git_hash(served: LoopbackHub) -> None:
    found = hub.listing(REPO)
    card = next(file for file in found.files if file.name == "README.md")
    assert hub.fetch(found, [card])[0].read_bytes() == b"# card"


def test_a_cut_connection_is_taken_up_where_it_was_cut(served: LoopbackHub) -> None:
    served.cut, served.cuts = 3_000_000, 3
    assert fetched().read_bytes() == DATA
    assert [r.range for r in served.requests if r.path.startswith("/store/")] == [
        "", "bytes=3000000-", "bytes=6000000-", "bytes=9000000-",
    ]  # fmt: skip


def test_a_later_command_goes_on_where_an_earlier_one_gave_up(served: LoopbackHub) -> None:
    served.cut, served.cuts, served.ranges = 2_000_000, 1, True
    served.refuse = {"^/store/": (503, {})}
    served.refusals = 0
    with pytest.raises(ModelError, match=r"503; 2 of 10 MB are kept: run the command again to go on"):
        fetched(watch=lambda _: setattr(served, "refusals", 1_000))
    served.refuse, seen = {}, list[Progress]()
    assert fetched(seen.append).read_bytes() == DATA
    assert (seen[0].resumed, seen[-1].done, seen[-1].total) == (2_000_000, len(DATA), len(DATA))


def test_a_hub_that_ignores_ranges_sends_the_whole_file(served: LoopbackHub) -> None:
    served.cut, served.cuts, served.ranges = 3_000_000, 1, False
    assert fetched().read_bytes() == DATA


def test_a_wrong_hash_is_refused_and_nothing_is_left(served: LoopbackHub) -> None:
    served.lie = True
    with pytest.raises(ModelError, match=r"came damaged \(hash .*, the hub lists .*was deleted: run the command again"):
        fetched()
    assert left() == []


def test_a_store_that_is_busy_for_a_while_is_waited_for(served: LoopbackHub) -> None:
    served.refuse, served.refusals = {"^/store/": (429, {"Retry-After": "3"})}, 2
    waits = list[float]()
    found = hub.listing(REPO)
    hub.fetch(found, hub.choose(found.files, "Q4_K_M", REPO), wait=waits.append)
    assert waits == [3.0, 3.0]


FAULTS = [
    ("^/api/", 401, {"X-Error-Code": "RepoNotFound"}, "is private, or not there, or HF_TOKEN is not valid (HTTP 401)"),
    ("^/api/", 403, {"X-Error-Code": "GatedRepo"}, "is gated (HTTP 403): accept its terms at"),
    ("^/api/", 404, {"X-Error-Code": "RepoNotFound"}, "is not on the hub, or not this file of it (HTTP 404)"),
    ("^/api/", 429, {"Retry-After": "40"}, "takes no more requests for now (HTTP 429): try again in 40 s, or set HF"),
    ("^/api/", 500, {}, "the hub answers HTTP 500"),
    ("/resolve/", 401, {}, "is private, or not there, or HF_TOKEN is not valid (HTTP 401)"),
    ("/resolve/", 404, {"X-Error-Code": "EntryNotFound"}, "not this file of it (HTTP 404)"),
    ("/resolve/", 429, {"Retry-After": "900"}, "the hub answers 429, retry after 900 s; 0 of 10 MB are kept"),
    ("^/store/", 403, {}, "the store that the hub sends to answers 403; 0 of 10 MB are kept"),  # a signature ran out
    ("^/store/", 502, {}, "the hub answers 502; 0 of 10 MB are kept: run the command again"),
]


@pytest.mark.parametrize(("where", "status", "headers", "said"), FAULTS, ids=[f"{f[0]}{f[1]}" for f in FAULTS])
def test_every_refusal_is_one_line_that_says_what_to_do(
    served: LoopbackHub, where: str, status: int, headers: dict[str, str], said: str
) -> None:
    served.refuse = {where: (status, headers)}
    with pytest.raises(ModelError) as raised:
        fetched()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_repository_that_is_not_there_is_one_line(served: LoopbackHub) -> None:
    with pytest.raises(ModelError, match="nobody/nothing is private, or not there"):
        hub.pull(replace(SPEC, gguf_repo="nobody/nothing"))


@pytest.mark.parametrize("repo", ["a b", "a/b/c", "x" * 200])
def test_a_name_that_is_no_repository_is_one_line(served: LoopbackHub, repo: str) -> None:
    with pytest.raises(ModelError, match="is not the name of a repository"):
        hub.listing(repo)
    assert served.requests == []


def test_no_hub_at_all_names_the_address_and_the_proxy(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"http://127.0.0.1:1 cannot be reached \(.*check the network, the proxy"):
        hub.listing(REPO)


def test_a_password_in_the_hubs_address_is_not_printed(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://me:s3cr3t@127.0.0.1:1")
    with pytest.raises(ModelError) as raised:
        hub.listing(REPO)
    assert "s3cr3t" not in str(raised.value)
    assert "http://***@127.0.0.1:1" in str(raised.value)


def test_offline_nothing_is_asked(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set: unset it to fetch"):
        hub.listing(REPO)
    assert served.requests == []


def test_a_token_goes_to_the_hub_and_not_to_the_store(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetched()
    tokens = {request.path.split("/")[1]: request.token for request in served.requests}
    assert tokens == {"api": "Bearer hf_secret", "inclusionAI": "Bearer hf_secret", "store": ""}


def test_too_little_room_is_said_before_anything_is_fetched(
    served: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(StorageError, match=r"0.0 GB are needed in .*0.0 GB are free: make room, or set HF_HOME"):
        fetched()
    assert [request.path for request in served.requests] == [f"/api/models/{REPO}"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_meanwhile_is_one_line(served: LoopbackHub) -> None:
    found = hub.listing(REPO)
    file = hub.choose(found.files, "Q4_K_M", REPO)[0]
    blobs = modelfiles.folder(REPO) / "blobs"
    blobs.mkdir(parents=True)
    hub._partial(blobs / file.etag).symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"the disk is full .*make room, then run the command again to go on"):
        fetched()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_cache_that_may_not_be_written_is_one_line(number: int) -> None:
    assert "may not be written" in hub._disk(OSError(number, os.strerror(number), "/x"))


def test_a_name_that_leads_out_of_the_repository_is_refused(served: LoopbackHub) -> None:
    served.repos[REPO]["../../evil-Q2_K.gguf"] = b"GGUF"
    with pytest.raises(VenusError):
        fetched(quant="Q2_K")
    assert not list(modelfiles.hub_cache().parent.rglob("evil*"))


def test_progress_tells_rate_and_time_left() -> None:
    halfway = Progress("f", done=600, total=1_000, resumed=200, seconds=4.0)
    assert (halfway.rate, halfway.eta) == (100.0, 4.0)
    assert Progress("f", 0, 1_000).eta is None


def test_a_removed_file_frees_its_bytes(served: LoopbackHub) -> None:
    path = fetched()
    assert modelfiles.remove(path) == len(DATA)
    assert (path.exists(), left()) == (False, [])
