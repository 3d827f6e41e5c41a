"""Every variant of an address opens its page; an unknown one is answered with the nearest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from venus_edge.corpus import address
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document
from venus_edge.values import Failure, Hit, Page, Trouble

Make = Callable[[Sequence[Document]], Corpus]


@pytest.mark.parametrize(
    "variant",
    [
        "https://www.example.org/wiki/Kéréon_light", "http://example.org/wiki/K%C3%A9r%C3%A9on_light",
        "example.org/wiki/Kéréon_light/",
        "HTTPS://EXAMPLE.ORG/wiki/Kéréon_light#History",
        "//example.org/wiki/Ke\u0301re\u0301on_light", "<https://example.org/wiki/Kéréon_light>",
        "https://example.org:443/wiki/Kéréon light", " https://example.org/wiki/Kéréon_light.",
        "https://example.org//wiki/Kéréon_light?",
        "https://user@example.org/wiki/kéréon_light", "https://example.org./wiki/Kéréon_light\n",
    ],
)  # fmt: skip
def test_every_variant_of_an_address_opens_its_page(make: Make, variant: str) -> None:
    text = "Lit in 1916."
    kereon = Document("https://www.example.org/wiki/Kéréon_light", "Kéréon", text, "1916-10-25")
    corpus = make([kereon, Document("https://example.org/wiki/Other", "Other", "x")])
    assert corpus.open(variant) == Page(kereon.url, "Kéréon", text, kereon.sha256, "1916-10-25")


def test_different_pages_of_one_site_stay_apart() -> None:
    urls = [
        "https://example.org/", "https://example.org/a", "https://example.org/A", "https://example.org/?a=1",
        "https://example.org/?a=2", "https://en.example.org/", "file:docs/a.md", "file:docs/b.md",
    ]  # fmt: skip
    assert len({address.key(url) for url in urls}) == len(urls)


def test_an_international_host_has_two_spellings() -> None:
    assert address.key("https://xn--bcher-kva.example/x") == address.key("https://bücher.example/x")


def test_letters_in_another_case_open_a_page_where_that_leaves_no_choice(make: Make) -> None:
    corpus = make([Document("https://x.example/Us", "Us", "One."), Document("https://x.example/US", "US", "Two.")])
    assert isinstance(corpus.open("https://x.example/us"), Failure)
    found = corpus.open("https://x.example/US")
    assert isinstance(found, Page)
    assert found.url == "https://x.example/US"


def test_an_alias_opens_the_page_under_its_own_address(make: Make) -> None:
    corpus = make([Document("https://x.example/a", "A", "One.", aliases=("file:docs/a.html",))])
    assert corpus.open("file:///docs/a.html") == corpus.open("https://x.example/a")


def test_an_unknown_address_is_answered_with_the_nearest_pages(make: Make) -> None:
    corpus = make(
        [
            Document("https://x.example/kereon", "Kereon light", "Lit in 1916."),
            Document("https://x.example/brest", "Brest", "A port."),
            Document("https://y.example/灯塔", "灯塔", "光。"),
        ]
    )
    kereon = Hit("Kereon light", "https://x.example/kereon", "Lit in 1916.")
    brest = Hit("Brest", "https://x.example/brest", "A port.")
    assert corpus.open("https://en.wikipedia.org/wiki/Kereon_Lighthouse") == Failure(Trouble.UNKNOWN, "", (kereon,))
    assert corpus.open("https://x.example/nothing") == Failure(Trouble.UNKNOWN, "", (kereon, brest))
    assert corpus.open("https://z.example/%E7%81%AF%E5%A1%94") == Failure(
        Trouble.UNKNOWN, "", (Hit("灯塔", "https://y.example/灯塔", "光。"),)
    )
    assert corpus.open("") == Failure(Trouble.UNKNOWN, "")
