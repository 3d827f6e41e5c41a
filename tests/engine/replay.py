"""A recorded run played again: the true agent, loop and cache record; what is sampled are the tokens it wrote.

In: messages of a run. Out: what has gone through the model: a list, or llama.cpp's own context. `spoil` may write a
turn in other tokens than the tokenizer would, or go wrong before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from tests.engine.fakes import Choices, ListModel
from venus_edge.agent import Agent, Config
from venus_edge.engine import Request, Stats
from venus_edge.engine.context import Context
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.kv import Cached
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.events import Finished
from venus_edge.protocol import Piece, Trust
from venus_edge.values import Message, RunResult, ToolCall, ToolResult

N_CTX = 262_144
Spoil = Callable[[int, list[int]], list[list[int]]]  # turn, its tokens -> those of each attempt


class ReplayEngine:
    """An Engine whose replies are the recorded turns, token for token. One more attempt at a turn gets the turn again,
    or what `spoil` put in its place."""

    def __init__(
        self, vocabulary: Vocabulary, turns: Sequence[str], spoil: Spoil, model: ListModel | Context | None = None
    ) -> None:
        self.stats = Stats()
        self.n_ctx = self.n_ctx_reading = N_CTX
        self.chat_template = ""
        self.reused: list[int] = []
        self.cached = Cached()
        self._vocabulary = vocabulary
        self._turns = turns
        self._spoil = spoil
        self._model = model or ListModel(vocabulary.piece, ends=vocabulary.ends)
        self._prompt: Sequence[int] = ()
        self._turn = -1
        self._attempts: Iterator[list[int]] = iter(())

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._vocabulary.tokenize(pieces)

    def generate(self, request: Request) -> LocalGeneration:
        if list(request.prompt) != self._prompt:
            self._prompt = list(request.prompt)
            self._turn += 1
            self._attempts = iter(self._spoil(self._turn, self._written(self._turn)))
        choices = Choices(next(self._attempts, self._written(self._turn)))
        generation = LocalGeneration(self._model, self.cached, request, choices, self.stats, self.n_ctx, batch=512)
        return generation

    def _written(self, turn: int) -> list[int]:
        text = self._turns[turn].removeprefix("<think>").removeprefix("\n")
        ids = self._vocabulary.tokenize([Piece(text, Trust.MODEL)])
        return [*ids, self._vocabulary.specials.control["<|im_end|>"]]

    @property
    def is_true(self) -> bool:
        """Whether the model holds exactly what the record says (llama.cpp tells only how many positions)."""
        if isinstance(self._model, ListModel):
            return list(self.cached.ids) == self._model.positions
        return self._model.held(0) == len(self.cached)

    def cancel(self) -> None: ...
    def close(self) -> None: ...


class RecordedTools:
    """Tools that say what they said."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)

    def call(self, call: ToolCall, question: str) -> ToolResult:
        return ToolResult(next(self._replies))


def as_written(turn: int, ids: list[int]) -> list[list[int]]:
    return [ids]


def replay(
    vocabulary: Vocabulary,
    messages: Sequence[Message],
    spoil: Spoil = as_written,
    model: ListModel | Context | None = None,
) -> tuple[ReplayEngine, RunResult]:
    """The run of these messages: system, question, then turns and replies; None: on a list."""
    turns = [message.content for message in messages if message.role == "assistant"]
    said = [m.content.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>") for m in messages[3::2]]
    engine = ReplayEngine(vocabulary, turns, spoil, model)
    *_, last = Agent(engine, RecordedTools(said), Config(date(2026, 3, 1))).run(messages[1].content)
    assert isinstance(last, Finished)
    return engine, last.result
