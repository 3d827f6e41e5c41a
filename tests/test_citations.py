"""Answer x what was read -> marks."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from venus_edge.citations import Citation, Quote, Text, UnreadUrl, numbers
from venus_edge.citations.cite import cite, texts_read
from venus_edge.values import Evidence, Failure, Found, Hit, Page, PageReading, ToolResult, Trouble

PAIRS = Path(__file__).parent / "data" / "citations.jsonl"
URL = "https://atlas.example/kerrin"
KERRIN = Text(
    URL,
    "Kerrin Point Lighthouse",
    "# Kerrin Point Lighthouse\n\nThe tower stands on a cliff. It was first lit in 1916 and automated in 1988.\n",
)


# -- the labelled set -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A claim, a passage, and what a person says of the two."""

    label: str
    why: str
    claim: str
    passage: str
    title: str = ""
    question: str = ""

    @property
    def half(self) -> int:
        """0: what the rules were tuned on; 1: what was not looked at.

        The pairs marked fresh, last, 新 and 末 came later, were measured once (precision 0.78 and 0.67, recall 0.93 and
        0.80) and then looked at, whichever their half.
        """
        return hashlib.sha256((self.claim + self.passage).encode()).digest()[0] % 2

    @property
    def mark(self) -> str:
        found = cite(self.claim, [Text(URL, self.title, self.passage)], self.question).sentences
        return found[0].mark if found else "none"


def pairs() -> list[Pair]:
    return [Pair(**json.loads(line)) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def precision_and_recall(of: list[Pair]) -> tuple[float, float]:
    """Of the mark "supported"."""
    marks = [(pair.mark, pair.label) for pair in of]
    right = sum(mark == label == "supported" for mark, label in marks)
    return (
        right / sum(mark == "supported" for mark, _ in marks),
        right / sum(label == "supported" for _, label in marks),
    )


def test_the_labelled_set_is_large_and_of_both_languages() -> None:
    chinese = [pair for pair in pairs() if any("\u4e00" <= character <= "\u9fff" for character in pair.claim)]
    assert len(pairs()) >= 60
    assert min(len(chinese), len(pairs()) - len(chinese)) >= 30
    assert {pair.label for pair in pairs()} == {"supported", "partly", "not found"}


@pytest.mark.parametrize("half", [0, 1], ids=["tuned on", "held out"])
def test_supported_is_right_and_complete_to_nine_tenths(half: int) -> None:
    precision, recall = precision_and_recall([pair for pair in pairs() if pair.half == half])
    assert min(precision, recall) >= 0.9, (precision, recall)


# -- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.claim)
def test_every_sentence_of_a_page_stands_in_that_page(pair: Pair) -> None:
    page = Text(URL, pair.title, pair.passage)
    assert {c.mark for c in cite(pair.passage, [page]).sentences} == {"supported"}


@pytest.mark.parametrize("pair", [p for p in pairs() if re.search(r"\d", p.claim)], ids=lambda pair: pair.claim)
def test_with_another_number_nothing_is_supported(pair: Pair) -> None:
    changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), pair.claim)
    marks = {c.mark for c in cite(changed, [Text(URL, pair.title, pair.passage)], pair.question).sentences}
    assert "supported" not in marks


def test_a_number_that_no_passage_has_forbids_supported_and_is_named() -> None:
    [citation] = cite("The Kerrin Point Lighthouse was first lit in 1961.", [KERRIN]).sentences
    assert (citation.mark, citation.reasons) == ("partly", ("1961 is not in the passage",))


def test_a_quote_is_the_passage_at_its_offsets() -> None:
    answer = "Kerrin Point Lighthouse was first lit in **1916**."
    [citation] = cite(answer, [KERRIN]).sentences
    text = "It was first lit in 1916 and automated in 1988."
    start = KERRIN.text.index(text)
    quote = Quote(0, URL, "Kerrin Point Lighthouse", start, start + len(text), text, "page")
    assert citation == Citation(0, len(answer), "supported", (quote,))


def test_facts_of_two_pages_are_quoted_from_both() -> None:
    other = Text("https://b.example", "Morvane Bridge", "The Morvane Bridge is 214 m long.")
    [citation] = cite(
        "Kerrin Point Lighthouse was first lit in 1916; the Morvane Bridge is 214 m long.", [KERRIN, other]
    ).sentences
    assert (citation.mark, [quote.source for quote in citation.quotes]) == ("supported", [0, 1])


def test_a_page_is_quoted_before_a_search_result_that_says_the_same() -> None:
    snippet = Text(URL, "Kerrin", "It was first lit in 1916 and automated in 1988.", "snippet")
    [citation] = cite("Kerrin Point Lighthouse was first lit in 1916.", [KERRIN, snippet]).sentences
    assert citation.quotes[0].origin == "page"


def test_nothing_read_supports_nothing() -> None:
    assert [c.mark for c in cite("The tower is 41 m tall.", []).sentences] == ["not found"]
    assert cite("", [KERRIN]).sentences == ()


@pytest.mark.parametrize(
    "answer",
    [
        "# The lighthouse",
        "Sources:",
        "- [Kerrin](https://atlas.example/kerrin)",
        "| Name | Year |\n|---|---|",
        "```\n1916\n```",
        "**Details**\n",
    ],
)
def test_a_heading_a_link_a_table_head_and_code_claim_nothing(answer: str) -> None:
    assert "supported" not in {c.mark for c in cite(answer, [KERRIN]).sentences if c.quotes}
    assert all(answer[c.start : c.end].strip("*\n") == "Details" for c in cite(answer, [KERRIN]).sentences)


