"""What is on the disk is served, or is a miss: never a crash, never half a page."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from venus_edge.sources.cache import FILE, Cache, Copy, Stats
from venus_edge.sources.extract import Extracted
from venus_edge.sources.freshness import conditions, fresh_until, may_keep
from venus_edge.sources.http import Response
from venus_edge.values import Failure, Hit, Trouble

NOW = 1_800_000_000.0
PAGE = Extracted("灯塔", "克雷翁灯塔于一九一六年首次点亮。" * 50, "2021-03-04", "作者")


def response(body: bytes = b"<p>page</p>", **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response("https://example.org/final", 200, pairs, body)


def kept(cache: Cache, key: str, now: float = NOW) -> Copy:
    copy = cache.get(key, now)
    assert copy is not None
    return copy


# -- freshness -------------------------------------------------------------------------------------------------------

DATE = formatdate(NOW, usegmt=True)
FRESH = [  # headers, seconds for which a copy is fresh
    ({"cache-control": "max-age=60"}, 60.0),
    ({"cache-control": 'public, Max-Age="60"'}, 60.0),
    ({"cache-control": "max-age=60", "age": "20"}, 40.0),
    ({"cache-control": "max-age=60", "age": "90"}, 0.0),
    ({"cache-control": "max-age=60, max-age=600"}, 60.0),
    ({"cache-control": "max-age=oops"}, 0.0),
    ({"cache-control": "s-maxage=9, max-age=60"}, 60.0),  # s-maxage is for shared caches
    ({"cache-control": "no-cache, max-age=60"}, 0.0),
    ({"cache-control": "max-age=60", "expires": "0"}, 60.0),
    ({"pragma": "no-cache"}, 0.0),
    ({"vary": "*", "cache-control": "max-age=60"}, 0.0),
    ({"expires": formatdate(NOW + 120, usegmt=True), "date": DATE}, 120.0),
    ({"expires": formatdate(NOW - 120, usegmt=True), "date": DATE}, 0.0),
    ({"expires": "0"}, 0.0),
    ({"last-modified": formatdate(NOW - 1000, usegmt=True), "date": DATE}, 100.0),
    ({"last-modified": formatdate(NOW - 10**9, usegmt=True), "date": DATE}, 7 * 86400.0),
    ({"last-modified": "yesterday"}, 3600.0),
    ({}, 3600.0),
]


@pytest.mark.parametrize("case", range(len(FRESH)))
def test_freshness_is_what_the_headers_say(case: int) -> None:
    headers, lasts = FRESH[case]
    assert fresh_until(headers, NOW) == NOW + lasts


def test_only_no_store_forbids_a_private_cache() -> None:
    said = ("no-store", "private", "no-cache", "NO-STORE, max-age=5", "")
    assert [may_keep({"cache-control": s}) for s in said] == [False, True, True, False, True]


def test_a_stale_copy_is_asked_for_by_what_it_came_with() -> None:
    assert conditions({"etag": 'W/"1"', "last-modified": DATE}) == {"If-None-Match": 'W/"1"', "If-Modified-Since": DATE}
    assert conditions({"etag": "a\r\nX: y"}) == {}


# -- what is kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extracted", [PAGE, Failure(Trouble.UNREADABLE, "page could not be read: consent wall")])
def test_what_is_put_is_what_is_got(tmp_path: Path, extracted: Extracted | Failure) -> None:
    with Cache(tmp_path) as cache:
        cache.put("k", response(etag='"1"', cache_control="max-age=60"), extracted, 3, NOW)
    with Cache(tmp_path) as cache:
        copy = kept(cache, "k")
        assert cache.body("k") == b"<p>page</p>"
    assert copy == Copy(
        key="k",
        url="https://example.org/final",
        headers=(("etag", '"1"'), ("cache-control", "max-age=60")),
        sha256=copy.sha256,
        fetched_at=NOW,
        fresh_until=NOW + 60,
        size=copy.size,
        extracted=extracted,
        extractor=3,
    )
    assert copy.conditions == {"If-None-Match": '"1"'}


def test_a_page_that_is_none_is_kept_shortly(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.put("k", response(cache_control="max-age=99999"), Failure(Trouble.UNREADABLE, "login"), 1, NOW)
        assert kept(cache, "k").fresh_until == NOW + 600


def test_no_store_is_not_kept_and_forgets_what_was(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.put("k", response(), PAGE, 1, NOW)
        cache.put("k", response(cache_control="no-store"), PAGE, 1, NOW)
        assert cache.get("k", NOW) is None


def test_a_page_is_kept_for_what_it_varies_by(tmp_path: Path) -> None:
    asked = {"Accept-Language": "zh-CN", "User-Agent": "a"}
    with (
        Cache(tmp_path, asked=asked) as chinese,
        Cache(tmp_path, asked={**asked, "Accept-Language": "en"}) as english,
        Cache(tmp_path, asked={**asked, "User-Agent": "b"}) as other,
    ):
        chinese.put("k", response(vary="Accept-Encoding, Accept-Language"), PAGE, 1, NOW)
        chinese.put("all", response(vary="Accept-Encoding"), PAGE, 1, NOW)
        assert kept(chinese, "k").extracted == PAGE
        assert kept(other, "k").extracted == PAGE
        assert english.get("k", NOW) is None
        assert kept(english, "all").extracted == PAGE
        chinese.put("k", response(vary="user-agent"), PAGE, 1, NOW)
        assert kept(english, "k").extracted == PAGE
        assert other.get("k", NOW) is None


def test_not_modified_makes_the_copy_fresh_again(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.put("k", response(etag='"1"', cache_control="max-age=60"), PAGE, 1, NOW)
        answer = Response(
            "https://example.org/final", 304, (("cache-control", "max-age=600"), ("content-length", "0")), b""
        )
        fresh = cache.refresh(kept(cache, "k"), answer, NOW + 100)
        assert (fresh.fetched_at, fresh.fresh_until) == (NOW + 100, NOW + 700)
        assert fresh.headers == (("etag", '"1"'), ("cache-control", "max-age=600"))
        assert kept(cache, "k") == fresh


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    noise = random.Random(1)
    with Cache(tmp_path, limit=100_000) as cache:
        for n in range(6):
            cache.put(f"k{n}", response(noise.randbytes(15_000)), Extracted("", ""), 1, NOW + n)
        kept(cache, "k0", NOW + 1000)  # used again
        cache.put("k6", response(noise.randbytes(15_000)), Extracted("", ""), 1, NOW + 1001)
        assert cache.keys() == ("k6", "k0", "k5", "k4", "k3")
        assert cache.stats().bytes <= 100_000
        cache.put("huge", response(noise.randbytes(90_000)), Extracted("", ""), 1, NOW + 1002)
        assert cache.get("huge", NOW) is None


def test_remove_and_clear(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        for key in "abc":
            cache.put(key, response(), PAGE, 1, NOW)
        assert (cache.remove("a"), cache.remove("a"), cache.stats().pages) == (True, False, 2)
        cache.clear()
        assert cache.stats() == Stats(0, 0)


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "extract = x'00'",
        "extract = x'00000000789c'",
        "extract = substr(extract, 1, 40)",
        "headers = '[1'",
        "headers = '7'",
    ],
)
def test_a_damaged_entry_is_a_miss_and_the_others_are_not(tmp_path: Path, damage: str) -> None:
    with Cache(tmp_path) as cache:
        cache.put("a", response(), PAGE, 1, NOW)
        cache.put("b", response(), PAGE, 1, NOW)
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(f"UPDATE page SET {damage} WHERE key = 'a'")
    db.commit()
    db.close()
    with Cache(tmp_path) as cache:
        assert cache.get("a", NOW) is None
        assert kept(cache, "b").extracted == PAGE
        assert cache.keys() == ("b",)


def test_a_damaged_body_is_none(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.put("a", response(), PAGE, 1, NOW)
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("UPDATE page SET sha256 = 'x'")
    db.commit()
    db.close()
    with Cache(tmp_path) as cache:
        assert cache.body("a") is None


@pytest.mark.parametrize("where", ["head", "middle", "all", "text"])
def test_a_damaged_file_is_put_aside_and_begun_anew(tmp_path: Path, where: str) -> None:
    with Cache(tmp_path) as cache:
        for n in range(50):
            cache.put(f"k{n}", response(os.urandom(3000)), PAGE, 1, NOW)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    spans = {"head": slice(0, 100), "middle": slice(4096, len(data) - 4096), "all": slice(0, len(data))}
    if where == "text":
        path.write_text("not a database at all" * 100)
    else:
        data[spans[where]] = os.urandom(len(data[spans[where]]))
        path.write_bytes(data)
    with Cache(tmp_path) as cache:
        found = [cache.get(f"k{n}", NOW) for n in range(50)]
        assert all(copy is None or copy.extracted == PAGE for copy in found)
        cache.put("new", response(), PAGE, 1, NOW)
        assert kept(cache, "new").extracted == PAGE
    assert [p.name for p in tmp_path.glob("*damaged*") if not p.name.endswith(("-wal", "-shm"))] == [
        f"{FILE}.damaged-1"
    ]


def test_a_directory_that_cannot_be_written_is_a_cache_that_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with Cache(tmp_path / "file" / "cache") as cache:
        cache.put("k", response(), PAGE, 1, NOW)
        assert cache.get("k", NOW) is None
        assert cache.trouble


def test_a_lock_that_another_holds_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("venus_edge.sources.cache._WAIT_SECONDS", 0.05)
    with Cache(tmp_path) as cache:
        cache.put("a", response(), PAGE, 1, NOW)
        other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        cache.put("b", response(), PAGE, 1, NOW)
        other.execute("COMMIT")
        other.close()
        assert kept(cache, "a").extracted == PAGE
        assert cache.get("b", NOW) is None
    assert not list(tmp_path.glob("*damaged*"))


# -- several processes -----------------------------------------------------------------------------------------------

HAMMER = """
import os, sys
from pathlib import Path
from venus_edge.sources.cache import Cache
from venus_edge.sources.extract import Extracted
from venus_edge.sources.http import Response

