"""ONE TOKEN AFTER THE OTHER, SOME OF THEM AHEAD OF TIME: lossless speculation.

In: the token that was chosen. Out: which logits the next one is chosen from. With the token a draft of those that may
follow goes through the model in one batch; while the choices agree with the draft nothing needs evaluating. Each token
is chosen from the logits of its own position, in order, by the same chooser: its stream of random numbers is the same
with and without drafts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from venus_edge.engine.kv import Cached
from venus_edge.engine.pace import MOST, Pace


class Forward(Protocol):
    """What it needs of a model (see `generation.Model`)."""

    def keep(self, sequence: int, length: int) -> int: ...
    def evaluate(self, sequence: int, start: int, tokens: Sequence[int], outputs: int = 1) -> None: ...


class Lookahead:
    """Between two calls the real cache may hold a draft beyond the record; `drop` makes them equal again. No `pace`: no
    drafts. `limit` is the most tokens that the sequence may hold."""

    def __init__(self, model: Forward, cached: Cached, sequence: int, pace: Pace | None, limit: int) -> None:
        self.drafted = self.accepted = 0
        self._model = model
        self._cached = cached
        self._sequence = sequence
        self._pace = pace
        self._limit = limit
        self._draft: list[int] = []
        self._agreed = 0
        self._at = 0  # how much of the draft came true

    def step(self, token: int) -> int:
        """The token is in the cache, and not yet in the record: the output (-1: the last) that follows it."""
        if self._at < len(self._draft) and self._draft[self._at] == token:
            self._at += 1
            self.accepted += 1
        else:
            self.drop()
            self._draft, self._agreed = self._guess(token)
            self._evaluate([token, *self._draft])
        return self._at - len(self._draft) - 1

    def drop(self) -> None:
        """The cache holds what the record says."""
        if self._draft and self._pace is not None:
            self._pace.judged(self._agreed, self._at, failed=self._at < len(self._draft))
        if self._at < len(self._draft):
            self._model.keep(self._sequence, len(self._cached))
        self._draft, self._at = [], 0

    def _guess(self, token: int) -> tuple[list[int], int]:
        if self._pace is None:
            return [], 0
        draft, agreed = self._cached.lookup.draft(token, min(MOST, self._limit - len(self._cached) - 1))
        return (draft[: self._pace.length(agreed)], agreed) if draft else ([], 0)

    def _evaluate(self, tokens: list[int]) -> None:
        began = time.perf_counter()
        before = len(self._cached)
        try:
            self._model.evaluate(self._sequence, before, tokens, len(tokens))
        except BaseException:
            self._draft = []
            self._model.keep(self._sequence, before)
            raise
        self.drafted += len(tokens) - 1
        if self._pace is not None:
            self._pace.took(len(tokens), time.perf_counter() - began)