@pytest.mark.parametrize(
    "answer", ["I will now give the answer.", "Thus, we are done.", "我已找到答案。", "1.", "Yes."]
)
def test_what_the_assistant_says_of_itself_claims_nothing(answer: str) -> None:
    assert cite(answer, [KERRIN]).sentences == ()


def test_a_pronoun_stands_for_the_subject_of_the_sentence_before() -> None:
    other = Text("https://b.example", "Morvane Bridge", "The Morvane Bridge was closed in 1988.")
    answer = "The Morvane Bridge was closed in 1988. It was first lit in 1916."
    assert [c.mark for c in cite(answer, [KERRIN, other]).sentences] == ["supported", "partly"]
    answer = "Kerrin Point Lighthouse was automated in 1988. It was first lit in 1916."
    assert [c.mark for c in cite(answer, [KERRIN, other]).sentences] == ["supported", "supported"]


def test_a_name_alone_is_supported_only_as_the_answer_to_a_question() -> None:
    text = Text(URL, "Danvik shipyard", "The founder of the Danvik shipyard was Paul Benneke.")
    [alone], [asked] = (
        cite("**Paul Benneke**", [text], question).sentences
        for question in ("", "Who was the founder of the shipyard?")
    )
    assert (alone.mark, asked.mark) == ("partly", "supported")


def test_a_bold_line_between_others_is_a_heading_and_the_first_one_is_the_answer() -> None:
    answer = "**1916**\n\n**1. When it was lit**\n\nKerrin Point Lighthouse was first lit in 1916."
    found = cite(answer, [KERRIN], "In which year was the lighthouse first lit?").sentences
    assert [(answer[c.start : c.end], c.mark) for c in found] == [
        ("**1916**", "supported"),
        ("Kerrin Point Lighthouse was first lit in 1916.", "supported"),
    ]


def test_every_item_and_row_is_a_claim_of_its_own() -> None:
    answer = "1. Lit in 1916.\n2. Automated in 1990.\n\n| Event | Year |\n|---|---|\n| automated | 1988 |\n"
    marks = [(answer[c.start : c.end], c.mark) for c in cite(answer, [KERRIN]).sentences]
    assert marks == [
        ("Lit in 1916.", "supported"),
        ("Automated in 1990.", "partly"),
        ("| automated | 1988 |", "supported"),
    ]


def test_an_address_that_was_not_read_is_marked_and_one_that_was_is_not() -> None:
    snippet = Text("https://listed.example/", "Listed", "words", "snippet")
    answer = "See http://www.atlas.example/kerrin#top, https://listed.example, and (https://invented.example/a_(b))."
    assert cite(answer, [KERRIN, snippet]).unread == (
        UnreadUrl(41, 63, "https://listed.example", True),
        UnreadUrl(70, 100, "https://invented.example/a_(b)", False),
    )


def test_the_same_answer_gets_the_same_marks() -> None:
    answer = "\n".join(pair.claim for pair in pairs())
    texts = [Text(str(i), pair.title, pair.passage) for i, pair in enumerate(pairs())]
    assert cite(answer, texts) == cite(answer, texts)


@pytest.mark.parametrize(
    "text", ["\x00" * 50, "一" * 5000, "9" * 400, "1,1" * 900, "(" * 3000, "A " * 3000, "a and 1" * 900]
)
def test_any_text_can_be_an_answer_and_a_page(text: str) -> None:
    assert cite(text, [Text("u", text, text)], text) is not None


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,916", "1916"),
        ("1916年", "一九一六年"),
        ("41 metres", "41米"),
        ("41-metre", "四十一米"),
        ("1.5 km", "1,500 m"),
        ("1.2 million", "120万"),
        ("12 %", "百分之十二"),
        ("3 May 1916", "1916年5月3日"),
        ("three hundred and twelve", "312"),
        ("40 and three one-shots", "40 and 3 one-shots"),
        ("100 °C", "100℃"),
        ("１９１６", "1916"),
    ],
)
def test_one_number_written_in_two_ways_is_one_number(one: str, other: str) -> None:
    first, second = numbers.read(one)[0], numbers.read(other)[0]
    assert len(first) == len(second) > 0
    assert all(any(numbers.same(a, b) for b in second) for a in first)


@pytest.mark.parametrize(
    ("one", "other"), [("41 m", "41 km"), ("1916", "1961"), ("12%", "12"), ("3 May", "3 June"), ("120万", "12万")]
)
def test_two_numbers_are_not_one(one: str, other: str) -> None:
    first, second = numbers.read(one)[0], numbers.read(other)[0]
    assert not all(any(numbers.same(a, b) for b in second) for a in first)


def test_a_number_within_a_name_is_no_number() -> None:
    assert numbers.read("COVID-19, Q4_K_M and F16")[0] == ()


# -- what was read ----------------------------------------------------------------------------------------------------


def test_pages_come_once_and_before_search_results_and_what_failed_does_not_come() -> None:
    page = Page(URL, "Kerrin", "text", "0")
    reading = PageReading(URL, Evidence("text", "short"), page)
    lost = PageReading("https://lost.example", Evidence("a quote", "short"))
    failed = PageReading("https://failed.example", Failure(Trouble.TIMEOUT, "slow"))
    found = Found("q", (Hit("T", "https://hit.example", "lines"), Hit("T", "https://empty.example", " ")))
    assert texts_read(
        [ToolResult("", (found,)), ToolResult("", (), (reading, lost, failed)), ToolResult("", (), (reading,))]
    ) == [
        Text(URL, "Kerrin", "text"),
        Text("https://lost.example", "", "a quote", "evidence"),
        Text("https://hit.example", "T", "lines", "snippet"),
    ]
