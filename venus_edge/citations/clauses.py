"""SENTENCE -> CLAUSES of units: what a sentence says, in pieces that another sentence can be asked for. Pure.

In: the text of one sentence. Out: its clauses, each with its units (names, words, stretches of Chinese), its amounts,
its lead (what it is about), what in it is denied, and whether it is only said to be so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal

from venus_edge import terms
from venus_edge.citations import lexicon, numbers
from venus_edge.citations.numbers import BLANK, Amount

Kind = Literal["name", "word", "chunk", "voice"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a clause. `key` is what it is compared by: a name folded behind "'", a word's stem or the name of its
    group of synonyms, a stretch of Chinese as it stands; `text` is for the person. `is_carried` if a pronoun stood
    for it."""

    kind: Kind
    key: str
    text: str
    denied: bool = False
    is_weak: bool = False
    is_carried: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """`bag` holds every key of the clause, and the one- and two-character pieces of its Chinese; `lead` is what stands
    before its verb; `is_anaphoric` if that only points back ("it", "this line"); `plain` is the text without its
    amounts."""

    units: tuple[Unit, ...]
    amounts: tuple[Amount, ...]
    bag: frozenset[str]
    lead: tuple[Unit, ...] = ()
    is_anaphoric: bool = False
    is_hedged: bool = False
    plain: str = ""

    @property
    def has_subject(self) -> bool:
        """Whether it names what it is about."""
        return bool(self.lead) and not self.is_anaphoric

    @property
    def names(self) -> frozenset[str]:
        return frozenset(unit.key for unit in self.units if unit.kind == "name")


@dataclass
class _Reading:
    """The units of a clause while it is read."""

    units: list[Unit] = field(default_factory=list)
    lead: list[Unit] = field(default_factory=list)
    denied: bool = False
    in_lead: bool = True
    is_anaphoric: bool = False
    has_verb: bool = False
    before: str = ""

    def add(self, unit: Unit) -> None:
        self.units.append(unit)
        if self.in_lead and unit.kind != "voice":
            self.lead.append(unit)


# Where a sentence comes apart: marks, "while", "but", and an "and" that a verb, an article or a figure follows.
_AND = (
    r"\s(?:and|und)\s(?=(?:\w+ed|was|were|is|are|has|had|have|cost|the|its|it|he|she|they|a|an|died|began|became|lies|stands|"
    r"holds|won|lost|carries|serves|feeds|rose|fell|sold|led|made|took|gave|wrote)\b)|(?<=[^\d\s])\sand\s(?=\d)"
    r"|\sand\s(?=(?:[A-Z]\w+\s){1,3}(?:was|were|is|are|has|had|\w+ed)\b)"
    r"|\sand\s(?=\w+s\s(?:at|in|on|by|to|from|the|an?|with)\b)"
)
_BORDER = re.compile(
    rf"[;；，、。：—]|,(?=\s)(?!\s*\d{{4}}\b)|[:!?](?=\s|$)|\s–\s|\s(?:while|whereas|but|although|though|which|who)\s|{_AND}"
)
_LISTED = re.compile(  # names that go on with a list
    r"\s+(?:(?:and|or)\s+)?[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*(?=,\s|[.!?]|$|\s(?:and|or)\s[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*(?:[.!?,]|$))"
)
_APPOSED = re.compile(r"\s*(?:an?|who|which|where|whose)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+\S+$|\bfrom\s+\S+$", re.IGNORECASE)
_TOKEN = re.compile(
    rf"{BLANK}|[{terms.UNSPACED}]+|(?:(?![{terms.UNSPACED}])[^\W_])+(?:['’](?:s|t|re|ll|ve|d)\b)?", re.IGNORECASE
)
_ACRONYM = re.compile(r"\b(?:[A-Z][a-z]+\s+(?:of\s+|for\s+|the\s+|and\s+|on\s+)*){2,}[A-Z][a-z]+\b")
_MIDDLE_NAME = re.compile(r"(?<=[a-z,;:)\d]\s)[A-Z][\w]+")


