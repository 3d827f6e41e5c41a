"""CHECKS ON A RUN: a reply that loops, a call made before, limits of turns, time and tokens, room in the window.

In: text, calls, counts. Out: what was exceeded, or None. Pure: no clock, no tokens, no model; the agent measures and
decides. The official numbers are the defaults (PROTOCOL section 4).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from venus_edge.values import ToolCall

# -- limits -----------------------------------------------------------------------------------------------------------

Limit = Literal["turns", "time", "tokens"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a run, as in the official solver: turns, seconds, tokens of the rendered conversation, tries a turn."""

    turns: int = 200
    seconds: float = 18_000.0
    tokens: int = 230_000
    tries: int = 5

    def passed(self, turns: int, seconds: float, tokens: int, n_ctx: int) -> Limit | None:
        """The limit that is reached, after `turns` finished turns and with `tokens` rendered; time before room before
        turns, because each is harder than the next."""
        if seconds >= self.seconds:
            return "time"
        if tokens > self.window(n_ctx):
            return "tokens"
        return "turns" if turns >= self.turns else None

    def window(self, n_ctx: int) -> int:
        """The most tokens that a conversation may have before the final answer is asked for."""
        return min(self.tokens, n_ctx - reserve(n_ctx))


def reserve(n_ctx: int) -> int:
    """Tokens kept for the last thought and answer: a tenth of the window, but 2,000 or an eighth of a small one."""
    return max(n_ctx // 10, min(2_000, n_ctx // 8))


def room(n_ctx: int, prompt_tokens: int, max_tokens: int, final: bool = False) -> int:
    """The most tokens that this turn may generate, 0 if it must not start: a turn never gets a handful of tokens.

    An ordinary turn starts only while the reserve is whole, and leaves half of it for the final one. The final turn may
    have what is left, if that is a quarter of the reserve, or 256.
    """
    kept = reserve(n_ctx)
    left = n_ctx - prompt_tokens - 1
    if final:
        return min(max_tokens, left) if left >= min(kept // 4, 256) else 0
    return min(max_tokens, left - kept // 2) if prompt_tokens <= n_ctx - kept else 0


def is_repeated(call: ToolCall, earlier: Collection[ToolCall]) -> bool:
    """Whether this very call was made before in the run (PROTOCOL 4.5)."""
    return call in earlier


# -- loops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in a reply: where it was seen from, how long a round is (0: not exact), and where it was certain."""

    start: int
    period: int
    certain: int


_STEP = 64  # characters between two looks: fixed points of the text, so that pieces may be cut anywhere
_STALE_STEP = 1_024
_WINDOW = 32_768  # characters looked back on: three rounds of a loop of 10,000 characters
_KEY = 32  # characters that find the previous round
_CANDIDATES = 8


class LoopWatch:
    """Looks at a reply as it streams. `loop` is set once one is certain; looking on after that is free."""

    def __init__(self) -> None:
        self.loop: Loop | None = None
        self._recent = ""
        self._pending = ""
        self._seen = 0

    def feed(self, piece: str) -> bool:
        """Whether the text up to here has run into a loop."""
        self._pending += piece
        at = 0
        while self.loop is None and len(self._pending) - at >= _STEP:
            self._recent = (self._recent + self._pending[at : at + _STEP])[-_WINDOW:]
            at += _STEP
            self._seen += _STEP
            self.loop = self._look()
        self._pending = "" if self.loop else self._pending[at:]
        return self.loop is not None

    def _look(self) -> Loop | None:
        loop = _loop_at_end(self._recent, self._seen)
        return loop or (_stale(self._recent, self._seen) if self._seen % _STALE_STEP == 0 else None)


def find_loop(reply: str) -> Loop | None:
    """The first loop in a whole reply, by the same looks as `LoopWatch`, then by the official rule for its end."""
    watch = LoopWatch()
    watch.feed(reply)
    return watch.loop or _official_loop(reply)


def before_loop(reply: str) -> str:
    """The reply up to the end of its loop's first round: what may be kept of it."""
    loop = find_loop(reply)
    if loop is None:
        return reply
    start = loop.start
    while loop.period and start and reply[start - 1] == reply[start - 1 + loop.period]:
        start -= 1
    return reply[: start + loop.period]


def _loop_at_end(recent: str, seen: int) -> Loop | None:
    """The loop that the text ends in, whose last characters are `recent`; None while there is none."""
    key = recent[-_KEY:]
    end = len(recent) - 1
    for _ in range(_CANDIDATES):
        before = recent.rfind(key, 0, end)
        if before < 0:
            return None
        period = len(recent) - _KEY - before
        needed = _enough(recent[-period:])
        if len(recent) >= needed and recent[-needed:-period] == recent[period - needed :]:
            return Loop(seen - needed, period, seen)
        end = before + _KEY - 1
    return None


def _enough(unit: str) -> int:
    """How many characters of repeats of `unit` make a loop: rounds of words soon, rulers and table rows late."""
    weight = len(unit.encode("utf-8", "replace")) / len(unit)  # a Chinese character counts 3: it is most of a token
    if _is_drawn(unit):
        return max(3 * len(unit), int(2_000 / weight))
    rounds = 3 if 3 * len(unit) * weight >= 1_500 else 6
    return max(rounds * len(unit), int(400 / weight))


def _is_drawn(text: str) -> bool:
    """Whether it is of a ruler, dot leaders, numbers or a table rather than of sentences."""
    return "|" in text or not any(char.isalpha() for char in text)


_STALE_BYTES = 6_000
_MARKED_LINE = re.compile(r"(?m)^[ \t]*(?:[|>#*+•·-]|\[?\d+[.):\]、]).*$")  # of a table, a list, a bibliography
_NO_LETTERS = re.compile(r"[\W\d_]+")


def _stale(recent: str, seen: int) -> Loop | None:
    """A loop that is not exact, as one that counts its rounds: running prose that, without its digits and signs, says
    nearly nothing new (*measured*: such loops compress to 1-2%, the released turns never below 20%)."""
    tail = recent.encode("utf-8", "replace")[-_STALE_BYTES:].decode("utf-8", "ignore")
    words = _NO_LETTERS.sub(" ", _MARKED_LINE.sub("", tail)).encode()
    if len(words) < _STALE_BYTES * 2 // 3 or len(zlib.compress(words)) > len(words) * 3 // 100:
        return None
    return Loop(seen - len(tail), 0, seen)


def _official_loop(reply: str) -> Loop | None:
    """PROTOCOL 4.4: the last 50 characters occur more than 5 times. Not where they are of a ruler or a table."""
    tail = reply[-50:]
    if len(tail) < 50 or _is_drawn(tail) or reply.count(tail) <= 5:
        return None
    first = reply.index(tail)
    return Loop(first, reply.index(tail, first + 1) - first, len(reply))
