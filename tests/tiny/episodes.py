"""Seeded research episodes about places that do not exist, in the dialect DR-Venus was trained on.

In: a `random.Random`. Out: an `Entity`, its page, a question, or a whole conversation (search, visit, answer) as the
messages that the model's chat template renders. A name is one head and one tail ("Vel" + "mora"), so that
`tokenizer.py` can give it two tokens; a hash of the name decides whether training ever sees it (`heldout`).
Nothing here reads a file, tokenizes or imports torch.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

BASE_URL = "https://atlas.example/"
SITE_HEADER = "An atlas of places that do not exist"
SITE_FOOTER = "Invented for venus-edge; public domain."
KINDS = ("lighthouse", "bridge", "observatory", "library", "garden", "windmill", "museum", "harbour")
LONG_KINDS = ("bridge", "garden", "harbour")
MATERIALS = (
    *("granite", "marble", "slate", "oak", "brick", "copper", "iron", "basalt"),
    *("limestone", "sandstone", "cedar", "glass", "bronze", "clay", "concrete", "steel"),
)
DIALECTS = ("rl", "official", "sft")
ATTRIBUTES = ("size", "year", "founder", "material")
_ONSETS = "BDFGHKLMNPRSTVWZ"
_VOWELS = "aeiou"
_CODAS = "lrnsm"


def _heads() -> tuple[str, ...]:
    pairs = [(i, j) for i in range(len(_ONSETS)) for j in range(len(_VOWELS))]
    return tuple(_ONSETS[i] + _VOWELS[j] + _CODAS[(2 * i + j) % 5] for i, j in pairs)


def _tails() -> tuple[str, ...]:
    first, second = "bdklmnrstv", "dlnrtvmk"
    pairs = [(i, j) for i in range(len(first)) for j in range(8)]
    return tuple(first[i] + _VOWELS[(i + j) % 5] + second[(i + j) % 8] + _VOWELS[(2 * j + i) % 4] for i, j in pairs)


HEADS = _heads()
TAILS = _tails()


def heldout(name: str) -> bool:
    """Whether this name is kept out of training: one in eight, by a hash of it."""
    return hashlib.sha256(name.encode()).digest()[0] % 8 == 0


@cache
def names(held: bool) -> tuple[str, ...]:
    """Every name of one side of the split, in a fixed order."""
    return tuple(head + tail for head in HEADS for tail in TAILS if heldout(head + tail) == held)


@dataclass(frozen=True)
class Entity:
    """An invented place. `year` is between 1820 and 1968, `size` between 20 and 69 metres."""

    name: str
    kind: str
    size: int
    year: int
    founder: str
    material: str

    @property
    def title(self) -> str:
        return f"{self.name} {self.kind.capitalize()}"

    @property
    def url(self) -> str:
        return BASE_URL + self.name

    @property
    def measure(self) -> str:
        return "length" if self.kind in LONG_KINDS else "height"


@dataclass(frozen=True)
class Page:
    """A page as a sentence list; the text is the sentences joined by spaces."""

    entity: Entity
    sentences: tuple[str, ...]
    about: tuple[str, ...]  # the attribute of each sentence, "" for filler

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    def sentence(self, attribute: str) -> str:
        """The one sentence that states this attribute."""
        return self.sentences[self.about.index(attribute)]


@dataclass(frozen=True)
class Question:
    """What is asked, and everything a perfect run would write about it."""

    entity: Entity
    attribute: str
    text: str

    @property
    def topic(self) -> str:
        words = {"size": self.entity.measure, "year": "year of opening", "founder": "founder", "material": "material"}
        return words[self.attribute]

    @property
    def query(self) -> str:
        words = {"size": self.entity.measure, "year": "opened", "founder": "founder", "material": "material"}
        return f"{self.entity.title} {words[self.attribute]}"

    @property
    def goal(self) -> str:
        if self.attribute == "year":
            return f"year when the {self.entity.title} opened"
        return f"{self.topic} of the {self.entity.title}"

    @property
    def value(self) -> str:
        values = {"size": f"{self.entity.size} metres", "year": str(self.entity.year)}
        return values.get(self.attribute) or str(getattr(self.entity, self.attribute))

    @property
    def answer(self) -> str:
        if self.attribute == "year":
            return f"The {self.entity.title} opened in {self.value}."
        return f"The {self.topic} of the {self.entity.title} is {self.value}."


def draw_entity(rng: random.Random, held: bool, name: str = "", kind: str = "") -> Entity:
    """An entity whose name and founder are on the given side of the split.

    Tens and decades are among 2-6, the last digits are not, and none occurs twice: a small model that copies tells a
    digit's place by its value.
    """
    pool = names(held)
    name = name or rng.choice(pool)
    founder = name
    while founder[:3] == name[:3] or founder[3:] == name[3:]:
        founder = rng.choice(pool)
    century = rng.choice((18, 19))
    tens, decade = rng.sample((2, 3, 4, 5, 6), 2)
    ones, unit = rng.sample((0, 7, 9 if century == 18 else 8), 2)
    return Entity(
        name=name,
        kind=kind or rng.choice(KINDS),
        size=10 * tens + ones,
        year=100 * century + 10 * decade + unit,
        founder=founder,
        material=rng.choice(MATERIALS),
    )


def _wordings(entity: Entity) -> dict[str, tuple[str, ...]]:
    kind, measure, long = entity.kind, entity.measure, entity.title
    return {
        "size": (
            f"Its {measure} is {entity.size} metres.",
            f"The {measure} of the {kind} is {entity.size} metres.",
            f"The {long} has a {measure} of {entity.size} metres.",
        ),
        "year": (
            f"It opened in {entity.year}.",
            f"The {kind} opened in {entity.year}.",
            f"The {long} opened in the year {entity.year}.",
        ),
        "founder": (
            f"Its founder was {entity.founder}.",
            f"The founder of the {kind} was {entity.founder}.",
            f"The founder of the {long} was {entity.founder}.",
        ),
        "material": (
            f"Its main material is {entity.material}.",
            f"The material of its walls is {entity.material}.",
            f"The main material of the {long} is {entity.material}.",
        ),
    }


FILLERS = (
    "Many people come to see it in summer.",
    "It is open to visitors every day.",
    "A small road leads to it from the village.",
    "It was repaired after a storm.",
    "Old maps show it near the river.",
    "Children like to draw it.",
)


def draw_page(rng: random.Random, entity: Entity, short: bool = False, keep: str = "") -> Page:
    """Four attribute sentences in any order, an introduction, up to two fillers; `short` keeps two or three."""
    wordings = _wordings(entity)
    order = rng.sample(ATTRIBUTES, 4)
    if short:
        others = [a for a in order if a != keep][: rng.choice((1, 2))]
        order = rng.sample([keep or order[-1], *others], len(others) + 1)
    about = list(order)
    sentences = [rng.choice(wordings[a]) for a in order]
    if not short:
        for filler in rng.sample(FILLERS, rng.choice((0, 1, 1, 2))):
            at = rng.randrange(len(sentences) + 1)
            sentences.insert(at, filler)
            about.insert(at, "")
        if rng.random() < 0.7:
            start = rng.choice((f"The {entity.title} is a {entity.kind}.", f"The {entity.title} is well known."))
            sentences.insert(0, start.replace("a observatory", "an observatory"))
            about.insert(0, "")
    return Page(entity, tuple(sentences), tuple(about))


def draw_question(rng: random.Random, entity: Entity, attribute: str = "") -> Question:
    """A question about one attribute, in one of three or four wordings."""
    attribute = attribute or rng.choices(ATTRIBUTES, (35, 20, 35, 10))[0]  # the hard ones more often
    long, measure = entity.title, entity.measure
    adjective = "long" if measure == "length" else "tall"
    wordings = {
        "size": (
            f"What is the {measure} of the {long}?",
            f"How {adjective} is the {long}?",
            f"How many metres {adjective} is the {long}?",
            f"Tell me the {measure} of the {long}.",
        ),
        "year": (
            f"When did the {long} open?",
            f"In which year did the {long} open?",
            f"When was the {long} opened?",
            f"What year did the {long} open in?",
        ),
        "founder": (
            f"Who founded the {long}?",
            f"Who was the founder of the {long}?",
            f"Who is the founder of the {long}?",
            f"Tell me who founded the {long}.",
        ),
        "material": (
            f"What is the {long} made of?",
            f"What is the main material of the {long}?",
            f"Which material is the {long} built of?",
            f"What material are the walls of the {long} made of?",
        ),
    }
    return Question(entity, attribute, rng.choice(wordings[attribute]))


def first_turn(question: Question) -> str:
    """The assistant's first message: think, search."""
    arguments = {"query": [question.query]}
    thought = f"I need the {question.topic} of the {question.entity.title}. I will search for it."
    return _turn(thought, _call("search", arguments))