def middle_names(text: str) -> frozenset[str]:
    """The words that a text writes with a capital within a sentence: names even where they begin one."""
    return frozenset(terms.fold(word) for word in _MIDDLE_NAME.findall(text))


def read(sentence: str, known_names: Collection[str] = ()) -> tuple[Clause, ...]:
    """The clauses of a sentence, in its order; those that say nothing are left out."""
    found = []
    for number, part in enumerate(_parts(sentence)):
        clause = _clause(part, number == 0, known_names)
        if clause.units or clause.amounts:
            found.append(clause)
    return tuple(found)


def _parts(sentence: str) -> Iterator[str]:
    start = 0
    for border in _BORDER.finditer(sentence):
        if _BETWEEN.search(sentence[start : border.start()]) or (
            border[0] == "," and _LISTED.match(sentence, border.end())
        ):
            continue
        yield sentence[start : border.start()]
        start = border.end()
    yield sentence[start:]


def _clause(text: str, is_first: bool, known_names: Collection[str]) -> Clause:
    amounts, rest = numbers.read(text)
    is_apposed = not is_first and bool(_APPOSED.match(rest))
    reading = _Reading(is_anaphoric=bool(lexicon.HAN_PRONOUN.match(rest)))
    negations = not lexicon.NOT_NEGATING.search(rest)
    tokens = list(_TOKEN.finditer(rest))
    for i, match in enumerate(tokens):
        token = match[0]
        if token == BLANK:
            reading.in_lead = False
        elif token.isascii() or not terms.is_unspaced(token):
            following = tokens[i + 1][0] if i + 1 < len(tokens) else ""
            _read_word(reading, token, following, is_first and i == 0, known_names, negations)
        else:
            _read_han(reading, token + (BLANK if rest[match.end() : match.end() + 2].strip() == BLANK else ""))
    kinds = {unit.kind for unit in reading.lead}
    is_predicate = not is_first and (
        (not reading.has_verb and kinds == {"word"}) or (reading.in_lead and "name" not in kinds)
    )
    lead = () if is_apposed or is_predicate else tuple(reading.lead)
    bag, is_hedged = _bag(rest, reading.units), bool(lexicon.HEDGES.search(rest))
    return Clause(tuple(reading.units), amounts, bag, lead, reading.is_anaphoric, is_hedged, rest)


# -- English and its like ---------------------------------------------------------------------------------------------


def _read_word(
    reading: _Reading, token: str, following: str, is_initial: bool, known_names: Collection[str], negations: bool
) -> None:
    word = terms.fold(re.sub(r"['’]s?$|['’]s$", "", token)) if not token.lower().endswith("n't") else "not"
    if negations and word in lexicon.NEGATORS:
        reading.denied = True
        return
    if word in lexicon.PRONOUNS and not reading.units:
        reading.is_anaphoric = True
    if word in ("by", "than", "to"):
        reading.add(Unit("voice", word, token))
    if word in lexicon.VERBS or word in lexicon.PREPOSITIONS or _is_past(token, following):
        reading.in_lead = False
        reading.has_verb |= word not in lexicon.PREPOSITIONS
    before, reading.before = reading.before, word
    if _is_name(token, word, following, is_initial, known_names):
        reading.add(Unit("name", f"'{word}", token))
    elif word not in terms.STOPWORDS or word in lexicon.TELLING:
        key = word_key(word)
        if len(word) > 1 or word.isdigit():
            is_denied = reading.denied or (before in lexicon.NTHS and bool(lexicon.SUPERLATIVE.match(word)))
            reading.add(Unit("word", key, token, is_denied, key in lexicon.WEAK))


def _is_past(token: str, following: str) -> bool:
    """Whether a word is a verb in -ed; one that begins a sentence is if a preposition follows ("Founded in")."""
    is_verb = token[0].islower() or following.lower() in lexicon.PREPOSITIONS
    return len(token) > 4 and token.endswith("ed") and is_verb


def word_key(word: str) -> str:
    stem = terms.stem(word)
    return lexicon.SAME.get(stem, stem)


