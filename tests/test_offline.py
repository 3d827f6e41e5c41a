"""Offline, proved from outside: the kernel sees no socket of an Internet family, and a machine without any network
interface answers as well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.engine.remote_fakes import FakeModel, serving, spelled
from venus_edge import config, demo, runtime
from venus_edge.events import Finished
from venus_edge.settings import Directories, Settings

NOTHING_LEFT = "Connections: none; 0 bytes left this machine"
FIRST = demo.questions()[0]
PAGE = "---\nurl: https://例子.example/灯塔\ntitle: 克雷翁灯塔\n---\n克雷翁灯塔于1916年首次点亮，高53米。\n"
HELLO = "<think>\nI know it.\n</think>\n\n<answer>In 1916</answer><|im_end|>"


@cache
def tracing() -> tuple[str, ...]:
    """What begins a command whose network calls are to be seen: only those stop it, so that its threads run as they
    are. () where strace is not here, or may not trace."""
    command = ("strace", "-f", "--seccomp-bpf", "-e", "trace=network", "-o")
    works = (
        shutil.which("strace")
        and not subprocess.run([*command, os.devnull, "true"], capture_output=True, check=False).returncode
    )
    return command if works else ()


@cache
def alone() -> tuple[str, ...]:
    """What begins a command in an empty network namespace; () where that is not permitted."""
    for command in (("unshare", "-n"), ("unshare", "-rn")):
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
        ):
            return command
    return ()


def say(home: Path, *arguments: str, before: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    """The program in an empty home, on what a proxy and a hub token of the environment say as well."""
    ours = ("VENUS_", "HF_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    tempting = {"HTTPS_PROXY": "http://192.0.2.7:3128", "HF_TOKEN": "hf_none", "HOME": str(home), "VENUS_THREADS": "1"}
    command = [*before, sys.executable, "-m", "venus_edge", *arguments]
    return subprocess.run(
        command, env={**kept, **tempting, **more}, capture_output=True, text=True, check=False, timeout=300
    )


def notes(home: Path) -> Path:
    (home / "notes").mkdir()
    (home / "notes" / "灯塔.md").write_text(PAGE, encoding="utf-8")
    return home / "notes"


TINY = ("--model", demo.MODEL)
RUNS = {
    "demo": ["run", "--demo"],
    "英文和中文": ["run", "克雷翁灯塔 1916", *TINY, "--corpus", "notes", "--max-turns", "1", "--max-minutes", "0.2"],
    "doctor": ["doctor", *TINY],
    "a model by its repository": ["run", "?", "--model", "inclusionAI/DR-Venus-4B-RL", "--corpus", "notes"],
    "pull": ["models", "pull", "dr-venus-4b-rl"],
}


@pytest.mark.parametrize("name", RUNS)
def test_the_kernel_sees_no_socket_of_an_internet_family(tmp_path: Path, name: str) -> None:
    if not tracing():
        pytest.skip("strace is not here, or may not trace")
    trace = tmp_path / "trace"
    arguments = [str(notes(tmp_path)) if word == "notes" else word for word in RUNS[name]]
    done = say(tmp_path, *arguments, before=(*tracing(), str(trace)), VENUS_OFFLINE="1")
    seen = trace.read_text()
    assert "+++ exited with" in seen, "nothing was traced"
    assert re.findall(r".*AF_INET.*", seen) == [], done.stderr
    if name == "demo":
        assert (done.returncode, FIRST.expect in done.stdout, NOTHING_LEFT in done.stderr) == (0, True, True)
    if name in ("pull", "a model by its repository"):
        assert re.fullmatch(r"Error: .*copy its \.gguf into .*\n", done.stderr), done.stderr


def test_no_command_that_is_meant_for_a_machine_without_a_network_opens_a_socket(tmp_path: Path) -> None:
    if not tracing():
        pytest.skip("strace is not here, or may not trace")
    assert say(tmp_path, "run", "--demo").returncode == 0
    (session,) = (tmp_path / ".local" / "share" / "venus-edge" / "sessions").glob("*.jsonl")
    shutil.copy(session, whole := tmp_path / "whole.jsonl")
    lines = session.read_text(encoding="utf-8").splitlines(keepends=True)
    turn = next(number for number, line in enumerate(lines) if '"ToolReturned"' in line)
    session.write_text("".join(lines[: turn + 1]), encoding="utf-8")  # as after a kill in its second turn
    kit = str(tmp_path / "kit.tar")
    commands = [
        ["corpus", "create", "灯塔", str(notes(tmp_path))],
        ["corpus", "update", "灯塔"],
        ["corpus", "search", "灯塔", "克雷翁灯塔 1916"],
        ["cache", "pack", str(whole), "--name", "demo"],
        ["pack", kit, "--model", demo.MODEL, "--corpus", "灯塔", "--corpus", "demo", "--cache"],
        ["unpack", kit, str(tmp_path / "unpacked")],
        ["sessions", "export", str(whole), "--out", str(tmp_path / "report.html")],
        ["sessions", "resume", "--offline"],
    ]
    for number, words in enumerate(commands):
        trace = tmp_path / f"trace{number}"
        done = say(tmp_path, *words, before=(*tracing(), str(trace)), VENUS_OFFLINE="1")
        assert done.returncode == 0, done.stderr
        assert ("+++ exited with" in trace.read_text(), "AF_INET" in trace.read_text()) == (True, False), words
    assert FIRST.expect in done.stdout
    assert NOTHING_LEFT in done.stderr


def test_wheels_are_not_asked_for_offline(tmp_path: Path) -> None:
    done = say(tmp_path, "pack", str(tmp_path / "kit"), "--wheels", VENUS_OFFLINE="1")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: offline: --wheels asks a registry of packages; with a network: VENUS_OFFLINE=0 venus-edge pack\n",
    )


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ("ddgs", "offline: ddgs cannot be asked; only the corpora are searched"),
        ("corpus,wikipedia,ddgs", "offline: wikipedia, ddgs cannot be asked; what they gave before is searched"),
        ("auto", ""),
        ("corpus", ""),
    ],
)
def test_a_search_service_that_was_named_is_said_not_to_be_asked(tmp_path: Path, search: str, line: str) -> None:
    said: list[str] = []
    places = Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    chosen = Settings(places, model=demo.MODEL, corpus=(demo.CORPUS,), offline=True, search=search)
    with runtime.prepare(chosen, said.append):
        assert [each for each in said if each.startswith("offline")] == ([line] if line else [])


def test_a_run_that_began_with_a_network_goes_on_without_one_where_there_is_none(tmp_path: Path) -> None:
    places = {f"VENUS_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "CACHE")}
    for now, then, wanted in (("1", {}, True), ("0", {}, False), ("0", {"offline": True}, True), ("", {}, False)):
        assert config.again(then, {**places, "VENUS_OFFLINE": now}).offline is wanted


def test_a_socket_would_be_seen(tmp_path: Path) -> None:
    if not tracing():
        pytest.skip("strace is not here, or may not trace")
    code = "import socket; socket.socket().close()"
    subprocess.run([*tracing(), str(tmp_path / "trace"), sys.executable, "-c", code], check=True)
    assert "AF_INET" in (tmp_path / "trace").read_text()


def test_without_any_network_interface_it_answers_as_well(tmp_path: Path) -> None:
    if not alone():
        pytest.skip("network namespaces are not permitted here")
    done = say(tmp_path, "run", "--demo", before=alone())
    assert (done.returncode, FIRST.expect in done.stdout, NOTHING_LEFT in done.stderr) == (0, True, True), done.stderr


def test_the_switch_may_stand_in_config_toml(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("offline = true\n")
    asked = ["run", FIRST.text, "--model", demo.MODEL, "--corpus", str(demo.CORPUS)]
    done = say(tmp_path, *asked, VENUS_CONFIG_DIR=str(tmp_path / "config"))
    assert (done.returncode, NOTHING_LEFT in done.stderr) == (0, True), done.stderr


def test_a_server_on_this_machine_is_said_and_what_went_to_it_has_not_left(tmp_path: Path) -> None:
    said: list[str] = []
    with serving(FakeModel([spelled(HELLO)], n_ctx=32_768, vllm=True)) as url:
        places = Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
        chosen = Settings(places, model=demo.MODEL, corpus=(notes(tmp_path),), offline=True, engine=url)
        with runtime.prepare(chosen, said.append) as ready:
            *_, last = ready.events("克雷翁灯塔何时点亮？")
            line = ready.ledger()
    assert isinstance(last, Finished)
    assert last.result.prediction == "In 1916"
    assert f"offline: no connection is made but that to {url.removeprefix('http://')}, which is this machine" in said
    assert re.fullmatch(
        re.escape(NOTHING_LEFT) + r" \(127\.0\.0\.1 is this machine: [\d,]+ bytes to it, [\d,]+ from it\)", line
    )


def test_what_was_stopped_is_told_at_the_end(tmp_path: Path) -> None:
    import socket

    places = Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    chosen = Settings(places, model=demo.MODEL, corpus=(demo.CORPUS,), offline=True)
    with runtime.prepare(chosen, lambda _: None) as ready:
        for _ in range(2):
            with pytest.raises(OSError, match="offline"):
                socket.getaddrinfo("huggingface.co", 443)
        assert ready.ledger() == f"{NOTHING_LEFT}; stopped: getaddrinfo huggingface.co"
