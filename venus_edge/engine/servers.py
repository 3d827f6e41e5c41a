"""A REQUEST -> WHAT llama-server OR vLLM IS SENT, AND THEIR EVENTS -> TEXT, COUNTS AND FINISH. Pure.

In: requests and JSON. Out: JSON and values. Read of llama.cpp's tools/server (server-schema, server-task,
server-context) as of llama-cpp-python 0.3.36, and of vLLM's OpenAI protocol; nothing here connects.

**The presence penalty on llama-server.** Its penalty looks at the last `repeat_last_n` tokens, and the prompt is among
them; there is no way to leave it out. A turn that has a penalty is therefore asked for in stretches: each one's window
is what the turn had generated when it began, so no prompt token is ever in it, save in the first stretch, where it is
the template's own last tokens. What differs from vLLM: a token that was generated only in the first few tokens of a
turn (as many as the stretch is long: 16, later an eighth of the turn) is forgotten until the next stretch begins, and
the first 16 tokens of a turn see fewer of themselves.

**A grammar that waits for a token** (`Request.triggered`) is llama-server's lazy grammar, with its reasoning budget,
which never runs out, to keep it quiet in a thought. It does not outlive a stretch: one that begins within a call gets
the grammar at once, led through what the call has. vLLM is not asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from venus_edge.engine import Finish, Request, Sampling, Triggered
from venus_edge.engine.sampling import safe_seed, turn_seed

# Qwen3's added tokens: those that llama.cpp calls control tokens, and the user-defined ones (PROTOCOL section 3).
CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
USER = (
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
)  # fmt: skip
ENDS = ("<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")  # llama.cpp's ends of a turn

_WORD = 1  # COMMON_GRAMMAR_TRIGGER_TYPE_WORD; a word that is a preserved token triggers as that token
_FIRST_WINDOW = 8  # tokens at a prompt's end that are the template's, not a page's
_FIRST_STRETCH = 16
_SHARE = 8  # a stretch is an eighth of what the turn has


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a turn that is asked for at once: the prompt with what the turn has, how many tokens more, over how
    many the penalty looks, and which part it is. Where it begins in a thought it is `quiet`; `call` is what the turn
    has from the trigger of a grammar on."""

    prompt: Sequence[int]
    count: int
    window: int
    number: int
    quiet: bool = False
    call: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """What a server counted of one stretch. Seconds are 0 where it does not say."""

    cached: int
    prompt: int  # tokens of the prompt that were evaluated
    prompt_seconds: float
    generated_seconds: float