def _is_name(token: str, word: str, following: str, is_initial: bool, known_names: Collection[str]) -> bool:
    if not any(letter.isupper() for letter in token):
        return False
    shouted = token.isupper() and len(token) > 1
    if word in terms.STOPWORDS and not shouted:
        return False
    if not is_initial or shouted or word in known_names or not token[1:].islower():
        return len(word) > 1 or shouted or not is_initial
    return following[:1].isupper() and terms.fold(following) not in terms.STOPWORDS


# -- Chinese and its like ---------------------------------------------------------------------------------------------


def _read_han(reading: _Reading, run: str) -> None:
    """A run, cut where words of a known group, negations, function characters and voices stand."""
    at = 0
    for match in _HAN_CUT.finditer(run):
        _add_chunk(reading, run[at : match.start()])
        at = match.end()
        _read_han_mark(reading, match)
    _add_chunk(reading, run[at:])


def _read_han_mark(reading: _Reading, match: re.Match[str]) -> None:
    text = match[0]
    if match.lastgroup and match.lastgroup.startswith("g"):
        reading.in_lead = False
        reading.add(
            Unit("word", lexicon.HAN_GROUPS[int(match.lastgroup[1:])], text, reading.denied, match.lastgroup == _LOCATE)
        )
    elif match.lastgroup == "nth":
        reading.add(Unit("word", text, text, reading.denied))
    elif match.lastgroup == "no":
        reading.denied = True
        reading.in_lead = False
    elif lexicon.HAN_VOICE.match(text):
        reading.in_lead = False
        reading.add(Unit("voice", text, text))
    elif text in "是为在于有将位":
        reading.in_lead = False


_LOCATE = f"g{lexicon.HAN_GROUPS.index('=locate')}"
_HAN_CUT = re.compile(
    f"{lexicon.HAN_SAME_PATTERN.pattern}|(?P<weak>{lexicon.HAN_WEAK.pattern})|(?P<no>{lexicon.HAN_NEGATOR.pattern})"
    "|(?P<nth>第[一二三四五六七八九十百]+)"
    f"|{lexicon.HAN_FUNCTION.pattern}|{lexicon.HAN_VOICE.pattern}|{BLANK}"
)


def _add_chunk(reading: _Reading, text: str) -> None:
    if text:
        reading.add(Unit("chunk", text, text, reading.denied))


# -- what a unit is looked up in --------------------------------------------------------------------------------------


def _bag(rest: str, units: list[Unit]) -> frozenset[str]:
    found = {unit.key for unit in units if unit.kind != "chunk"}
    for match in _TOKEN.finditer(rest):
        token = match[0]
        if token.isascii() or not terms.is_unspaced(token):
            word = terms.fold(re.sub(r"['’]s?$|['’]s$", "", token))
            found |= {f"'{word}", word_key(word)}
        else:
            found |= {*token, *terms.pieces(token)}
    for phrase in _ACRONYM.findall(rest):
        found.add("'" + "".join(word[0] for word in phrase.split() if word[0].isupper()).lower())
    return frozenset(found)


def stands(unit: Unit, bag: Collection[str]) -> bool:
    """Whether a bag has the unit: all of it."""
    if unit.kind != "chunk":
        return unit.key in bag
    return not missing_part(unit.key, bag)


def out_of_order(chunk: str, plain: str) -> bool:
    """Whether a text has a stretch of Chinese in pieces, and a later piece before an earlier one."""
    if len(chunk) < 4 or chunk in plain:
        return False
    places, at = [], 0
    while at < len(chunk) - 1:
        end = next((end for end in range(len(chunk), at + 1, -1) if chunk[at:end] in plain), at)
        if end > at:
            places.append(plain.index(chunk[at:end]))
        at = max(end, at + 1)
    return places != sorted(places)


def missing_part(chunk: str, bag: Collection[str]) -> str:
    """The characters of a stretch of Chinese that no two-character piece of a bag covers."""
    if len(chunk) == 1:
        return "" if chunk in bag else chunk
    covered = [False] * len(chunk)
    for i in range(len(chunk) - 1):
        if chunk[i : i + 2] in bag:
            covered[i] = covered[i + 1] = True
    return "".join(character for character, has in zip(chunk, covered, strict=True) if not has)
