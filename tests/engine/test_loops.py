"""A table of loops and of what only looks like one, and what a loop costs until it is certain: in Qwen's tokens."""

from __future__ import annotations

import random

import pytest

from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.guards import before_loop, find_loop

MOST = 200  # tokens

WORDS = [
    "tide", "gauge", "harbour", "ledger", "year", "pier", "survey", "engineer", "level", "stone", "mole", "lamp",
    "keeper", "record", "datum", "chart", "north", "south", "fog", "bell", "rope", "anchor", "quay", "storm", "clock",
]  # fmt: skip
ENGLISH = (
    "The question asks for the year in which the gauge was moved to the new pier. The harbour ledger of 1846 names an "
    "engineer, and a later survey says that the instrument was taken down for repairs in the spring of 1851. "
)
CHINESE = (
    "我先查航道局的年报，再核对海图。港口账簿提到一位工程师，但是没有写出他的名字，所以还需要别的证据。后来的测量报告说，"
    "仪器在春天被拆下修理，第二年才重新安装在新码头的灯塔旁边。也许报纸上有当时的消息，可以用年份和地名去搜索。如果找不到"
    "原文，就看看博物馆的目录里有没有照片或者说明。另外，验潮站的记录从什么时候开始连续，也能说明搬迁的时间。不过这些数字"
    "互相矛盾，需要判断哪一个更可靠，因为不同的作者使用了不同的基准面。最后把结论和出处写清楚，让读者能够自己检查每一步。"
)
PLACES_ZH = "潮汐验站港口账簿年份码头测量工程师水位石堤灯塔看守记录基准海图北南雾钟绳锚风暴时间"


def english(length: int, seed: int) -> str:
    """A sentence of so many characters."""
    pick = random.Random(seed)
    text = " ".join(pick.choice(WORDS) for _ in range(length))
    return text[: length - 2].rstrip().ljust(length - 2, "s").capitalize() + ". "


def chinese(length: int, seed: int) -> str:
    return CHINESE[seed % 20 :][: length - 1] + "。"


def shuffled(sentences: list[str], count: int) -> str:
    pick = random.Random(5)
    return "".join(pick.choice(sentences) for _ in range(count))


DRAFT = english(900, 1) + english(700, 2)

