"""PROMPT IDS -> TEXT AS IT COMES: the loop around one sequence of the cache.

In: a request and a `Model` (what the loop needs of llama.cpp). Out: a Generation. It reuses what the cache holds, keeps
the record of it true whatever happens, and does not know how a token is computed or chosen.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from venus_edge.engine import Finish, Request, Stats, Usage
from venus_edge.engine.kv import Cached
from venus_edge.engine.lookahead import Lookahead
from venus_edge.engine.pace import Pace
from venus_edge.engine.text import TextStream


class Stopped(Exception):
    """Raised by `Model.evaluate` when it was interrupted; what it evaluated before is in the cache."""


class Chooser(Protocol):
    """Chooses the next token from the logits of one of those evaluated last; -1 is the last of them."""

    def next(self, output: int = -1) -> int: ...
    def close(self) -> None: ...


class Model(Protocol):
    """What the loop needs: evaluating, the bytes of a token, and whether somebody wants to stop."""

    def keep(self, sequence: int, length: int) -> int:
        """Drops what the sequence holds beyond `length` positions; gives the positions that are left."""
        ...

    def evaluate(self, sequence: int, start: int, tokens: Sequence[int], outputs: int = 1) -> None:
        """Evaluates up to a batch of tokens from position `start`; the last `outputs` of them give logits. Raises
        Stopped or EngineError."""
        ...

    def held(self, sequence: int) -> int:
        """How many positions the sequence really holds."""
        ...

    def piece(self, token: int) -> bytes: ...
    def ends(self, token: int) -> bool: ...
    def stopping(self) -> bool: ...
    def shielded(self) -> AbstractContextManager[None]: ...


class LocalGeneration:
    """A Generation (see the Protocol) on a local model. `limit` is the most tokens the sequence may hold; `pace` says
    how many to draft, None: none."""

    def __init__(
        self,
        model: Model,
        cached: Cached,
        request: Request,
        chooser: Chooser,
        stats: Stats,
        limit: int,
        batch: int,
        pace: Pace | None = None,
    ) -> None:
        self.finish: Finish | None = None
        self.usage = Usage(prompt_tokens=len(request.prompt))
        self._model = model
        self._cached = cached
        self._request = request
        self._chooser = chooser
        self._stats = stats
        self._limit = limit
        self._batch = batch
        self._prompt = list(request.prompt)
        self._ahead = Lookahead(model, cached, request.sequence, pace, limit)
        self._output = -1
        self._texts = self._run()

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def close(self) -> None:
        """Ends it, whatever it was doing. The cache keeps what was evaluated."""
        self._texts.close()
        self._end("cancelled")

    def _end(self, finish: Finish) -> None:
        if self.finish is None:
            self.finish = finish
            self._chooser.close()
            self._ahead.drop()
            self._stats.drafted_tokens += self._ahead.drafted
            self._stats.accepted_tokens += self._ahead.accepted

    def _run(self) -> Generator[str, None, None]:
        began = time.perf_counter()
        stream = TextStream(self._request.stop)
        waiting = self._prompt
        try:
            while self.finish is None:
                with self._model.shielded():
                    text, waiting = self._step(stream, waiting)
                self.usage.seconds = time.perf_counter() - began
                if text:
                    yield text
        finally:
            self._end("cancelled")

    def _step(self, stream: TextStream, waiting: list[int]) -> tuple[str, list[int]]:
        """Evaluates what waits and chooses one token: its text, and the token itself, which waits now."""
        try:
            self._evaluate(waiting)
        except Stopped:
            return self._finished(stream, "cancelled")
        token = self._chooser.next(self._output)
        self.usage.generated_tokens += 1
        self._stats.generated_tokens += 1
        if self._model.ends(token):
            return self._finished(stream, "stop")
        text = stream.feed(self._model.piece(token))
        if stream.stopped:
            self._end("stop")
        elif self._model.stopping():
            return self._finished(stream, "cancelled", text)
        elif self.usage.generated_tokens >= self._request.sampling.max_tokens:
            return self._finished(stream, "length", text)
        elif len(self._cached) >= self._limit:
            return self._finished(stream, "context", text)
        return text, [token]

    def _finished(self, stream: TextStream, finish: Finish, text: str = "") -> tuple[str, list[int]]:
        self._end(finish)
        return text + stream.end(cut=finish != "stop"), []

    def _evaluate(self, waiting: list[int]) -> None:
        if waiting is self._prompt:
            self._prefill()
            return
        began = time.perf_counter()
        if self._model.stopping():
            raise Stopped
        self._output = self._ahead.step(waiting[0])
        self._count(waiting)
        self._stats.decode_seconds += time.perf_counter() - began

    def _prefill(self) -> None:
        began = time.perf_counter()
        reused = self._model.keep(self._request.sequence, self._cached.reusable(self._prompt))
        self._cached.cut(reused)
        self.usage.reused_tokens = reused
        self._stats.reused_tokens += reused
        try:
            for at in range(reused, len(self._prompt), self._batch):
                self._forward(self._prompt[at : at + self._batch])
        finally:
            self._stats.prefill_tokens += len(self._cached) - reused
            self._stats.prefill_seconds += time.perf_counter() - began

    def _forward(self, tokens: list[int]) -> None:
        """Evaluates one batch. If that fails, the record takes over what the cache really holds."""
        before = len(self._cached)
        if self._model.stopping():
            raise Stopped
        try:
            self._model.evaluate(self._request.sequence, before, tokens)
        except BaseException:
            kept = self._model.held(self._request.sequence)
            self._count(tokens[: max(0, kept - before)])
            self._cached.cut(kept)
            raise
        self._count(tokens)

    def _count(self, tokens: list[int]) -> None:
        self._cached.extend(tokens)
        self.usage.evaluated_tokens += len(tokens)
        self._stats.evaluated_tokens += len(tokens)
