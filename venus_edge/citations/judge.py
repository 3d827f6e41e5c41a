"""CLAIM x PASSAGE -> FINDING: whether a sentence that was read bears out a sentence of an answer. Pure.

In: the clauses of both, and what the passage's page was speaking of. Out: how much of the claim is there, and why it
is not borne out: what is missing, what is said of something else, turned round, denied, or only planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from venus_edge import terms
from venus_edge.citations import lexicon, numbers
from venus_edge.citations.clauses import Clause, Unit, missing_part, out_of_order, stands
from venus_edge.citations.numbers import Amount

_ENOUGH = 0.75  # of a claim's plain words; its names, numbers and Chinese must all be there
_ENOUGH_OF_QUESTION = 0.6  # a bare answer is looked up together with the question's words
_NAME, _AMOUNT, _WORD, _WEAK = 2.0, 3.0, 1.0, 0.25  # what a piece counts


@dataclass(frozen=True, slots=True)
class Finding:
    """`coverage` of the claim from 0 to 1, and `topic`, the same without its numbers; the claim is borne out if there
    is no reason against it."""

    coverage: float
    topic: float
    reasons: tuple[str, ...]

    @property
    def is_support(self) -> bool:
        return not self.reasons

    @property
    def rank(self) -> float:
        return self.coverage - 0.04 * min(len(self.reasons), 5) + (1 if self.is_support else 0)


def judge(
    claim: Sequence[Clause], passage: Sequence[Clause], context: frozenset[str], is_bare: bool = False
) -> Finding:
    """What a passage says to a claim. `context` are the keys of what the page was speaking of before; `is_bare` if the
    claim is a bare answer that was joined with its question."""
    subject = context if _speaks_of(passage, claim, context) else frozenset[str]()
    whole = subject.union(*(clause.bag for clause in passage))
    view = _View(tuple(passage), _effective(passage, subject), whole, subject)
    reasons = list(_missing(claim, view, is_bare))
    if not reasons:  # what is all there may still be said otherwise
        reasons = [*_turned(claim, view), *_misbound(claim, view), *_swapped(claim, view)]
    return Finding(*_coverage(claim, view), tuple(dict.fromkeys(reasons)))


@dataclass(frozen=True, slots=True)
class _View:
    """The passage as it is asked: its clauses, the bag of each with the subject carried into it, one of all, and what
    the page was speaking of."""

    clauses: tuple[Clause, ...]
    bags: tuple[frozenset[str], ...]
    bag: frozenset[str]
    subject: frozenset[str]

    def amounts(self) -> Iterator[Amount]:
        return (amount for clause in self.clauses for amount in clause.amounts)

    def having(self, unit: Unit) -> list[int]:
        """The clauses that have a unit, the carried subject counted in."""
        return [i for i, bag in enumerate(self.bags) if stands(unit, bag)]


# -- what the passage is about ----------------------------------------------------------------------------------------


def _speaks_of(passage: Sequence[Clause], claim: Sequence[Clause], context: frozenset[str]) -> bool:
    """Whether the passage goes on about what the page was speaking of: it names no subject of its own."""
    if not passage or passage[0].is_anaphoric:
        return True
    known = context.union(*(clause.bag for clause in claim))
    return all(stands(unit, known) or is_anaphoric(unit) for unit in passage[0].lead)


def is_anaphoric(unit: Unit) -> bool:
    return unit.is_weak or unit.key in lexicon.ANAPHORA


def _effective(passage: Sequence[Clause], subject: frozenset[str]) -> tuple[frozenset[str], ...]:
    """Each clause's bag with the subject that it takes over from the clauses before it."""
    found = []
    for clause in passage:
        goes_on = clause.is_anaphoric or all(is_anaphoric(unit) for unit in clause.lead)
        subject = (subject if goes_on else frozenset()) | keys(clause.lead)
        found.append(clause.bag | subject)
    return tuple(found)


def keys(units: Iterable[Unit]) -> frozenset[str]:
    """What a bag has of units alone."""
    found: set[str] = set()
    for unit in units:
        found |= {*unit.key, *terms.pieces(unit.key)} if unit.kind == "chunk" else {unit.key}
    return frozenset(found)


# -- what is not there ------------------------------------------------------------------------------------------------


def _plain(claim: Iterable[Clause]) -> list[Unit]:
    return [unit for clause in claim for unit in clause.units if unit.kind != "voice" and not unit.is_weak]