@dataclass(frozen=True, slots=True)
class Delta:
    """One event: text, the ids that are known of it, the tokens of the stretch so far (-1: not said), its end."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    generated: int = -1
    finish: Finish | None = None
    timings: Timings | None = None


class Dialect(Protocol):
    """How one kind of server is spoken to."""

    @property
    def path(self) -> str:
        """Where generations are asked for."""
        ...

    def stretch(self, request: Request, ids: Sequence[int], left: int, number: int) -> Stretch: ...
    def body(self, request: Request, stretch: Stretch) -> dict[str, Any]: ...
    def delta(self, event: dict[str, Any]) -> Delta: ...
    def tokenize_body(self, text: str, special: bool) -> dict[str, Any]: ...
    def detokenize_body(self, ids: Sequence[int]) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """llama-server: `/completion`. `slots` are its sequences, `shown` the special tokens whose text is wanted."""

    slots: int = 1
    shown: tuple[str, ...] = tuple(token for token in CONTROL if token not in ENDS)
    path: str = "/completion"

    def stretch(self, request: Request, ids: Sequence[int], left: int, number: int) -> Stretch:
        prompt = [*request.prompt, *ids]
        if not request.sampling.presence_penalty:
            return Stretch(prompt, left, 0, number)
        if request.grammar is not None:  # it binds from the start, so the reply is one stretch
            return Stretch(prompt, left, _FIRST_WINDOW, number)
        size = max(_FIRST_STRETCH, len(ids) // _SHARE)
        return Stretch(prompt, min(left, size), len(ids) or _FIRST_WINDOW, number)

    def body(self, request: Request, stretch: Stretch) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "prompt": list(stretch.prompt),
            "n_predict": stretch.count,
            "stream": True,
            "return_progress": True,
            "cache_prompt": True,
            "stop": list(request.stop),
            "preserved_tokens": list(self.shown),
            "response_fields": ["stop", "stop_type", "truncated", "tokens_predicted", "timings"],
            "mirostat": 0,
            "n_probs": 0,
            "ignore_eos": False,
            "repeat_penalty": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": sampling.presence_penalty,
            "repeat_last_n": stretch.window,
            **_chain(sampling),
            "seed": turn_seed(sampling.seed, 0, stretch.number) if stretch.number else safe_seed(sampling.seed),
        }
        if request.grammar is not None:
            body["grammar"] = request.grammar
        elif request.triggered is not None:
            body |= _waiting(request.triggered, stretch, body["preserved_tokens"])
        if self.slots > 1:
            body["id_slot"] = request.sequence % self.slots
        return body

    def delta(self, event: dict[str, Any]) -> Delta:
        text, generated, timings = event.get("content", ""), _number(event.get("tokens_predicted")), None
        if isinstance(progress := event.get("prompt_progress"), dict):
            cached, done = _number(progress.get("cache")), _number(progress.get("processed"))
            seconds = _seconds(progress.get("time_ms"))
            return Delta(timings=Timings(cached, max(0, done - cached), seconds, 0.0))
        if isinstance(found := event.get("timings"), dict):
            timings = Timings(
                _number(found.get("cache_n")),
                _number(found.get("prompt_n")),
                _seconds(found.get("prompt_ms")),
                _seconds(found.get("predicted_ms")),
            )
        tokens = event.get("tokens", ())
        return Delta(
            text if isinstance(text, str) else "",
            _ids(tokens) if tokens else (),
            generated,
            self._finish(event) if event.get("stop") is True else None,
            timings,
        )

    @staticmethod
    def _finish(event: dict[str, Any]) -> Finish:
        if event.get("stop_type") == "limit":
            return "context" if event.get("truncated") is True else "length"
        return "stop"

    def tokenize_body(self, text: str, special: bool) -> dict[str, Any]:
        return {"content": text, "add_special": False, "parse_special": special}

    def detokenize_body(self, ids: Sequence[int]) -> dict[str, Any]:
        return {"tokens": list(ids)}


def _waiting(triggered: Triggered, stretch: Stretch, preserved: list[str]) -> dict[str, Any]:
    """llama-server's fields for a grammar that waits for a token; there it begins with the token's own text."""
    root = f'root ::= "{triggered.trigger}" behind-trigger\nbehind-trigger ::='
    grammar = re.sub(r"^root\s*::=", lambda _: root, triggered.grammar, count=1, flags=re.MULTILINE)
    if stretch.call:
        return {"grammar": grammar, "grammar_type": "tool_calls", "generation_prompt": stretch.call}
    opens, closes = triggered.quiet
    return {
        "grammar": grammar,
        "grammar_lazy": True,
        "grammar_triggers": [{"type": _WORD, "value": triggered.trigger}],
        "preserved_tokens": [*preserved, triggered.trigger],
        "reasoning_budget_start_tag": opens,
        "reasoning_budget_end_tags": [closes],
        "generation_prompt": opens if stretch.quiet else "",
    }


def bound(triggered: Triggered, text: str, quiet: bool) -> tuple[bool, str]:
    """Whether a turn is in a thought behind `text`, and its text from the trigger on ("": it has not come). `quiet`
    says whether it began in one."""
    opens, closes = triggered.quiet
    for found in re.finditer("|".join(map(re.escape, (opens, closes, triggered.trigger))), text):
        if found[0] != triggered.trigger:
            quiet = found[0] == opens
        elif not quiet:
            return False, text[found.start() :]
    return quiet, ""


def _chain(sampling: Sampling) -> dict[str, Any]:
    """llama-server's samplers in the order of `sampling.steps`, which gives vLLM's distribution."""
    if sampling.temperature <= 0:
        return {"samplers": ["penalties", "top_k"], "top_k": 1, "temperature": 0.0}
    return {
        "samplers": ["penalties", "top_k", "temperature", "min_p", "top_p"],
        "top_k": max(0, sampling.top_k),
        "temperature": sampling.temperature,
        "dynatemp_range": 0.0,
        "min_p": sampling.min_p,
        "top_p": sampling.top_p,
        "min_keep": 0,
    }


@dataclass(frozen=True, slots=True)
class Vllm:
    """vLLM: `/v1/completions`, whose penalties count generated tokens only. A grammar needs 0.11 or later."""

    model: str
    path: str = "/v1/completions"

    def stretch(self, request: Request, ids: Sequence[int], left: int, number: int) -> Stretch:
        return Stretch([*request.prompt, *ids], left, 0, number)

    def body(self, request: Request, stretch: Stretch) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(stretch.prompt),
            "max_tokens": stretch.count,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "temperature": max(0.0, sampling.temperature),
            "top_p": sampling.top_p,
            "top_k": sampling.top_k if sampling.top_k > 0 else -1,
            "min_p": sampling.min_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": safe_seed(sampling.seed),
            "stop": list(request.stop),
            "add_special_tokens": False,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        }
        if request.grammar is not None:
            body["structured_outputs"] = {"grammar": request.grammar}
        return body

    def delta(self, event: dict[str, Any]) -> Delta:
        usage, choices = event.get("usage"), event.get("choices")
        timings, generated = None, -1
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = _number(details.get("cached_tokens")) if isinstance(details, dict) else 0
            timings = Timings(cached, _number(usage.get("prompt_tokens")) - cached, 0.0, 0.0)
            generated = _number(usage.get("completion_tokens"))
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        text, reason = choice.get("text", ""), choice.get("finish_reason")
        finish: Finish | None = None if reason is None else "length" if reason == "length" else "stop"
        return Delta(text if isinstance(text, str) else "", (), generated, finish, timings)

    def tokenize_body(self, text: str, special: bool) -> dict[str, Any]:
        return {"model": self.model, "prompt": text, "add_special_tokens": False}

    def detokenize_body(self, ids: Sequence[int]) -> dict[str, Any]:
        return {"model": self.model, "tokens": list(ids)}


def ids_of(answer: dict[str, Any]) -> tuple[int, ...]:
    """The ids of a /tokenize answer. Raises ValueError."""
    return _ids(answer.get("tokens"))


def _ids(found: object) -> tuple[int, ...]:
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | dict):
        raise ValueError("no token ids")
    ids = tuple(found)
    if not all(type(token) is int for token in ids):
        raise ValueError("token ids that are no integers")
    return ids


def _number(found: object) -> int:
    return found if type(found) is int else 0


def _seconds(milliseconds: object) -> float:
    return milliseconds / 1_000 if isinstance(milliseconds, int | float) else 0.0
