"""ANSWER -> CLAIMS: the sentences of an answer that say something, in clauses. Pure.

In: the answer's Markdown, and the clauses of the question. Out: each sentence, list item and table row that claims
something, its markup gone, a pronoun's subject put in, a bare answer joined with what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from venus_edge import terms
from venus_edge.citations import clauses
from venus_edge.citations.clauses import Clause, Unit
from venus_edge.citations.judge import keys

_MARKUP = re.compile(
    r"(?P<link>!?\[(?P<label>[^\]\n]*)\]\((?P<target>[^)\s]*)[^)\n]*\))|<?https?://[^\s<>|)\]，。；、）】]+>?"
    r"|\[\^?\d[\d,\s]*\]|【[^】\n]{1,20}】|</?[a-zA-Z][^<>\n]*>|\*+|`+|~~|(?<!\w)_+|_+(?!\w)|\|"
    r"|^\s*(?:[-+•·]\s|>+|#{1,6}\s|\d{1,3}[.)](?:\s|$)|（\d+）)"
)
_ONLY_LINK = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])?\s*(?:\[[^\]\n]*\]\([^)\n]*\)|<?https?://\S+)\s*[.,;]?\s*")
_ALL_BOLD = re.compile(r"\s*(?:\d{1,3}[.)]\s*)?(\*\*|__)(?:(?!\1).)+(?<![.!?。！？])\1:?\s*")
_NUMBERING = re.compile(r"\W*\d{1,3}[.)、]\W*")
_OF_ITSELF = re.compile(r"\W*(?:(?:now|so|thus|then|therefore)\W+)?(?:I|we|let us|let['’]s|let me)\b(?!\.)|我们?|让我")
_POINTS_BACK = re.compile(r"\W*(?:(?:it|he|she|they|its|his|her|their)\b|[它其他她](?!他|余|中|它))", re.IGNORECASE)
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\||$)")
_OPENING = re.compile(  # what says where a claim is from, or that it is the answer
    r"^\W*(?:according to (?:the|this|that) (?:page|source|article|text|website|document)\W"
    r"|(?:(?:so|thus|therefore|hence)\W+)?(?:the )?(?:final |correct )?(?:answer|conclusion|summary|result)"
    r"(?: is\b|\W*[:：])\W*|(?:因此\W*)?(?:最终)?答案(?:是|为|[:：]))",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^(?:```|~~~).*?(?:^(?:```|~~~)\s*$|\Z)", re.MULTILINE | re.DOTALL)
_LONGEST_NAME = 5  # characters of a name in Chinese; a longer stretch may be a sentence
_LOWER = re.compile(r"\b(?!(?:of|the|and|de|du|la|van|von|der|al|bin)\b)[a-z]{2,}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the answer, in clauses; `is_bare` if the question's words were joined to it, `says_little` if it is
    a name or a number and there is no question."""

    start: int
    end: int
    clauses: tuple[Clause, ...]
    is_bare: bool = False
    says_little: bool = False


def claims(answer: str, asked: Sequence[Clause], names: frozenset[str]) -> Iterator[Claim]:
    """The claims of an answer, in its order. `names` are the words that are known to be names."""
    fences = [match.span() for match in _FENCE.finditer(answer)]
    subject: tuple[Unit, ...] = ()
    for start, end in terms.sentences(answer):
        if any(begin <= start < stop for begin, stop in fences) or _says_nothing(answer, start, end):
            continue
        text = _OPENING.sub(" ", unmarked(_cells_apart(answer[start:end])))
        found = clauses.read(text, names)
        if not _weight(found):
            continue
        if _POINTS_BACK.match(text):
            found = (_about(found[0], subject), *found[1:])
        elif found[0].has_subject:
            subject = tuple(unit for unit in found[0].lead if unit.kind in ("name", "chunk"))
        if not _is_bare(text, found):
            yield Claim(start, end, found)
        elif asked:
            yield Claim(start, end, (_joined(found, asked),), is_bare=True)
        else:
            yield Claim(start, end, found, says_little=True)


