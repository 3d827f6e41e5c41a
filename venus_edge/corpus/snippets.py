"""A PASSAGE AND THE WORDS OF A QUERY -> A SNIPPET: the stretch that has most of them. Pure.

In: text and stemmed words. Out: one line of up to about 200 characters, cut at sentences where they allow it, at words
where not; " ..." stands where a sentence goes on. Nothing here knows where the passage is from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from venus_edge import terms

LENGTH = 200
_LEAD = 60  # characters shown before the words, where a sentence has to be cut

_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()]*\)[^()]*)*\)")
_WORD_START = re.compile(r"\s+(?=\S)|[，、；：]")
_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-{3,}[-:| \t]*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*(?:[#>*+|-]+[ \t]+)+|[ \t]*\|[ \t]*$|\*\*", re.MULTILINE)


def snippet(text: str, words: Set[str], title: str = "", length: int = LENGTH) -> str:
    """The best stretch of `text`; all of it where it is short. A heading that only repeats the title is left out."""
    text = plain(text)
    if text.startswith(title) and text[len(title) : len(title) + 1] in ("\n", ""):
        text = text[len(title) :].strip() or text
    if len(text) <= length * 6 // 5:
        return _one_line(text)
    spans = terms.sentences(text)
    found = [_found(text[start:end], words) for start, end in spans]
    first, last = _best_window(spans, found, length)
    start, end = spans[first][0], spans[last][1]
    if end - start <= length * 6 // 5:
        return _one_line(text[start:end])
    return _within(text[start:end], words, length)


def plain(text: str) -> str:
    """Markdown as a line of a result list shows it: links without their targets, no heading and table marks."""
    return _MARKS.sub("", _RULE.sub("", _LINK.sub(r"\1", text))).strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _found(sentence: str, words: Set[str]) -> Set[str]:
    return words & frozenset(terms.terms(sentence))


def _best_window(spans: Sequence[terms.Span], found: Sequence[Set[str]], length: int) -> tuple[int, int]:
    """The run of sentences within `length` that has most words, the shortest and then the first of those; a sentence
    that is longer than that is a run of its own."""
    best, best_key = (0, 0), (-1, 0)
    for first in range(len(spans)):
        last, seen = first, set(found[first])
        while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= length:
            last += 1
            seen |= found[last]
        key = (len(seen), len(found[first]))
        if key > best_key:
            best, best_key = (first, last), key
    return best


def _within(sentence: str, words: Set[str], length: int) -> str:
    """The best stretch inside a sentence that is too long to show, from a word border to a word border, with a little
    of what goes before."""
    chunks = list(_chunks(sentence))
    found = [_found(sentence[start : end + terms.is_unspaced(sentence[end - 1])], words) for start, end in chunks]
    first, _ = _best_window(chunks, found, length - _LEAD)
    start = next(begin for begin, _ in chunks if begin >= chunks[first][0] - _LEAD)
    end = _word_end(sentence, start, length)
    before, after = "... " if start else "", " ..." if end < len(sentence) else ""
    return before + _one_line(sentence[start:end]) + after


def _chunks(sentence: str) -> Iterator[terms.Span]:
    """The sentence in stretches of 20 to 40 characters, each from a word's start where words can be told."""
    start = 0
    while start < len(sentence):
        border = _WORD_START.search(sentence, start + 20, start + 40)
        end = border.end() if border else min(start + 30, len(sentence))
        yield start, end
        start = end


def _word_end(sentence: str, start: int, length: int) -> int:
    if start + length >= len(sentence):
        return len(sentence)
    space = sentence.rfind(" ", start + length * 3 // 4, start + length)
    return space if space > 0 else start + length
