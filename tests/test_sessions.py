"""Events <-> journal."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import pytest

from tests.test_state import STORIES
from venus_edge import __version__
from venus_edge.engine import Usage
from venus_edge.errors import StorageError, UsageError
from venus_edge.events import (
    AttemptStarted,
    Failed,
    Finished,
    Ledger,
    LimitReached,
    Replied,
    Resumed,
    RunStarted,
    Streamed,
    ToolReturned,
    Traffic,
)
from venus_edge.sessions.journal import Journal, slug
from venus_edge.sessions.reading import load, read
from venus_edge.sessions.snapshot import Snapshots
from venus_edge.sessions.summary import find, remove, summaries
from venus_edge.values import (
    Answer,
    Evidence,
    Failure,
    Found,
    Hit,
    Malformed,
    Message,
    Page,
    PageReading,
    Reply,
    RunResult,
    SearchCall,
    Source,
    ToolResult,
    Trouble,
    VisitCall,
)

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
RESULT = RunResult(
    "灯塔?", (Message("user", "灯塔?"),), "1916", "answered", 2, 0, 1, 0, 99, 1.5, (Source("u", "t", "5"),)
)


def journal_of(directory: Path, *events: object) -> Path:
    with Journal.create(directory, "When was 灯塔 lit?", NOW) as journal:
        for event in events:
            journal.write(event)  # type: ignore[arg-type]  # the parameter is the union of all events
    return journal.path


def test_a_session_is_one_event_a_line_after_a_header(tmp_path: Path) -> None:
    call = SearchCall(("灯塔",))
    found = Found("灯塔", failure=Failure(Trouble.REFUSED, "no"))
    path = journal_of(
        tmp_path,
        RunStarted("灯塔?", "venus-tiny", "rl", 4096, 7),
        Streamed("thinking", "only for the eye"),
        Replied(1, Reply("t", Answer("1916"), "<think>\nt\n</think>"), Usage(1, 2, 3, 4, 0.5)),
        ToolReturned(1, call, ToolResult("[]", (found,)), 0.25),
        Finished(RESULT),
    )
    records = list(read(path))
    assert path.name == "20260301-123000-when-was-灯塔-lit.jsonl"
    head = {"venus_edge": __version__, "schema": 2, "created": "2026-03-01T12:30:00+00:00"}
    assert records[0] == {**head, "pid": os.getpid(), "host": platform.node()}
    assert [record["event"] for record in records[1:]] == ["RunStarted", "Replied", "ToolReturned", "Finished"]
    assert records[3]["result"]["found"][0]["failure"]["trouble"] == "refused"
    assert records[4]["result"]["prediction"] == "1916"


def test_two_runs_of_one_second_never_share_a_session(tmp_path: Path) -> None:
    first, second = journal_of(tmp_path), journal_of(tmp_path)
    assert first != second
    assert second.name == "20260301-123000-when-was-灯塔-lit-2.jsonl"


def test_a_torn_last_line_is_dropped_and_nothing_else(tmp_path: Path) -> None:
    path = journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1), Finished(RESULT))
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert [record.get("event") for record in read(path)] == [None, "RunStarted"]
    path.write_bytes(whole.replace(b'"event": "RunStarted"', b'"event" "RunStarted"'))
    with pytest.raises(StorageError, match="line 2, is no record: it is not JSON"):
        list(read(path))


def test_the_list_tells_the_finished_from_the_torn(tmp_path: Path) -> None:
    done = journal_of(tmp_path, RunStarted("q1", "m", "rl", 1, 1), Finished(RESULT))
    torn = journal_of(tmp_path, RunStarted("q2", "m", "rl", 1, 1), Finished(RESULT))
    torn.write_bytes(torn.read_bytes()[:-9])
    (tmp_path / "notes.jsonl").write_text("no session\n")
    assert {(s.path, s.question, s.state) for s in summaries(tmp_path)} == {
        (done, "q1", "answered"),
        (torn, "q2", "unfinished"),
    }


def test_a_long_last_record_is_read_whole(tmp_path: Path) -> None:
    long = RunResult("q", (Message("user", "长" * 200_000),), "a", "answered", 1, 0, 0, 0, 1, 1.0)
    journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1), Finished(long))
    assert [s.state for s in summaries(tmp_path)] == ["answered"]


def test_bytes_that_are_no_text_are_kept_as_escapes(tmp_path: Path) -> None:
    path = journal_of(tmp_path, RunStarted("bad \udcff byte", "m", "rl", 1, 1))
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[1])["question"] == "bad \udcff byte"


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"no session can be kept in .*; set VENUS_DATA_DIR"):
        journal_of(tmp_path / "file" / "sessions")


@pytest.mark.parametrize(
    ("question", "name"),
    [("What is  it?", "what-is-it"), ("???", "question"), ("../../etc/passwd", "etc-passwd"), ("a" * 90, "a" * 40)],
)
def test_a_question_names_its_file_safely(question: str, name: str) -> None:
    assert slug(question) == name


# -- the way back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORIES)
def test_what_was_written_is_read_back_as_it_was(tmp_path: Path, name: str) -> None:
    agent, _ = STORIES[name].agent()
    told = [RunStarted("灯塔?", "m", "rl", 4096, 7, "", {"a": {"b": [1]}}), *agent.run("灯塔? \udcff")]
    told.insert(1, Resumed(3, 1.5, 9))
    told.insert(-1, Ledger((Traffic("example.org", 2, 10, 20),)))
    back = load(journal_of(tmp_path, *told))
    assert list(back.events) == [event for event in told if not isinstance(event, Streamed)]
    assert back.lines == tuple(range(2, len(back.events) + 2))
    assert (back.created, back.traffic) == ("2026-03-01T12:30:00+00:00", (Traffic("example.org", 2, 10, 20),))


def test_every_kind_of_value_comes_back(tmp_path: Path) -> None:
    page = Page("https://a.example/灯", "灯", "正文", "ab", "2026", "note", "rest")
    missing = Failure(Trouble.UNKNOWN, "no", (Hit("t", "u", "s", "d"),))
    readings = (PageReading("u", Evidence("e", "s"), page), PageReading("v", missing))
    visited = ToolReturned(1, VisitCall(("u", "v"), "年"), ToolResult("x", (), readings), 0.5)
    back = load(
        journal_of(tmp_path, visited, Replied(2, Reply("t", Malformed("m", True), "x"), Usage(), "raw", "length"))
    )
    assert back.events == (visited, Replied(2, Reply("t", Malformed("m", True), "x"), Usage(), "raw", "length"))


def test_a_reopened_session_goes_on_behind_its_last_whole_line_and_counts_on(tmp_path: Path) -> None:
    now = [10.0]
    with Journal.create(tmp_path, "q", NOW, lambda: now[0]) as journal:
        journal.write(RunStarted("q", "m", "rl", 1, 1))
        now[0] = 17.5
        journal.write(LimitReached(1, "turns"))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"event": "Replied", "tu')
    now[0] = 1_000.0
    with Journal.reopen(journal.path, NOW, lambda: now[0]) as again:
        assert (again.spent, journal.path.read_bytes()) == (7.5, whole + b'{"event": "Replied", "tu')
        now[0] = 2_000.0
        again.write(Resumed(1, again.spent))
        now[0] = 2_001.0
        again.write(Failed(1, "x"))
    assert journal.path.read_bytes().startswith(whole)
    assert [record.get("at") for record in read(journal.path)] == [None, 0.0, 7.5, None, 7.5, 8.5]
    assert list(read(journal.path))[3]["reopened"] == "2026-03-01T12:30:00+00:00"


@pytest.mark.parametrize("tail", [b"", b"\0\0\0", b'{"event": "Fini'])
def test_a_last_line_without_its_break_is_kept_where_it_is_whole(tmp_path: Path, tail: bytes) -> None:
    path = journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1))
    whole = path.read_bytes()
    path.write_bytes(whole + tail if tail else whole[:-1])
    with Journal.reopen(path, NOW) as again:
        again.write(Failed(1, "x"))
    assert path.read_bytes().startswith(whole + b'{"venus_edge"')


def test_a_session_that_is_written_is_locked_and_says_by_whom(tmp_path: Path) -> None:
    with Journal.create(tmp_path, "q", NOW) as journal:
        journal.write(RunStarted("q", "m", "rl", 1, 1))
        told = f"{journal.path.stem} is being written by process {os.getpid()} on {platform.node()}"
        with pytest.raises(StorageError, match=told):
            Journal.reopen(journal.path, NOW)
        with pytest.raises(StorageError, match=told):
            remove(journal.path)
        assert [one.state for one in summaries(tmp_path)] == ["running"]
    assert [one.state for one in summaries(tmp_path)] == ["unfinished"]
    remove(journal.path)
    assert summaries(tmp_path) == []


# -- what people and disks do to a file -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"turn": 1', b'"turn": "one"', "line 3, is no record: LimitReached.turn should be a whole number"),
        (b'"limit": "turns"', b'"limit": "moon"', "line 3, is no record: LimitReached.limit should be turns or tokens"),
        (b'"limit"', b'"limits"', "line 3, is no record: LimitReached has no limit"),
        (b'"LimitReached"', b'"Party"', "line 3, is no record: 'Party' is no event"),
        (b'{"event": "LimitReached"', b'["event"', "line 3, is no record: it is not JSON"),
        (b'"schema": 2', b'"schema": 9', "is of a newer version .*schema 9; this one reads 2.*: pip install -U"),
        (b'"schema": 2', b'"schema": 1', "is of an older version .*: it can be listed, shown and exported"),
    ],
)
def test_a_file_that_somebody_has_edited_is_one_line_and_left_alone(
    tmp_path: Path, old: bytes, new: bytes, told: str
) -> None:
    path = journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1), LimitReached(1, "turns"), Failed(1, "x"))
    edited = path.read_bytes().replace(old, new)
    path.write_bytes(edited)
    with pytest.raises(StorageError, match=told) as caught:
        load(path)
    assert (str(caught.value).count("\n"), path.read_bytes()) == (0, edited)


def test_a_session_without_its_head_or_its_beginning_is_one_line(tmp_path: Path) -> None:
    path = journal_of(tmp_path, Failed(1, "x"))
    with pytest.raises(StorageError, match="ends before its run began"):
        load(path).started  # noqa: B018  (a property that refuses)
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(StorageError, match="line 1, is not a session's head"):
        load(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_that_says_how_to_go_on(tmp_path: Path) -> None:
    path = journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1))
    with Journal(path, FileIO("/dev/full", "w"), {}, 0.0, lambda: 0.0) as journal:
        journal._head = None
        told = f"the session cannot be written: No space left on device .*: venus-edge sessions resume {path.stem}"
        with pytest.raises(StorageError, match=told):
            journal.write(Failed(1, "x"))


def test_the_list_says_how_far_a_run_came(tmp_path: Path) -> None:
    with Journal.create(tmp_path, "q", NOW, iter((0.0, 0.0, 1.0, 90.0, 95.0)).__next__) as journal:
        journal.write(RunStarted("何时?", "m", "rl", 1, 1))
        journal.write(Replied(4, Reply("t", SearchCall(("灯",)), "x"), Usage(1_000, 0, 0, 50)))
        journal.write(AttemptStarted(5, 1, 1_200, 4_096))
    (one,) = summaries(tmp_path)
    assert (one.question, one.state, one.turns, one.tokens, one.seconds) == ("何时?", "unfinished", 5, 1_200, 95.0)


def test_a_part_of_a_name_finds_a_session_and_several_are_listed(tmp_path: Path) -> None:
    first, second = journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1)), journal_of(tmp_path, Finished(RESULT))
    assert (find(tmp_path, "lit-2"), find(tmp_path, first.stem), find(tmp_path, str(first))) == (second, first, first)
    assert (find(tmp_path, None), find(tmp_path, None, unfinished=True)) == (second, first)
    with pytest.raises(UsageError, match="'灯塔' is in 2 names"):
        find(tmp_path, "灯塔")
    with pytest.raises(UsageError, match="no session 'moon'"):
        find(tmp_path, "moon")
    remove(first)
    with pytest.raises(UsageError, match="no unfinished session in"):
        find(tmp_path, None, unfinished=True)


class Slow:
    """An engine whose snapshots take `cost` seconds of the clock."""

    def __init__(self, cost: float, error: Exception | None = None) -> None:
        self.now, self.cost, self.error = 0.0, cost, error
        self.saved: list[float] = []

    def save(self, path: Path, most: int = 0) -> int:
        self.saved.append(self.now)
        self.now += self.cost
        if self.error:
            raise self.error
        return path.write_bytes(b"cache")

    def restore(self, path: Path) -> int:
        return path.stat().st_size


def test_snapshots_take_a_twentieth_of_the_time_and_go_with_the_run(tmp_path: Path) -> None:
    engine = Slow(10.0)
    kept = Snapshots(engine, tmp_path / "s.jsonl", lambda: engine.now)
    for _ in range(100):
        engine.now += 20.0
        kept.turn_ended()
    assert engine.saved == [60.0, 270.0, 480.0, 690.0, 900.0, 1110.0, 1320.0, 1530.0, 1740.0, 1950.0]
    assert (kept.restore(), kept.path.name) == (5, "s.kv")
    kept.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_for_a_snapshot_costs_the_run_nothing(tmp_path: Path) -> None:
    engine = Slow(1.0, StorageError("full"))
    kept = Snapshots(engine, tmp_path / "s.jsonl", lambda: engine.now, least=0.0)
    kept.turn_ended()
    kept.turn_ended()
    assert engine.saved == [0.0]
    assert Snapshots(object(), tmp_path / "s.jsonl").restore() == 0
