"""TEXT -> WORDS, SENTENCES, PASSAGES: one reading of text for the index, the query and the reader of a page. Pure.

In: any string. Out: folded and stemmed terms, and spans (start, end) into the string as it was given. Writing without
spaces (Han, kana, Hangul, Thai and its neighbours) is read as overlapping two-character pieces; Latin words and digits
are cut out of such runs. Nothing here knows SQL (that is `corpus.query`) or what is worth quoting (`tools.evidence`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

Span = tuple[int, int]

VERSION = 2  # of the reading; an index made with another one is made again

# Han with its marks, kana, bopomofo, Hangul; Thai, Lao, Myanmar, Khmer: scripts that do not part words by spaces
# (Korean does, but its words carry their particles, so that two-character pieces find more there too).
UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u1049\u1780-\u17d3"
)
_LETTER = rf"(?:(?![{UNSPACED}])(?:[^\W_]|[\u0900-\u0963\u0966-\u0dff]))"  # with the vowel signs of India
_RUN = re.compile(f"[{UNSPACED}]+")
_WORD = re.compile(rf"[{UNSPACED}]+|[a-z0-9]++(?![^\W_])|{_LETTER}+")
_UNIT = re.compile(rf"[{UNSPACED}]+|{_LETTER}+(?:[-'’._&/+@]{_LETTER}+)*(?:\+\+|#)?")
_SYMBOL = re.compile(r"(?<![a-z0-9])([a-z]{1,2})(\+\+|#)(?![a-z0-9])")  # C++, C#, F#, and nothing longer
_SYMBOL_NAMES = {"++": "plusplus", "#": "sharp"}

# English words that carry no subject. What a question is asked with is in it; numbers and names never are.
_STOPWORDS = """
a about above after again against all am an and any are aren as at be because been before being below between
both but by can cannot could couldn did didn do does doesn doing don down during each few for from further had hadn
has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll
me more most mustn my myself no nor not now of off on once only or other our ours ourselves out over own re s same
shan she should shouldn so some such t than that the their theirs them themselves then there these they this those
through to too under until up ve very was wasn we were weren what when where which while who whom whose why will
with won would wouldn you your yours yourself yourselves
"""
STOPWORDS = frozenset(_STOPWORDS.split())


# -- folding ----------------------------------------------------------------------------------------------------------

_LETTERS_WITH_STROKES = {
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t"
}  # fmt: skip
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_FOLDABLE = re.compile(f"[^\\x00-\\x7f{UNSPACED}]+")
# Soft hyphen, combining grapheme joiner, joiners, the stretch of Arabic writing, variation selectors: in a word and no
# part of it.
_UNSEEN = re.compile("[\u00ad\u034f\u0640\u200d\u2060\ufe00-\ufe0f\U000e0100-\U000e01ef]+")


def _is_accent(character: str) -> bool:
    """Accents of Europe, points of Hebrew and Arabic; not the vowel signs of India or the voicing marks of kana."""
    weight = unicodedata.combining(character)
    return weight >= 200 or 10 <= weight <= 36


class _Folding(dict[int, str]):
    """Code point -> its base without accents, computed when first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if _UNSPACED_CHARACTER.match(character):
            folded = character
        else:
            bare = "".join(c for c in unicodedata.normalize("NFD", character) if not _is_accent(c))
            folded = _LETTERS_WITH_STROKES.get(bare, unicodedata.normalize("NFC", bare))
        self[code] = folded
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    """Compatibility forms unified, cases, accents and unseen marks gone: "ﬁle" is "file", "GRÖSSE" and "Größe" are
    "grosse"."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return _FOLDABLE.sub(lambda run: run[0].translate(_FOLDING), folded)


# -- words ------------------------------------------------------------------------------------------------------------


def pieces(run: str) -> list[str]:
    """The overlapping two-character pieces of a run of unspaced writing; a single character is itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def is_unspaced(word: str) -> bool:
    """Whether a word of `words` or a unit of `units` is unspaced writing."""
    return bool(_UNSPACED_CHARACTER.match(word))


