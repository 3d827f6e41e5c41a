"""A snippet is the best stretch of a passage, readable as it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge import terms
from venus_edge.corpus.snippets import LENGTH, plain, snippet


def best(text: str, query: str, title: str = "") -> str:
    return snippet(text, frozenset(terms.content_terms(query)), title)


FILLER = "The weather of the island is mild and the sheep are many. " * 12


def test_a_short_text_is_its_own_snippet_without_a_heading_that_repeats_the_title() -> None:
    assert best("# Kereon\n\nLit in 1916.\n\nIt is *high*.", "x", "Kereon") == "Lit in 1916. It is *high*."
    assert best("# Kereon", "x", "Kereon") == "Kereon"


def test_it_begins_with_the_sentence_that_has_the_words() -> None:
    found = best(f"{FILLER}The Kereon lamp has 41 prisms. Each was cut in Paris. {FILLER}", "prisms of the Kereon lamp")
    assert found.startswith("The Kereon lamp has 41 prisms. Each was cut in Paris. The weather")
    assert found.endswith(".")
    assert len(found) <= LENGTH


def test_chinese_is_cut_at_its_own_sentence_marks() -> None:
    filler = "岛上天气温和，羊群众多，道路不多。" * 20
    found = best(f"{filler}克雷翁灯塔高41米。{filler}", "灯塔高度")
    assert found.startswith("克雷翁灯塔高41米。岛上天气")
    assert found.endswith("。")


def test_a_sentence_too_long_to_show_is_cut_at_words_around_the_best_of_it() -> None:
    found = best("word " * 200 + "kereon lamp prisms " + "word " * 200, "kereon prisms")
    assert "kereon lamp prisms" in found
    assert (found[:8], found[-8:]) == ("... word", "word ...")
    assert "克雷翁灯塔" in best("字" * 500 + "克雷翁灯塔" + "字" * 500, "克雷翁灯塔")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [the light](https://x.example/a_(b)) and ![pic](p.png).", "See the light and pic."),
        ("## Height\n\n- 41 metres\n> quoted", "Height\n\n41 metres\nquoted"),
        ("| a | b |\n|---|:--|\n| 1 | 2 |", "a | b\n\n1 | 2"),
    ],
)
def test_marks_of_markdown_do_not_take_the_room(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(max_size=900), st.text(max_size=20))
def test_it_is_one_line_and_short_whatever_the_text(text: str, query: str) -> None:
    found = best(text, query)
    assert (len(found) <= LENGTH * 6 // 5 + 8, "\n" in found) == (True, False)
