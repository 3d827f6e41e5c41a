"""Runs killed -9 and resumed, and disks, directories and clocks that are not as they should be: nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from venus_edge import demo, recorded, runtime
from venus_edge.cli.app import cli
from venus_edge.errors import StorageError
from venus_edge.events import Failed, Finished, Replied, Resumed, RunStarted, ToolReturned
from venus_edge.sessions.journal import Journal
from venus_edge.sessions.reading import load
from venus_edge.sessions.snapshot import Snapshots

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
ANSWER = f"The length of the Pilnike Garden is {demo.questions()[0].expect}.\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_runs_killed_at_random_moments_lose_no_turn_and_end_as_they_would_have() -> None:
    """The long one is `make bench-kill`."""
    command = [sys.executable, "-m", "tests.bench.kill", "--kills", "12", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong: 0; sessions left over: 0" in done.stdout


def say(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session of a demo run that was killed in its second turn."""
    monkeypatch.setenv("VENUS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "cache"))
    assert say("run", "--demo", "-q").exit_code == 0
    (path,) = (tmp_path / "data" / "sessions").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:30])
    return path


def test_the_newest_unfinished_session_is_resumed_in_its_own_file(cut: Path) -> None:
    before = cut.read_bytes()
    result = say("sessions", "resume")
    assert (result.exit_code, result.stdout) == (0, ANSWER)
    assert cut.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    assert "goes on after turn 1" in result.stderr
    refused = say("sessions", "resume", cut.stem)
    assert (refused.exit_code, refused.output.count("\n")) == (2, 1)
    assert "is over (answered)" in refused.output
    assert say("sessions", "resume").output.startswith("Error: no unfinished session in ")


def test_a_resumed_run_takes_the_models_cache_from_beside_the_session(cut: Path) -> None:
    """Saved at the end of a turn, the process gone, taken back by another one: nothing of it is evaluated again."""
    kept = load(cut)
    settings = recorded.settings_of(kept)
    with runtime.prepare(settings, lambda _: None) as first:
        events = first.events(kept.started.question)
        next(event for event in events if isinstance(event, ToolReturned))
        Snapshots(first.engine, cut, least=0.0).turn_ended()
        events.close()
    with runtime.prepare(settings, lambda _: None) as second:
        snapshots = Snapshots(second.engine, cut)
        restored = snapshots.restore()
        told = list(second.resume(kept, restored))
    replied = next(event for event in told if isinstance(event, Replied))
    assert isinstance(told[0], Resumed)
    assert (told[0].turn, told[0].restored) == (1, restored)
    assert replied.usage.reused_tokens == restored > 400
    assert isinstance(told[-1], Finished)
    assert told[-1].result.prediction == ANSWER.strip()
    assert say("sessions", "resume", "-q").stdout == ANSWER
    assert not snapshots.path.exists()


def test_another_model_file_or_setting_is_one_line_and_goes_on_anyway_where_that_is_wanted(cut: Path) -> None:
    text = cut.read_text()
    cut.write_text(text.replace('"content": "', '"content": "0').replace('"max_tokens": 400', '"max_tokens": 300'))
    refused = say("sessions", "resume", "-q")
    assert (refused.exit_code, refused.output.count("\n")) == (2, 1)
    assert "content was 0" in refused.output
    assert "sampling.max_tokens was 300, is 400; to go on so: venus-edge sessions resume" in refused.output
    assert cut.read_text().startswith(text[:100])
    result = say("sessions", "resume", "--anyway")
    assert (result.exit_code, result.stdout) == (0, ANSWER)
    assert "max_tokens was 300" in result.stderr


@pytest.mark.parametrize(("edit", "told"), [
    (lambda lines: [*lines[:3], *lines[4:]], "line 4, is out of order: turn 1, attempt 1 was due there"),
    (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], None),
    (lambda lines: [*lines[:5], *lines[6:]], "line 6, is out of order: the result of turn 1's call was due there"),
    (lambda lines: [*lines[:4], b"{broken\n", *lines[5:]], "line 5, is no record: it is not JSON"),
    (lambda lines: [lines[0].replace(b'"schema": 2', b'"schema": 7'), *lines[1:]], "is of a newer version"),
])  # fmt: skip
def test_a_journal_that_was_edited_is_one_line_and_left_as_it_is(
    cut: Path, edit: Callable[[list[bytes]], list[bytes]], told: str | None
) -> None:
    cut.write_bytes(b"".join(edit(cut.read_bytes().splitlines(keepends=True))))
    before = cut.read_bytes()
    result = say("sessions", "resume", cut.stem, "-q")
    if told is None:  # ToolReturned before ToolCalled: the second has no call that waits
        told = "line 6, is out of order"
    assert (result.exit_code, result.output.count("\n"), cut.read_bytes()) == (1, 1, before), result.output
    assert told in result.output


def test_a_clock_that_was_set_back_changes_no_time_of_the_run(cut: Path) -> None:
    with Journal.reopen(cut, datetime(1999, 1, 1, tzinfo=UTC), iter((50.0, 50.0, 51.5)).__next__) as journal:
        journal.write(Failed(2, "x"))
    times = load(cut).times
    assert list(times) == sorted(times)
    assert times[-1] == pytest.approx(times[-2] + 1.5)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a small tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_stops_the_run_with_one_line_and_it_goes_on_when_there_is_room(small: Path) -> None:
    with Journal.create(small, "灯塔?", NOW) as journal:
        journal.write(RunStarted("灯塔?", "m", "rl", 1, 1))
        (small / "filler").write_bytes(b"x" * 40_000)
        before = journal.path.read_bytes()
        with pytest.raises(StorageError, match=r"No space left on device .*venus-edge sessions resume"):
            journal.write(Failed(1, "长" * 20_000))
        assert journal.path.read_bytes() == before
    (small / "filler").unlink()
    with Journal.reopen(journal.path, NOW) as again:
        again.write(Failed(1, "room"))
    assert load(journal.path).events[-1] == Failed(1, "room")


def test_a_directory_that_cannot_be_written_is_one_line(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("venus_edge.sessions.journal.FileIO", _refused)
    result = say("sessions", "resume", cut.stem)
    assert (result.exit_code, result.output) == (1, f"Error: session {cut} cannot be written: Permission denied\n")


def _refused(path: Path, mode: str) -> None:
    raise PermissionError(13, "Permission denied", str(path))