def words(text: str) -> list[str]:
    """The folded words of a text in its order, unspaced runs as their pieces."""
    found: list[str] = []
    for word in _WORD.findall(fold(text)):
        if word.isascii() or not is_unspaced(word):
            found.append(word)
        else:
            found.extend(pieces(word))
    return found


def terms(text: str) -> list[str]:
    """The words of a text, stemmed: what two texts are compared by."""
    return [stem(word) for word in words(text)]


def content_terms(text: str) -> list[str]:
    """The terms without stopwords; all of them if nothing else is there."""
    found = words(text)
    return [stem(word) for word in found if word not in STOPWORDS] or [stem(word) for word in found]


def units(text: str) -> list[str]:
    """The folded words as a query means them: codes and hyphenated words whole, unspaced runs whole."""
    return _UNIT.findall(fold(text))


def symbol_name(unit: str) -> str:
    """The word that "c++" or "c#" is also indexed as, "" for a unit that is not such a name."""
    match = _SYMBOL.fullmatch(unit)
    return match[1] + _SYMBOL_NAMES[match[2]] if match else ""


def spaced(text: str) -> str:
    """A text for an indexer that parts words at what is no letter or digit: every word of `words` stands alone in it.

    The last character of every run follows at the end, so that a single character is found by prefix wherever it stood
    and phrases stay unbroken.
    """
    folded = fold(text)
    extra = []
    if "#" in folded or "++" in folded:  # else not looked through a second time
        extra = [match[1] + _SYMBOL_NAMES[match[2]] for match in _SYMBOL.finditer(folded)]
    if not folded.isascii():
        extra += sorted({run[-1] for run in _RUN.findall(folded) if len(run) > 1})
        folded = _RUN.sub(lambda match: f" {' '.join(pieces(match[0]))} ", folded)
    return "\n".join([folded, *extra])


# -- stemming: M. F. Porter, "An algorithm for suffix stripping" (1980), as SQLite's FTS5 has it ----------------------

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "logi": "log", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate",
    "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive",
    "biliti": "ble",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


def _shape(word: str) -> str:
    """A letter a letter: v for a vowel, c for a consonant; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Porter's *o: consonant, vowel, consonant, and the last is not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of an English word; any other word as it is."""
    if not word.isascii() or not 3 <= len(word) <= 64:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    return _final(_stripped(word))


def _plural(word: str) -> str:
    for ending, instead in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending) and (len(word) > len(ending) or ending == "ss"):
            return word[: -len(ending)] + instead
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        root = word[: -len(ending)]
        if word.endswith(ending) and "v" in _shape(root):
            return _mended(root)
    return word


