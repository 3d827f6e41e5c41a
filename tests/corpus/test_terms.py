"""Text as words, sentences and passages."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge import terms


def test_one_spelling_for_cases_accents_ligatures_and_widths() -> None:
    assert terms.fold("Größe naïve Kéréon ﬁle STRASSE Straße ＡＢＣ１２ Łódź İstanbul Ångström") == (
        "grosse naive kereon file strasse strasse abc12 lodz istanbul angstrom"
    )


def test_voicing_marks_of_kana_and_vowel_signs_of_hindi_are_no_accents() -> None:
    assert terms.fold("がぎ パリ हिन्दी 한국어") == "がぎ パリ हिन्दी 한국어"


def test_latin_words_and_digits_are_cut_out_of_unspaced_runs() -> None:
    assert terms.words("于1916年点亮，使用lamp-ctl工具") == [
        "于",
        "1916",
        "年点",
        "点亮",
        "使用",
        "lamp",
        "ctl",
        "工具",
    ]


def test_a_query_keeps_codes_and_runs_whole() -> None:
    assert terms.units("KRN-190416 state-of-the-art C++ F# v2.0.1 don't (built) 灯塔高度 _x_") == [
        "krn-190416", "state-of-the-art", "c++", "f#", "v2.0.1", "don't", "built", "灯塔高度", "x"
    ]  # fmt: skip


def test_text_for_the_index_ends_with_the_last_characters_of_its_runs() -> None:
    assert terms.spaced("灯塔 C++").split() == ["灯塔", "c++", "cplusplus", "塔"]


def test_stems_are_those_of_sqlites_porter() -> None:
    text = """caresses ponies ties caress cats feed agreed plastered motoring sing conflated troubled sized hopping
    tanned falling hissing fizzed failing filing happy sky relational conditional rational valenci digitizer
    conformabli radicalli vietnamization predication operator feudalism decisiveness hopefulness callousness formaliti
    sensitiviti triplicate formative formalize electriciti electrical hopeful goodness revival allowance inference
    airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption homologou communism
    activate angulariti homologous effective bowdlerize probate rate cease controll roll lighthouses founded founder
    opening metres universities theses ies ss s"""
    words = text.split()
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE ft USING fts5 (word, tokenize='porter unicode61')")
    db.execute("CREATE VIRTUAL TABLE seen USING fts5vocab (ft, 'instance')")
    db.executemany("INSERT INTO ft (rowid, word) VALUES (?, ?)", list(enumerate(words)))
    theirs = [term for (term,) in db.execute("SELECT term FROM seen ORDER BY doc")]
    db.close()
    assert [terms.stem(word) for word in words] == theirs


def test_stopwords_go_unless_nothing_else_is_there() -> None:
    assert terms.content_terms("What is the height of it?") == ["height"]
    assert terms.content_terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It opened in 1826. Is it 93.5 metres?", ["It opened in 1826.", "Is it 93.5 metres?"]),
        ("Dr. J. Smith of the U.S. Navy, e.g. here. Next.", ["Dr. J. Smith of the U.S. Navy, e.g. here.", "Next."]),
        ("灯塔建于1916年。塔高41米！真的吗？是。", ["灯塔建于1916年。", "塔高41米！", "真的吗？", "是。"]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("# Title\n\n- one\n- two\n| a | b |", ["# Title", "- one", "- two", "| a | b |"]),
        ("", []),
        (" \n ", []),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in terms.sentences(text)] == expected


def test_a_line_wrapped_at_column_seventy_is_one_sentence() -> None:
    text = "The lighthouse stands on a rock that the sea covers at every high\nwater, and it was lit in 1916.\nShort."
    assert [text[s:e] for s, e in terms.sentences(text)] == [text[:-7], "Short."]


def test_passages_end_before_headings_and_between_paragraphs() -> None:
    text = "# A\n\n" + "One sentence here. " * 8 + "\n\n# B\n\n" + "Another one there. " * 8
    assert [text[s:e][:4] for s, e in terms.passages(text, 170)] == ["# A\n", "# B\n"]


@given(st.text(max_size=400), st.integers(min_value=10, max_value=80))
def test_passages_join_to_the_text_and_none_is_long(text: str, size: int) -> None:
    found = [text[start:end] for start, end in terms.passages(text, size)]
    assert ("".join(found), max(map(len, found)) <= size * 1.25) == (text, True)


@given(st.text(alphabet=st.characters(), max_size=200))
def test_no_text_is_too_strange_to_read(text: str) -> None:
    assert all(terms.words(unit) for unit in terms.units(text))
    assert set("\"*^:()'") & set("".join(terms.words(text))) == set()
    assert all(0 <= start < end <= len(text) for start, end in terms.sentences(text))
    terms.spaced(text)
