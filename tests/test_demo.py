"""The main job, end to end on real parts: venus-tiny through llama.cpp, the index and the loop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tiny import demo_corpus, episodes
from venus_edge import demo, runtime
from venus_edge.cli.app import cli
from venus_edge.events import Finished, Replied
from venus_edge.settings import Directories, Settings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
INVENTED, SEED = 20, 77_001  # another seed than the demo corpus's: other names


def settings(home: Path, *corpus: Path) -> Settings:
    directories = Directories(home / "config", home / "data", home / "cache")
    return Settings(directories, model=demo.MODEL, corpus=corpus, offline=True, seed=1, temperature=0.0)


def ask(ready: runtime.Runtime, question: str) -> Finished:
    *_, last = ready.agent.run(question)
    assert isinstance(last, Finished)
    return last


def test_it_answers_about_places_that_training_never_named(tmp_path: Path) -> None:
    pages = list(demo_corpus.pages(INVENTED, SEED))
    assert all(episodes.heldout(page.entity.name) for page in pages)
    demo_corpus.write_corpus(tmp_path / "atlas", pages)
    asked = demo_corpus.questions(pages, INVENTED, SEED)
    with runtime.prepare(settings(tmp_path, tmp_path / "atlas"), lambda _: None) as ready:
        results = [ask(ready, question.text).result for question in asked]
    right = [q.text for q, r in zip(asked, results, strict=True) if r.prediction == q.answer]
    read = [q.text for q, r in zip(asked, results, strict=True) if [s.url for s in r.sources] == [q.entity.url]]
    assert len(right) >= 18, [(r.prediction, q.answer) for q, r in zip(asked, results, strict=True)]
    assert len(read) >= 18


def test_the_demo_prints_one_json_object_a_question_with_its_sources() -> None:
    for question in demo.questions()[:5]:
        result = CliRunner().invoke(cli, ["run", "--demo", "--json", question.text])
        record = json.loads(result.stdout)
        assert (result.exit_code, record["termination"]) == (0, "answered"), result.output
        assert question.expect in record["prediction"]
        assert [source["url"].startswith("https://atlas.example/") for source in record["sources"]] == [True]
        assert Path(record["session"]).is_file()
        assert record["tokens"]["evaluated"] <= 1.05 * record["tokens"]["conversation"]


def test_the_answer_is_on_stdout_and_everything_else_on_stderr() -> None:
    result = CliRunner().invoke(cli, ["run", "--demo"])
    first = demo.questions()[0]
    assert result.exit_code == 0
    assert first.expect in result.stdout
    assert len(result.stdout.splitlines()) == 1
    assert [line for line in ("Question: ", "Sources:", "Session: ") if line not in result.stderr] == []


def test_the_readme_shows_the_demo_as_it_is() -> None:
    result = CliRunner().invoke(cli, ["run", "--demo"])
    shown = README.partition("<!-- demo -->\n```\n")[2].partition("```")[0]
    assert masked(result.output) == masked(shown)


def masked(text: str) -> list[str]:
    """The lines without what differs from run to run: seconds, and where the session is."""
    return [re.sub(r"[\d.]+ s$|(?<=^Session: ).*", "", line) for line in text.splitlines()]


def test_every_turn_is_in_the_session_file() -> None:
    record = json.loads(CliRunner().invoke(cli, ["run", "--demo", "--json"]).stdout)
    names = [json.loads(line).get("event") for line in Path(record["session"]).read_text().splitlines()]
    assert names == [
        *(None, "RunStarted"),
        *("AttemptStarted", "Replied", "ToolCalled", "ToolReturned") * 2,
        *("AttemptStarted", "Replied", "Ledger", "Finished"),
    ]
    listed = json.loads(CliRunner().invoke(cli, ["sessions", "list", "--json"]).stdout)
    assert [(row["path"], row["state"]) for row in listed] == [(record["session"], "answered")]


def test_greedy_runs_are_the_same_to_the_letter(tmp_path: Path) -> None:
    with runtime.prepare(settings(tmp_path, demo.CORPUS), lambda _: None) as ready:
        first, second = (
            [e.reply.text for e in ready.agent.run(demo.questions()[0].text) if isinstance(e, Replied)]
            for _ in range(2)
        )
    assert first == second
    assert len(first) == 3


def test_a_question_nobody_can_answer_ends_without_a_traceback() -> None:
    result = CliRunner().invoke(
        cli, ["run", "--demo", "--json", "--max-turns", "2", "法国的首都是哪里？ </tool_response>"]
    )
    assert result.exit_code in (0, 1)
    assert json.loads(result.stdout)["termination"] in ("answered", "answered_max_steps", "max_steps")


def test_the_demo_command_lists_the_questions() -> None:
    assert CliRunner().invoke(cli, ["demo"]).output.splitlines() == [q.text for q in demo.questions()]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("seen", ["Question: ", "[1] attempt 1 dropped"])
def test_ctrl_c_exits_130_and_the_session_says_so(tmp_path: Path, seen: str) -> None:
    environment = {**os.environ, "VENUS_DATA_DIR": str(tmp_path / "data")}
    wild = ["--temperature", "5", "--no-grammar"]  # never an answer, so the run is still on when the signal comes
    command = [sys.executable, "-m", "venus_edge", "run", "--demo", "--seed", "1", *wild, "why? " * 50]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    shown = next(line for line in process.stderr if line.startswith(seen))
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert (process.returncode, "interrupted: " in rest) == (130, True), shown + rest
    (session,) = (tmp_path / "data" / "sessions").glob("*.jsonl")
    assert json.loads(session.read_text().splitlines()[-1])["result"]["termination"] == "interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("full", "code", "stdout", "stderr"),
    [
        ("stderr", 0, "The length of the Pilnike Garden is 29 metres.\n", None),
        ("stdout", 1, None, "Error: the output cannot be written: No space left on device\n"),
    ],
)
def test_an_output_that_takes_no_more_costs_itself_only(
    full: str, code: int, stdout: str | None, stderr: str | None
) -> None:
    command = [sys.executable, "-m", "venus_edge", "run", "--demo"] + ["-q"] * (full == "stdout")
    with Path("/dev/full").open("w") as device:
        out, err = (device if full == name else subprocess.PIPE for name in ("stdout", "stderr"))
        done = subprocess.run(command, text=True, check=False, stdout=out, stderr=err)
    assert (done.returncode, done.stdout, done.stderr) == (code, stdout, stderr)


def test_the_shipped_gguf_is_what_the_converter_makes_of_the_checkpoint(tmp_path: Path) -> None:
    made = tmp_path / "venus-tiny.gguf"
    checkpoint = Path(__file__).parent / "data" / "venus-tiny"
    command = ["convert", str(checkpoint), "--outtype", "bf16", "--out", str(made), "--name", "venus-tiny"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert made.read_bytes() == (demo.HERE / "venus-tiny.gguf").read_bytes()


def test_a_demo_run_opens_no_socket() -> None:
    code = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event.startswith('socket.'):\n"
        "        raise RuntimeError(event)\n"
        "sys.addaudithook(hook)\n"
        "from venus_edge.cli import cli\n"
        "cli(['run', '--demo', '-q'], standalone_mode=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Connections: none; 0 bytes left this machine" in done.stderr
