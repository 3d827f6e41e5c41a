"""Archives that others made, from the folder that VENUS_TEST_ARCHIVES names (skipped where it names none).

It holds `zim/` and `warc/`. The ZIM files are in the tests of libkiwix 14.0.0 (test/data: zimfile.zim, example.zim,
corner_cases#&.zim, poor.zim and wikibooks_be_all_nopic_2017-02.zim) and zim-tools 3.6.0 (test/data/zimfiles: good.zim,
bad_checksum.zim), which are Debian source packages; the WARC files in those of warc2zim 2.3.1 (tests/data), an sdist of
PyPI. None of them may be in this repository: they are pages of other people.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge import corpora, terms
from venus_edge.corpus.collect import Record
from venus_edge.corpus.zim import Zim, ZimReader
from venus_edge.errors import CorpusError
from venus_edge.settings import Directories, Settings
from venus_edge.sources.extract import extract
from venus_edge.values import Page

ZIMS = ("zimfile", "example", "corner_cases#&", "poor", "wikibooks_be_all_nopic_2017-02", "good", "bad_checksum")


@pytest.fixture(scope="module")
def public() -> Path:
    named = os.environ.get("VENUS_TEST_ARCHIVES", "")
    if not named or not Path(named).is_dir():
        pytest.skip("VENUS_TEST_ARCHIVES names no folder")
    return Path(named)


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    return Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))


def zim(public: Path, name: str) -> Zim:
    pytest.importorskip("libzim")
    file = public / "zim" / f"{name}.zim"
    if not file.is_file():
        pytest.skip(f"{file.name} is not there")
    return Zim(file, extract)


# -- ZIM --------------------------------------------------------------------------------------------------------------

QUESTIONS = [  # of Wikipedia's pages about Ray Charles, cut to their beginnings; which page answers
    ("Ray Charles", "Ray_Charles"),
    ("ray charles", "Ray_Charles"),
    ("what'd i say", "What'd_I_Say"),
    ("song that was Virginia's state song", "Carry_Me_Back_to_Old_Virginny"),
    ("who wrote Georgia on my mind in 1930", "Georgia_on_My_Mind"),
    ("biographical film about Ray Charles 2004", "Ray_(film)"),
    ("Kermit the Frog song green", "Bein'_Green"),
    ("Beatles song about a lonely woman Eleanor", "Eleanor_Rigby"),
    ("saxophonist Hank Crawford", "Hank_Crawford"),
    ("Kanye West single that samples I Got a Woman", "Gold_Digger_(Kanye_West_song)"),
    ("duet album Genius Loves Company 2004", "Genius_Loves_Company"),
    ("The Raelettes girl group backing vocals", "The_Raelettes"),
    ("record label founded by Ray Charles 1962", "Tangerine_Records_(1962)"),
    ("Stevie Wonder song Living for the City", "Living_for_the_City"),
    ("list of accolades received by the film Ray", "List_of_accolades_received_by_Ray_(film)"),
]


def test_questions_find_their_page_among_the_first_three(public: Path) -> None:
    archive = zim(public, "zimfile")
    first = {query: [hit.url for hit in archive.search(query).hits[:3]] for query, _ in QUESTIONS}
    for query, path in QUESTIONS:
        page = archive.open(f"A/{path}")
        assert isinstance(page, Page)
        assert page.url in first[query], (query, first[query])


@pytest.mark.parametrize("name", ZIMS)
def test_each_title_finds_its_page_and_every_hit_opens_once(public: Path, name: str) -> None:
    archive = zim(public, name)
    titles = {page.title: page for page in pages(archive) if page.text}
    assert titles
    for title in list(titles)[:60]:
        urls = [hit.url for hit in archive.search(title).hits]
        assert len(set(urls)) == len(urls)
        opened = [archive.open(url) for url in urls]
        assert title in {page.title for page in opened if isinstance(page, Page)}
        assert all(isinstance(page, Page) for page in opened)


def pages(archive: Zim) -> list[Page]:
    """All that an index of ours would hold."""
    read = [each.item for each in ZimReader(archive.file, archive.name, extract).read(0)]
    opened = [archive.open(item.path) for item in read if isinstance(item, Record)]
    return [page for page in opened if isinstance(page, Page)]


@pytest.mark.parametrize("name", ["zimfile", "wikibooks_be_all_nopic_2017-02"])
def test_links_between_articles_open(public: Path, name: str) -> None:
    archive = zim(public, name)
    links = {link for page in pages(archive) for _, link in terms.links(page.text) if link.startswith("zim:")}
    opened = [archive.open(link) for link in links]
    assert len(links) > 30
    assert all(isinstance(found, Page) for found in opened)


@pytest.mark.parametrize(
    ("name", "documents"),
    [("zimfile", 129), ("wikibooks_be_all_nopic_2017-02", 66), ("good", 2), ("corner_cases#&", 1), ("poor", 7)],
)
def test_an_index_of_ours_holds_the_articles_alone(public: Path, chosen: Settings, name: str, documents: int) -> None:
    archive = zim(public, name)
    report = corpora.create("ours", [str(archive.file)], chosen, index=True)
    assert report.documents == documents
    opened = corpora.opened(corpora.path_of("ours", chosen), chosen, lambda _: None)
    for page in pages(archive)[:40]:
        ours = opened.open(page.url)
        assert isinstance(ours, Page)
        assert (ours.title, ours.text) == (page.title, page.text)
    opened.close()


@pytest.mark.parametrize(
    ("name", "url", "title"),
    [
        ("zimfile", "https://en.wikipedia.org/wiki/Ray_Charles", "Ray Charles"),
        ("zimfile", "https://en.m.wikipedia.org/wiki/What%27d_I_Say?#History", "What'd I Say"),
        ("zimfile", "zim:zimfile/A/Genius%2BSoul%3DJazz", "Genius + Soul = Jazz"),
        ("zimfile", "What Am I Living For?", "What Am I Living For"),
        ("wikibooks_be_all_nopic_2017-02", "https://be.wikibooks.org/wiki/Індыйская_кухня", "Індыйская кухня"),
        ("wikibooks_be_all_nopic_2017-02", "A/Main_Page.html", "Першая старонка"),
        ("wikibooks_be_all_nopic_2017-02", "Індыйская кухня", "Індыйская кухня"),
        ("corner_cases#&", "zim:corner_cases%23%26/c%23.html", "C#"),
        ("corner_cases#&", "zim:corner_cases#&/c#.html", "C#"),
        ("corner_cases#&", "c_sharp.html", "C#"),
        ("good", "zim:good", "Test ZIM file - Main page"),
        ("good", "C/article1.html", "Test ZIM file - Article 1"),
    ],
)
def test_addresses_open(public: Path, name: str, url: str, title: str) -> None:
    page = zim(public, name).open(url)
    assert isinstance(page, Page)
    assert page.title == title


def test_a_wrong_checksum_is_found_by_check(public: Path) -> None:
    assert not zim(public, "bad_checksum").is_sound()
    assert zim(public, "good").is_sound()


@pytest.mark.parametrize("name", ["zimfile", "example", "wikibooks_be_all_nopic_2017-02"])
def test_damage_anywhere_ends_nothing(public: Path, tmp_path: Path, name: str) -> None:
    body = zim(public, name).file.read_bytes()
    made = random.Random(3)
    file = tmp_path / "d.zim"
    for number in range(24):
        at, length = made.randrange(80, len(body)), (1, 64, 4_096, len(body))[number % 4]
        hole = bytes(255 - byte for byte in body[at : at + length]) if length < len(body) else b""
        file.write_bytes(body[:at] + hole + (body[at + length :] if hole else b""))
        try:
            archive = Zim(file, extract)
        except CorpusError:
            continue
        for query in ("Ray Charles song", "кухня", "wikibooks"):
            for hit in archive.search(query).hits:
                archive.open(hit.url)
        archive.is_sound()
        archive.close()


# -- WARC -------------------------------------------------------------------------------------------------------------

TEST = "https://website.test.openzim.org"
WARCS = {  # the documents, and how many addresses are left out with a reason
    "bad-redirections.warc.gz": ({f"{TEST}/bad-redirections.html"}, 0),
    "content-resource-types.warc.gz": (
        {f"{TEST}/content-types/index.html", f"{TEST}/content-types/small.pdf"}, 0,
    ),
    "example-response.warc": ({"http://example.com/"}, 0),
    "example-revisit.warc.gz": ({"http://example.com/", "http://example.iana.org/"}, 0),
    "example-utf8.warc": (
        {
            "https://httpbin.org/anything/utf8=%E2%9C%93?query=test&a=b&1=%E2%9C%93",
            "https://httpbin.org/anything/Saint-Exup%C3%A9ry?foo=bar",
            "https://httpbin.org/anything/test?foo=%C3%A9",
        },
        0,
    ),
    "example-with-timestamp.warc": ({"https://example.com/path.txt?12345678"}, 0),
    "http-return-codes.warc.gz": (
        {
            f"{TEST}/http-return-codes.html", f"{TEST}/200-response", f"{TEST}/201-response", f"{TEST}/202-response",
            "https://www.example.com/",
        },
        6,
    ),
    "kiwix-with-redirects.warc.gz": (
        {
            "https://kiwix.org/en/", "https://kiwix.org/en/about-us/", "https://kiwix.org/en/2021-annual-report/",
        },
        0,
    ),
    "main-entry-403.warc.gz": ({"https://challenges.cloudflare.com/"}, 1),
    "qsl.net-encoding-alias.warc.gz": ({"https://www.qsl.net/vk2jem/swlogs.htm"}, 0),
    "self-redirect.warc": ({"https://kiwix.org/"}, 0),
    "single-page-test.warc": ({"https://lesfondamentaux.reseau-canope.fr/accueil.html"}, 2),
    "solidaritenum.warc.gz": (
        {"https://www.solidarite-numerique.fr/tutoriels/comprendre-les-cookies/?thematique=internet"}, 2,
    ),
    "video-vimeo.warc.gz": (set[str](), 2),
    "video-yt.warc.gz": (set[str](), 2),
    "video-yt-2.warc.gz": (set[str](), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", WARCS)
def test_a_web_archive_holds_its_pages_alone(public: Path, chosen: Settings, name: str) -> None:
    file = public / "warc" / name
    if not file.is_file():
        pytest.skip(f"{name} is not there")
    report = corpora.create("web", [str(file)], chosen)
    with closing(sqlite3.connect(corpora.path_of("web", chosen))) as db:
        urls = [url for (url,) in db.execute("SELECT url FROM document")]
    found = {re.sub(r"(?<=/)cdn-cgi/.*", "", url) for url in urls}
    assert (found, len(report.skipped)) == WARCS[name]


def test_redirects_lead_to_their_page(public: Path, chosen: Settings) -> None:
    names = ("kiwix-with-redirects.warc.gz", "http-return-codes.warc.gz")
    files = [str(public / "warc" / name) for name in names if (public / "warc" / name).is_file()]
    if len(files) < len(names):
        pytest.skip("the files are not there")
    corpora.create("web", files, chosen)
    opened = corpora.opened(corpora.path_of("web", chosen), chosen, lambda _: None)
    for url, end in [
        ("http://www.kiwix.org/", "https://kiwix.org/en/"),
        ("https://kiwix.org/en", "https://kiwix.org/en/"),
        (f"{TEST}/301-external-redirect-ok", "https://www.example.com/"),
        (f"{TEST}/308-external-redirect-ok", "https://www.example.com/"),
    ]:
        page = opened.open(url)
        assert isinstance(page, Page)
        assert page.url == end
    assert not isinstance(opened.open(f"{TEST}/301-external-redirect-ko"), Page)
    opened.close()