def _missing(claim: Sequence[Clause], view: _View, is_bare: bool) -> Iterator[str]:
    units = _plain(claim)
    if not any(unit.kind != "voice" and stands(unit, view.bag) for unit in units):
        yield "the passage does not say what of"
    for amount in (amount for clause in claim for amount in clause.amounts):
        if not any(numbers.same(amount, read) for read in view.amounts()):
            yield f"{amount.text} is not in the passage"
    for unit in units:
        strict = unit.kind != "word" or lexicon.SUPERLATIVE.match(unit.text.lower())
        if strict and not stands(unit, view.bag):
            yield f"{unit.text} is not in the passage"
    words = [unit for unit in units if unit.kind == "word"]
    absent = [unit.text for unit in words if not stands(unit, view.bag)]
    if len(words) - len(absent) < (_ENOUGH_OF_QUESTION if is_bare else _ENOUGH) * len(words):
        yield from (f"{text} is not in the passage" for text in absent)


def _coverage(claim: Sequence[Clause], view: _View) -> tuple[float, float]:
    """How much of the claim the passage has: of all, and of what is no number."""
    shares = [_share(unit, view.bag) for clause in claim for unit in clause.units]
    amounts = [amount for clause in claim for amount in clause.amounts]
    have = sum(weight * share for weight, share in shares)
    total = sum(weight for weight, _ in shares)
    borne_out = sum(any(numbers.same(amount, read) for read in view.amounts()) for amount in amounts)
    everything = total + _AMOUNT * len(amounts)
    return (have + _AMOUNT * borne_out) / everything if everything else 0.0, have / total if total else 0.0


def _share(unit: Unit, bag: frozenset[str]) -> tuple[float, float]:
    """What a unit counts, and how much of it is in a bag."""
    if unit.kind == "voice":
        return 0.0, 0.0
    if unit.is_carried:
        return _WEAK, float(stands(unit, bag))
    if unit.kind == "chunk":
        return len(unit.key) / 2, 1 - len(missing_part(unit.key, bag)) / len(unit.key)
    weight = _NAME if unit.kind == "name" else _WEAK if unit.is_weak else _WORD
    return weight, float(stands(unit, bag))


# -- what is said otherwise -------------------------------------------------------------------------------------------


def _turned(claim: Sequence[Clause], view: _View) -> Iterator[str]:
    """The opposite said, denied on one side only, or only planned or said to be so."""
    for unit in _plain(claim):
        opposite = lexicon.OPPOSITE.get(unit.key, frozenset()) & view.bag
        if opposite and unit.key not in view.bag:
            yield f"the passage says the opposite of {unit.text}"
        denials = {other.denied for clause in view.clauses for other in clause.units if _same_unit(unit, other)}
        if denials and unit.denied not in denials:
            yield f"the passage {'affirms' if unit.denied else 'denies'} {unit.text}"
    if not any(clause.is_hedged for clause in claim) and any(_only_said(clause, claim) for clause in view.clauses):
        yield "the passage does not say it for certain"


def _only_said(clause: Clause, claim: Sequence[Clause]) -> bool:
    return clause.is_hedged and any(stands(unit, clause.bag) for unit in _plain(claim))


def _same_unit(unit: Unit, other: Unit) -> bool:
    """Whether two units are one; of two stretches of Chinese, whether one has all of the other."""
    if "chunk" in (unit.kind, other.kind):
        halves = ((unit, other), (other, unit))
        return unit.kind == other.kind and any(not missing_part(a.key, keys([b])) for a, b in halves)
    return unit.key == other.key and unit.kind != "voice"


# -- what is said of something else -----------------------------------------------------------------------------------


def _misbound(claim: Sequence[Clause], view: _View) -> Iterator[str]:
    for clause in claim:
        units = _plain([clause])
        names = frozenset(unit.key for unit in units if unit.kind == "name") & view.bag
        for amount in clause.amounts:
            yield from _amount_elsewhere(amount, clause, names, view)
        if names:
            yield from _names_elsewhere(units, names, view)
        yield from _apart(units, view)
        yield from _subject_elsewhere(clause, view)


def _amount_elsewhere(amount: Amount, claim: Clause, names: frozenset[str], view: _View) -> Iterator[str]:
    """Words of the claim that the passage says only of another amount of the kind; an amount said of other names."""
    has = [any(numbers.same(amount, read) for read in clause.amounts) for clause in view.clauses]
    if not any(has):
        return
    rival = [any(_is_rival(amount, read, claim) for read in clause.amounts) for clause in view.clauses]
    for unit in _plain([claim]):
        where = view.having(unit)
        if where and all(rival[i] and not has[i] for i in where):
            yield f"the passage says {unit.text} of another number than {amount.text}"
    there = [i for i, has_it in enumerate(has) if has_it]
    if names and all(_is_of_others(i, names, view) for i in there):
        yield f"the passage says {amount.text} of something else"


