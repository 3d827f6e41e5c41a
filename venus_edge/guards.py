"""CHECKS ON A RUN: a reply that loops, a call made before, limits of turns, time and tokens, room in the window.

In: text, calls, counts. Out: what was exceeded, or None. Pure: no clock, no tokens, no model; the agent measures and
decides. The official numbers are the defaults (PROTOCOL section 4).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
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

    No prompt that leaves less than the reserve is sampled from. An ordinary turn leaves half of it at least; where it
    took some, the final one goes without that turn.
    """
    kept = reserve(n_ctx)
    left = n_ctx - prompt_tokens
    if left < kept:
        return 0
    return min(max_tokens, left - 1 if final else left - 1 - kept // 2)


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


_STEP = 32  # characters between two looks: fixed points of the text, so that pieces may be cut anywhere
_STALE_STEP = 1_024
_WINDOW = 32_768  # characters looked back on: two rounds of a loop of 16,000 characters
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
        recent, seen = self._recent, self._seen
        loop = _loop_at_end(recent, seen)
        if loop is None and seen % _VARIED_STEP == 0:
            loop = _counting(recent[-_VARIED:], seen) or _few_sentences(recent[-_VARIED:], seen)
        if loop is None and seen % _STALE_STEP == 0:
            loop = _stale(recent, seen)
        return loop


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
    """How many characters of rounds of `unit` make a loop: words soon, rulers and table rows late.

    Words: six rounds and 360 bytes, but no more than 640 bytes (about 160 tokens, in English and in Chinese) or, where
    a round is long, little more than two of it; three of many lines, which may be a list.
    """
    weight = len(unit.encode("utf-8", "replace")) / len(unit)
    if unit.isdigit():
        return max(3 * len(unit), 160)  # Qwen has a token for each digit
    if _is_drawn(unit):
        return max(3 * len(unit), int(2_000 / weight))
    long = 3 * len(unit) if unit.count("\n") > 3 else 2 * len(unit) + _KEY
    return max(min(6 * len(unit), max(int(640 / weight), long)), int(360 / weight))


def _is_drawn(text: str) -> bool:
    """Whether it is of a ruler, dot leaders, numbers or a table rather than of sentences. Emoji are no rulers."""
    return "|" in text or not any(char.isalpha() or char > "\U0001f000" for char in text)


_VARIED_STEP = 64
_VARIED = 1_536  # characters that are looked at for a loop whose rounds differ
_VARIED_BYTES = 480  # of such rounds, that make it certain: 120 tokens
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NO_PROSE = re.compile(r"(?m)[=<>{}|\\]|://|;$")  # code, addresses, tables


def _counting(recent: str, seen: int) -> Loop | None:
    """A loop that numbers its rounds: "Step 12: I look again. Step 13: I look again." Every number in a round stays or
    grows by the same step; so data, which do not, are none. Of a list's items only the marker may count."""
    numbers = list(_NUMBER.finditer(recent))
    masked = _NUMBER.sub("0", recent)
    period = _period(masked)
    unit, two = masked[len(masked) - period :], masked[-2 * period :]  # one of two rounds is not cut in a mark
    each = unit.count("0")
    if not each or _NO_PROSE.search(two) or (each > 1 and _MARKED_LINE.search(two)):
        return None
    rounds = _common_suffix(masked, masked[:-period]) // period + 1
    if rounds < _counted_rounds(unit) or rounds * len(unit.encode("utf-8", "replace")) < _VARIED_BYTES:
        return None
    inside = numbers[-(rounds - 1) * each :]
    values = [int(number[0][-9:]) for number in inside]
    steps = {(i % each, b - a) for i, (a, b) in enumerate(zip(values, values[each:], strict=False))}
    if len(steps) > each:
        return None
    return Loop(seen - len(recent) + inside[0].start(), 0, seen)


def _counted_rounds(unit: str) -> int:
    """Sentences are certain soon, a few words in a row late, on lines of their own they are a list."""
    words = sum(len(word) // 2 if word > "\u2e80" else 1 for word in _WORD.findall(unit))
    return 6 if words >= 6 else 10_000 if "\n" in unit else 40


def _period(text: str) -> int:
    """How far back the end of the text stood before; 0 if it did not."""
    before = text.rfind(text[-_KEY:], 0, len(text) - 1)
    return len(text) - _KEY - before if before >= 0 else 0


def _common_suffix(a: str, b: str) -> int:
    most = min(len(a), len(b))
    return next((i for i in range(most) if a[-1 - i] != b[-1 - i]), most)


_ENDS = ".!?。！？"
_STRETCH = re.compile(rf"[^\s{_ENDS}][^{_ENDS}\n]*[{_ENDS}]?")  # one that does not end is passed over once
_SENTENCES = 12


def _few_sentences(recent: str, seen: int) -> Loop | None:
    """A loop that changes the order of its rounds: of the last twelve sentences or more at most every fourth is
    another. Short ones are lists of words as a rule: they fill nothing."""
    prose = [match for match in _STRETCH.finditer(recent) if match[0][-1] in _ENDS][1:]
    said, again = Counter[str](), 0
    for count, match in enumerate(reversed(prose), 1):
        sentence = match[0]
        if sentence in said and len(sentence.encode("utf-8", "replace")) >= 15 and _WORD.search(sentence):
            again += len(sentence.encode("utf-8", "replace"))
        said[sentence] += 1
        if count >= _SENTENCES and again >= _VARIED_BYTES * 3 // 4 and 4 * len(said) <= count:
            start = next(m.start() for m in prose[-count:] if said[m[0]] > 1)
            lists = _NO_PROSE.search(recent, start) or _MARKED_LINE.search(recent, start)
            return None if lists else Loop(seen - len(recent) + start, 0, seen)
    return None


_STALE_BYTES = 6_000
_MARKED_LINE = re.compile(r"(?m)^[ \t]*(?:[|>#*+•·-]|\[?\d+[.):\]、]).*$")  # of a table, a list, a bibliography
_ADDRESS = re.compile(r"https?://\S+")
_NO_LETTERS = re.compile(r"[\W\d_]+")


def _stale(recent: str, seen: int) -> Loop | None:
    """A loop that is not exact, as one that counts its rounds: running prose that, without its digits and signs, says
    nearly nothing new (*measured*: such loops compress to 1-2%, the released turns never below 20%)."""
    tail = recent.encode("utf-8", "replace")[-_STALE_BYTES:].decode("utf-8", "ignore")
    words = _NO_LETTERS.sub(" ", _ADDRESS.sub("", _MARKED_LINE.sub("", tail))).encode()
    if len(words) < _STALE_BYTES * 2 // 3 or len(zlib.compress(words)) > len(words) * 3 // 100:
        return None
    return Loop(seen - len(tail), 0, seen)


def _official_loop(reply: str) -> Loop | None:
    """PROTOCOL 4.4: the last 50 characters occur more than 5 times. Not where they are of a ruler, table or list."""
    tail = reply[-50:]
    if len(tail) < 50 or _is_drawn(tail) or reply.count(tail) <= 5 or _MARKED_LINE.match(_last_line(reply)):
        return None
    first = reply.index(tail)
    return Loop(first, reply.index(tail, first + 1) - first, len(reply))


def _last_line(reply: str) -> str:
    """The last one that has any letters in it."""
    return next((line for line in reversed(reply.splitlines()) if line.strip()), "")
