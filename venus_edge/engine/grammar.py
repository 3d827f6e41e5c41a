"""A GRAMMAR THAT BINDS WHAT A MODEL WRITES: from the start of a reply, or from a token that triggers it.

In: GBNF text, the token that the sampler chose. Out: whether the grammar has it, and else the choice among those it
has. Asking about one token costs microseconds, the whole vocabulary 10-40 ms: so the token that was chosen is asked
about first, then the few best; where those do not settle it, all that do not begin with a token that is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from venus_edge.engine import Sampling, Triggered, library
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.errors import EngineError

_MINUS_INFINITY = float("-inf")


def apply(lib: Any, sampler: Any, candidates: Any) -> tuple[int, int]:
    """Runs a sampler over candidates, in place: how many are left in front, and which it selected (-1: none)."""
    data = candidates.ctypes.data_as(lib.llama_token_data_p)
    array = lib.llama_token_data_array(data, len(candidates), -1, False)
    lib.llama_sampler_apply(sampler, ctypes.byref(array))
    return int(array.size), int(array.selected)


def candidates(logits: Any, ids: Any) -> Any:
    """llama.cpp's `llama_token_data` of some ids, as a numpy array."""
    import numpy as np

    found = np.zeros(len(ids), np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)]))
    found["id"], found["logit"] = ids, logits[ids]
    return found


class Binding(Protocol):
    """What a chain asks about the token it chose. `accept` is told every token that is taken."""

    def allows(self, token: int) -> bool: ...
    def accept(self, token: int) -> None: ...
    def choose(self, logits: Any, chain: Any) -> int: ...
    def close(self) -> None: ...


class Grammar:
    """A Binding from now on: the next token is the grammar's first. Raises EngineError if the text is no GBNF."""

    BEST = 256

    def __init__(self, vocabulary: Vocabulary, text: str, settings: Sampling) -> None:
        import numpy as np

        self._lib = vocabulary.lib
        self._vocabulary = vocabulary
        self._one = candidates(np.zeros(1, np.float32), [0])
        self._needed = 1 if settings.temperature <= 0 else settings.top_k  # allowed ones, for the choice to be exact
        library.listen()
        self._sampler = self._lib.llama_sampler_init_grammar(vocabulary.handle, text.encode(), b"root")
        if not self._sampler:
            reason = library.complaints.first or "no reason given"
            raise EngineError(f"llama.cpp does not understand the grammar ({reason})")

    def allows(self, token: int) -> bool:
        self._one[0] = (token, 0, 0)
        apply(self._lib, self._sampler, self._one)
        return bool(self._one["logit"][0] > _MINUS_INFINITY)

    def accept(self, token: int) -> None:
        self._lib.llama_sampler_accept(self._sampler, token)

    def choose(self, logits: Any, chain: Any) -> int:
        """The chain's choice among the allowed tokens. Raises EngineError if there is none."""
        import numpy as np

        if 0 < self._needed <= self.BEST < len(logits):
            some = self._allowed(logits, np.argpartition(logits, -self.BEST)[-self.BEST :])
            if len(some) >= self._needed:
                return self._chosen(some, chain)
        every = np.concatenate(self._vocabulary.prefixes.allowed(lambda ids: self._allowed(logits, ids)))
        if not len(every):
            raise EngineError("the grammar allows no token of this vocabulary to follow")
        return self._chosen(every, chain)

    def _allowed(self, logits: Any, ids: Any) -> Any:
        found = candidates(logits, ids)
        apply(self._lib, self._sampler, found)
        return found[found["logit"] > _MINUS_INFINITY]

    def _chosen(self, found: Any, chain: Any) -> int:
        _, selected = apply(self._lib, chain, found)
        return int(found["id"][selected])

    def close(self) -> None:
        if self._sampler:
            self._lib.llama_sampler_free(self._sampler)
            self._sampler = None


class Lazy:
    """A Binding that is none until the trigger's token comes outside the quiet stretches, and a grammar after it."""

    def __init__(self, vocabulary: Vocabulary, triggered: Triggered, prompt: Sequence[int], settings: Sampling) -> None:
        tags = vocabulary.specials.user
        self._vocabulary = vocabulary
        self._settings = settings
        self._text = triggered.grammar
        self._trigger = tags.get(triggered.trigger, -1)  # a vocabulary without such a token never triggers
        self._opens, self._closes = (tags.get(tag, -1) for tag in triggered.quiet)
        self._quiet = is_open(prompt, self._opens, self._closes)
        self._grammar: Grammar | None = None
        Grammar(vocabulary, self._text, settings).close()  # one that is none is refused now, not in mid-turn

    def allows(self, token: int) -> bool:
        return self._grammar is None or self._grammar.allows(token)

    def accept(self, token: int) -> None:
        if self._grammar is not None:
            self._grammar.accept(token)
        elif token in (self._opens, self._closes):
            self._quiet = token == self._opens
        elif token == self._trigger and not self._quiet:
            self._grammar = Grammar(self._vocabulary, self._text, self._settings)

    def choose(self, logits: Any, chain: Any) -> int:
        assert self._grammar is not None  # without one every token is allowed
        return self._grammar.choose(logits, chain)

    def close(self) -> None:
        if self._grammar is not None:
            self._grammar.close()


def is_open(prompt: Sequence[int], opens: int, closes: int) -> bool:
    """Whether a stretch that `opens` begins is still open at the end of the prompt."""
    return next((token == opens for token in reversed(prompt) if token in (opens, closes)), False)
