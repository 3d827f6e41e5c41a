"""A model that is a list, and a chooser that is another: the loop and the cache's bookkeeping without llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

END = 0


class ListModel:
    """Holds ids as a cache does; `fails` says after how many more positions it gives up, and how."""

    def __init__(
        self,
        piece: Callable[[int], bytes],
        fails: tuple[int, Exception] | None = None,
        ends: Callable[[int], bool] = lambda token: token == END,
    ) -> None:
        self.positions: list[int] = []
        self.evaluated: list[list[int]] = []
        self.most = 0
        self.rolls_back = True
        self.wanted = False
        self.piece = piece
        self.ends = ends
        self._fails = fails

    def keep(self, sequence: int, length: int) -> int:
        del self.positions[length if self.rolls_back else 0 :]
        return len(self.positions)

    def evaluate(self, sequence: int, start: int, tokens: Sequence[int], outputs: int = 1) -> None:
        assert start == len(self.positions)
        assert 1 <= outputs <= len(tokens)
        self.evaluated.append(list(tokens))
        if self._fails and len(self.positions) + len(tokens) > self._fails[0]:
            self.positions += tokens[: self._fails[0] - start]
            raise self._fails[1]
        self.positions += tokens
        self.most = max(self.most, len(self.positions))

    def held(self, sequence: int) -> int:
        return len(self.positions)

    def stopping(self) -> bool:
        return self.wanted

    def shielded(self) -> AbstractContextManager[None]:
        return nullcontext()


class Choices:
    """Chooses what it was told to, whatever the logits. `asked` is which of a batch's outputs was looked at."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.asked: list[int] = []
        self.closed = False
        self._tokens = iter(tokens)

    def next(self, output: int = -1) -> int:
        self.asked.append(output)
        return next(self._tokens)

    def close(self) -> None:
        self.closed = True
