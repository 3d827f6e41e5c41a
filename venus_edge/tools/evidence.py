"""PAGE + GOAL -> EVIDENCE AND SUMMARY, quoted from the page.

In: a page and what the model wants from it. Out: `Evidence` whose quotes stand in the page as a reader sees it
(`shown`: without the addresses of its links). `ExtractiveReader` ranks the page's own passages and calls no model;
`ModelReader` lets the model read the best of them, checks every quote, and falls back to the first. Fetching pages and
wording replies is elsewhere.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from venus_edge import terms
from venus_edge.engine import Engine, Request, Sampling
from venus_edge.protocol import Piece, Trust, prompt, rendering
from venus_edge.tools import Reader
from venus_edge.values import Evidence, Page

VERSION = 2  # of what readers make of a page: what is kept of an earlier one is read again
BUDGET = 2_000  # characters of evidence: about 500 tokens of English, what the released replies have (PROTOCOL 5)
GAP = "\n...\n"  # between passages that do not follow on each other

# Words of a goal that say what to do with the page, not what to look for in it.
_ASKING_WORDS = """
find information about detail details identify determine verify check page article whether extract
look confirm provide list mention mentioned mentions get know learn read related relevant specific tell please
understand search figure website content any given exact
"""
_ASKING = frozenset(terms.stem(word) for word in _ASKING_WORDS.split())
# A question's adjective and the noun that a page answers it with.
_NOUNS = {
    "tall": "height", "high": "height", "long": "length", "wide": "width", "deep": "depth", "heavi": "weight",
    "far": "distanc", "old": "ag", "made": "materi", "built": "materi", "big": "size", "larg": "size",
    "expens": "price",
}  # fmt: skip
_QUANTITY = re.compile(
    r"\b(?:when|year|date|how (?:many|much|tall|long|high|old|far|big|large|deep|wide|heavy)|number|height|length|"
    r"width|depth|weight|distance|age|size|price|cost|population|percent\w*|rate|amount|total|count|area|speed|capacity|born|"
    r"died|century|duration|temperature|score)\b"
    r"|何时|何時|什么时候|哪年|哪一年|年份|日期|时间|多少|几|多高|多长|多大|高度|长度|面积|人口|数量|价格|いつ|何年|幾|얼마|언제|몇",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d|[一二三四五六七八九十百千万亿]{2,}")
_HEADING = re.compile(r"#{1,6}\s")
_GAPS = re.compile(r"\n\s*\n|(?:^|(?<=\s))\[?(?:\.\.\.|…+)\]?(?=\s|$)")
_BEGUN = re.compile(r'\s*\{\s*"evidence":\s*"((?:[^"\\]|\\.)*+)', re.DOTALL)  # of a reading's JSON

_RELATED = 0.6  # what a word counts that shares a beginning with a goal's word: "founder" for "founded"
_OF_TITLE = 0.25  # the page's own name says little on the page itself
_UNDER_HEADING = 0.5  # a goal's word in the heading above
_NUMBER_BONUS = 1.3
_BESIDE = 0.7  # what stands around the main text: it answers where the main text does not
_AS_TELLING = 0.7  # of the best sentence's score: a second one that is summed up with it
_WORTH = 0.2  # of the best passage's score; less is not quoted
_WINDOW = 600  # characters of a passage of evidence


def shown(page: Page) -> Page:
    """The page as a reader sees it: an address says nothing about a goal and is not quoted. Its text is all of the
    page, `rest` the end of it that stands around the main text."""
    rest = terms.unlinked(page.rest)
    return replace(page, text=replace(page, text=terms.unlinked(page.text), rest=rest).full, rest=rest)


# -- a page in sentences ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the page: where it stands, its terms, its score for the goal, which goal terms it has, and whether
    it stands beside the main text."""

    start: int
    end: int
    score: float
    covered: frozenset[str]
    is_heading: bool = False
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class _Goal:
    """Term -> weight, term -> the page's words of its family, and whether a number is wanted."""

    weights: dict[str, float]
    families: dict[str, frozenset[str]]
    wants_number: bool


def _goal_terms(goal: str) -> tuple[str, ...]:
    """The terms of a goal that may stand in a page."""
    found = [term for term in terms.content_terms(goal) if term not in _ASKING] or terms.content_terms(goal)
    nouns = [_NOUNS[term] for term in found if term in _NOUNS]
    return tuple(dict.fromkeys([*found, *nouns]))


