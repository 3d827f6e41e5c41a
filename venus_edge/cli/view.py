"""The run as a person sees it, on stderr: a live view on a terminal, plain lines elsewhere, or nothing.

In: events. Out: text on stderr. Text of the model and of pages is printed as text: no markup, no control characters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from venus_edge.cli.text import clean, counted, shorten
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Failed,
    Finished,
    Folded,
    LimitReached,
    Replied,
    Resumed,
    RunStarted,
    Streamed,
    ToolCalled,
    ToolReturned,
)
from venus_edge.values import Evidence, Failure, Found, PageReading, RunResult, SearchCall, ToolCall

THINKING_LINES = 4
_LIMITS = {
    "turns": "turn limit reached",
    "tokens": "the context window is nearly full",
    "time": "time limit reached",
    "asked": "as you wish",
}
_ENDINGS = {  # of terminations that do not say it themselves
    "answered_token_limit": "context full, best answer so far",
    "token_limit_no_answer": "context full, no answer",
    "answered_on_request": "answered when asked to",
    "no_answer_on_request": "asked to answer, but no answer came",
}


class View(Protocol):
    """Something that shows events. A context manager: what it draws is finished when it is left. `expected` tells how
    long the run takes, "" while nobody knows; `hint` says which keys may be pressed."""

    expected: Callable[[], str]
    hint: str

    def note(self, text: str) -> None: ...
    def show(self, event: Event) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class QuietView:
    """Shows only what went wrong."""

    expected: Callable[[], str] = staticmethod(lambda: "")
    hint = ""

    def note(self, text: str) -> None:
        """Nothing."""

    def show(self, event: Event) -> None:
        if isinstance(event, Failed):
            print(clean(event.error), file=sys.stderr)  # noqa: T201  (this is the view)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to finish."""


class PlainView(QuietView):
    """One line an event, for logs and pipes. A pipe that takes no more ends the showing, not the run."""

    def __init__(self) -> None:
        self._deaf = False

    def note(self, text: str) -> None:
        if self._deaf:
            return
        try:
            print(clean(text), file=sys.stderr, flush=True)  # noqa: T201  (this is the view)
        except OSError:
            self._deaf = True

    def show(self, event: Event) -> None:
        for line in lines(event):
            self.note(line)