def _mended(root: str) -> str:
    """A root as it was before -ed or -ing: hop(p), fil(e), conflat(e)."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if len(root) > 1 and root[-1] == root[-2] and root[-1] not in "aeioulsz":
        return root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_short(root) else root


def _replaced(word: str, table: dict[str, str]) -> str:
    """The longest ending of the table that the word has, replaced where a syllable stays in front of it."""
    for length in range(min(7, len(word)), 1, -1):
        instead = table.get(word[-length:])
        if instead is not None:
            return word[:-length] + instead if _measure(word[:-length]) > 0 else word
    return word


def _stripped(word: str) -> str:
    ending = max((e for e in _STEP_4 if word.endswith(e)), key=len, default="")
    root = word.removesuffix(ending[1:] if ending in ("sion", "tion") else ending)
    return root if ending and _measure(root) > 1 else word


def _final(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _ends_short(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# -- links ------------------------------------------------------------------------------------------------------------

# `[words](address "title")`, and code blocks, which are left alone. Bounded and possessive: a page may say anything.
_LINKED = re.compile(
    r"^```.*?^```"
    r"|!?\[((?:[^\[\]\n]|\[[^\[\]\n]*\]){0,500}+)\]\([ ]?<?((?:[^()\s<>]|\([^()\s]*\)){0,4000}+)>?(?: \"[^\"\n]*\")?\)",
    re.MULTILINE | re.DOTALL,
)
_IS_ADDRESS = re.compile(r"[:/.#]")


def links(text: str) -> list[tuple[str, str]]:
    """The links of a Markdown text: their words and addresses."""
    return [(link[1], link[2]) for link in _LINKED.finditer(text) if link[2] and _IS_ADDRESS.search(link[2])]


def unlinked(text: str) -> str:
    """A Markdown text with the words of its links and without their addresses: what a reader of the page sees."""
    return _LINKED.sub(lambda link: link[1] if link[2] and _IS_ADDRESS.search(link[2]) else link[0], text)


# -- stretches of text ------------------------------------------------------------------------------------------------

_MARKS_AFTER = "\"'”’»)\\]」』）】*_"
_BORDER = re.compile(rf"[。！？；｡．…][{_MARKS_AFTER}]*|[.!?]+[{_MARKS_AFTER}]*(?=\s)|\n")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|mt|ft|vs|fig|eq|approx|ca|cf|jr|sr|no|vol|pp|ed|al|gen|col|capt|lt|rev|hon|e\.g"
    r"|i\.e|u\.s|jan|feb|mar|apr|aug|sept|sep|oct|nov|dec)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_BLOCK_START = re.compile(r"[ \t]*(?:[-*+|>#•·]|\d{1,3}[.)]\s|```|$)", re.MULTILINE)


def sentences(text: str) -> list[Span]:
    """The sentences, headings, list items and table rows of a text, without the white space around them."""
    found: list[Span] = []
    start = 0
    for border in _BORDER.finditer(text):
        if _ends_sentence(text, border):
            found.extend(_trimmed(text, start, border.end()))
            start = border.end()
    found.extend(_trimmed(text, start, len(text)))
    return found


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    part = text[start:end]
    bare = part.strip()
    if bare:
        first = start + part.index(bare)
        yield first, first + len(bare)


def _ends_sentence(text: str, border: re.Match[str]) -> bool:
    mark = border[0]
    if mark == "\n":
        return not _is_soft_break(text, border.start())
    if mark[0] != ".":
        return True
    following = text[border.end() : border.end() + 40].lstrip()
    if following[:1].islower():
        return False
    return not _ABBREVIATION.search(text, max(0, border.start() - 12), border.start() + 1)


def _is_soft_break(text: str, at: int) -> bool:
    """Whether a line break only wraps a line of prose, as plain-text files do at 60 to 100 columns: the line is that
    long, or the next goes on in lower case."""
    length = at - text.rfind("\n", 0, at) - 1
    least = 25 if text[at + 1 : at + 2].islower() else 50
    if not least <= length <= 100 or _BLOCK_START.match(text, at - length) or _BLOCK_START.match(text, at + 1):
        return False
    return text[at - 1].isascii() and text[at + 1 : at + 2].isascii()


# Where a long text is best cut: before a heading, between paragraphs, lines, sentences, words.
_CUTS = (re.compile(r"\n(?=#)"), re.compile(r"\n\s*\n"), re.compile(r"\n"), _BORDER, re.compile(r"\s"))


def passages(text: str, size: int) -> list[Span]:
    """The text in consecutive passages of about `size` characters (never over 1.25 of it) that join to the text."""
    found: list[Span] = []
    start = 0
    while len(text) - start > size * 5 // 4:
        end = _cut(text, start, size)
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def _cut(text: str, start: int, size: int) -> int:
    """The best place to cut in the second half of the next `size` characters."""
    for border in _CUTS:
        ends = [match.end() for match in border.finditer(text, start + size // 2, start + size)]
        if ends:
            return ends[-1]
    return start + size
