"""ZIM archives, made here by libzim: searched as words that are alternatives, read in place, damaged, indexed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conftest import extract
from venus_edge import corpora
from venus_edge.corpus.zim import Zim
from venus_edge.errors import CorpusError
from venus_edge.settings import Directories, Settings
from venus_edge.values import Failure, Page, Trouble

writer = pytest.importorskip("libzim.writer")

PAGES = [
    ("A/Main", "Main", "<p>Lights of the west. <a href='Kereon#history'>Kereon</a></p>"),
    ("A/Kereon", "Kereon light", "<p>The Kereon lighthouse off Ushant was first lit in 1916. Height: 41 metres.</p>"),
    ("A/Ar_Men", "Ar Men", "<p>Ar Men lighthouse, 1881, 37 metres.</p>"),
    ("A/Brest", "Brest", "<p>Port city in Brittany.</p>"),
    ("A/灯塔", "灯塔", "<p>克雷翁灯塔于1916年首次点亮。</p>"),
]


def item(path: str, title: str, body: bytes, kind: str) -> Any:
    class Entry(writer.Item):  # type: ignore[misc,name-defined]  # libzim is untyped
        def get_path(self) -> str:
            return path

        def get_title(self) -> str:
            return title

        def get_mimetype(self) -> str:
            return kind

        def get_contentprovider(self) -> Any:
            return writer.StringProvider(body)

        def get_hints(self) -> Mapping[Any, int]:
            return {writer.Hint.FRONT_ARTICLE: True}

    return Entry()


def archive(file: Path, indexed: bool, pages: Sequence[tuple[str, str, str]] = PAGES) -> Path:
    with writer.Creator(file).config_indexing(indexed, "eng") as creator:
        for path, title, body in pages:
            page = f"<html><head><title>{title}</title></head><body>{body}</body></html>"
            creator.add_item(item(path, title, page.encode(), "text/html"))
        creator.add_item(item("A/Doc", "A document", b"%PDF-1.4 of nothing", "application/pdf"))
        creator.add_redirection("A/Kéréon", "Kéréon", "A/Kereon", {writer.Hint.FRONT_ARTICLE: True})
        creator.set_mainpath("A/Main")
        creator.add_metadata("Source", "https://lights.example")
    return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zim")
    archive(folder / "i.zim", True)
    archive(folder / "n.zim", False)
    return folder


QUESTIONS = [
    "when was the Kereon lighthouse first lit",
    "Kereon lighthouse height metres wikipedia",
    "kereon OR zebra",
    "Kéréon phare hauteur",
    "lighthouses near Ushant",
]


@pytest.mark.parametrize("query", QUESTIONS)
def test_the_words_of_a_question_are_alternatives(made: Path, query: str) -> None:
    hits = Zim(made / "i.zim", extract).search(query).hits
    assert (hits[0].title, hits[0].url) == ("Kereon light", "zim:i/A/Kereon")
    assert len({hit.url for hit in hits}) == len(hits)


def test_chinese_is_found_in_an_archive(made: Path) -> None:
    for name in ("i", "n"):
        assert Zim(made / f"{name}.zim", extract).search("灯塔").hits[0].url == f"zim:{name}/A/%E7%81%AF%E5%A1%94"


def test_without_a_full_text_index_titles_are_searched_and_it_is_said(made: Path) -> None:
    zim = Zim(made / "n.zim", extract)
    assert zim.note.startswith("n.zim has no full-text index: only its titles are searched; index it with: venus-edge ")
    assert Zim(made / "i.zim", extract).note == ""
    for query in ("kereon", "the Kereon lighthouse height", "Kéréon"):
        urls = [hit.url for hit in zim.search(query).hits]
        assert urls[0] == "zim:n/A/Kereon"
        assert len(set(urls)) == len(urls)  # the redirect is the article


@pytest.mark.parametrize("query", ["", "?!", '"'])
def test_a_query_without_a_word_is_said_to_be_none(made: Path, query: str) -> None:
    failure = Zim(made / "i.zim", extract).search(query).failure
    assert failure is not None
    assert failure.trouble is Trouble.BAD_QUERY


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("A/Kereon", "Kereon light"),
        ("A/Kéréon", "Kereon light"),
        ("Kereon", "Kereon light"),
        ("A/Kereon#history", "Kereon light"),
        ("A/%E7%81%AF%E5%A1%94", "灯塔"),
        ("zim://i/A/Kereon", "Kereon light"),
        ("zim:i/Ar Men", "Ar Men"),
        ("kereon", "Kereon light"),
        ("https://lights.example/wiki/Kereon", "Kereon light"),
        ("http://www.lights.example/Ar_Men", "Ar Men"),
    ],
)
def test_an_entry_opens_however_its_path_is_written(made: Path, path: str, title: str) -> None:
    page = Zim(made / "i.zim", extract).open(path)
    assert isinstance(page, Page)
    assert page.title == title


def test_what_is_not_there_is_said_with_what_is_near(made: Path) -> None:
    zim = Zim(made / "i.zim", extract)
    failure = zim.open("zim:i/A/Kereon_lighthouse_(Ushant)")
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.nearest[0].url) == (Trouble.UNKNOWN, "zim:i/A/Kereon")
    for other in ("A/nope", "zim:other/A/Kereon", "https://elsewhere.example/Kereon", "mailto:a@b"):
        unknown = zim.open(other)
        assert isinstance(unknown, Failure)
        assert unknown.trouble is Trouble.UNKNOWN


def test_a_pdf_in_an_archive_is_read_as_a_pdf(made: Path) -> None:
    from venus_edge.sources.extract import extract as real

    page = Zim(made / "i.zim", real).open("A/Doc")
    assert isinstance(page, Failure)
    assert "PDF" in page.detail


def test_links_between_entries_are_addresses_of_the_archive(made: Path) -> None:
    from venus_edge.sources.extract import extract as real

    zim = Zim(made / "i.zim", real)
    page = zim.open("A/Main")
    assert isinstance(page, Page)
    assert "(zim:i/A/Kereon#history)" in page.text
    assert isinstance(zim.open("zim:i/A/Kereon#history"), Page)


def settings(home: Path) -> Settings:
    return Settings(Directories(home / "config", home / "data", home / "cache"))


def test_each_kind_of_damage_is_one_line_and_the_other_archives_stay_usable(made: Path, tmp_path: Path) -> None:
    whole = (made / "i.zim").read_bytes()
    files = {"cut": whole[: len(whole) // 2], "text": b"hello" * 100, "empty": b"", "good": whole}
    for name, body in files.items():
        (tmp_path / f"{name}.zim").write_bytes(body)
    said = {}
    for name in ("cut", "text", "empty", "missing"):
        with pytest.raises(CorpusError) as caught:
            Zim(tmp_path / f"{name}.zim", extract)
        said[name] = str(caught.value).replace(str(tmp_path) + "/", "")
    assert said == {
        "cut": "cut.zim: the archive is damaged or cut; fetch it again",
        "text": "text.zim is not a ZIM archive; name a .zim file",
        "empty": "empty.zim is empty; fetch the archive again",
        "missing": "there is no archive at missing.zim; name a .zim file",
    }
    (tmp_path / "cut.zim").write_bytes(whole)
    chosen = settings(tmp_path)
    corpora.create("two", [str(tmp_path / "cut.zim"), str(tmp_path / "good.zim")], chosen)
    (tmp_path / "cut.zim").write_bytes(files["cut"])
    notes: list[str] = []
    opened = corpora.opened(corpora.path_of("two", chosen), chosen, notes.append)
    assert [hit.url for hit in opened.search("Kereon").hits] == ["zim:good/A/Kereon", "zim:good/A/Main"]
    assert notes == [f"{tmp_path}/cut.zim: the archive is damaged or cut; fetch it again"]
    opened.close()


def test_a_flipped_byte_is_found_by_check_and_ends_nothing(made: Path, tmp_path: Path) -> None:
    body = bytearray((made / "i.zim").read_bytes())
    body[len(body) // 2] ^= 0xFF
    (tmp_path / "flip.zim").write_bytes(body)
    chosen = settings(tmp_path)
    corpora.create("flip", [str(tmp_path / "flip.zim")], chosen)
    assert corpora.check("flip", chosen) == [
        f"{tmp_path}/flip.zim: the archive is damaged (its checksum is wrong); fetch it again"
    ]
    zim = Zim(tmp_path / "flip.zim", extract)
    for path, _, _ in PAGES:
        zim.open(path)
    zim.search("Kereon lighthouse")


def test_several_archives_answer_at_once(made: Path, tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    corpora.create("both", [str(made / "i.zim"), str(made / "n.zim")], chosen)
    opened = corpora.opened(corpora.path_of("both", chosen), chosen, lambda _: None)
    assert {hit.url for hit in opened.search("Kereon").hits} >= {"zim:i/A/Kereon", "zim:n/A/Kereon"}
    assert isinstance(opened.open("zim:n/Kereon"), Page)
    opened.close()


def test_an_archive_is_indexed_on_request_with_its_redirects(made: Path, tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    report = corpora.create("ours", [str(made / "n.zim")], chosen, index=True)
    assert (report.added, [skipped.path for skipped in report.skipped]) == (5, ["A/Doc"])
    opened = corpora.opened(corpora.path_of("ours", chosen), chosen, lambda _: None)
    for query in QUESTIONS:
        assert opened.search(query).hits[0].url == "zim:n/A/Kereon"
    for url in ("zim:n/A/Kéréon", "zim:n/Kereon", "zim://n/A/Kereon#history"):
        page = opened.open(url)
        assert isinstance(page, Page)
        assert page.title == "Kereon light"
    opened.close()
    assert corpora.update("ours", chosen).added == 0


def test_without_libzim_the_command_that_brings_it_is_said(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    with pytest.raises(CorpusError, match=r"no reader is installed: pip install 'venus-edge\[zim\]'$"):
        Zim(made / "i.zim", extract)
