"""TOKEN BYTES -> TEXT THAT MAY BE SHOWN: whole characters, and nothing that a stop string may still swallow.

Pure. In: the bytes of one token after the other. Out: text; `stopped` is set when a stop string was met.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Feed it bytes; it gives back what is certain. The stop string and what follows it never come out."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._stop = tuple(string for string in stop if string)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, piece: bytes) -> str:
        """The text that became certain by these bytes."""
        return self._release(self._decoder.decode(piece))

    def end(self, cut: bool) -> str:
        """What was held back. Of a character that was `cut` in the middle nothing is shown; one that the model left
        unfinished is U+FFFD."""
        rest = "" if cut else self._release(self._decoder.decode(b"", final=True))
        rest += "" if self.stopped else self._held
        self._held = ""
        return rest

    def _release(self, text: str) -> str:
        if self.stopped or not text:
            return ""
        text = self._held + text
        ends = [at for at in (text.find(string) for string in self._stop) if at >= 0]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        keep = len(text) - max((_overlap(text, string) for string in self._stop), default=0)
        self._held = text[keep:]
        return text[:keep]


def _overlap(text: str, string: str) -> int:
    """The length of the longest end of `text` that is a beginning of `string`."""
    longest = min(len(text), len(string) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(string[:n])), 0)