LOOPS: dict[str, str] = {
    **{f"English, {n}": english(n, n) * (9_000 // n) for n in (7, 15, 30, 50, 51, 80, 120, 160, 200, 250, 300, 350)},
    **{f"English, {n}": english(n, n) * 12 for n in (400, 500, 640, 800)},
    **{f"Chinese, {n}": chinese(n, n) * (4_000 // n) for n in (5, 10, 20, 40, 60, 90, 130, 200)},
    "three letters": "no " * 3_000,
    "two letters": "ha" * 3_000,
    "Japanese": "もう一度検潮所の年を確認する必要がある。" * 100,
    "digits": "3" * 4_000,
    "a period of digits": "142857" * 600,
    "emoji": "🙂" * 600,
    "numbered": "".join(
        f"Step {i}: I look for the year again, because the last page was unclear. " for i in range(12, 99)
    ),
    "numbered, past 99": "".join(f"Try {i}: I look for the year of the gauge in the ledger. " for i in range(95, 400)),
    "numbered lines": "".join(f"Step {i}: I search for the year of the gauge again.\n" for i in range(12, 300)),
    "numbered, Chinese": "".join(f"步骤{i}：我再搜索一次验潮站的年份，因为上次结果不清楚。" for i in range(12, 300)),
    "a list of one item": "".join(f"{i}. Search for the year of the gauge again and note it.\n" for i in range(1, 99)),
    "bullets of one item": "- Search for the year of the gauge again and note what it says.\n" * 100,
    "two sentences": "Maybe it is the pier of 1846. But the ledger says otherwise, so I look again. " * 100,
    "two sentences, Chinese": "也许是一八四六年的码头。但是账簿的说法不同，所以我再看一遍。" * 100,
    "any order": shuffled(["Maybe it is the pier of 1846. ", "But the ledger says otherwise. ", "Wait. "], 400),
    "any order, Chinese": shuffled(["也许是一八四六年的码头。", "但是账簿的说法不同，所以我再看一遍。", "等等。"], 500),
    "opening tags": "<think>\n" * 200,
    "pairs of tags": "</think>\n\n<think>\n" * 200,
    "an address": "https://example.org/reports/2019/annual/station.html " * 100,
    "an array in a call": '"Brest gauge year", ' * 200,
}
LATE = {  # rounds that differ in more than numbers, or hardly say a word: certain, but not so soon
    "ordinals": "".join(f"The {n} try: I look for it. " for n in ("first", "second", "third", "fourth", "fifth") * 60),
    "numerals": "".join(
        f"第{'一二三四五六七八九'[i % 9]}次：我再搜索一次验潮站的年份，因为结果不清楚。" for i in range(300)
    ),
    "numbered words": "".join(f"Attempt {i}: nothing. " for i in range(12, 400)),
    "drifting numbers": "".join(f"So it is {1800 + i % 3}, or {1801 + i % 2}, but let me verify. " for i in range(300)),
}

NO_LOOPS: dict[str, str] = {
    "a draft, then the same answer": f"{DRAFT}</think><answer>{DRAFT}</answer>",
    "a quote twice": f"{english(420, 3)}As the page says. {english(420, 3)}So it is.",
    "five times, then on": "I could not find the year of the gauge in this ledger. " * 5 + "So I go on.",
    "a poem with a refrain": "".join(
        f"{english(60, i)}\n{english(55, i + 50)}\nAnd the tide comes in,\nand the bell rings out again.\n\n"
        for i in range(40)
    )
    + "So ends the song of the old gauge, and nobody sings it now.",
    "a Chinese poem": "".join(f"{chinese(14, i)}\n{chinese(18, i + 7)}\n潮水又涨，钟声又响。\n\n" for i in range(40)),
    "verses that count": "".join(
        f"{i} green lamps hanging on the wall,\n{i} green lamps hanging on the wall,\nand if one lamp should fall,\n"
        f"there'll be {i - 1} green lamps hanging on the wall.\n\n"
        for i in range(3, 0, -1)
    ),
    "a table": "| Station | Year |\n|---|---|\n" + "".join(f"| {w} {i} | unknown |\n" for i, w in enumerate(WORDS * 6)),
    "a Chinese table": "| 站点 | 年份 |\n|---|---|\n" + "".join(f"| {w}站 | {i} |\n" for i, w in enumerate(PLACES_ZH)),
    "rulers between": "\n\n".join(f"{english(120, i)}\n\n{'-' * 80}" for i in range(30)),
    "a box": f"┌{'─' * 150}┐\n│ 年份 │\n└{'─' * 150}┘",
    "dots": "".join(f"{i}.{i % 7} {w} {'. ' * 20}{i * 7}\n" for i, w in enumerate(WORDS * 3)),
    "Chinese dots": "未完" + "……" * 100,
    "addresses": "".join(f"https://example.org/reports/2019/annual/station-{i * 7}.html\n" for i in range(300)),
    "addresses in a line": "Sources: " + ", ".join(f"https://example.org/station/{i}" for i in range(300)),
    "links": "".join(f"- [Station {w} {i}](https://example.org/{w}-{i * 7}.html)\n" for i, w in enumerate(WORDS * 5)),
    "a bibliography": "".join(f"[{i}] Smith, J. ({1900 + i}). Tide tables. Hydrographic Office.\n" for i in range(99)),
    "Python": "".join(f"    if value == {i}:\n        return table[{i}]\n" for i in range(120)),
    "HTML": "<ul>\n" + "".join(f'  <li><a href="/s/{i}">Station {i}</a></li>\n' for i in range(150)),
    "SQL": "".join(f"INSERT INTO stations VALUES ({i}, 'unknown', NULL);\n" for i in range(60)),
    "JSON": ",\n".join(f'  {{"station": "{w}", "year": {1800 + i}, "status": null}}' for i, w in enumerate(WORDS * 3)),
    "CSV": "".join(f"Brest,{1800 + i},{6900 + i * 37 % 101},ok\n" for i in range(250)),
    "equations": "".join(f"x_{i} = x_{i - 1} + h * f(t_{i - 1}, x_{i - 1})\n" for i in range(1, 80)),
    "a matrix": "0 0 0 1\n" * 60,
    "data in sentences": "".join(f"In {1800 + i} the mean level was {6900 + i * 37 % 101} mm. " for i in range(60)),
    "Chinese data": "".join(f"{1800 + i}年平均水位为{6900 + i * 37 % 101}毫米。" for i in range(80)),
    "tides by the hour": "".join(
        f"At {h:02}:00 the tide stood at {2 + h * h % 7}.{h * 3 % 10} m above the datum of the chart. "
        for h in range(24)
    ),
    "days": "".join(f"Day {i}: rest. " for i in range(1, 31)),
    "Chinese days": "".join(f"第{i}天：休息。" for i in range(1, 31)),
    "questions": "".join(f"Question {i}: not answered.\n" for i in range(1, 31)),
    "numbered list": "".join(f"{i}. {english(60, i)}\n" for i in range(80)),
    "Chinese list": "".join(f"{i}、{w}站，未知\n" for i, w in enumerate(PLACES_ZH * 4)),
    "a checklist": "".join(f"- [ ] {a} {b}\n" for a in WORDS[:12] for b in WORDS[9:]),
    "candidates": "".join(f"Is it the {w}? The ledger does not say so, the survey has another name. " for w in WORDS)
    + "So it is none of them, and I should look at the chart.",
    "Chinese candidates": "".join(f"会不会是{w}站？账簿没有这么写，报告里是另一个名字。" for w in PLACES_ZH),
    "answers by line": shuffled(["Yes.\n", "No.\n"], 300),
    "a dialogue": "".join(f"Q: {english(50, i)}\nA: The ledger does not say.\n\n" for i in range(40)),
    "quoted lines": "".join(f"> {english(60, i)}\n" for i in range(60)),
    "laughter": "ha" * 40 + "! " + english(200, 9),
}  # fmt: skip


def cost(vocabulary: Vocabulary, honest: str, text: str) -> int:
    """Tokens from where it began to repeat itself (behind the first round) to where that was certain."""
    loop = find_loop(honest + text)
    assert loop is not None
    assert loop.certain > len(honest) + loop.period
    return len(vocabulary.encode((honest + text)[len(honest) + loop.period : loop.certain]))


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS.keys())
@pytest.mark.parametrize("honest", [ENGLISH, CHINESE, f"{ENGLISH}\n</think>\n\n"], ids=["English", "Chinese", "answer"])
def test_a_loop_is_certain_within_two_hundred_tokens(vocabulary: Vocabulary, honest: str, text: str) -> None:
    assert cost(vocabulary, honest, text) <= MOST


@pytest.mark.parametrize("text", LATE.values(), ids=LATE.keys())
def test_a_loop_that_varies_is_certain_within_three_hundred(vocabulary: Vocabulary, text: str) -> None:
    assert cost(vocabulary, ENGLISH, text) <= MOST * 3 // 2


@pytest.mark.parametrize("text", NO_LOOPS.values(), ids=NO_LOOPS.keys())
@pytest.mark.parametrize("around", ["{}", "ok\n</think>\n\n<answer>\n{}\n</answer>", f"{ENGLISH}{{}}{CHINESE}"])
def test_what_only_looks_like_one_is_left_alone(text: str, around: str) -> None:
    assert find_loop(around.replace("{}", text)) is None


@pytest.mark.parametrize("name", ["English, 51", "Chinese, 40", "numbered", "numbered, Chinese", "any order"])
def test_what_came_before_a_loop_is_kept(name: str) -> None:
    kept = before_loop(ENGLISH + LOOPS[name])
    assert kept.startswith(ENGLISH)
    assert len(kept) < len(ENGLISH) + 400
