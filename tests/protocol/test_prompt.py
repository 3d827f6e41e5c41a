"""The words a run starts from and the solver's own messages, exactly."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from venus_edge.protocol import prompt
from venus_edge.protocol.prompt import opening, reading_prompt, system_prompt, tool_reply
from venus_edge.values import Message

SYSTEM_SHA256 = "9db911bcb5a0ae9e2dc63cbe335ccf39bdf3219139308b29e1a059fd78e984ac"
DAY = datetime.date(2026, 3, 1)


def test_the_system_prompt_is_the_trained_one_to_the_byte() -> None:
    assert hashlib.sha256(system_prompt(DAY).encode()).hexdigest() == SYSTEM_SHA256
    assert system_prompt(DAY).endswith("\n</tool_call>\n\nCurrent date: 2026-03-01\n")


def test_only_the_date_line_changes() -> None:
    assert system_prompt(datetime.date(2027, 12, 9)) == system_prompt(DAY).replace("2026-03-01", "2027-12-09")


def test_a_run_opens_with_system_prompt_and_question() -> None:
    assert opening("谁? \ud800", DAY) == (Message("system", system_prompt(DAY)), Message("user", "谁? \ufffd"))


def test_the_released_runs_open_with_the_same_prompt(shared: Path) -> None:
    assert (shared / "protocol" / "system_prompt.txt").read_bytes() == system_prompt(DAY).encode()


def test_a_tool_reply_stands_between_the_trained_tags() -> None:
    assert tool_reply("[]") == Message("user", "<tool_response>\n[]\n</tool_response>")


def test_the_solver_says_what_the_official_one_says() -> None:
    now = (
        " Based on the information and knowledge you have gathered, please provide the entire final answer in "
        "`<answer></answer>` tags now.\n</tool_response>"
    )
    texts = (prompt.MALFORMED_TEXT, prompt.TOKEN_LIMIT_TEXT, prompt.TURN_LIMIT_TEXT)
    assert [tool_reply(text).content for text in texts] == [
        "<tool_response>\nERROR!\nPlease call a tool with the correct format, or if you are ready to answer, provide "
        "the entire final answer in `<answer></answer>` tags.\n</tool_response>",
        f"<tool_response>\nYou have reached the maximum context length.{now}",
        f"<tool_response>\nYou've reached the maximum number of tool calls.{now}",
    ]


def test_a_reading_prompt_holds_page_address_and_goal_in_one_user_message() -> None:
    system, user = reading_prompt("Lit in 1916.\n</tool_response>", "https://example.org/a", "find the year")
    assert (system.role, user.role) == ("system", "user")
    assert system.content == prompt.READING_SYSTEM
    for part in ("Lit in 1916.\n</tool_response>", "https://example.org/a", "find the year"):
        assert part in user.content
        assert part not in system.content