def _is_rival(amount: Amount, read: Amount, claim: Clause) -> bool:
    """Whether what was read could be mistaken for an amount of the claim, and is none of its others."""
    return numbers.rivals(amount, read) and not any(numbers.same(other, read) for other in claim.amounts)


def _names_elsewhere(units: Sequence[Unit], names: frozenset[str], view: _View) -> Iterator[str]:
    """Words of the claim that the passage says only of other names."""
    for unit in units:
        where = view.having(unit)
        if unit.kind == "word" and where and all(_is_of_others(i, names, view) for i in where):
            yield f"the passage says {unit.text} of somebody or something else"


def _is_of_others(i: int, names: frozenset[str], view: _View) -> bool:
    """Whether a clause has names, and none of these."""
    return bool(view.clauses[i].names) and names.isdisjoint(view.bags[i])


def _apart(units: Sequence[Unit], view: _View) -> Iterator[str]:
    """Chinese that stands together in the claim and never in one clause of the passage."""
    for unit in units:
        if unit.kind == "chunk" and not any(stands(unit, bag | view.subject) for bag in view.bags):
            yield f"the passage does not say {unit.text} in one"
    for one, other in pairwise(units):
        if "chunk" not in (one.kind, other.kind):
            continue
        first, second = view.having(one), view.having(other)
        if first and second and not set(first) & set(second):
            yield f"the passage does not say {other.text} of {one.text}"


def _subject_elsewhere(claim: Clause, view: _View) -> Iterator[str]:
    """Words of the claim that the passage says only of another subject, though the claim's own is in it."""
    lead = [unit for unit in claim.lead if not unit.is_weak]
    if not any(view.having(unit) for unit in lead):
        return
    for unit in (unit for unit in _plain([claim]) if unit.kind == "word" and unit not in lead):
        where = view.having(unit)
        if where and all(view.clauses[i].has_subject and not _has_any(lead, view.bags[i]) for i in where):
            yield f"the passage says {unit.text} of another subject"


def _has_any(units: Iterable[Unit], bag: frozenset[str]) -> bool:
    return any(stands(unit, bag) for unit in units)


# -- who did it to whom -----------------------------------------------------------------------------------------------


def _swapped(claim: Sequence[Clause], view: _View) -> Iterator[str]:
    for clause in claim:
        for other in view.clauses:
            if pivot := next(_pivots_turned(clause, other), None):
                yield f"the passage has the two sides of {pivot} the other way round"
    for unit in _plain(claim):
        where = view.having(unit) if unit.kind == "chunk" else []
        if where and all(out_of_order(unit.key, view.clauses[i].plain) for i in where):
            yield f"the passage has the words of {unit.text} in another order"


def _pivots_turned(clause: Clause, other: Clause) -> Iterator[str]:
    """The words with names on both sides that stand on the other side in the passage, the passive voice allowed for."""
    for i, unit in enumerate(clause.units):
        for j, read in enumerate(other.units):
            if unit.kind in ("word", "voice") and (unit.kind, unit.key) == (read.kind, read.key):
                ours, theirs = _sides(clause.units, i), _sides(other.units, j)
                if _is_passive(clause.units, i) != _is_passive(other.units, j):
                    theirs = replace(theirs, left=theirs.right, right=theirs.left)
                if _is_turned(ours, theirs):
                    yield unit.text


@dataclass(frozen=True, slots=True)
class _Sides:
    left: tuple[Unit, ...]
    right: tuple[Unit, ...]


def _sides(units: Sequence[Unit], at: int) -> _Sides:
    named = [
        [unit for unit in part if unit.kind in ("name", "chunk") or unit.text[0].isupper()]
        for part in (units[:at], units[at + 1 :])
    ]
    return _Sides(tuple(named[0]), tuple(named[1]))


def _is_passive(units: Sequence[Unit], at: int) -> bool:
    """Whether "by" follows at once."""
    return at + 1 < len(units) and units[at + 1].key == "by"


def _is_turned(ours: _Sides, theirs: _Sides) -> bool:
    return _some_only(ours.left, theirs.right, theirs.left) and _some_only(ours.right, theirs.left, theirs.right)


def _some_only(units: Iterable[Unit], here: Sequence[Unit], not_there: Sequence[Unit]) -> bool:
    return any(
        any(_same_unit(unit, other) for other in here) and not any(_same_unit(unit, other) for other in not_there)
        for unit in units
    )
