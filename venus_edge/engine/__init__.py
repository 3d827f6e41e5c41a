"""PROMPT -> TOKENS: what the agent needs from a language model, and nothing else.

In: prompt pieces (with their trust) and sampling settings. Out: text as it comes, and counts.
An engine knows nothing of turns, tools or tags; it never retries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from venus_edge.protocol import Piece

Finish = Literal["stop", "length", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen (PROTOCOL section 4.1). `temperature` 0 is greedy.

    The presence penalty counts the tokens generated in this turn only, over the whole turn. `max_tokens` is the most
    new tokens of one attempt. `seed` is the run's; the engine is given one derived from (seed, turn, attempt).
    """

    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 20
    min_p: float = 0.0
    presence_penalty: float = 1.1
    max_tokens: int = 15_000
    seed: int = 0


@dataclass(slots=True)
class Stats:
    """What an engine has done since it was made: token counts and seconds, prefill and decode apart."""

    evaluated_tokens: int = 0  # tokens that went through the model, prompt and generated
    reused_tokens: int = 0  # prompt tokens that were in the KV cache already
    generated_tokens: int = 0
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    drafted_tokens: int = 0  # guessed ahead and evaluated with others; the rejected ones are in no other count
    accepted_tokens: int = 0  # of these, the ones that came true


@dataclass(slots=True)
class Usage:
    """The counts of one generation."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0


class Generation(Protocol):
    """Text as it comes: iterate it; `finish` is set when it ends, `usage` counts meanwhile.

    Nothing is yielded that a stop string may still swallow, no half of a character; the text of special tokens
    (<tool_call>, </think>) is yielded as text. `close()` ends it early and keeps the engine usable.
    """

    finish: Finish | None
    usage: Usage

    def __iter__(self) -> Iterator[str]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Triggered:
    """A GBNF grammar that binds what follows the token `trigger`, and that the turn ends with. It does not trigger
    between the two `quiet` tokens (in a thought), be they generated or of the prompt."""

    grammar: str
    trigger: str
    quiet: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """One generation: prompt token ids, sampling, strings that end it (not part of the text), an optional GBNF
    grammar that binds the text from its start or else one that waits for a token, and the sequence (0: conversation,
    1: reading a page). An engine that cannot bind text leaves `triggered` alone."""

    prompt: Sequence[int]
    sampling: Sampling
    stop: tuple[str, ...] = ()
    grammar: str | None = None
    sequence: int = 0
    triggered: Triggered | None = None


class Engine(Protocol):
    """A loaded model with its KV cache. One generation at a time."""

    @property
    def n_ctx(self) -> int:
        """The window of the conversation, in tokens."""
        ...

    @property
    def n_ctx_reading(self) -> int:
        """The window of sequence 1, which reads pages, in tokens; 0 if the engine has none."""
        ...

    @property
    def chat_template(self) -> str:
        """The model's own chat template (GGUF `tokenizer.chat_template`), "" if it carries none."""
        ...

    @property
    def stats(self) -> Stats: ...

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        """Token ids of the rendered prompt; no OUTSIDE character becomes a special token."""
        ...

    def generate(self, request: Request) -> Generation:
        """Raises ContextFull before evaluating anything if the prompt leaves no room, EngineError if decoding fails."""
        ...

    def cancel(self) -> None:
        """Ends the running generation soon (from another thread or a signal handler); its finish is `cancelled`."""
        ...

    def close(self) -> None: ...