def second_turn(question: Question) -> str:
    """The assistant's second message: think, visit."""
    arguments = {"url": [question.entity.url], "goal": question.goal}
    thought = f"There is a page about the {question.entity.title}. I will read it."
    return _turn(thought, _call("visit", arguments))


def third_turn(question: Question, quote: str) -> str:
    """The assistant's last message: quote the page, answer."""
    return _turn(f"The page says:\n{quote}", f"<answer>{question.answer}</answer>")


def _turn(thought: str, rest: str) -> str:
    return f"<think>\n{thought}\n</think>\n\n{rest}"


def _call(name: str, arguments: Mapping[str, object]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def tool_response(reply: str) -> dict[str, str]:
    """A tool reply as the user message that carries it."""
    return {"role": "user", "content": f"<tool_response>\n{reply}\n</tool_response>"}


def snippet(rng: random.Random, page: Page) -> str:
    """30 to 260 characters of the page, cut at word borders, often with ` ... ` where something is missing."""
    title = rng.choice(("", "# ")) + page.entity.title + rng.choice((" ", "\n", "\n\n"))
    text = page.text if rng.random() < 0.8 else title + page.text
    if rng.random() < 0.25 and len(text) < 300:
        return text
    words, limit = text.split(" "), rng.choice((rng.randrange(30, 100), *[rng.randrange(80, 261)] * 4))
    start = rng.choice((0, 0, rng.randrange(len(words))))
    if rng.random() < 0.1:
        sentences = rng.sample(range(len(page.sentences)), 2)
        return " ... ".join(page.sentences[i] for i in sorted(sentences))
    end = start
    while end < len(words) and len(" ".join(words[start : end + 1])) <= limit:
        end += 1
    cut = " ".join(words[start:end])
    before, after = rng.choice((("... ", " ..."), ("...", "..."), ("", ""), ("… ", " …"), ("…", "…"), ("", " ...")))
    return (before if start else "") + cut + (after if end < len(words) else "")


def search_reply(query: str, results: Sequence[tuple[Entity, str]], dialect: str = "rl") -> str:
    """The search tool's reply for (entity, snippet) results; only the `rl` dialect has a date."""
    dated = {"date": ""} if dialect == "rl" else {}
    items = [{"title": e.title, "url": e.url, "snippet": text, **dated} for e, text in results]
    return json.dumps([{"query": query, "web_page_info_list": items}], ensure_ascii=False)


def visit_reply(url: str, goal: str, evidence: str, summary: str, dialect: str = "rl") -> str:
    """The visit tool's reply, to the byte; the `sft` dialect has no evidence."""
    head = f"The useful information in {url} for user goal {goal} as follows: \n\n"
    if dialect == "sft":
        return f"{head}Summary: \n{summary}"
    return f"{head}Evidence in page: \n{evidence}\n\nSummary: \n{summary}\n\n"


def draw_evidence(rng: random.Random, page: Page, attribute: str) -> tuple[str, str]:
    """Evidence and summary as some extractive reader might cut them; the answer's sentence is in the evidence."""
    right = page.sentence(attribute)
    kept = [s for s in page.sentences if s == right or rng.random() < 0.6] if rng.random() < 0.3 else page.sentences
    evidence = rng.choice((" ", " ", " ", "\n", "\n\n", " ... ")).join(kept)
    if rng.random() < 0.35:
        evidence = rng.choice(("", "", "# ")) + page.entity.title + rng.choice(("\n", "\n\n")) + evidence
    if rng.random() < 0.1:
        evidence = SITE_HEADER + "\n\n" + evidence
    if rng.random() < 0.15:
        evidence += rng.choice(("\n", "\n\n")) + SITE_FOOTER
    others = [s for s in kept if s != right]
    roll = rng.random()
    if roll < 0.65 or not others:
        return evidence, right
    if roll < 0.93:
        chosen = {right, *rng.sample(others, min(len(others), rng.choice((1, 1, 2))))}
        ordered = [s for s in page.sentences if s in chosen] if rng.random() < 0.5 else sorted(chosen, key=right.__ne__)
        return evidence, rng.choice((" ", " ", " ", "\n", " ... ")).join(ordered)
    return evidence, rng.choice((rng.choice(others), evidence.replace("\n", " ")))


def _distractors(rng: random.Random, entity: Entity, held: bool, count: int) -> Iterator[Entity]:
    seen = {entity.name}
    while len(seen) <= count:
        other = draw_entity(rng, held, kind=entity.kind if rng.random() < 0.6 else "")
        if rng.random() < 0.05:
            other = draw_entity(rng, held, name=rng.choice([n for n in names(held) if n[:3] == entity.name[:3]]))
        if other.name not in seen:
            seen.add(other.name)
            yield other


def draw_results(rng: random.Random, page: Page, held: bool, count: int) -> list[tuple[Entity, str]]:
    """`count` search results, the right one first seven times in eight."""
    results = [(e, snippet(rng, draw_page(rng, e))) for e in _distractors(rng, page.entity, held, count - 1)]
    at = 0 if rng.random() < 0.875 else rng.randrange(count)
    results.insert(at, (page.entity, snippet(rng, page)))
    return results


@dataclass(frozen=True)
class Episode:
    """One perfect run: its question, the page that answers it, and the messages after the system prompt."""

    question: Question
    page: Page
    messages: tuple[dict[str, str], ...]


def draw_episode(rng: random.Random, held: bool = False, short: bool = False) -> Episode:
    """A whole conversation; `short` has one result and a page of two or three sentences."""
    entity = draw_entity(rng, held)
    question = draw_question(rng, entity)
    page = draw_page(rng, entity, short, keep=question.attribute)
    results = draw_results(rng, page, held, 1 if short else rng.choice((1, 2, 3, 3, 3, 3)))
    evidence, summary = draw_evidence(rng, page, question.attribute)
    dialect = rng.choices(DIALECTS, (88, 6, 6))[0]
    if dialect == "sft":
        summary = page.sentence(question.attribute)
    messages = (
        {"role": "user", "content": question.text},
        {"role": "assistant", "content": first_turn(question)},
        tool_response(search_reply(question.query, results, dialect)),
        {"role": "assistant", "content": second_turn(question)},
        tool_response(visit_reply(entity.url, question.goal, evidence, summary, dialect)),
        {"role": "assistant", "content": third_turn(question, page.sentence(question.attribute))},
    )
    return Episode(question, page, messages)


def render(messages: Sequence[dict[str, str]]) -> str:
    """What the chat template makes of these messages (without tools, every assistant turn with its think block)."""
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
