"""What a corpus answers: cases L01 to L03 whole, and their kinds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document
from venus_edge.values import Failure, Found, Hit, Page, Trouble

Make = Callable[[Sequence[Document]], Corpus]

KEREON = Document(
    "https://lights.example/kereon",
    "Kereon light",
    "The Kereon lighthouse (built 1916) is state-of-the-art, uses a C++ controller & ships KRN-190416. Don't miss it. "
    "AND NOT OR NEAR. Release 20.04.",
)


def docs(*texts: str | tuple[str, str]) -> list[Document]:
    pairs = [text if isinstance(text, tuple) else ("", text) for text in texts]
    return [Document(f"https://x.example/{i}", title, text) for i, (title, text) in enumerate(pairs)]


def order(found: Found) -> list[int]:
    return [int(hit.url.rsplit("/", 1)[1]) for hit in found.hits]


NO_WORD = Failure(Trouble.BAD_QUERY, "It has no word to search for.")


@pytest.mark.parametrize(
    "query",
    [
        "KRN-190416", "state-of-the-art lighthouse", "C++ controller", "don't miss", "what is near?", "NOT lighthouse",
        "Kereon AND", "NEAR(a", "light NOT", "site:example.org lighthouse", '"unbalanced Kereon',
        '"Kereon lighthouse" 1916', "(built 1916", "{x} Kereon", "-1916", "release 20.04 Kereon", "body:lighthouse",
        "lighthouse*", "^Kereon", "Kereon\x00light", "title:zzz OR kereon", "krn 190416", "190416",
        "C++", "“Kereon lighthouse”",
        "NEAR(Kereon lighthouse, 2)", "+Kereon -zebra", "Kereon;drop table words--", "rowid:1 kereon", "don’t miss",
        "'kereon'", "kereon\\", "%kereon%", "kereon\ud800", "built:1916", "kereon " * 3000, "a b c d e kereon",
    ],
)  # fmt: skip
def test_no_operator_of_a_query_keeps_its_words_from_being_found(make: Make, query: str) -> None:
    corpus = make([KEREON, Document("https://x.example/other", "Other", "Nothing of the kind.")])
    assert [hit.url for hit in corpus.search(query).hits] == [KEREON.url]


@pytest.mark.parametrize(
    "query", ["", "   ", '"', "?!", "。，！", '""', "( )", "***", "\x00", "🙂", "site:example.org"]
)
def test_a_query_without_a_word_is_told_so(make: Make, query: str) -> None:
    assert make([KEREON]).search(query) == Found(query, failure=NO_WORD)


def test_words_that_are_nowhere_are_nothing_found(make: Make) -> None:
    corpus = make([KEREON])
    assert corpus.search("zebra") == Found(
        "zebra", failure=Failure(Trouble.EMPTY, "No document has any of these words.")
    )


STRANGE = st.text(alphabet=st.characters(), max_size=60) | st.text(
    alphabet='"*^:(){}-+~ \x00ANDORTNE灯塔a1“”', max_size=40
)


def test_no_string_makes_search_or_open_raise(make: Make) -> None:
    corpus = make([KEREON])

    @settings(max_examples=300, deadline=None)
    @given(STRANGE)
    def asked(text: str) -> None:
        assert corpus.search(text).query == text
        corpus.open(text)

    asked()


@pytest.mark.parametrize(
    "query",
    [
        "when was the Kereon lighthouse first lit", "Kereon lighthouse height metres wikipedia", "kereon OR zebra",
        "Kéréon phare hauteur", "lighthouses near Ushant", "KEREON", "the metre height of Kereon",
    ],
)  # fmt: skip
def test_words_are_alternatives_and_the_best_page_is_first(make: Make, query: str) -> None:
    corpus = make(
        docs(
            ("Ar Men", "Ar Men lighthouse, 1881, 37 metres."),
            ("Kereon light", "The Kereon lighthouse off Ushant was first lit in 1916. Height: 41 metres."),
            ("Brest", "Port city in Brittany."),
        )
    )
    assert order(corpus.search(query))[0] == 1


def test_a_page_with_all_the_words_comes_before_one_with_a_rare_word_many_times(make: Make) -> None:
    corpus = make(
        docs("tide " * 40, "gauge gauge gauge", "The tide has a gauge among many other things to be read here.")
    )
    assert order(corpus.search("tide gauge"))[0] == 2


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("灯塔", 0), ("点亮", 0), ("灯", 0), ("塔", 0), ("亮", 0), ("具", 0), ("克雷翁 高度", 0), ("lamp", 0),
        ("1916", 0), ("1916年", 0), ("于1916年首次点亮", 0), ("塔高41米", 0), ("“塔高41米”", 0),
        ("克雷翁灯塔有多高？", 0), ("LAMP-CTL", 0),
        ("東京", 1), ("潮位", 1), ("湾", 1), ("観測所", 1), ("ｶﾞｲﾄﾞ", 1), ("관측소", 2), ("조위", 2), ("서울", 2),
        ("소", 2),
        ("관측소에서", 2), ("cafe Kereon", 3), ("GRÖSSE", 3), ("file", 3), ("strasse", 3), ("ＦＩＬＥ", 3),
        ("หอคอย", 4), ("हिन्दी", 5),
        ("маяк", 6), ("МАЯКИ", 6), ("φάρος", 7), ("منارة", 8),
    ],
)  # fmt: skip
def test_every_script_is_found_at_any_length(make: Make, query: str, number: int) -> None:
    corpus = make(
        docs(
            "克雷翁灯塔于1916年首次点亮，塔高41米。使用lamp-ctl工具",
            "東京湾の潮位観測所 ガイド",
            "서울의 조위 관측소",
            "Größe naïve café Kéréon ﬁle Straße",
            "ประภาคารเป็นหอคอยสูง",
            "हिन्दी भाषा में प्रकाशस्तंभ",
            "Старый маяк и новые маяки",
            "Ο ΦΆΡΟΣ της Αλεξάνδρειας",
            "مَنَارَة الإسكندرية",
        )
    )
    assert order(corpus.search(query))[:1] == [number]


def test_an_exact_phrase_is_honoured_where_it_stands_and_is_words_where_not(make: Make) -> None:
    corpus = make(docs("lighthouse Kereon tower", "the Kereon lighthouse", "a Kereon lighthouse of 1916"))
    assert order(corpus.search('"Kereon lighthouse" 1916')) == [2, 1]
    assert order(corpus.search('"lighthouse tower"'))[0] == 0


def test_site_filters_where_the_corpus_has_that_host(make: Make) -> None:
    corpus = make(
        [
            Document("https://www.a.example/1", "A", "A lighthouse."),
            Document("https://news.a.example/2", "B", "A lighthouse indeed."),
            Document("https://b.example/3", "C", "The lighthouse."),
        ]
    )
    assert sorted(order(corpus.search("site:a.example lighthouse"))) == [1, 2]
    assert order(corpus.search("lighthouse site:https://B.example/x")) == [3]
    assert sorted(order(corpus.search("-site:a.example lighthouse"))) == [1, 2, 3]
    assert sorted(order(corpus.search("site:elsewhere.example lighthouse"))) == [1, 2, 3]


def test_the_title_weighs_more_than_the_text(make: Make) -> None:
    corpus = make(docs(("Notes", "A gauge is here. " + "Other words. " * 3), ("Gauge", "Other words. " * 4)))
    assert order(corpus.search("gauge")) == [1, 0]


def test_a_heading_weighs_more_than_the_text(make: Make) -> None:
    corpus = make(
        docs("A gauge is here.\n\n# Notes\n\nOther words.", "The same notes.\n\n## Gauge\n\nOther words here.")
    )
    assert order(corpus.search("gauge")) == [1, 0]


def test_what_stands_beside_the_main_text_is_found_and_counts_less(make: Make) -> None:
    menu = "[Contact lenses](https://x.example/c) [灯塔列表](https://x.example/l) Prism ZX-5521, 47.2 m"
    beside = Document("https://x.example/0", "Kereon", "The tower stands on a rock.", rest=menu)
    about = Document("https://x.example/1", "Sight", "Contact lenses are worn on the eye by many who see badly.")
    corpus = make([beside, about])
    assert order(corpus.search("contact lenses")) == [1, 0]
    for query in ("ZX-5521", "47.2", "灯塔列表", "kereon prism"):
        assert order(corpus.search(query)) == [0]
    page = corpus.open("https://x.example/0")
    assert isinstance(page, Page)
    assert (page.text, page.rest, page.sha256) == (beside.text, menu, beside.sha256)


def test_ten_hits_unless_told_otherwise(make: Make) -> None:
    corpus = make(docs(*(f"tide gauge number {i}" for i in range(25))))
    assert (len(corpus.search("tide").hits), len(corpus.search("tide", 3).hits)) == (10, 3)
    assert len(corpus.search("tide", 25).hits) == 25


def test_a_long_document_is_found_by_its_passage_and_listed_once(make: Make) -> None:
    filler = "".join(f"Paragraph {i} says nothing of interest to anybody.\n\n" for i in range(400))
    text = filler + "The Kereon lamp has 41 prisms.\n\n" + filler
    corpus = make([Document("https://x.example/0", "Long", text), *docs("Prisms are made of glass.")[:0]])
    found = corpus.search("kereon prisms paragraph")
    assert len(found.hits) == 1
    assert "The Kereon lamp has 41 prisms." in found.hits[0].snippet
    assert len(found.hits[0].snippet) <= 260


def test_the_same_text_under_two_addresses_is_one_hit(make: Make) -> None:
    corpus = make(docs("A tide gauge.", "A tide gauge.", "Another tide gauge."))
    assert order(corpus.search("tide gauge")) == [0, 2]


def test_a_short_page_is_its_own_snippet(make: Make) -> None:
    corpus = make([Document("https://x.example/0", "Brest", "# Brest\n\nPort city\nin Brittany.", "2026-01-02")])
    assert corpus.search("port").hits == (Hit("Brest", "https://x.example/0", "Port city in Brittany.", "2026-01-02"),)


def test_threads_may_search_one_corpus(make: Make) -> None:
    corpus = make(docs(*(f"tide gauge number {i}" for i in range(50))))
    answers: list[Found] = []
    threads = [threading.Thread(target=lambda: answers.append(corpus.search("gauge number 7"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [corpus.search("gauge number 7")] * 16