def _related(word: str, term: str) -> bool:
    """Whether two stems are of one family: one begins the other, and little is added."""
    short, long = sorted((word, term), key=len)
    return len(short) >= 4 and len(long) - len(short) <= 3 and long.startswith(short) and short.isalpha()


def _read_sentences(page: Page, goal: str) -> list[_Sentence]:
    spans = terms.sentences(page.text)
    bags = [Counter(terms.terms(page.text[start:end])) for start, end in spans]
    wanted = _weighed(goal, page, bags)
    average = sum(bag.total() for bag in bags) / max(1, len(bags))
    found: list[_Sentence] = []
    heading: frozenset[str] = frozenset()
    main = len(page.text) - len(page.rest)
    for (start, end), bag in zip(spans, bags, strict=True):
        is_beside = start >= main
        if is_beside and found and not found[-1].is_beside:
            heading = frozenset()
        is_heading = bool(_HEADING.match(page.text, start))
        matches = _matches(bag, wanted)
        if is_heading:
            heading = frozenset(matches)
        score = _score(bag, matches, wanted, average)
        score += _UNDER_HEADING * sum(wanted.weights[term] for term in heading if term not in matches)
        if wanted.wants_number and matches and _NUMBER.search(page.text, start, end):
            score *= _NUMBER_BONUS
        score *= _BESIDE if is_beside else 1.0
        found.append(_Sentence(start, end, score, frozenset(matches), is_heading, is_beside))
    return found


def _weighed(goal: str, page: Page, bags: Sequence[Counter[str]]) -> _Goal:
    """The goal's terms by their rarity among the page's sentences; the page's own name counts little."""
    title = set(terms.terms(page.title))
    vocabulary: frozenset[str] = frozenset().union(*bags)
    weights: dict[str, float] = {}
    families: dict[str, frozenset[str]] = {}
    for term in _goal_terms(goal):
        having = sum(term in bag for bag in bags)
        rarity = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
        weights[term] = rarity * (_OF_TITLE if term in title else 1.0)
        families[term] = frozenset(word for word in vocabulary if _related(word, term))
    return _Goal(weights, families, bool(_QUANTITY.search(goal)))


def _matches(bag: Counter[str], goal: _Goal) -> dict[str, float]:
    """Goal term -> how often a sentence has it; a relative of it counts in part."""
    found: dict[str, float] = {}
    for term in goal.weights:
        if term in bag:
            found[term] = bag[term]
        elif not goal.families[term].isdisjoint(bag):
            found[term] = _RELATED
    return found


def _score(bag: Counter[str], matches: dict[str, float], goal: _Goal, average: float) -> float:
    """BM25 with k1 1.2, b 0.4: sentences differ in length by nature."""
    length = 0.6 + 0.4 * bag.total() / max(average, 1)
    return sum(goal.weights[term] * 2.2 * count / (count + 1.2 * length) for term, count in matches.items())


# -- the extractive reader --------------------------------------------------------------------------------------------


class ExtractiveReader:
    """Quotes the passages of a page that say most about the goal. Calls no model. `budget` is in characters."""

    broken_off = False

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget

    @property
    def name(self) -> str:
        return f"extractive {VERSION} {self._budget}"

    def read(self, page: Page, goal: str) -> Evidence:
        """The best passages in the page's order, and of them the sentence (two if it takes two) that says it."""
        page = shown(page)
        sentences = _read_sentences(page, goal)
        return Evidence(_quoted(page.text, sentences, self._budget), _summary(page.text, sentences))


def best_passages(page: Page, goal: str, budget: int) -> str:
    """The page's text cut to `budget` characters: its best passages for the goal, in its order."""
    return _quoted(page.text, _read_sentences(page, goal), budget)


def _quoted(text: str, sentences: Sequence[_Sentence], budget: int) -> str:
    main = next((sentence.start for sentence in sentences if sentence.is_beside), len(text))
    telling = any(sentence.score for sentence in sentences if sentence.is_beside)
    if len(text[:main].strip()) <= budget and not telling:
        return text[:main].strip() or text.strip()[:budget]
    windows = _windows(sentences, min(_WINDOW, budget))
    chosen = [(0, len(text[:main].rstrip()))] if 0 < main <= budget - _WINDOW else []  # and room for what is beside it
    room = budget - sum(end for _, end in chosen)
    for start, end in windows:
        cost = end - start + len(GAP)
        if cost <= room and not any(start < e and s < end for s, e in chosen):
            chosen.append((start, end))
            room -= cost
    if not chosen:
        start, end = windows[0]
        return text[start : min(end, start + budget)]
    return _joined(text, sorted(chosen), main)


