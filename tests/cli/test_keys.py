"""Keys and signals of a run, on a real terminal: what they do, and that the terminal is given back on every way out."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals and signals")

pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")
fcntl = pytest.importorskip("fcntl")

# A run of the command line whose model is a script that never comes to an end by itself: a slow one.
SLOW = """
import itertools, random, sys, time
from venus_edge import model
from venus_edge.cli import cli
from venus_edge.engine.scripted import ScriptedEngine

ASKS = b"provide the entire final answer"
pick = random.Random(7)
search = '想\\n</think>\\n\\n<tool_call>\\n{{"name": "search", "arguments": {{"query": ["{}"]}}}}\\n</tool_call>'
answer = "ok\\n</think>\\n\\n<answer>Lit in 1916. 1916年点亮。</answer>"

def script():
    yield search.format("lighthouse")
    for number in itertools.count():
        asked = ASKS in bytes(engine.requests[-1].prompt)
        yield answer if asked else "w7919 " + " ".join(f"{pick.getrandbits(40):x}" for _ in range(100_000))

class Slow(ScriptedEngine):
    notes = ()

    def generate(self, request):
        generation = super().generate(request)
        whole = generation._texts
        def slowed():
            for text in whole:
                time.sleep(0.01)
                yield text
        generation._texts = slowed()
        return generation

engine = Slow(script())
model.opened = lambda *_: (engine, "")
FAULT
cli()
"""
BUG = """
from venus_edge.agent import Agent
from venus_edge.cli import view
def shown(event):
    raise RuntimeError("a bug")
def answer_now(agent):
    view.lines = shown
    engine.cancel()
Agent.answer_now = answer_now
"""
STUCK = """
import os
from venus_edge.agent import Agent
def stuck(*_):
    os.write(2, b"STUCK")
    time.sleep(10_000)
Agent._result = stuck
"""
LONG = 60  # seconds after which something has gone wrong


class Shown:
    """A process on a pseudo-terminal of its own, and everything that it has shown there."""

    def __init__(self, process: subprocess.Popen[bytes], main: int, side: int) -> None:
        self.process, self.main, self.side = process, main, side
        self.text = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Reads on until something is shown that the pattern finds."""
        while (found := re.search(pattern, self.text)) is None:
            self.read()
        return found

    def read(self) -> None:
        end = time.monotonic() + LONG
        while not select.select([self.main], [], [], 0.05)[0]:
            if self.process.poll() is None and time.monotonic() < end:
                continue
            pytest.fail(f"nothing more is shown after {self.text[-2_000:]!r}")
        self.text += os.read(self.main, 65_536).decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        """Types them, and waits until they are taken."""
        os.write(self.main, keys.encode())
        self.wait(lambda: not struct.unpack("i", fcntl.ioctl(self.side, termios.FIONREAD, bytes(4)))[0])

    def wait(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + LONG
        while not happened():
            if time.monotonic() > end:
                pytest.fail(f"it never happened: {self.text[-2_000:]!r}")
            time.sleep(0.01)

    def ended(self) -> int:
        """Its exit code; what it still shows is read meanwhile."""
        end = time.monotonic() + LONG
        while self.process.poll() is None or select.select([self.main], [], [], 0)[0]:
            if time.monotonic() > end:
                pytest.fail(f"it goes on: {self.text[-2_000:]!r}")
            if select.select([self.main], [], [], 0.05)[0]:
                self.read()
        return self.process.returncode

    def modes(self) -> tuple[bool, bool]:
        """Whether the terminal gathers lines, and whether it echoes."""
        local = termios.tcgetattr(self.side)[3]
        return bool(local & termios.ICANON), bool(local & termios.ECHO)


LENT, GIVEN_BACK = (False, False), (True, True)
LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


SHELL = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpgrp())
    print("STOPPED", job, flush=True)
    if sys.stdin.readline() == "fg\\n":
        os.tcsetpgrp(0, job)
    os.kill(job, signal.SIGCONT)