directory, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
with Cache(directory, limit=400_000) as cache:
    n = 0
    while rounds < 0 or n < rounds:
        n += 1
        key = f"k{(n * 7 + seed) % 40}"
        body = os.urandom(5000)
        cache.put(key, Response("u", 200, (), body), Extracted(key, body.hex()), 1, 1.8e9 + n)
        copy = cache.get(f"k{n % 40}", 1.8e9 + n)
        assert copy is None or copy.extracted.title == copy.key, copy
        assert not cache.trouble, cache.trouble
"""


def hammer(directory: Path, seed: int, rounds: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", HAMMER, str(directory), str(seed), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])


def finish(process: subprocess.Popen[bytes]) -> int:
    process.communicate(timeout=60)
    return process.returncode


def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    processes = [hammer(tmp_path, seed, 150) for seed in (1, 2)]
    assert [finish(p) for p in processes] == [0, 0]
    with Cache(tmp_path) as cache:
        assert 0 < cache.stats().bytes <= 400_000
        kept_keys = cache.keys()
        assert all(cache.get(key, NOW) is not None for key in kept_keys)


def test_a_kill_at_any_moment_leaves_the_cache_sound(tmp_path: Path) -> None:
    when = random.Random(7)
    for seed in range(8):
        process = hammer(tmp_path, seed, -1)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(when.uniform(0.02, 0.2))
        process.send_signal(signal.SIGKILL)
        assert finish(process) == -signal.SIGKILL
        with Cache(tmp_path) as cache:
            kept_keys = cache.keys()
            assert all(cache.get(key, NOW) is not None for key in kept_keys)
    db = sqlite3.connect(tmp_path / FILE)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert not list(tmp_path.glob("*damaged*"))


# -- results, lists, export ------------------------------------------------------------------------------------------

HITS = (Hit("灯塔", "https://example.org/1", "text", "2021"), Hit("b", "https://example.org/2", ""))


def test_results_are_fresh_for_a_day_and_nothing_for_ten_minutes(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.keep_results("q", HITS, NOW)
        cache.keep_results("none", (), NOW)
        assert [cache.results("q", NOW + s) for s in (0, 86_000, 87_000)] == [HITS, HITS, None]
        assert [cache.results("none", NOW + s) for s in (0, 500, 700)] == [(), (), None]
        assert cache.results("q", NOW + 10**7, stale=True) == HITS
        assert cache.results("other", NOW) is None


def test_the_oldest_results_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("venus_edge.sources.cache._MOST_RESULTS", 2)
    with Cache(tmp_path) as cache:
        for n in range(4):
            cache.keep_results(str(n), HITS, NOW + n)
        assert [cache.results(str(n), NOW) is not None for n in range(4)] == [False, False, True, True]


def test_damaged_results_are_a_miss(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.keep_results("q", HITS, NOW)
        with sqlite3.connect(tmp_path / FILE) as db:
            db.execute("UPDATE results SET hits = x'0102030405'")
        db.close()
        assert cache.results("q", NOW) is None


def test_what_is_exported_another_machine_takes_in(tmp_path: Path) -> None:
    with Cache(tmp_path / "a") as ours, Cache(tmp_path / "b") as theirs:
        ours.put("k", response(), PAGE, 1, NOW)
        ours.put("older", response(b"old"), PAGE, 1, NOW)
        ours.keep_results("q", HITS, NOW)
        theirs.put("older", response(b"new"), PAGE, 1, NOW + 1)
        assert ours.export(tmp_path / "x #1.sqlite")
        assert theirs.take_in(tmp_path / "x #1.sqlite") == 2
        assert theirs.take_in(tmp_path / "x #1.sqlite") == 0
        assert (kept(theirs, "k").extracted, theirs.body("older")) == (PAGE, b"new")
        assert theirs.results("q", NOW) == HITS
        assert theirs.stats() == Stats(2, theirs.stats().bytes, 1)


def test_what_is_no_export_is_not_taken_in(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database" * 100)
    sqlite3.connect(tmp_path / "empty").close()
    with Cache(tmp_path) as cache:
        assert [cache.take_in(tmp_path / name) for name in ("text", "empty", "absent")] == [-1, -1, -1]
        assert not cache.export(tmp_path / "no" / "folder" / "x")
        assert cache.trouble
        cache.put("k", response(), PAGE, 1, NOW)
        assert kept(cache, "k").extracted == PAGE


def test_a_list_names_what_is_kept(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        cache.put("https://example.org/a", response(), PAGE, 1, NOW)
        cache.put("https://example.org/b", response(), Failure(Trouble.UNREADABLE, "login"), 1, NOW + 1)
        lines = cache.lines("example.org")
        assert [(line.key, line.title, line.trouble) for line in lines] == [
            ("https://example.org/b", "", "login"),
            ("https://example.org/a", "灯塔", ""),
        ]
        assert cache.lines("nowhere") == ()


def test_a_file_of_an_older_layout_begins_anew(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("CREATE TABLE page (key TEXT PRIMARY KEY, language TEXT)")
        db.execute("PRAGMA user_version = 1")
    db.close()
    with Cache(tmp_path) as cache:
        cache.put("k", response(), PAGE, 1, NOW)
        assert kept(cache, "k").extracted == PAGE
