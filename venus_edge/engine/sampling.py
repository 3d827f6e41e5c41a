"""Sampling -> THE STEPS OF A SAMPLER, as vLLM takes them; and the seed of each attempt.

In: settings. Out: the names and arguments of llama.cpp's samplers in order, and the tokens that the presence penalty
meets. Pure: the driver builds the chain from the steps.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import Any

from venus_edge.engine import Sampling

LLAMA_DEFAULT_SEED = 0xFFFFFFFF  # llama.cpp takes a random seed when it sees this one

Step = tuple[str, tuple[float, ...]]


def turn_seed(seed: int, turn: int, attempt: int) -> int:
    """The seed of one attempt: the same for the same three numbers, 32 bits, never llama.cpp's "choose one"."""
    digest = hashlib.blake2b(f"{seed}/{turn}/{attempt}".encode(), digest_size=4).digest()
    return safe_seed(int.from_bytes(digest, "little"))


def safe_seed(seed: int) -> int:
    """The seed in 32 bits, and not the one that llama.cpp takes for "choose one"."""
    short = seed & 0xFFFFFFFF
    return short - 1 if short == LLAMA_DEFAULT_SEED else short


def steps(sampling: Sampling) -> tuple[Step, ...]:
    """llama.cpp's samplers, in an order that gives vLLM's distribution.

    vLLM (v1/sample/sampler.py) takes: penalties, temperature, min_p, top-k, and top-p over what top-k left. llama.cpp's
    own order has the temperature last, so that its top-p cuts the unscaled distribution: another one as soon as the
    temperature is not 1. Here top-k comes first, because it spares the rest the whole vocabulary: neither a temperature
    nor min_p changes the order of the logits, so it commutes with both. The penalty is `Presence`, before all of them.
    """
    if sampling.temperature <= 0:
        return (("greedy", ()),)
    return (
        ("top_k", (sampling.top_k,)),  # 0 or less: all
        ("temp", (sampling.temperature,)),
        ("min_p", (sampling.min_p, 1)),
        ("top_p", (sampling.top_p, 1)),
        ("dist", (safe_seed(sampling.seed),)),
    )


class Presence:
    """vLLM's presence penalty: subtracted once from each token that was generated in this attempt, prompt not counted.

    llama.cpp's penalty sampler would look up each of 151,936 candidates at every step; this touches the generated ones.
    """

    def __init__(self, penalty: float) -> None:
        self._penalty = penalty
        self._seen: set[int] = set()
        self._ids = array("i")  # numpy takes it as it is; a list it would convert, 0.2 ms for 2,000

    @property
    def active(self) -> bool:
        return bool(self._ids)

    def accept(self, token: int) -> None:
        if self._penalty and token not in self._seen:
            self._seen.add(token)
            self._ids.append(token)

    def apply(self, logits: Any) -> None:
        """Lowers the seen tokens' logits in place, once; `logits` is a float array of the vocabulary."""
        if self._ids:
            logits[self._ids] -= self._penalty