def _windows(sentences: Sequence[_Sentence], size: int) -> list[terms.Span]:
    """The runs of sentences of about `size` characters within a section, best first: each sentence begins one, so they
    overlap. Those that say next to nothing about the goal are left out, unless all do."""
    ends, sections = [sentence.end for sentence in sentences], _section_ends(sentences)
    sums, tellings = [0.0], [0]  # running: the scores, and the last sentence so far that has one
    for i, sentence in enumerate(sentences):
        sums.append(sums[-1] + sentence.score)
        tellings.append(i if sentence.score > 0 else tellings[-1])
    ranked = []
    for first, sentence in enumerate(sentences):
        last = max(first, min(bisect_right(ends, sentence.start + size) - 1, sections[first]))
        if sentence.score > 0:
            last = min(last, tellings[last + 1] + 1)  # one sentence more, for what it goes on to say
        ranked.append((-(sums[last + 1] - sums[first]), first, (sentence.start, sentences[last].end)))
    ranked.sort()
    return [span for score, _, span in ranked if score <= _WORTH * ranked[0][0]]


def _section_ends(sentences: Sequence[_Sentence]) -> list[int]:
    """For each sentence the last one before the next heading."""
    found, end = [0] * len(sentences), len(sentences) - 1
    for number in range(len(sentences) - 1, -1, -1):
        found[number] = end
        above = sentences[number - 1] if number else sentences[number]
        if (sentences[number].is_heading and not above.is_heading) or sentences[number].is_beside != above.is_beside:
            end = number - 1
    return found


def _joined(text: str, spans: Sequence[terms.Span], main: int) -> str:
    """The spans as they stand in the text; a gap is marked where something was left out, and where the `main` text
    ends."""
    parts = [text[spans[0][0] : spans[0][1]]]
    for (_, before), (start, end) in pairwise(spans):
        between = text[before:start]
        parts.append((GAP if between.strip() or start == main else between) + text[start:end])
    return "".join(parts)


def _summary(text: str, sentences: Sequence[_Sentence]) -> str:
    """The one sentence that says most about the goal; a second where it has a word of the goal that the first lacks
    and says nearly as much by itself."""
    telling = [sentence for sentence in sentences if not sentence.is_heading] or list(sentences)
    if not telling:
        return ""
    best = max(telling, key=lambda sentence: sentence.score)
    others = [s for s in telling if s.covered - best.covered and s.score >= _AS_TELLING * best.score and s is not best]
    chosen = [best, *sorted(others, key=lambda sentence: -sentence.score)[:1]]
    return " ".join(" ".join(text[s.start : s.end].split()) for s in sorted(chosen, key=lambda s: s.start))


