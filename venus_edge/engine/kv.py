"""WHAT IS IN THE CACHE: the token ids that each sequence of the KV cache holds, from position 0.

In: prompts and what llama.cpp says it has kept. Out: how much of a prompt need not be evaluated again. Pure: the driver
moves the real cache and tells this record.
"""

from __future__ import annotations

from collections.abc import Sequence

from venus_edge.engine.lookup import Lookup, common_prefix


class Cached:
    """The ids of one sequence. It is true as long as the driver reports every change of the real cache. `lookup` finds
    what followed in it before."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self.lookup = Lookup(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._ids)

    def reusable(self, prompt: list[int]) -> int:
        """Tokens of the prompt that need no evaluation: the common prefix, save the last, whose logits are wanted."""
        return min(common_prefix(self._ids, prompt), len(prompt) - 1)

    def extend(self, ids: Sequence[int]) -> None:
        self._ids.extend(ids)

    def cut(self, length: int) -> None:
        """Only the first `length` ids are left."""
        del self._ids[length:]
        self.lookup.cut(length)
