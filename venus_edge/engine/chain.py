"""LOGITS -> THE NEXT TOKEN: the penalty in place, llama.cpp's samplers for the rest, a grammar that is asked.

In: a context with logits, a request's settings. Out: one token after the other, drawn from vLLM's distribution; the
order of the steps is `sampling`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venus_edge.engine import Request, Sampling, library
from venus_edge.engine.context import Context
from venus_edge.engine.grammar import Binding, Grammar, Lazy, apply, candidates
from venus_edge.engine.sampling import Presence, steps
from venus_edge.engine.vocabulary import Vocabulary


def samplers(lib: Any, settings: Sampling) -> Any:
    """llama.cpp's chain for the settings; to be freed."""
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for name, arguments in steps(settings):
        lib.llama_sampler_chain_add(chain, getattr(lib, f"llama_sampler_init_{name}")(*arguments))
    return chain


class Chain:
    """A Chooser (see `generation`). Raises EngineError for a grammar that is none."""

    def __init__(self, context: Context, vocabulary: Vocabulary, request: Request) -> None:
        self._lib = context.lib
        self._context = context
        self._vocabulary = vocabulary
        self._presence = Presence(request.sampling.presence_penalty)
        self._binding = _binding(vocabulary, request)
        self._chain = samplers(self._lib, request.sampling)

    def next(self, output: int = -1) -> int:
        if self._presence.active:
            self._presence.apply(self._context.logits(output))
        token = int(self._lib.llama_sampler_sample(self._chain, self._context.pointer, output))
        if self._binding is not None and not self._binding.allows(token):
            token = self._binding.choose(self._context.logits(output), self._chain)
        if self._vocabulary.ends(token):
            return token
        self._presence.accept(token)
        if self._binding is not None:
            self._binding.accept(token)
        return token

    def close(self) -> None:
        if self._chain:
            self._lib.llama_sampler_free(self._chain)
            self._chain = None
        if self._binding is not None:
            self._binding.close()


def _binding(vocabulary: Vocabulary, request: Request) -> Binding | None:
    """The grammar from the start comes before one that waits for a token."""
    if request.grammar is not None:
        return Grammar(vocabulary, request.grammar, request.sampling)
    if request.triggered is not None:
        return Lazy(vocabulary, request.triggered, request.prompt, request.sampling)
    return None


def distribution(settings: Sampling, logits: Sequence[float], generated: Sequence[int] = ()) -> list[float]:
    """What a token would be drawn from: the probability of each, given its logits and what the turn has generated."""
    import numpy as np

    lib, row = library.load(), np.array(logits, np.float32)
    presence = Presence(settings.presence_penalty)
    for token in generated:
        presence.accept(token)
    presence.apply(row)
    found = candidates(row, np.arange(len(row)))
    chain = samplers(lib, settings)
    left, selected = apply(lib, chain, found)
    lib.llama_sampler_free(chain)
    if settings.temperature <= 0:
        found["p"][:left] = np.arange(left) == selected
    result = np.zeros(len(row))
    result[found["id"][:left]] = found["p"][:left]
    return [float(p) for p in result]
