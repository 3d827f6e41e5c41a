"""A fresh home: nothing is there but the program. On a real terminal the model is offered, fetched and run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.loopback_hub import LoopbackHub, serving
from venus_edge import demo, registry

pty = pytest.importorskip("pty")

SPEC = registry.load()["dr-venus-4b-rl"]
TINY = (registry.PACKAGE / registry.load()[demo.MODEL].file).read_bytes()
NAME = "DR-Venus-4B-RL-Q4_K_M.gguf"
# what venus-tiny needs where it stands in for the 4B
AS_TINY = """
[dr-venus-4b-rl]
reader = "extractive"
results = 3
sampling = { temperature = 0.0, presence_penalty = 0.0, max_tokens = 400 }
"""


@pytest.fixture
def served() -> Iterator[LoopbackHub]:
    with serving(LoopbackHub({SPEC.gguf_repo: {"README.md": b"# card", NAME: TINY}})) as running:
        yield running


@dataclass
class Home:
    """An empty home of a person whose hub is on loopback."""

    path: Path
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        ours = ("VENUS_", "HF_", "XDG_", "HTTP", "http", "ALL_PROXY", "all_proxy")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        home = {"HOME": str(self.path), "USERPROFILE": str(self.path), "HF_ENDPOINT": self.endpoint}
        return {**kept, **home, "TERM": "xterm", "COLUMNS": "120", "VENUS_CONFIG_DIR": str(self.path / "config")}

    def say(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "venus_edge", *arguments]
        return subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    def talk(self, answer: str, *arguments: str) -> tuple[int, str, str]:
        """The command on a terminal, its question answered: exit code, stdout, what the terminal showed."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "venus_edge", *arguments]
        process = subprocess.Popen(
            command, env=self.environment, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
        )
        os.close(theirs)
        shown, asked, until = b"", False, time.monotonic() + 120
        while time.monotonic() < until:
            try:
                piece = os.read(ours, 4_096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
            if not asked and b"[Y/n]" in shown:
                asked = True
                os.write(ours, f"{answer}\n".encode())
        out, _ = process.communicate(timeout=60)
        os.close(ours)
        return process.returncode, out, shown.decode("utf-8", "replace")


@pytest.fixture
def home(tmp_path: Path, served: LoopbackHub) -> Home:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "models.toml").write_text(AS_TINY)
    return Home(tmp_path, served.endpoint)


QUESTION = demo.questions()[0]
RUN = ("run", QUESTION.text, "--corpus", str(demo.CORPUS), "--context", "4096")


def test_on_a_terminal_yes_fetches_the_model_and_goes_on_to_the_answer(home: Home, served: LoopbackHub) -> None:
    code, out, shown = home.talk("y", *RUN)
    assert code == 0, shown
    assert "DR-Venus 4B (RL) is not on this machine. Fetch it now: 2.5 GB, about 7 minutes at 50 Mbit/s? [Y/n]" in shown
    assert f"{NAME}, 0.01 GB, from {SPEC.gguf_repo}" in shown
    assert "Connections: localhost (model file): 1 connection" in shown
    assert QUESTION.expect in out
    served.requests.clear()
    assert home.say(*RUN, "--offline").stdout == out
    assert served.requests == []


def test_on_a_terminal_no_is_the_line_that_gets_it(home: Home, served: LoopbackHub) -> None:
    code, out, shown = home.talk("n", *RUN)
    assert (code, out, served.requests) == (1, "", [])
    assert "get it with: venus-edge models pull dr-venus-4b-rl" in shown.splitlines()[-1]


def test_in_a_script_nothing_is_asked_or_fetched(home: Home, served: LoopbackHub) -> None:
    said = home.say(*RUN)
    assert (said.returncode, said.stdout, served.requests) == (1, "", [])
    (line,) = said.stderr.splitlines()
    assert "get it with: venus-edge models pull dr-venus-4b-rl" in line


def test_from_nothing_to_an_answer_by_commands(home: Home) -> None:
    pulled = home.say("models", "pull", SPEC.name)
    assert pulled.returncode == 0, pulled.stderr
    path = pulled.stdout.strip()
    assert path.startswith(str(home.path))
    assert path in home.say("models", "list").stdout
    assert path in home.say("models", "show", SPEC.name).stdout
    assert "sha256  ok: " in home.say("models", "verify", SPEC.name).stdout
    assert "Window    4,096 tokens" in home.say("plan", "--context", "4096").stdout
    assert home.say("doctor", "--offline", "--quick").returncode == 0
    answered = home.say(*RUN, "--offline")
    assert QUESTION.expect in answered.stdout
    assert "Connections: none; 0 bytes left this machine" in answered.stderr