def _weight(found: Sequence[Clause]) -> int:
    """How many pieces of a sentence say something; one word alone is none, one name or number is."""
    units = [unit for clause in found for unit in clause.units if not unit.is_weak and unit.kind != "voice"]
    amounts = sum(len(clause.amounts) for clause in found)
    return 0 if not amounts and len(units) == 1 and units[0].kind == "word" else len(units) + amounts


def _about(clause: Clause, subject: Sequence[Unit]) -> Clause:
    """A clause that starts with a pronoun, with what it stands for."""
    carried = tuple(replace(unit, is_carried=True) for unit in subject)
    return replace(clause, units=(*carried, *clause.units), bag=clause.bag | keys(carried))


def unmarked(text: str) -> str:
    """A text with its Markdown, addresses and note numbers blanked; nothing else moves."""
    return _MARKUP.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    label = match["label"]
    if label is None:
        return " " * len(match[0])
    before = match.start("label") - match.start()
    return " " * before + label + " " * (len(match[0]) - before - len(label))


def _cells_apart(text: str) -> str:
    """A table row with marks between its cells: each is a clause, said of the first."""
    return re.sub(r"(?<=.)\|(?=.)", ";", text.strip("|")) if text.startswith("|") else text


def _says_nothing(answer: str, start: int, end: int) -> bool:
    """A heading, a lone link or number, the rule or the head of a table, the announcement of a list, and what the
    assistant says of itself."""
    text = answer[start:end]
    is_head = text.startswith("|") and bool(_TABLE_RULE.match(answer[end : end + 200].lstrip(" |").removeprefix("\n")))
    announces = text.rstrip("*_ ").endswith((":", "：")) and not re.search(r"\d", text)
    is_mark = (
        text.startswith("#") or _ONLY_LINK.fullmatch(text) or _TABLE_RULE.match(text) or _NUMBERING.fullmatch(text)
    )
    return bool(is_mark or is_head or announces or _is_title(answer, start, end) or _OF_ITSELF.match(text))


def _is_title(answer: str, start: int, end: int) -> bool:
    """Whether the line is all bold, neither the first nor the last: a heading in all but name."""
    first = answer.rfind("\n", 0, start) + 1
    last = answer.find("\n", end)
    return bool(
        last >= 0 and answer[:first].strip() and answer[last:].strip() and _ALL_BOLD.fullmatch(answer[first:last])
    )


def _is_bare(text: str, found: Sequence[Clause]) -> bool:
    """A name or a number and no word that says what of it."""
    units = [unit for clause in found for unit in clause.units]
    if any(clause.amounts for clause in found):
        return all(unit.is_weak for unit in units)
    if {unit.kind for unit in units} == {"chunk"}:
        return len(units) == 1 and len(units[0].key) <= _LONGEST_NAME
    return all(unit.kind == "name" for unit in units) and not _LOWER.search(text)


def _joined(found: Sequence[Clause], asked: Sequence[Clause]) -> Clause:
    """A bare answer and what was asked, as one clause; the question's names are words here, since a long question names
    much that no single passage does."""
    units = [unit for clause in found for unit in clause.units]
    amounts = [amount for clause in found for amount in clause.amounts]
    have = {unit.key for unit in units}
    context = [word for clause in asked for unit in clause.units if unit.key not in have for word in _as_words(unit)]
    bag = frozenset[str]().union(*(clause.bag for clause in (*found, *asked)))
    return Clause((*units, *context), tuple(amounts), bag)


def _as_words(unit: Unit) -> list[Unit]:
    if unit.kind == "voice":
        return []
    texts = terms.pieces(unit.key) if unit.kind == "chunk" else [unit.key]
    return [replace(unit, kind="word", key=text, text=text.lstrip("'")) for text in texts]