# -- the model as reader ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """How the model reads: the most tokens of the page that it sees, and the most that it may write; both are less
    where the engine's reading window is small."""

    page_tokens: int = 6_000
    reply_tokens: int = 1_200

    def within(self, window: int) -> ReadingPlan:
        """The plan for a window of so many tokens: a quarter of it at most is for the reply."""
        return ReadingPlan(self.page_tokens, min(self.reply_tokens, window // 4))


class ModelReader:
    """Lets the model itself read the best passages, on the engine's second sequence, its reply kept by a grammar.

    `broken_off` says that the last reading was stopped from outside: it is not what the reader makes of the page.
    """

    def __init__(
        self,
        engine: Engine,
        template: str = "",
        fallback: Reader | None = None,
        plan: ReadingPlan | None = None,
        budget: int = BUDGET,
        model: str = "",
    ) -> None:
        """`template` "" is the packaged chat template; `budget` bounds the evidence, in characters; `model` names the
        model, so that what was read can be told from what another one would read."""
        self.broken_off = False
        self._model = model
        self._engine = engine
        self._template = template
        self._fallback = fallback or ExtractiveReader(budget)
        self._plan = (plan or ReadingPlan()).within(engine.n_ctx_reading)
        self._budget = budget

    def read(self, page: Page, goal: str) -> Evidence:
        """What the model quotes and says; the fallback's reading where its reply cannot be used, and its summary where
        the output limit cut the reply before one."""
        text, self.broken_off = shown(page).text, False
        ids = self._prompt(shown(page), goal) if text.strip() else []
        said = _parsed(self._said(ids)) if ids else None
        if said is None:
            return self._fallback.read(page, goal)
        quotes = verified(said.evidence, text)
        if not quotes and (said.evidence.strip() or not said.summary):  # nothing of what it quoted is in the page
            return self._fallback.read(page, goal)
        return Evidence(GAP.join(quotes), said.summary or self._fallback.read(page, goal).summary)

    @property
    def name(self) -> str:
        return f"model {VERSION} {self._plan} {self._engine.n_ctx_reading} {self._model}"

    def _prompt(self, page: Page, goal: str) -> list[int]:
        """The token ids of the reading, the page cut to what there is room for; none if there is no room."""
        window = self._engine.n_ctx_reading - self._plan.reply_tokens
        room = min(self._plan.page_tokens, window)
        characters = 4 * self._plan.page_tokens
        while characters >= 400:
            text = best_passages(page, goal, characters)
            ids = self._engine.tokenize(self._pieces(text, page.url, goal))
            empty = self._engine.tokenize(self._pieces("", page.url, goal))
            if len(ids) - len(empty) <= room and len(ids) <= window:
                return ids
            characters = min(characters, len(text)) * 2 // 3
        return []

    def _pieces(self, text: str, url: str, goal: str) -> list[Piece]:
        messages = prompt.reading_prompt(text, url, goal)
        return [*rendering.render(messages, self._template), Piece(prompt.READING_START, Trust.TEMPLATE)]

    def _said(self, ids: list[int]) -> str:
        sampling = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=self._plan.reply_tokens)
        generation = self._engine.generate(Request(ids, sampling, grammar=prompt.READING_GRAMMAR, sequence=1))
        said = "".join(generation)
        self.broken_off = generation.finish == "cancelled"
        return said


def _parsed(reply: str) -> Evidence | None:
    """The reply's JSON as Evidence; its whole quotes if it is cut; None if it is not that or says nothing."""
    try:
        said = json.loads(reply, strict=False)
    except (ValueError, RecursionError):
        return _cut(reply)
    if not isinstance(said, dict):
        return None
    evidence, summary = said.get("evidence", ""), said.get("summary", "")
    if not isinstance(evidence, str) or not isinstance(summary, str) or not summary.strip():
        return None
    return Evidence(prompt.well_formed(evidence), prompt.well_formed(summary).strip())


def _cut(reply: str) -> Evidence | None:
    """The quotes of a reply that the output limit ended, up to the last whole sentence; None if there are none."""
    begun = _BEGUN.match(reply)
    if begun is None:
        return None
    try:
        quoted = str(json.loads(f'"{begun[1]}"', strict=False))
    except ValueError:  # cut within \\uXXXX
        return None
    whole = list(terms.sentences(quoted)) if begun.end() == len(reply) else []
    evidence = quoted[: whole[-1][0]] if whole else quoted
    return Evidence(prompt.well_formed(evidence).strip(), "") if evidence.strip() else None


def verified(evidence: str, text: str) -> list[str]:
    """The quotes of `evidence` that stand in `text`, whatever the white space: whole where they do, else those of
    their lines that do, else those of their sentences."""
    page = _squeezed(text)
    return [quote for part in _GAPS.split(evidence) for quote in _standing(part.strip(), page, (_lines, _sentences))]


def _standing(part: str, page: str, splits: Sequence[Callable[[str], list[str]]]) -> list[str]:
    if _stands(part, page):
        return [part]
    if not splits:
        return []
    return [quote for smaller in splits[0](part) for quote in _standing(smaller, page, splits[1:])]


def _lines(part: str) -> list[str]:
    return [line.strip() for line in part.splitlines()]


def _sentences(part: str) -> list[str]:
    return [part[start:end] for start, end in terms.sentences(part)]


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _stands(quote: str, page: str) -> bool:
    quote = _squeezed(quote.strip().strip('"“”'))
    return len(quote) > 1 and quote in page