class LiveView:
    """Lines as they become final, and under them the turn in hand: thinking folded to its last lines, and a meter."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self.expected: Callable[[], str] = lambda: ""
        self.hint = ""
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, redirect_stdout=False)
        self._turn = 0
        self._used = self._window = self._pieces = 0
        self._began = time.monotonic()
        self._text = {"thinking": "", "call": "", "answer": "", "text": ""}

    def note(self, text: str) -> None:
        self._console.print(Text(clean(text), style="dim"))

    def show(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self._start(event)
            case Streamed(kind, text):
                self._began = self._began if self._pieces else time.monotonic()  # prefill is no decoding
                self._pieces += 1
                self._text[kind] = (self._text[kind] + text)[-4000:]
            case _:
                for line in lines(event):
                    self._console.print(Text(line, style=style(event)))
        self._live.update(self._panel(), refresh=isinstance(event, ToolCalled))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.update(Text(""))
        self._live.stop()

    def _start(self, event: AttemptStarted) -> None:
        self._turn, self._used, self._window = event.turn, event.prompt_tokens, event.n_ctx
        self._pieces, self._began = 0, time.monotonic()
        self._text = dict.fromkeys(self._text, "")

    def _panel(self) -> Group:
        width = max(20, self._console.width - 4)
        thinking = [clean(line)[-width:] for line in self._text["thinking"].splitlines() if line.strip()]
        rows = [Text(f"  {line}", style="dim italic") for line in thinking[-THINKING_LINES:]]
        rows += [
            Text(f"  {clean(self._text[kind])[-width:]}") for kind in ("call", "answer", "text") if self._text[kind]
        ]
        return Group(*rows, Text(self._meter(), style="cyan"))

    def _meter(self) -> str:
        seconds = time.monotonic() - self._began
        used = self._used + self._pieces
        share = f"{100 * used / self._window:.0f}%" if self._window else "-"
        rate = (
            f"{(self._pieces - 1) / seconds:.1f} tokens/s" if self._pieces > 1 and seconds > 0 else "reading the prompt"
        )
        time_ = f" | {told}" if (told := self.expected()) else ""
        keys = f" | {self.hint}" if self.hint else ""
        return f"turn {self._turn} | {used:,} of {self._window:,} tokens ({share}) | {rate}{time_}{keys}"


def lines(event: Event) -> list[str]:
    """The lines that tell a person of an event; none for what only streams by."""
    match event:
        case RunStarted():
            return [
                f"Question: {shorten(clean(event.question), 300)}",
                f"Model: {event.model}, window {event.n_ctx:,} tokens",
            ]
        case Resumed(turn, seconds, restored, differs):
            back = f", {restored:,} tokens of it from the disk" if restored else ""
            return [f"goes on after turn {turn} ({seconds:.1f} s){back}", *([clean(differs)] if differs else [])]
        case Replied():
            thought = clean(" ".join(event.reply.thought.split()))
            return [f"[{event.turn}] thinks: {shorten(thought, 300)}"] if thought else []
        case ToolCalled():
            return [f"[{event.turn}] {call_line(event.call)}"]
        case ToolReturned():
            found = [line for item in event.result.found for line in found_lines(item)]
            read = [reading_line(reading) for reading in event.result.readings]
            return [f"    {line}" for line in (found + read or [shorten(clean(event.result.text), 200)])]
        case AttemptDropped():
            return [f"[{event.turn}] attempt {event.attempt} dropped ({event.reason}): {clean(event.detail)}"]
        case Folded():
            return folded_lines(event)
        case LimitReached():
            return [f"[{event.turn}] {_LIMITS[event.limit]}: asking for the answer"]
        case Failed():
            return [f"failed: {clean(event.error)}"]
        case Finished(result):
            return [ending(result)]
        case _:
            return []


def call_line(call: ToolCall) -> str:
    if isinstance(call, SearchCall):
        return "search: " + clean(" | ".join(call.queries) or "(no query)")
    return "visit: " + clean(f"{' '.join(call.urls) or '(no address)'}  for: {call.goal}")


def found_lines(found: Found) -> list[str]:
    """The results; why there are none; or, beside results of one place, why there are none of another."""
    failed = [failure_line(found.failure)] if found.failure else []
    if failed and not found.hits:
        return failed
    return [
        f"{counted(len(found.hits), 'result')}: " + clean(shorten(", ".join(hit.title for hit in found.hits), 160)),
        *failed,
    ]


def reading_line(reading: PageReading) -> str:
    if isinstance(reading.outcome, Evidence):
        return "read: " + clean(shorten(reading.outcome.summary or reading.outcome.evidence, 200))
    return "not read: " + failure_line(reading.outcome)


def failure_line(failure: Failure) -> str:
    """Why nothing came of it: the kind, and the detail where that says more."""
    kind, detail = failure.trouble.value, clean(failure.detail)
    return detail if kind in detail else f"{kind}: {detail}" if detail else kind


def folded_lines(event: Folded) -> list[str]:
    """What gave way, and what it costs."""
    calls = " | ".join(call_line(fold.call) for fold in event.folds)
    return [
        f"[{event.turn}] the window is nearly full: folded the oldest {len(event.folds)} replies, "
        f"{event.before:,} tokens become {event.after:,}, {event.refilled:,} of them are read again",
        f"    folded {shorten(calls, 300)}",
    ]


def ending(result: RunResult) -> str:
    """How the run ended, in one line."""
    cut = ", the answer was cut by the output limit" if result.answer_cut else ""
    again = f" ({result.refilled_token_count:,} read again after folding)" if result.fold_count else ""
    return (
        f"{_ENDINGS.get(result.termination, result.termination.replace('_', ' '))}{cut}: {result.turns} turns, "
        f"{result.tool_call_count} tool calls, {result.final_token_count:,} tokens{again}, "
        f"{result.elapsed_seconds:.1f} s"
    )


def style(event: Event) -> str:
    """The rich style of an event's lines."""
    match event:
        case ToolCalled():
            return "bold"
        case Replied() | RunStarted() | Resumed():
            return "dim"
        case AttemptDropped() | Folded() | LimitReached() | Failed():
            return "yellow"
        case _:
            return ""
