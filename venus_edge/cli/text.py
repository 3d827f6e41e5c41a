"""Text of others on a person's terminal. In: any text. Out: text that cannot drive the terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text without control characters and changes of writing direction; line breaks and tabs stay."""
    return _CONTROL.sub("\ufffd", text)


def counted(number: int, noun: str, several: str = "") -> str:
    """`1 page`, `1,029 pages`."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def shorten(text: str, width: int) -> str:
    """The beginning of a text, in at most `width` characters and on one line."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
