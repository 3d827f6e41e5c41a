"""The group of commands: default verb, typing errors, exit codes, and what `--help` may load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from venus_edge import __version__
from venus_edge.cli.app import COMMANDS, SUMMARIES, cli

HEAVY = ("llama_cpp", "lxml", "huggingface_hub", "httpx2", "numpy", "jinja2", "sqlite3", "rich", "gguf", "ddgs")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom venus_edge.cli import cli\ncli(['--help'], standalone_mode=False)\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_every_command_is_in_the_help_with_a_line_of_its_own() -> None:
    assert list(COMMANDS) == list(SUMMARIES)
    text = invoke("--help").output
    assert all(f"  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_can_be_asked_for_help(name: str) -> None:
    result = invoke(name, "--help")
    assert (result.exit_code, result.output.startswith("Usage:")) == (0, True)


def test_version() -> None:
    assert invoke("--version").output == f"venus-edge, version {__version__}\n"


def test_a_typing_error_is_not_a_question() -> None:
    result = invoke("sesions")
    assert result.exit_code == 2
    assert (
        "no command 'sesions'; did you mean 'venus-edge sessions'? To ask it: venus-edge run sesions" in result.output
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("models", "verify"), "Missing argument 'NAME'; see: venus-edge models verify --help"),
        (("models", "pul"), "No such command 'pul'"),
        (("plan", "--quants", "Q8_0"), "No such option '--quants'"),
        (("run", "哪一年？", "--context", "多"), "Invalid value for '--context': '多' is not a valid integer; see: "),
        (("哪一年？", "--demo", "x"), "Got unexpected extra argument (x); see: venus-edge run --help"),
    ],
)  # fmt: skip
def test_a_wrong_flag_or_argument_is_one_line_with_where_the_help_is(arguments: tuple[str, ...], line: str) -> None:
    result = invoke(*arguments)
    (said,) = result.stderr.splitlines()
    assert (result.exit_code, said.startswith(f"Error: {line}")) == (2, True), said
    assert said.endswith(" --help")
    assert invoke("models").output.startswith("Usage: ")


def test_words_without_quotes_and_help_are_no_question() -> None:
    result = invoke("how", "tall", "is", "it")
    assert (result.exit_code, result.stderr) == (
        2,
        'Error: put the question in quotes: venus-edge "how tall is it"\n',
    )
    assert invoke("help").stderr == "Error: for help: venus-edge --help\n"


def test_the_groups_own_flags_may_stand_before_a_question() -> None:
    for arguments in (["-v", "run", "a question"], ["-v", "a question"]):
        assert "venus-edge models pull" in invoke(*arguments).stderr


@pytest.mark.parametrize("arguments", [["run"], ["run", ""], ["run", "  \n"], ["--offline", "\x00"]])
def test_no_question_is_a_usage_error(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "no question; venus-edge run" in result.output


@pytest.mark.parametrize("text", ["长" * 1_000_001, " 长" * 600_000], ids=["without spaces", "cut at a space"])
def test_a_question_longer_than_any_question_is_refused_before_a_model_is_loaded(text: str) -> None:
    result = CliRunner().invoke(cli, ["run", "-"], input=text)
    assert result.exit_code == 2
    assert "longer than 1,000,000 characters; put documents in a --corpus folder" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context", "100"], "--context must be at least 512, not 100"),
        (["--threads", "0"], "--threads must be at least 1, not 0"),
        (["--temperature", "-1"], "temperature must lie between 0 and 5"),
        (["--max-minutes", "0"], "the time limit must be more than 0 seconds"),
        (["--model", "dr-venus"], "unknown model 'dr-venus'; known: dr-venus-4b-rl"),
        (["--date", "yesterday"], "date 'yesterday' is not YYYY-MM-DD"),
        (["--gpu-layers", "many"], "gpu-layers is auto, all or a number, not 'many'"),
        (["--kv-type", "q5"], "--kv-type should be one of f16, q8_0, q4_0, or two of them for K and V"),
        (["--kv-type", "q8_0", "--flash-attention", "off"], "V at q8_0 needs flash attention, which is off"),
        (["--main-gpu", "-1"], "--main-gpu counts cards from 0, it cannot be -1"),
        (["--main-gpu", "0", "--tensor-split", "1,1"], "--main-gpu puts all layers on one card"),
        (["--tensor-split", "0,0"], "--tensor-split is a share for each card, like 3,1, not 0,0"),
        (["--tensor-split", "a"], "--tensor-split should be a number, not 'a'"),
        (["--offline"], "offline there is nothing to search without --corpus"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(arguments: list[str], said: str) -> None:
    result = invoke("a question", *arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert said in line


def test_a_missing_model_names_the_command_that_gets_it_and_the_demo() -> None:
    result = invoke("a question")
    assert result.exit_code == 1
    message = result.output.strip().splitlines()[-1]
    assert "venus-edge models pull dr-venus-4b-rl" in message
    assert "venus-edge run --demo" in message
