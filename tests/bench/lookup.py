"""What look-up finds in the released runs, without a model: each turn is written as it was, and a draft counts where it
is what was written. Tokens per step and, by the cost of a batch, the speed-up: in calls, thinking, and in thinking what
is quoted from a page or a result.

    python -m tests.bench.lookup ../shared [slope ...] [--model FILE.gguf]

slope: what each token more of a batch costs, in single tokens. With a model also by what its batches cost here (that of
`tests.bench.geometry` where FILE is "4b"). Drafts of a fixed length are always made, those "by pace" where they pay.
"""

from __future__ import annotations

import argparse
import bisect
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench import geometry
from tests.bench.engine import batch_costs
from tests.engine.vocabulary import write_vocabulary
from tests.protocol.runs import Run, released
from venus_edge.engine.kv import Cached
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.pace import Pace
from venus_edge.engine.vocabulary import Vocabulary, open_vocabulary
from venus_edge.protocol import Piece, Trust

SLOPES = (0.9, 0.4, 0.1, 0.02)  # one that computes as slowly as it reads; a CPU; a good one or Metal; a GPU
FIXED = (2, 4, 8)
_QUOTED = re.compile(r'["“]([^"“”\n]{12,})["”]')


@dataclass
class Tally:
    """Tokens written, evaluations, what they cost in single tokens."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    cost: float = 0.0


class Fixed(Pace):
    """A draft of always the same length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def length(self, agreed: int) -> int:
        return self._length


Cost = Callable[[int], float]  # tokens of a batch -> what it costs, in batches of one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("slopes", type=float, nargs="*", default=SLOPES)
    parser.add_argument("--model")
    asked = parser.parse_args()
    costs: dict[str, Cost] = {f"{slope:.2f}": partial(_linear, slope) for slope in asked.slopes}
    with tempfile.TemporaryDirectory() as folder:
        if asked.model:
            costs = {"measured": measured(asked.model, Path(folder)), **costs}
        vocabulary = open_vocabulary(write_vocabulary(Path(folder) / "vocabulary.gguf"))
        tokens = [list(_stretches(run, vocabulary)) for run in released(asked.shared)]
    sys.stdout.write("batch cost  draft    where     tokens  drafted  a step  speed-up\n")
    for name, cost in costs.items():
        _table(name, cost, tokens)


def _table(name: str, cost: Cost, tokens: list[list[tuple[str, list[int]]]]) -> None:
    kinds: list[tuple[str, Callable[[], Pace]]] = [(str(length), partial(Fixed, length)) for length in FIXED]
    for kind, paces in [*kinds, ("by pace", Pace)]:
        tallies: dict[str, Tally] = defaultdict(Tally)
        for run in tokens:
            _walk(run, paces(), cost, tallies)
        for where, tally in sorted(tallies.items()):
            counts = f"{tally.tokens:7,}  {tally.drafted:7,}  {tally.tokens / tally.steps:6.2f}"
            sys.stdout.write(f"{name:>10}  {kind:7}  {where:8} {counts}  {tally.tokens / tally.cost:8.2f}\n")


def _linear(slope: float, size: int) -> float:
    return 1 + slope * (size - 1)


def measured(model: str, folder: Path) -> Cost:
    """What batches cost here on this model: medians of nine, straight lines between the sizes; also printed."""
    path = geometry.write(folder / "4b.gguf", with_vocabulary=True) if model == "4b" else Path(model)
    options = EngineOptions(n_ctx=2_048, n_ctx_reading=0, type_k="q8_0", speculate=False)
    with closing(LlamaEngine(path, options)) as engine:
        seconds = {size: statistics.median(times) for size, times in batch_costs(engine, 9).items()}
    for size, cost in seconds.items():
        sys.stdout.write(f"a batch of {size} takes {1_000 * cost:.0f} ms, {cost / seconds[1]:.2f} of one\n")
    return partial(_between, {size: cost / seconds[1] for size, cost in seconds.items()})


def _between(known: Mapping[int, float], size: int) -> float:
    if size in known:
        return known[size]
    sizes = sorted(known)
    at = min(max(1, bisect.bisect(sizes, size)), len(sizes) - 1)
    low, high = sizes[at - 1], sizes[at]
    return known[low] + (known[high] - known[low]) * (size - low) / (high - low)


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


def _walk(run: list[tuple[str, list[int]]], pace: Pace, cost: Cost, tallies: dict[str, Tally]) -> None:
    """One run, its turns written step by step as `lookahead` would."""
    cached = Cached()
    for where, ids in run:
        if where == "given":
            cached.extend(ids)
            continue
        for at in _steps(ids, cached, pace, cost, tallies[where], tallies["all"]):
            cached.extend(ids[at[0] : at[1]])


def _steps(ids: list[int], cached: Cached, pace: Pace, cost: Cost, *tallies: Tally) -> Iterator[tuple[int, int]]:
    """From where to where each step writes: its token and the drafted ones that came true."""
    start = 0
    while start < len(ids):
        draft, agreed = cached.lookup.draft(ids[start], 8)
        draft = draft[: pace.length(agreed)] if draft else []
        true = next(n for n in count() if n == len(draft) or ids[start + 1 + n : start + 2 + n] != [draft[n]])
        pace.took(1, 1.0)
        if draft:
            pace.took(1 + len(draft), cost(1 + len(draft)))
            pace.judged(agreed, true, failed=true < len(draft))
        for tally in tallies:
            tally.tokens += 1 + true
            tally.steps += 1
            tally.drafted += len(draft)
            tally.cost += cost(1 + len(draft))
        yield start, start + 1 + true
        start += 1 + true


if __name__ == "__main__":
    main()
