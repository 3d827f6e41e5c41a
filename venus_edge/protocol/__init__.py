"""QUESTION -> PROMPT and TEXT -> REPLY, as DR-Venus was trained. Pure: no files, sockets or clock.

In: values and strings. Out: prompt pieces with their trust, replies, the wording of tool results.
This file holds the values that cross the boundary; it does not tokenize (that is `engine`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Trust(Enum):
    """Whose text a piece of the prompt is, and so what may become structure in it.

    TEMPLATE  the chat template's and the protocol's own text: every special token in it is one
    MODEL     what the model wrote: its think and tool tags are tokens, control tokens (<|im_end|> ...) never
    OUTSIDE   question, search results, pages: no character of it ever becomes a special token
    """

    TEMPLATE = "template"
    MODEL = "model"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the prompt. The pieces' texts, joined, are the rendered prompt."""

    text: str
    trust: Trust