os.tcsetpgrp(0, os.getpgrp())
print("ENDED", os.waitstatus_to_exitcode(status), flush=True)
"""


@contextmanager
def on_a_terminal(home: Path, *arguments: str, code: str = "", shell: str = LEADER) -> Iterator[Shown]:
    """The process leads a session whose terminal it has; or is a job of a shell that does."""
    main, side = pty.openpty()
    environment = {**os.environ, "VENUS_DATA_DIR": str(home), "TERM": "xterm-256color", "COLUMNS": "200"}
    program = ["-c", code] if code else ["-m", "venus_edge"]
    command = [sys.executable, "-c", shell, *program, *arguments]
    process = subprocess.Popen(command, env=environment, stdin=side, stdout=side, stderr=side)
    try:
        yield Shown(process, main, side)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(main)
        os.close(side)


@contextmanager
def slow_run(home: Path, fault: str = "", shell: str = LEADER) -> Iterator[Shown]:
    """A run that is in the middle of its second turn, which would take twenty minutes."""
    command, code = ("run", "--demo", "When was it lit? 何时?"), SLOW.replace("FAULT", fault)
    with on_a_terminal(home, *command, code=code, shell=shell) as shown:
        shown.until(r"turn 2 \|")
        yield shown


def record(home: Path) -> list[dict[str, Any]]:
    (path,) = (home / "sessions").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_key_a_ends_the_turn_and_asks_for_the_answer(tmp_path: Path) -> None:
    with slow_run(tmp_path) as shown:
        shown.until("a: answer now, Ctrl-C: stop")
        assert shown.modes() == LENT
        shown.press("a")
        code = shown.ended()
        assert (code, shown.modes()) == (0, GIVEN_BACK), shown.text[-2_000:]
    assert "Lit in 1916. 1916年点亮。" in shown.text
    assert "answered when asked to: 3 turns, 1 tool calls" in shown.text
    *_, dropped, limit, _, replied, _, finished = record(tmp_path)
    assert (dropped["event"], dropped["reason"], limit["limit"]) == ("AttemptDropped", "answer now", "asked")
    assert replied["reply"]["action"]["text"] == "Lit in 1916. 1916年点亮。"
    assert finished["result"]["termination"] == "answered_on_request"
    assert "w7919" not in json.dumps(finished["result"]["messages"])


def test_other_keys_and_pasted_text_do_nothing(tmp_path: Path) -> None:
    with slow_run(tmp_path) as shown:
        for keys in ("q", "\x1b[A", "banana", "啊", "\r"):
            shown.press(keys)
        shown.text = ""
        shown.until(r"turn 2 \|")
        shown.press("a")
        assert shown.ended() == 0
    assert [event.get("event") for event in record(tmp_path)].count("AttemptDropped") == 1


def test_ctrl_c_stops_at_once_and_says_how_to_go_on(tmp_path: Path) -> None:
    with slow_run(tmp_path) as shown:
        shown.press("\x03")
        assert (shown.ended(), shown.modes()) == (130, GIVEN_BACK), shown.text[-2_000:]
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    assert f"To go on: venus-edge sessions resume {path.stem}" in re.sub(r"\s*\n", "", shown.text.replace("\r", ""))
    assert record(tmp_path)[-1]["result"]["termination"] == "interrupted"


def test_ctrl_c_twice_quits_hard(tmp_path: Path) -> None:
    with slow_run(tmp_path, STUCK) as shown:
        shown.press("\x03")
        shown.until("STUCK")
        shown.press("\x03")
        assert (shown.ended(), shown.modes()) == (130, GIVEN_BACK), shown.text[-2_000:]
    assert "\x1b[?25h" in shown.text[shown.text.index("STUCK") :]
    assert "Finished" not in [event.get("event") for event in record(tmp_path)]


def test_an_exception_gives_the_terminal_back(tmp_path: Path) -> None:
    with slow_run(tmp_path, BUG) as shown:
        shown.press("a")
        assert (shown.ended(), shown.modes()) == (1, GIVEN_BACK), shown.text[-2_000:]
    assert "RuntimeError: a bug" in shown.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_ends_the_run_gives_the_terminal_back(tmp_path: Path, number: signal.Signals) -> None:
    with slow_run(tmp_path) as shown:
        shown.process.send_signal(number)
        assert (shown.ended(), shown.modes()) == (-number, GIVEN_BACK), shown.text[-2_000:]


def test_sigusr1_asks_for_the_answer_too(tmp_path: Path) -> None:
    with slow_run(tmp_path) as shown:
        shown.process.send_signal(signal.SIGUSR1)
        assert shown.ended() == 0
    assert record(tmp_path)[-1]["result"]["termination"] == "answered_on_request"


def stopped_job(shown: Shown) -> int:
    """Presses Ctrl-Z; the process that stands still then."""
    os.write(shown.main, b"\x1a")
    job = int(shown.until(r"STOPPED (\d+)\r?\n")[1])
    shown.text = ""
    return job


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tmp_path: Path) -> None:
    with slow_run(tmp_path, shell=SHELL) as shown:
        stopped_job(shown)
        assert shown.modes() == GIVEN_BACK
        shown.press("fg\n")
        shown.wait(lambda: shown.modes() == LENT)
        stopped_job(shown)
        shown.press("fg\n")
        shown.wait(lambda: shown.modes() == LENT)
        shown.press("a")
        shown.until("ENDED 0")
        assert shown.modes() == GIVEN_BACK
    assert record(tmp_path)[-1]["result"]["termination"] == "answered_on_request"


def test_in_the_background_the_terminal_is_left_alone(tmp_path: Path) -> None:
    with slow_run(tmp_path, shell=SHELL) as shown:
        job = stopped_job(shown)
        os.write(shown.main, b"bg\n")
        shown.until(r"turn 2 \|")
        os.kill(job, signal.SIGUSR1)
        shown.until("ENDED 0")
        assert shown.modes() == GIVEN_BACK


def test_where_stdin_is_a_pipe_no_key_is_read_and_the_signal_is_heard(tmp_path: Path) -> None:
    environment = {**os.environ, "VENUS_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SLOW.replace("FAULT", ""), "run", "--demo", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("a何时?".encode())
        process.stdin.close()
        shown = next(line for line in process.stderr if line.startswith(b"    3 results") or b"results" in line)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LONG) == 0, shown
        assert process.stdout is not None
        assert process.stdout.read().decode() == "Lit in 1916. 1916年点亮。\n"


def test_the_demos_own_model_is_stopped_and_asked(tmp_path: Path) -> None:
    wild = ["--temperature", "5", "--no-grammar", "--seed", "1"]  # never an answer: the run is still on
    with on_a_terminal(tmp_path, "run", "--demo", *wild, "why? 为何? " * 40) as shown:
        shown.until(r"turn 1 \|.*tokens/s")
        shown.press("a")
        assert (shown.ended(), shown.modes()) == (1, GIVEN_BACK), shown.text[-2_000:]
    assert [event["limit"] for event in record(tmp_path) if event.get("event") == "LimitReached"] == ["asked"]
    assert record(tmp_path)[-1]["result"]["termination"] == "no_answer_on_request"
