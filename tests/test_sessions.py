"""Events <-> journal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from venus_edge import sessions
from venus_edge.engine import Usage
from venus_edge.errors import StorageError
from venus_edge.events import Finished, Replied, RunStarted, Streamed, ToolReturned
from venus_edge.values import (
    Answer,
    Failure,
    Found,
    Message,
    Reply,
    RunResult,
    SearchCall,
    Source,
    ToolResult,
    Trouble,
)

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
RESULT = RunResult(
    "灯塔?", (Message("user", "灯塔?"),), "1916", "answered", 2, 0, 1, 0, 99, 1.5, (Source("u", "t", "5"),)
)


def journal_of(directory: Path, *events: object) -> Path:
    with sessions.Journal.create(directory, "When was 灯塔 lit?", NOW) as journal:
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
    records = list(sessions.read(path))
    assert path.name == "20260301-123000-when-was-灯塔-lit.jsonl"
    assert records[0] == {"venus_edge": "0.1.0", "schema": 1, "created": "2026-03-01T12:30:00+00:00"}
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
    assert [record.get("event") for record in sessions.read(path)] == [None, "RunStarted"]
    path.write_bytes(whole.replace(b'"event": "RunStarted"', b'"event" "RunStarted"'))
    with pytest.raises(StorageError, match="line 2, is not JSON"):
        list(sessions.read(path))


def test_the_list_tells_the_finished_from_the_torn(tmp_path: Path) -> None:
    done = journal_of(tmp_path, RunStarted("q1", "m", "rl", 1, 1), Finished(RESULT))
    torn = journal_of(tmp_path, RunStarted("q2", "m", "rl", 1, 1), Finished(RESULT))
    torn.write_bytes(torn.read_bytes()[:-9])
    (tmp_path / "notes.jsonl").write_text("no session\n")
    assert {(s.path, s.question, s.state) for s in sessions.summaries(tmp_path)} == {
        (done, "q1", "answered"),
        (torn, "q2", "unfinished"),
    }


def test_a_long_last_record_is_read_whole(tmp_path: Path) -> None:
    long = RunResult("q", (Message("user", "长" * 200_000),), "a", "answered", 1, 0, 0, 0, 1, 1.0)
    journal_of(tmp_path, RunStarted("q", "m", "rl", 1, 1), Finished(long))
    assert [s.state for s in sessions.summaries(tmp_path)] == ["answered"]


def test_bytes_that_are_no_text_are_kept_as_escapes(tmp_path: Path) -> None:
    path = journal_of(tmp_path, RunStarted("bad \udcff byte", "m", "rl", 1, 1))
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[1])["question"] == "bad \udcff byte"


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"no session can be kept in .*; set VENUS_DATA_DIR"):
        journal_of(tmp_path / "file" / "sessions")


@pytest.mark.parametrize(
    ("question", "slug"),
    [("What is  it?", "what-is-it"), ("???", "question"), ("../../etc/passwd", "etc-passwd"), ("a" * 90, "a" * 40)],
)
def test_a_question_names_its_file_safely(question: str, slug: str) -> None:
    assert sessions.slug(question) == slug
