"""PIECES -> TOKEN IDS, so that only trusted text becomes structure (PROTOCOL section 3).

In: prompt pieces and the vocabulary's special tokens. Out: ids equal to tokenizing the whole rendered prompt wherever
untrusted text holds no special string; where it does, all its characters as ordinary ids. How ordinary text becomes
ids is given (`encode`); nothing here knows llama.cpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from venus_edge.protocol import Piece, Trust

_C_SPACES = " \t\n\v\f\r"  # what C's isspace takes, which llama.cpp strips beside such tokens


@dataclass(frozen=True)
class Specials:
    """A vocabulary's special tokens, text -> id: `control` (<|im_end|> ...) and `user` (user-defined: <tool_call> ...).

    `lstrip` and `rstrip` hold ids that swallow the white space before or after them (none of Qwen's do).
    """

    control: Mapping[str, int] = field(default_factory=dict)
    user: Mapping[str, int] = field(default_factory=dict)
    lstrip: frozenset[int] = frozenset()
    rstrip: frozenset[int] = frozenset()

    def of(self, trust: Trust) -> list[tuple[str, int]]:
        """What becomes structure in text of this trust, in the order in which llama.cpp looks: longest first."""
        table = {
            Trust.TEMPLATE: {**self.control, **self.user},
            Trust.MODEL: dict(self.user),
            Trust.OUTSIDE: {},
        }[trust]
        return sorted(table.items(), key=lambda item: -len(item[0].encode()))


def segments(pieces: Iterable[Piece], specials: Specials) -> Iterator[int | str]:
    """Special ids and the stretches of ordinary text between them, joined across pieces; none of them is empty."""
    tables = {trust: specials.of(trust) for trust in Trust}
    plain: list[str] = []
    for text, trust in _merged(pieces):
        for part in _partition(text, tables[trust], specials):
            if isinstance(part, str):
                plain.append(part)
                continue
            if plain:
                yield "".join(plain)
                plain = []
            yield part
    if plain:
        yield "".join(plain)


def _merged(pieces: Iterable[Piece]) -> Iterator[tuple[str, Trust]]:
    """Neighbours of one trust as one text: a token may lie across their border."""
    texts: list[str] = []
    trust = Trust.TEMPLATE
    for piece in pieces:
        if piece.trust is not trust and texts:
            yield "".join(texts), trust
            texts = []
        trust = piece.trust
        if piece.text:
            texts.append(piece.text)
    if texts:
        yield "".join(texts), trust


def _partition(text: str, table: Sequence[tuple[str, int]], specials: Specials) -> list[int | str]:
    """As llama.cpp's `tokenizer_st_partition`: one special token after the other, each cut out of what text is left."""
    parts: list[int | str] = [text]
    for special, token in table:
        if special in text:
            parts = [piece for part in parts for piece in _cut_out(part, special, token, specials)]
    return parts


def _cut_out(part: int | str, special: str, token: int, specials: Specials) -> Iterator[int | str]:
    if isinstance(part, int):
        yield part
        return
    texts = part.split(special)
    for i, text in enumerate(texts):
        kept = text.lstrip(_C_SPACES) if i and token in specials.rstrip else text
        kept = kept.rstrip(_C_SPACES) if i + 1 < len(texts) and token in specials.lstrip else kept
        if kept:
            yield kept
        if i + 1 < len(texts):
            yield token


def disarmed(text: str, structure: Iterable[str]) -> list[str]:
    """The text cut into stretches none of which holds a string of `structure`; joined, they are the text.

    llama.cpp turns user-defined tokens into their ids even where it is told not to parse special ones, so ordinary text
    that spells one is cut inside it. A string of one character cannot be cut and is left alone.
    """
    found = sorted(
        (at + len(string), at, at + _seam(string))
        for string in structure
        if len(string) > 1
        for at in _occurrences(text, string)
    )
    cuts = [0]
    for _, start, seam in found:
        if cuts[-1] <= start:  # no cut lies inside this one yet
            cuts.append(seam)
    return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _seam(string: str) -> int:
    """Where to cut a special string: behind its last word, where the tokenizer's pattern cuts ordinary text too, so
    that `<tool_call>` gives the ids of those characters in a vocabulary without such a token."""
    words = len(string)
    while words and not string[words - 1].isalnum():
        words -= 1
    return words if 0 < words < len(string) else len(string) - 1


def _occurrences(text: str, string: str) -> Iterator[int]:
    at = text.find(string)
    while at >= 0:
        yield at
        at = text.find(string, at + 1)


def sound(text: str) -> str:
    """The text as UTF-8 can carry it: surrogate pairs joined, lone surrogates as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Tokenizer:
    """Pieces -> ids, with a memory: a conversation is tokenized again every turn, and only its end is new.

    `encode` turns ordinary text without special strings into ids. `keep` bounds the memory, in characters.
    """

    def __init__(self, specials: Specials, encode: Callable[[str], Sequence[int]], keep: int = 4_000_000) -> None:
        self.specials = specials
        self._encode = encode
        self._keep = keep
        self._known: OrderedDict[str, list[int]] = OrderedDict()
        self._size = 0

    def ids(self, pieces: Iterable[Piece]) -> list[int]:
        """Token ids of the rendered prompt; no character of OUTSIDE text is in a special token."""
        out: list[int] = []
        for segment in segments(pieces, self.specials):
            if isinstance(segment, int):
                out.append(segment)
            else:
                out.extend(self._plain(segment))
        return out

    def _plain(self, text: str) -> list[int]:
        if text in self._known:
            self._known.move_to_end(text)
            return self._known[text]
        ids = [i for part in disarmed(sound(text), self.specials.user) for i in self._encode(part)]
        self._known[text] = ids
        self._size += len(text)
        while self._size > self._keep:
            old, _ = self._known.popitem(last=False)
            self._size -= len(old)
        return ids
