"""Every sentence of an answer with the passage that speaks of it best.

In: the answer, what the run read, the question (a bare answer is looked up together with its words). Out: `Citations`.
Sentences are found through an index of their words, and only the few that share most with a claim are read closely.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from venus_edge import terms
from venus_edge.citations import Citation, Citations, Mark, Quote, Text, UnreadUrl, clauses
from venus_edge.citations.claims import Claim, claims, unmarked
from venus_edge.citations.clauses import Clause, Unit
from venus_edge.citations.judge import Finding, is_anaphoric, judge, keys
from venus_edge.values import Evidence, PageReading, ToolResult

_CANDIDATES = 10  # sentences read closely for a claim
_LONGEST = 600  # characters of a sentence; a page without full stops is cut
_BACK = 6  # sentences in which the subject of a pronoun is looked for
_PARTLY = 0.4  # of a claim; less is not found
_TOO_LITTLE = "a name alone says nothing that could be looked up"


def cite(answer: str, texts: Sequence[Text], question: str = "") -> Citations:
    """The marks of an answer. Deterministic; about linear in the texts and in the answer."""
    names = frozenset[str]().union(*(clauses.middle_names(text) for text in (answer, *(t.text for t in texts))))
    library = _Library(texts, names)
    asked = clauses.read(question, names)
    found = [_cited(claim, library) for claim in claims(answer, asked, names)]
    return Citations(tuple(found), tuple(_unread(answer, texts)))


def texts_read(results: Iterable[ToolResult]) -> list[Text]:
    """What tool results brought: every page once, quotes of pages that were not kept, the lines of search results."""
    found: dict[Text, None] = {}
    for result in results:
        for reading in result.readings:
            found |= dict.fromkeys(_of_reading(reading))
        for hit in (hit for item in result.found for hit in item.hits if hit.snippet.strip()):
            found[Text(hit.url, hit.title, hit.snippet, "snippet")] = None
    return sorted(found, key=lambda text: text.origin == "snippet")


def _of_reading(reading: PageReading) -> Iterator[Text]:
    if not isinstance(reading.outcome, Evidence):
        return
    if reading.page is not None:
        yield Text(reading.page.url, reading.page.title, reading.page.full)
    else:
        yield Text(reading.url, "", reading.outcome.evidence, "evidence")


# -- what was read ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence that was read: of which text, and where in it."""

    source: int
    start: int
    end: int


class _Library:
    """The sentences of all texts, found by their words; read closely when first needed."""

    def __init__(self, texts: Sequence[Text], names: frozenset[str]) -> None:
        self.texts = texts
        self._names = names
        self._places = [_Place(i, *span) for i, text in enumerate(texts) for span in _sentences(text.text)]
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, place in enumerate(self._places):
            for term in set(terms.terms(texts[place.source].text[place.start : place.end])):
                self._having[term].append(number)
        self._titles = [keys(unit for clause in clauses.read(text.title) for unit in clause.units) for text in texts]
        self.clauses = lru_cache(maxsize=None)(self._clauses)
        self.context = lru_cache(maxsize=None)(self._context)

    def place(self, number: int) -> _Place:
        return self._places[number]

    def candidates(self, text: str) -> list[int]:
        """The sentences that share most with a text, rare words first; the earlier of equals."""
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(terms.content_terms(text)):
            having = self._having.get(term, ())
            weight = math.log(1 + len(self._places) / (1 + len(having)))
            for number in having:
                scores[number] += weight
        return heapq.nsmallest(_CANDIDATES, scores, key=lambda number: (-scores[number], number))

    def _clauses(self, number: int) -> tuple[Clause, ...]:
        place = self._places[number]
        return clauses.read(unmarked(self.texts[place.source].text[place.start : place.end]), self._names)

    def _context(self, number: int) -> frozenset[str]:
        """What the page was speaking of before a sentence: the last subject that was named, else its title."""
        source = self._places[number].source
        title = self._titles[source]
        for before in range(number - 1, max(-1, number - 1 - _BACK), -1):
            if self._places[before].source != source:
                break
            found = self.clauses(before)
            if self._is_heading(before):
                return title.union(*(clause.bag for clause in found))
            if found and found[0].has_subject:
                lead = keys(found[0].lead)
                goes_on = lead & title or all(is_anaphoric(unit) for unit in found[0].lead)
                return lead | title if goes_on else lead
        return title

    def _is_heading(self, number: int) -> bool:
        place = self._places[number]
        return self.texts[place.source].text.startswith("#", place.start)


