"""Copies of a page are one hit; pages of one pattern are not copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from venus_edge.corpus.alike import Copies
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document
from venus_edge.values import Page

Make = Callable[[Sequence[Document]], Corpus]

TOWERS = (("red", "Kereon"), ("white", "Armen"), ("grey", "Nividic"), ("black", "Jument"), ("green", "Pierres"))
ENGLISH = " ".join(
    f"The {colour} lighthouse of {place} was built of granite and has a lamp with {number} prisms."
    for number, (colour, place) in enumerate(TOWERS, 20)
)
CHINESE = (
    "克雷翁灯塔建于花岗岩之上，塔高四十一米，灯具共有二十片棱镜，每片都在巴黎磨制。"
    "守塔人每两周换班一次，物资由船只运送。"
)
JAPANESE = "観測所は湾の入口にあり、潮位を十分ごとに記録する。記録は毎日東京に送られ、地図の作成に使われている。"
KOREAN = (
    "관측소는 만의 입구에 있으며 조위를 십 분마다 기록한다. "
    "기록은 매일 서울로 보내져 지도를 만드는 데 쓰인다. 자료는 공개된다."
)


@pytest.mark.parametrize(
    ("one", "other", "copy"),
    [
        (("Light", ENGLISH), ("Light", ENGLISH), True),
        (("Light", ENGLISH), ("Elsewhere", ENGLISH.upper().replace(".", " -")), True),
        (("Light", ENGLISH), ("Light", ENGLISH + " Retrieved in March 2024."), True),
        (("Light", ENGLISH), ("LIGHT", ENGLISH.replace("granite and", "granite, and it", 1)), True),
        (("Light", ENGLISH), ("Light", ENGLISH[: len(ENGLISH) // 2]), False),
        (("Light", ENGLISH), ("Light", ENGLISH.replace("lighthouse", "tower")), False),
        (("Light 20", ENGLISH), ("Light 30", ENGLISH.replace("20 prisms", "30 prisms")), False),
        (("", "tide gauge number 1"), ("", "tide gauge number 2"), False),
        (("", "tide gauge"), ("", "Tide  gauge!"), True),
        (("灯塔", CHINESE), ("灯塔", CHINESE + "（2024年转载）"), True),
        (("灯塔", CHINESE), ("灯塔", CHINESE.replace("四十一米", "三十七米").replace("二十片", "九片")), False),
        (("観測所", JAPANESE), ("観測所", JAPANESE + "以上。"), True),
        (("관측소", KOREAN), ("관측소", KOREAN + " 끝."), True),
        (("", ""), ("", "。"), True),
    ],
)
def test_a_copy_is_told_from_a_page_of_the_same_pattern(
    one: tuple[str, str], other: tuple[str, str], copy: bool
) -> None:
    seen = Copies(frozenset())
    assert (seen.is_new(*one), seen.is_new(*other)) == (True, not copy)


def test_a_page_that_alone_has_a_word_of_the_query_is_no_copy() -> None:
    seen = Copies(frozenset({"retriev"}))
    assert (seen.is_new("Light", ENGLISH), seen.is_new("Light", ENGLISH + " Retrieved today.")) == (True, True)


def test_one_of_the_copies_is_a_hit_and_the_others_open_and_are_found_where_asked_for(make: Make) -> None:
    texts = [ENGLISH, ENGLISH + " Retrieved in March 2024.", ENGLISH, "Another lighthouse, at Kereon."]
    corpus = make([Document(f"https://mirror{n}.example/a", "Light", text) for n, text in enumerate(texts)])
    urls = [f"https://mirror{n}.example/a" for n in range(4)]
    assert {hit.url for hit in corpus.search("lighthouse kereon").hits} == {urls[0], urls[3]}
    assert {hit.url for hit in corpus.search("lighthouse kereon", copies=True).hits} == set(urls)
    assert [isinstance(corpus.open(url), Page) for url in urls] == [True] * 4


def test_the_places_of_copies_are_taken_by_other_pages(make: Make) -> None:
    many = [Document(f"https://mirror{n}.example/a", "Light", ENGLISH) for n in range(60)]
    others = [Document(f"https://x.example/{n}", "", f"A lighthouse, {n} metres high. " * 9) for n in range(12)]
    found = make([*many, *others]).search("red lighthouse of Kereon").hits
    assert len({hit.url for hit in found}) == 10
    assert sum(hit.url.startswith("https://mirror") for hit in found) == 1
