"""What a person sees of a run."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from venus_edge.cli import play
from venus_edge.cli.text import clean
from venus_edge.cli.view import LiveView, lines
from venus_edge.engine import Usage
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Failed,
    Finished,
    Folded,
    LimitReached,
    Replied,
    RunStarted,
    Streamed,
    ToolCalled,
    ToolReturned,
)
from venus_edge.values import (
    Evidence,
    Failure,
    Fold,
    Found,
    Hit,
    Message,
    PageReading,
    Reply,
    RunResult,
    SearchCall,
    Source,
    ToolResult,
    Trouble,
    VisitCall,
)

SEARCH, VISIT = SearchCall(("灯塔", "lamp")), VisitCall(("https://example.org/a",), "year")
RESULT = RunResult("q", (Message("user", "q"),), "1916", "answered_max_steps", 3, 0, 2, 0, 1234, 5.25)

LINES: list[tuple[Event, list[str]]] = [
    (RunStarted("q", "venus-tiny", "rl", 4096, 7), ["Question: q", "Model: venus-tiny, window 4,096 tokens"]),
    (AttemptStarted(1, 1, 10, 4096), []),
    (Streamed("thinking", "hm"), []),
    (Replied(1, Reply("I\nsearch.", SEARCH, ""), Usage()), ["[1] thinks: I search."]),
    (ToolCalled(1, SEARCH), ["[1] search: 灯塔 | lamp"]),
    (ToolCalled(1, SearchCall(())), ["[1] search: (no query)"]),
    (ToolCalled(2, VISIT), ["[2] visit: https://example.org/a  for: year"]),
    (
        ToolReturned(1, SEARCH, ToolResult("", (Found("a", (Hit("T", "u", "s"),)), Found("b")), ()), 0.1),
        ["    1 result: T", "    0 results: "],
    ),
    (
        ToolReturned(1, SEARCH, ToolResult("", (Found("a", failure=Failure(Trouble.REFUSED, "429")),)), 0.1),
        ["    refused: 429"],
    ),
    (
        ToolReturned(
            2,
            VISIT,
            ToolResult(
                "",
                (),
                (PageReading("u", Evidence("e", "Lit 1916.")), PageReading("v", Failure(Trouble.TIMEOUT, "slow"))),
            ),
            0.1,
        ),
        ["    read: Lit 1916.", "    not read: timed out or unreachable: slow"],
    ),
    (ToolReturned(2, VISIT, ToolResult("url must not be empty"), 0.1), ["    url must not be empty"]),
    (AttemptDropped(2, 1, "malformed", "no call", "..."), ["[2] attempt 1 dropped (malformed): no call"]),
    (
        Folded(3, (Fold(3, SEARCH, 900, "..."), Fold(5, VISIT, 1_200, "...")), 22_200, 11_000, 9_500),
        [
            "[3] the window is nearly full: folded the oldest 2 replies, 22,200 tokens become 11,000, "
            "9,500 of them are read again",
            "    folded search: 灯塔 | lamp | visit: https://example.org/a for: year",
        ],
    ),
    (LimitReached(3, "asked"), ["[3] as you wish: asking for the answer"]),
    (LimitReached(3, "time"), ["[3] time limit reached: asking for the answer"]),
    (Failed(3, "no memory"), ["failed: no memory"]),
    (Finished(RESULT), ["answered max steps: 3 turns, 2 tool calls, 1,234 tokens, 5.2 s"]),
    (
        Finished(replace(RESULT, termination="answered_token_limit", fold_count=2, refilled_token_count=9_500)),
        [
            "context full, best answer so far: 3 turns, 2 tool calls, 1,234 tokens (9,500 read again after folding), "
            "5.2 s"
        ],
    ),
]


@pytest.mark.parametrize(("event", "expected"), LINES, ids=lambda value: type(value).__name__)
def test_an_event_is_told_in_plain_lines(event: Event, expected: list[str]) -> None:
    assert lines(event) == expected


def test_a_page_cannot_drive_the_terminal() -> None:
    assert clean("a\x1b[2Jb\x07c\u202ed\r") == "a\ufffd[2Jb\ufffdc\ufffdd\ufffd"
    event = ToolReturned(1, SEARCH, ToolResult("", (Found("a", (Hit("\x1b]0;x\x07", "u", "s"),)),)), 0.1)
    assert "\x1b" not in "".join(lines(event))


def test_the_live_view_shows_the_last_thoughts_and_how_full_the_window_is() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24, color_system=None)
    view = LiveView(console)
    view.show(AttemptStarted(3, 1, 1024, 4096))
    view.show(Streamed("thinking", "\n".join(f"thought [bold]{n}[/bold]" for n in range(9))))
    with console.capture() as captured:
        console.print(view._panel())
    shown = captured.get()
    assert "thought [bold]8[/bold]" in shown
    assert "thought [bold]4[/bold]" not in shown
    assert "turn 3 | 1,025 of 4,096 tokens (25%)" in shown


def test_the_live_view_prints_events_as_text_and_never_as_markup() -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, force_terminal=True, width=80, color_system=None)) as view:
        view.show(ToolCalled(1, SearchCall(("[red]灯塔[/red]",))))
    assert "[1] search: [red]灯塔[/red]" in file.getvalue()


def test_the_meter_tells_how_long_the_run_takes_once_it_is_known() -> None:
    out = io.StringIO()
    with LiveView(Console(file=out, force_terminal=True, width=120)) as view:
        view.show(AttemptStarted(3, 1, 5_000, 131_072))
        before = out.getvalue()
        view.expected = lambda: "4 of about 25 min (9-60)"
        view.show(Streamed("thinking", "hm"))
        view.show(ToolCalled(3, VISIT))
    assert "| 4 of about 25 min (9-60)" not in before
    assert "reading the prompt | 4 of about 25 min (9-60)" in out.getvalue()


def test_an_answer_comes_with_its_sources_or_the_word_that_it_has_none() -> None:
    read = replace(RESULT, sources=(Source("https://x.example/灯塔", "灯塔", "0" * 64),))
    assert list(play.sources(read)) == ["\nSources:", "  [1] 灯塔 https://x.example/灯塔"]
    assert list(play.sources(RESULT)) == ["\nSources: none; the answer rests on no page that was read"]
    assert list(play.sources(replace(RESULT, prediction=""))) == []
