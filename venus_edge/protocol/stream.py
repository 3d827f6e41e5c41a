"""TEXT AS IT COMES -> (kind, piece): what a live view shows of a turn while it is written.

In: pieces of a turn's text, cut anywhere. Out: the same text without its tags, each stretch named thinking, call,
answer or text. However the text is cut, the stretches of one kind join to the same. Only a closing think tag ends a
thought here; what the turn does in the end is for `parse` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Kind = Literal["thinking", "call", "answer", "text"]

_TAG = re.compile(r"<(/?)(think|tool_call|answer)>", re.IGNORECASE)
_LONGEST = len("</tool_call>")
_TAG_TEXTS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>")

# In each kind, the tags that are structure there, and the kind they lead to; every other tag is text.
_STEPS: dict[Kind, dict[str, Kind]] = {
    "thinking": {"</think>": "text"},
    "text": {"<think>": "thinking", "<tool_call>": "call", "<answer>": "answer", "</think>": "text"},
    "call": {"</tool_call>": "text"},
    "answer": {"</answer>": "text"},
}


class Splitter:
    """Feed it the pieces of one turn, then `end()` it. It holds back at most the start of a tag."""

    def __init__(self) -> None:
        self._kind: Kind = "thinking"
        self._held = ""
        self._begun = False

    def feed(self, piece: str) -> list[tuple[Kind, str]]:
        """What can be shown now."""
        return list(self._stretches(self._held + piece, last=False))

    def end(self) -> list[tuple[Kind, str]]:
        """What was held back, now that nothing follows."""
        return list(self._stretches(self._held, last=True))

    def _stretches(self, text: str, last: bool) -> Iterator[tuple[Kind, str]]:
        shown = 0
        for tag in _TAG.finditer(text):
            kind = self._step(tag.group().lower(), not text[shown : tag.start()].strip())
            if kind is None:
                continue
            yield from self._shown(text[shown : tag.start()])
            self._kind, shown = kind, tag.end()
        keep = len(text) if last else self._safe(text, shown)
        yield from self._shown(text[shown:keep])
        self._held = text[keep:]

    def _step(self, tag: str, blank_before: bool) -> Kind | None:
        if tag == "<think>" and not self._begun and blank_before:
            return "thinking"  # a model that opens the thought itself
        return _STEPS[self._kind].get(tag)

    def _shown(self, text: str) -> Iterator[tuple[Kind, str]]:
        self._begun = self._begun or bool(text.strip())
        if text:
            yield self._kind, text

    @staticmethod
    def _safe(text: str, start: int) -> int:
        """Up to where `text` can be shown: before an unfinished tag."""
        at = text.rfind("<", max(start, len(text) - _LONGEST + 1))
        tail = text[at:].lower()
        return at if at >= 0 and any(full.startswith(tail) for full in _TAG_TEXTS) else len(text)
