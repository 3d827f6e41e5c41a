"""What look-up finds in the released runs, without a model: each turn is written as it was, and a draft counts where it
is what was written. Tokens per step and, by the cost of a batch, the speed-up: in calls, thinking, and in thinking what
is quoted from a page or a result.

python -m tests.bench.lookup ../shared [slope ...]     slope: what each token more of a batch costs, in single tokens
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from tests.engine.vocabulary import write_vocabulary
from tests.protocol.runs import Run, released
from venus_edge.engine.kv import Cached
from venus_edge.engine.pace import Pace
from venus_edge.engine.vocabulary import Vocabulary, open_vocabulary
from venus_edge.protocol import Piece, Trust

SLOPES = (0.4, 0.1, 0.02)  # this CPU; a good one or Metal; a GPU that waits for its memory
FIXED = (2, 4, 8)
_QUOTED = re.compile(r'["“]([^"“”\n]{12,})["”]')


@dataclass
class Tally:
    """Tokens written, evaluations, what they cost in single tokens."""

    tokens: int = 0
    steps: int = 0
    cost: float = 0.0


class Fixed(Pace):
    """A draft of always the same length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def length(self, agreed: int) -> int:
        return self._length


def main(shared: Path, slopes: tuple[float, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = open_vocabulary(write_vocabulary(Path(folder) / "vocabulary.gguf"))
        tokens = [list(_stretches(run, vocabulary)) for run in released(shared)]
    out = sys.stdout.write
    out("batch cost  draft     where     tokens   a step  speed-up\n")
    for slope in slopes:
        kinds: list[tuple[str, Callable[[], Pace]]] = [(str(length), partial(Fixed, length)) for length in FIXED]
        for name, paces in [*kinds, ("by pace", Pace)]:
            tallies: dict[str, Tally] = defaultdict(Tally)
            for run in tokens:
                _walk(run, paces(), slope, tallies)
            for where, tally in sorted(tallies.items()):
                out(f"{slope:10.2f}  {name:8}  {where:8} {tally.tokens:7,}  {tally.tokens / tally.steps:6.2f}  ")
                out(f"{tally.tokens / tally.cost:8.2f}\n")


def _stretches(run: Run, vocabulary: Vocabulary) -> Iterator[tuple[str, list[int]]]:
    """Ids of a run in order: "given", or where they were written."""
    said = ""
    for message in run.messages:
        if message.role != "assistant":
            said += message.content
            yield "given", vocabulary.encode(message.content)
            continue
        thought, _, rest = message.content.partition("</think>")
        yield from _of_thought(thought, said, vocabulary)
        yield "given", vocabulary.tokenize([Piece("</think>", Trust.MODEL)])
        yield "call" if "<tool_call>" in rest else "answer", vocabulary.tokenize([Piece(rest, Trust.MODEL)])


def _of_thought(thought: str, said: str, vocabulary: Vocabulary) -> Iterator[tuple[str, list[int]]]:
    done = 0
    for quote in _QUOTED.finditer(thought):
        if quote[1] in said:
            yield "thinking", vocabulary.encode(thought[done : quote.start(1)])
            yield "quoted", vocabulary.encode(quote[1])
            done = quote.end(1)
    yield "thinking", vocabulary.encode(thought[done:])


def _walk(run: list[tuple[str, list[int]]], pace: Pace, slope: float, tallies: dict[str, Tally]) -> None:
    """One run, its turns written step by step as `lookahead` would."""
    cached = Cached()
    for where, ids in run:
        if where == "given":
            cached.extend(ids)
            continue
        for at in _steps(ids, cached, pace, slope, tallies[where], tallies["all"]):
            cached.extend(ids[at[0] : at[1]])


def _steps(ids: list[int], cached: Cached, pace: Pace, slope: float, *tallies: Tally) -> Iterator[tuple[int, int]]:
    """From where to where each step writes: its token and the drafted ones that came true."""
    start = 0
    while start < len(ids):
        draft, agreed = cached.lookup.draft(ids[start], 8)
        draft = draft[: pace.length(agreed)] if draft else []
        true = next(n for n in count() if n == len(draft) or ids[start + 1 + n : start + 2 + n] != [draft[n]])
        pace.took(1, 1.0)
        if draft:
            pace.took(1 + len(draft), 1 + slope * len(draft))
            pace.judged(agreed, true, failed=true < len(draft))
        for tally in tallies:
            tally.tokens += 1 + true
            tally.steps += 1
            tally.cost += 1 + slope * len(draft)
        yield start, start + 1 + true
        start += 1 + true


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(float(text) for text in sys.argv[2:]) or SLOPES)
