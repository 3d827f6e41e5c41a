"""MESSAGES -> PIECES: the model's own chat template, and whose text each stretch of its output is.

In: messages and the template's text. Out: pieces whose texts, joined, are what the template renders, with the thinking
of every earlier turn kept. The template never sees a message's text: it is run over short markers, its output is cut at
them, and the texts are put in there, so no text can pass for the template's own. Nothing here tokenizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from venus_edge.protocol import Piece, Trust
from venus_edge.protocol.prompt import CLOSE_RESPONSE, OPEN_RESPONSE
from venus_edge.values import Message

OPEN_THINK = "<think>"
CLOSE_THINK = "</think>"


class TemplateUnusable(ValueError):
    """A chat template that fails, or that does not keep every message in its place."""


@cache
def packaged_template() -> str:
    """The chat template of Qwen3-4B-Thinking-2507, which DR-Venus was trained with."""
    return files("venus_edge.protocol").joinpath("chat_template.jinja").read_bytes().decode("utf-8")


def render(
    messages: Sequence[Message], template: str = "", add_generation_prompt: bool = True, as_generated: bool = False
) -> list[Piece]:
    """The prompt as pieces of alternating trust, for messages that start with the system prompt and the question.

    `template` "" means the packaged one. Takes time linear in the text.

    `as_generated` keeps the line breaks around a turn's think tags as the message has them, so that the prompt extends
    the last one exactly; without it they are re-spaced, as the plain template does. Raises TemplateUnusable.
    """
    if not messages:
        return []
    skeleton = _skeleton(template or packaged_template(), _shapes(messages), add_generation_prompt)
    return list(_merged(_filled(skeleton, messages, as_generated)))


# -- the template's run over markers ----------------------------------------------------------------------------------

_MARK = "\ue000{}{}\ue001"  # private-use characters: no template holds them, and texts never meet the template
_MARKED = re.compile(
    "<tool_response>\ue000r([0-9]+)\ue001</tool_response>"  # a reply to a call, whole
    "|<think>\n\ue000t([0-9]+)\ue001\n</think>\n\n\ue000a\\2\ue001"  # a turn in the form of the packaged template
    "|\ue000([a-z])([0-9]+)\ue001"
)


def _fail(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


@lru_cache(maxsize=4)
def _compiled(template: str) -> jinja2.Template:
    """Set up as transformers does it (`chat_template_utils`): the same sandbox, trimming, `tojson` and extension."""
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _fail
    return env.from_string(template)


def _shapes(messages: Sequence[Message]) -> tuple[str, ...]:
    """A letter a message: system, question, reply to a call, turn with a thought, turn without."""
    asked = next((i for i, message in enumerate(messages) if message.role == "user"), -1)
    return tuple(_shape(message, i == asked) for i, message in enumerate(messages))


def _shape(message: Message, asked: bool) -> str:
    if message.role == "assistant":
        return "t" if CLOSE_THINK in message.content else "n"
    return "s" if message.role == "system" else "q" if asked else "r"


def _stand_in(shape: str, index: int) -> dict[str, str]:
    """What the template sees of a message. Every user message after the question looks like a tool reply to it: only
    then does it keep the thinking of earlier turns (public reports: QwenLM/Qwen3#1826)."""
    mark = _MARK.format(shape, index)
    match shape:
        case "s":
            return {"role": "system", "content": mark}
        case "q":
            return {"role": "user", "content": mark}
        case "r":
            return {"role": "user", "content": OPEN_RESPONSE + mark + CLOSE_RESPONSE}
        case "n":
            return {"role": "assistant", "content": mark}
        case _:
            after = _MARK.format("a", index)
            return {"role": "assistant", "content": f"{OPEN_THINK}\n{mark}\n{CLOSE_THINK}\n\n{after}"}


@lru_cache(maxsize=4)
def _skeleton(template: str, shapes: tuple[str, ...], add_generation_prompt: bool) -> str:
    stand_ins = [_stand_in(shape, i) for i, shape in enumerate(shapes)]
    try:
        text = _compiled(template).render(messages=stand_ins, add_generation_prompt=add_generation_prompt)
    except (jinja2.TemplateError, TypeError, ValueError, AttributeError) as error:
        raise TemplateUnusable(f"the chat template fails: {error}") from error
    expected = [_MARK.format(letter, i) for i, s in enumerate(shapes) for letter in ("ta" if s == "t" else s)]
    if re.findall("\ue000[a-z][0-9]+\ue001", text) != expected:
        raise TemplateUnusable("the chat template does not keep every message and its thinking in order")
    return text


# -- the texts put in -------------------------------------------------------------------------------------------------


def _filled(skeleton: str, messages: Sequence[Message], as_generated: bool) -> Iterator[Piece]:
    done = 0
    for mark in _MARKED.finditer(skeleton):
        yield Piece(skeleton[done : mark.start()], Trust.TEMPLATE)
        yield from _of_mark(mark, messages, as_generated)
        done = mark.end()
    yield Piece(skeleton[done:], Trust.TEMPLATE)


def _of_mark(mark: re.Match[str], messages: Sequence[Message], as_generated: bool) -> Iterator[Piece]:
    reply, turn, letter, index = mark.groups()
    if reply is not None:
        yield from _tool_reply(messages[int(reply)].content)
    elif turn is not None and as_generated:
        yield Piece(messages[int(turn)].content, Trust.MODEL)
    elif turn is not None:
        thought, rest = _split_turn(messages[int(turn)].content)
        yield Piece(f"{OPEN_THINK}\n{thought}\n{CLOSE_THINK}\n\n{rest}", Trust.MODEL)
    else:
        yield _single(letter, messages[int(index)].content)


def _single(letter: str, content: str) -> Piece:
    match letter:
        case "s":
            return Piece(content, Trust.TEMPLATE)
        case "t":
            return Piece(_split_turn(content)[0], Trust.MODEL)
        case "a":
            return Piece(_split_turn(content)[1], Trust.MODEL)
        case "n":
            return Piece(content, Trust.MODEL)
        case _:
            return Piece(content, Trust.OUTSIDE)


def _split_turn(content: str) -> tuple[str, str]:
    """Thought and rest, by the very operations of the packaged template."""
    thought = content.split(CLOSE_THINK, 1)[0].rstrip("\n").rpartition(OPEN_THINK)[2].strip("\n")
    return thought, content.rpartition(CLOSE_THINK)[2].lstrip("\n")


def _tool_reply(content: str) -> Iterator[Piece]:
    """The outermost tags are ours, whatever stands between them is not; what has no tags is not ours at all."""
    start = len(content) - len(content.lstrip())
    end = content.rfind(CLOSE_RESPONSE)
    if not content.startswith(OPEN_RESPONSE, start) or end < 0:
        yield Piece(content, Trust.OUTSIDE)
        return
    yield Piece(content[:start] + OPEN_RESPONSE, Trust.TEMPLATE)
    yield Piece(content[start + len(OPEN_RESPONSE) : end], Trust.OUTSIDE)
    yield Piece(CLOSE_RESPONSE, Trust.TEMPLATE)
    yield Piece(content[end + len(CLOSE_RESPONSE) :], Trust.OUTSIDE)


def _merged(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of one trust as one piece, none of them empty."""
    texts: list[str] = []
    trust = Trust.TEMPLATE
    for piece in pieces:
        if piece.text and piece.trust is not trust:
            if texts:
                yield Piece("".join(texts), trust)
            texts, trust = [], piece.trust
        if piece.text:
            texts.append(piece.text)
    if texts:
        yield Piece("".join(texts), trust)