def _sentences(text: str) -> Iterator[terms.Span]:
    """The sentences of a text, those without an end cut."""
    for start, end in terms.sentences(text):
        if end - start <= _LONGEST * 5 // 4:
            yield start, end
        else:
            yield from ((start + a, start + b) for a, b in terms.passages(text[start:end], _LONGEST))


# -- the two together -------------------------------------------------------------------------------------------------

_Best = tuple[Finding, int]


def _cited(claim: Claim, library: _Library) -> Citation:
    whole = _best(claim.clauses, library, claim.is_bare)
    if whole is None:
        return Citation(claim.start, claim.end, "not found", (), ("nothing that was read speaks of it",))
    if not whole[0].is_support and (parts := _by_parts(claim, library)):
        quotes = tuple(dict.fromkeys(_quote(number, library) for _, number in parts))
        return Citation(claim.start, claim.end, "supported", quotes)
    finding, number = whole
    if max(finding.coverage, finding.topic) < _PARTLY:
        return Citation(claim.start, claim.end, "not found", (), ("nothing that was read speaks of it",))
    reasons = (_TOO_LITTLE,) if finding.is_support and claim.says_little else finding.reasons
    mark: Mark = "partly" if reasons else "supported"
    return Citation(claim.start, claim.end, mark, (_quote(number, library),), reasons)


def _best(claim: Sequence[Clause], library: _Library, is_bare: bool = False) -> _Best | None:
    """The sentence that bears the claim out best; pages before quotes before search results."""
    text = " ".join(unit.text for clause in claim for unit in clause.units)
    text += " " + " ".join(amount.text for clause in claim for amount in clause.amounts)
    found = [
        (judge(claim, library.clauses(number), library.context(number), is_bare), number)
        for number in library.candidates(text)
    ]
    return max(found, key=lambda best: (best[0].rank, -best[1]), default=None)


def _by_parts(claim: Claim, library: _Library) -> list[_Best]:
    """The best sentence for each clause of a claim that says several things, if all are borne out; else nothing."""
    if len(claim.clauses) < 2 or claim.is_bare:
        return []
    found = []
    for clause in _with_subject(claim.clauses):
        best = _best([clause], library)
        if best is None or not best[0].is_support:
            return []
        found.append(best)
    return found


def _with_subject(parts: Sequence[Clause]) -> Iterator[Clause]:
    """Each clause with the subject that it takes over from the ones before it."""
    subject: tuple[Unit, ...] = ()
    for part in parts:
        if part.has_subject or not subject:
            subject = part.lead
            yield part
        else:
            yield replace(part, units=(*subject, *part.units), bag=part.bag | keys(subject), lead=())


def _quote(number: int, library: _Library) -> Quote:
    place = library.place(number)
    text = library.texts[place.source]
    return Quote(
        place.source, text.url, text.title, place.start, place.end, text.text[place.start : place.end], text.origin
    )


# -- addresses --------------------------------------------------------------------------------------------------------

_URL = re.compile(r"https?://[^\s<>\"'|`，。；、）】」》]+", re.IGNORECASE)


def _unread(answer: str, texts: Sequence[Text]) -> Iterator[UnreadUrl]:
    read = {_address(text.url) for text in texts if text.origin != "snippet"}
    listed = {_address(text.url) for text in texts}
    for match in _URL.finditer(answer):
        url = _trimmed(match[0])
        if _address(url) not in read:
            yield UnreadUrl(match.start(), match.start() + len(url), url, _address(url) in listed)


def _trimmed(url: str) -> str:
    """An address without the sentence's marks at its end, and without a bracket that it did not open."""
    url = url.rstrip(".,;:!?*_")
    while url.endswith((")", "]")) and url.count(")") + url.count("]") > url.count("(") + url.count("["):
        url = url[:-1].rstrip(".,;:!?*_")
    return url


def _address(url: str) -> str:
    """What two spellings of an address share."""
    return re.sub(r"^https?://(?:www\.)?", "", url.partition("#")[0], flags=re.IGNORECASE).rstrip("/").casefold()
