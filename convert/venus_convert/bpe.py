"""Text -> token ids by the rules of Qwen's tokenizer, written out: what llama.cpp's ids are checked against.

In: the tokens and merges of a vocabulary. Out: the ids of plain text. Slow and short on purpose. It knows nothing of
added tokens; those are one id each.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

CONTRACTION = re.compile(r"'(?:[sdmt]|re|ve|ll)", re.IGNORECASE)
# Qwen's pattern over classes: L letter, N number, space, s other space, r line end, p everything else.
PIECE = re.compile(r"[ sp]?L+|N| ?p+r*|[ sr]*r+|[ sr]+(?![LNp])|[ sr]+")


@dataclass(frozen=True, slots=True)
class Bpe:
    """Byte-level BPE: token texts in the byte alphabet to ids, and the rank of each merge."""

    ids: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, tokens: Sequence[str], merges: Sequence[str]) -> Bpe:
        """From the arrays of a GGUF file."""
        pairs = {(left, right): rank for rank, (left, _, right) in enumerate(m.partition(" ") for m in merges)}
        return cls({token: i for i, token in enumerate(tokens)}, pairs)

    def encode(self, text: str) -> list[int]:
        """The ids of a text that holds no added token."""
        return [number for piece in pieces(text) for number in self._piece(piece)]

    def _piece(self, piece: str) -> Iterator[int]:
        alphabet = byte_alphabet()
        parts = [alphabet[byte] for byte in piece.encode("utf-8")]
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: self._rank(parts, i))
            if self._rank(parts, best) == len(self.ranks):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return (self.ids[part] for part in parts)

    def _rank(self, parts: list[str], i: int) -> int:
        return self.ranks.get((parts[i], parts[i + 1]), len(self.ranks))


def pieces(text: str) -> Iterator[str]:
    """The pieces that merges never cross, by Qwen's pattern."""
    classes = "".join(map(_class, text))
    at = 0
    while at < len(text):
        found = CONTRACTION.match(text, at) or PIECE.match(classes, at)
        end = found.end() if found else at + 1
        yield text[at:end]
        at = end


def _class(char: str) -> str:
    if char in "\r\n":
        return "r"
    if char == " ":
        return " "
    category = unicodedata.category(char)[0]
    if category in "LN":
        return category
    return "s" if char.isspace() and char not in "\x1c\x1d\x1e\x1f" else "p"


@cache
def byte_alphabet() -> tuple[str, ...]:
    """GPT-2's printable stand-in for each byte."""
    kept = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return tuple(chr(byte) if byte in kept else chr(next(others)) for byte in range(256))
