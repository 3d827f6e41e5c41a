"""ZIM archives, made here by libzim: searched as words that are alternatives, read in place, damaged, indexed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.corpus.conftest import extract
from venus_edge import corpora, world
from venus_edge.cli.app import cli
from venus_edge.corpus import zimindex
from venus_edge.corpus.zim import Zim
from venus_edge.corpus.zimindex import IndexDamagedError, Indexes
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
    ("A/Cryin'", "Cryin'", "<p>Gulls.</p>"),
    ("A/Help:Lights", "Help:Lights", "<p>How to light a lamp.</p>"),
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


def archive(
    file: Path,
    indexed: bool,
    pages: Sequence[tuple[str, str, str]] = PAGES,
    others: Sequence[Any] = (),
    said: Mapping[str, str] | None = None,
) -> Path:
    """An archive of pages, a PDF and a redirect; `others` are items, `said` its metadata."""
    with writer.Creator(file).config_indexing(indexed, "eng") as creator:
        for path, title, body in pages:
            page = f"<html><head><title>{title}</title></head><body>{body}</body></html>"
            creator.add_item(item(path, title, page.encode(), "text/html"))
        creator.add_item(item("A/Doc", "A document", b"%PDF-1.4 of nothing", "application/pdf"))
        creator.add_redirection("A/Kéréon", "Kéréon", "A/Kereon", {writer.Hint.FRONT_ARTICLE: True})
        for other in others:
            creator.add_item(other)
        creator.set_mainpath("A/Main")
        for field, text in (said or {"Source": "https://lights.example"}).items():
            creator.add_metadata(field, text)
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
        ("“zim:i/A/Ar_Men”", "Ar Men"),
        ("zim:i/A/灯塔。", "灯塔"),
        ("zim:i/A/Cryin'", "Cryin'"),
        ("Help:Lights", "Help:Lights"),
        ("zim:i/A/Help:Lights?action=view#top", "Help:Lights"),
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
    assert (report.added, [skipped.path for skipped in report.skipped]) == (7, ["A/Doc"])
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


# -- what is found, and in which order ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive in which a hundred pages speak of the Kereon light, and one is about it."""
    pages = [
        (f"Ship_{n}", f"Ship {n}", f"<p>The ship {n} passed the Kereon light, the Kereon light, in {1800 + n}.</p>")
        for n in range(100)
    ]
    text = "The barometer of the keeper fell as <i>Ar</i><b>menia</b> lay ahead. " * 6
    pages += [
        ("Kereon_light", "Kereon light", "<p>A tower in the sea.</p>"),
        ("Keeper", "A keeper", f"<p>{text}</p>"),
        ("Keeper_again", "A keeper", f"<p>{text}</p>"),
        ("Quoted", "Quoted", "<p>Somebody saw a red lamp at night, and a green one.</p>"),
        ("Unquoted", "Unquoted", "<p>A lamp is red and stays red: that lamp, this lamp.</p>"),
        ("守塔人", "守塔人", "<p>守塔人在灯塔上写日记。</p>"),
        ("海图", "海图", "<p>灯塔、灯塔、灯塔，都在海图上。</p>"),
    ]
    others = [
        item("style.css", "", b"lamp { color: red }", "text/css"),
        item("code.js", "", b"lamp()", "application/javascript"),
        item("load(1).php", "", b"lamp = function () { red() }", "text/plain"),
        item("load(2).php", "Load", b"(function(mw, $) { lamp() })", "text/html"),
        item("lamp.png", "Lamp", b"\x89PNG", "image/png"),
        item("note.txt", "", b"A note about a lantern.", "text/plain"),
    ]
    return archive(tmp_path_factory.mktemp("wiki") / "my wiki #1 & 灯.zim", True, pages, others)


@pytest.mark.parametrize("query", ["Kereon light", "kereon lights", "KÉRÉON LIGHT"])
def test_what_is_called_as_the_query_is_comes_first(wiki: Path, query: str) -> None:
    zim = Zim(wiki, extract, "w")
    assert zim.search(query).hits[0].url == "zim:w/Kereon_light"
    assert len(zim.search(query, 20).hits) == 20


def test_what_has_all_of_the_words_comes_before_what_has_one_often(wiki: Path) -> None:
    assert [hit.url for hit in Zim(wiki, extract, "w").search("守塔人 日记 灯塔").hits] == [
        "zim:w/%E5%AE%88%E5%A1%94%E4%BA%BA", "zim:w/%E6%B5%B7%E5%9B%BE"
    ]  # fmt: skip


def test_copies_are_one_hit_and_both_open(wiki: Path) -> None:
    zim = Zim(wiki, extract, "w")
    assert [hit.title for hit in zim.search("barometer").hits] == ["A keeper"]
    assert isinstance(zim.open("zim:w/Keeper"), Page)
    assert isinstance(zim.open("zim:w/Keeper_again"), Page)


def test_a_quoted_phrase_is_honoured_and_a_site_is_no_word(wiki: Path) -> None:
    zim = Zim(wiki, extract, "w")
    assert [hit.title for hit in zim.search("red lamp").hits] == ["Unquoted", "Quoted"]
    assert [hit.title for hit in zim.search('"red lamp"').hits] == ["Quoted"]
    assert [hit.title for hit in zim.search("site:lights.example barometer").hits] == ["A keeper"]
    assert len(zim.search('"lamp red night"').hits) == 2  # no page has that phrase: its words


def test_a_snippet_is_the_text_as_it_is_read(wiki: Path) -> None:
    (hit,) = Zim(wiki, extract, "w").search("barometer").hits
    assert hit.snippet.startswith("The barometer of the keeper fell as Armenia lay ahead. The barometer")


def test_pictures_scripts_and_styles_are_no_documents(wiki: Path, tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    report = corpora.create("ours", [str(wiki)], chosen, index=True)
    assert (report.added, [skipped.path for skipped in report.skipped]) == (108, ["A/Doc"])
    opened = corpora.opened(corpora.path_of("ours", chosen), chosen, lambda _: None)
    assert {hit.title for hit in opened.search("lamp").hits} == {"Quoted", "Unquoted"}
    assert [hit.title for hit in opened.search("lantern").hits] == ["A note about a lantern."]
    opened.close()
    assert {hit.title for hit in Zim(wiki, extract).search("lamp red").hits} == {"Quoted", "Unquoted"}


def test_a_name_of_any_characters_is_an_address_that_opens(wiki: Path) -> None:
    zim = Zim(wiki, extract)
    (hit,) = zim.search('"red lamp"').hits
    assert hit.url == "zim:my%20wiki%20%231%20%26%20%E7%81%AF/Quoted"
    for url in (hit.url, "zim:my wiki #1 & 灯/Quoted", "ZIM://My Wiki #1 & 灯/Quoted#top"):
        assert isinstance(zim.open(url), Page)


def test_every_hit_opens(made: Path, wiki: Path) -> None:
    from venus_edge.sources.extract import extract as real

    for file, queries in ((made / "i.zim", [*QUESTIONS, "document"]), (wiki, ["ship", "灯塔", "lamp", "note"])):
        zim = Zim(file, real)
        for query in queries:
            for hit in zim.search(query).hits:
                opened = zim.open(hit.url)
                assert isinstance(opened, Page) or "PDF" in opened.detail


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index of any archive can be asked."""
    (tmp_path / "child.py").write_text("raise SystemExit")
    monkeypatch.setattr(zimindex, "_CHILD", tmp_path / "child.py")


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("the light", ["Help:Lights", "Kereon light"]),
        ("men of lights", ["Help:Lights", "Ar Men", "Kereon light"]),
        ("灯", ["灯塔"]),
        ("KÉRÉON", ["Kereon light"]),
        ("doc", []),
    ],
)
@pytest.mark.usefixtures("broken")
def test_without_an_index_of_titles_each_word_of_a_title_is_found(made: Path, query: str, titles: list[str]) -> None:
    assert [hit.title for hit in Zim(made / "n.zim", extract).search(query).hits] == titles


def test_what_no_title_has_is_said_to_be_in_no_title(made: Path) -> None:
    failure = Zim(made / "n.zim", extract).search("barometer").failure
    assert failure == Failure(Trouble.EMPTY, "No title has any of these words, and n has no full-text index.")


def test_libzim_s_own_words_do_not_reach_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with writer.Creator(tmp_path / "zh.zim").config_indexing(True, "zho") as creator:
        creator.add_item(item("灯塔", "灯塔", "<p>克雷翁灯塔于1916年首次点亮。</p>".encode(), "text/html"))
    capfd.readouterr()
    zim = Zim(tmp_path / "zh.zim", extract)
    assert [hit.title for hit in zim.search("灯塔 点亮").hits] == ["灯塔"]
    zim.close()
    assert capfd.readouterr() == ("", "")


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["zim:i", "zim:i/", "zim://I/#top", "mainPage", "https://lights.example/", ""])
def test_the_first_page_opens_by_the_archive_s_name(made: Path, url: str) -> None:
    page = Zim(made / "i.zim", extract).open(url)
    assert isinstance(page, Page)
    assert page.title == "Main"


def test_links_from_the_root_and_beyond_it_stay_in_the_archive(tmp_path: Path) -> None:
    from venus_edge.sources.extract import extract as real

    links = "".join(f"<p>See <a href='{to}'>{to}</a> there.</p>" for to in ("/A/B", "../../A/B", "B", "./B?x=1"))
    zim = Zim(archive(tmp_path / "l.zim", False, [("A/Main", "Main", links), ("A/B", "B", "<p>Here.</p>")]), real)
    page = zim.open("A/Main")
    assert isinstance(page, Page)
    assert page.text.count("(zim:l/A/B)") == 3
    for target in ("zim:l/A/B", "zim:l/A/B?x=1"):
        assert isinstance(zim.open(target), Page)


@pytest.mark.parametrize(
    ("said", "url", "is_there"),
    [
        ({"Name": "wikipedia_en_lights"}, "https://en.wikipedia.org/wiki/Kereon#history", True),
        ({"Name": "wikipedia_en_lights"}, "http://en.m.wikipedia.org/wiki/kereon", True),
        ({"Name": "wikipedia_en_lights"}, "https://en.wikipedia.org/w/index.php?title=Kereon&action=view", True),
        ({"Name": "wikipedia_en_lights"}, "https://de.wikipedia.org/wiki/Kereon", False),
        ({"Name": "kiwix.wikibooks_be_all"}, "https://be.wikibooks.org/wiki/灯塔", True),
        ({"Name": "sea.stackexchange.com_en_all"}, "https://sea.stackexchange.com/Ar_Men", True),
        ({"Title": "Lights"}, "https://own.example/wiki/Own", True),  # as the page itself says
        ({"Title": "Lights"}, "https://own.example/wiki/Kereon", False),
        ({"Title": "Lights"}, "https://other.example/wiki/Kereon", False),
        ({"Title": "Lights"}, "http://[x/Kereon", False),
    ],
)
def test_pages_answer_to_the_addresses_of_their_site(
    tmp_path: Path, said: dict[str, str], url: str, is_there: bool
) -> None:
    own = b"<html><head><link rel='canonical' href='https://own.example/wiki/Own'></head><body>Own.</body></html>"
    zim = Zim(archive(tmp_path / "s.zim", False, others=[item("A/Own", "Own", own, "text/html")], said=said), extract)
    assert isinstance(zim.open(url), Page) is is_there


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_damaged_index_ends_nothing_and_titles_are_searched(made: Path, tmp_path: Path) -> None:
    """Blocks of zeros over all of the indexes, one place after the other."""
    whole = (made / "i.zim").read_bytes()
    start = whole.index(b"Xapian Glass") - 16
    said = set()
    for at in range(start, len(whole) - 64, (len(whole) - start) // 12):
        (tmp_path / "d.zim").write_bytes(whole[:at] + bytes(min(4_096, len(whole) - at)) + whole[at + 4_096 :])
        try:
            zim = Zim(tmp_path / "d.zim", extract)
        except CorpusError:
            continue
        found = zim.search("Kereon lighthouse")
        zim.close()
        said.add(found.failure.detail if found.failure else "")
        if found.failure and found.failure.trouble is Trouble.UNREADABLE:
            assert [hit.title for hit in found.hits] == ["Kereon light"]
    assert "The full-text index of d is damaged: only titles were searched." in said


@pytest.mark.parametrize(
    "ending", ["os.abort()", "sys.exit(3)", "print('{', flush=True)", "import time; time.sleep(60)"]
)
def test_the_end_of_the_index_s_process_is_damage_and_the_next_question_starts_one(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    child = tmp_path / "child.py"
    child.write_text(f"import os, sys\nsys.stdin.readline()\n{ending}\n")
    with monkeypatch.context() as patched:
        patched.setattr(zimindex, "_CHILD", child)
        patched.setattr(zimindex, "_SECONDS", 0.5)
        indexes = Indexes(made / "i.zim")
        with pytest.raises(IndexDamagedError):
            indexes.ask(["kereon"])
    assert indexes.ask(["kereon"], ["ar"]).titles == (["A/Ar_Men"],)
    indexes.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_index_s_process_outlives_ctrl_c_and_is_started_again_where_it_was_ended(made: Path) -> None:
    indexes = Indexes(made / "i.zim")
    asked = indexes.ask(["kereon"])
    process = indexes._process
    assert process is not None
    process.send_signal(signal.SIGINT)
    assert indexes.ask(["kereon"]) == asked
    assert process.poll() is None
    process.kill()
    process.wait()
    assert indexes.ask(["kereon"]) == asked
    indexes.close()


def test_an_entry_that_is_damaged_is_listed_and_the_others_are_indexed(tmp_path: Path) -> None:
    file = tmp_path / "d.zim"
    with writer.Creator(file).config_clustersize(1_024) as creator:
        for n in range(4):
            creator.add_item(item(f"{n}", f"Page {n}", f"<p>page {n} of it</p>".encode() * 200, "text/html"))
    body = file.read_bytes()
    at = body.index(b"\x28\xb5\x2f\xfd")  # where the first of its packed clusters begins
    file.write_bytes(body[:at] + bytes(4) + body[at + 4 :])
    chosen = settings(tmp_path)
    report = corpora.create("ours", [str(file)], chosen, index=True)
    damaged = [skipped for skipped in report.skipped if "the archive is damaged" in skipped.reason]
    assert damaged
    assert (report.added, len(damaged)) == (4 - len(damaged), len(report.skipped))
    zim = Zim(file, extract)
    assert [isinstance(zim.open(f"{n}"), Page) for n in range(4)].count(True) == report.added
    assert corpora.check("ours", chosen) == [f"{file}: the archive is damaged (its checksum is wrong); fetch it again"]


def run(home: Path, *words: str) -> tuple[int, str, str]:
    """(exit code, what is on stdout, what is on stderr) of `venus-edge corpus`."""
    where = {f"VENUS_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "cache")}
    done = CliRunner().invoke(cli, ["corpus", *words], env=where)
    return done.exit_code, done.stdout, done.stderr.replace(f"{home}/", "")


def test_the_command_line_names_each_archive_that_cannot_be_read(made: Path, tmp_path: Path) -> None:
    whole = (made / "i.zim").read_bytes()
    bodies = {"cut": whole[: len(whole) // 2], "text": b"hello" * 100, "empty": b"", "good": whole}
    for name, body in bodies.items():
        (tmp_path / f"{name}.zim").write_bytes(body)
    files = [str(tmp_path / f"{name}.zim") for name in ("cut", "text", "empty", "missing", "good")]
    code, _, said = run(tmp_path, "create", "lights", *files)
    assert (code, said.splitlines()) == (0, [
        "left out cut.zim: cut.zim: the archive is damaged or cut; fetch it again",
        "left out text.zim: text.zim is not a ZIM archive; name a .zim file",
        "left out empty.zim: empty.zim is empty; fetch the archive again",
        "left out missing.zim: there is no archive at missing.zim; name a .zim file",
        "good: 9 entries, read in place",
    ])  # fmt: skip
    assert run(tmp_path, "search", "lights", "Kereon")[1].startswith("Kereon light\n  zim:good/A/Kereon\n")
    assert "sources: 1, 1 read in place" in run(tmp_path, "list")[1]
    for file, line in zip(files, said.splitlines(), strict=True):
        if "good" not in file:
            told = "Error: " + line.partition(": ")[2] + "\n"
            assert run(tmp_path, "search", file, "Kereon")[::2] == (1, told)
            assert run(tmp_path, "create", "none", file)[::2] == (1, told)


def test_a_run_goes_on_with_the_archives_that_can_be_read(made: Path, tmp_path: Path) -> None:
    whole = (made / "i.zim").read_bytes()
    bodies = {"cut": whole[: len(whole) // 2], "empty": b"", "good": whole}
    for name, body in bodies.items():
        (tmp_path / f"{name}.zim").write_bytes(body)
    notes: list[str] = []
    named = [tmp_path / f"{name}.zim" for name in ("cut", "good", "empty", "missing")]
    with ExitStack() as stack:
        opened = world.opened(replace(settings(tmp_path), corpus=tuple(named), offline=True), stack, [], notes.append)
        assert opened.search_all(["Kereon"], 1)[0].hits[0].url == "zim:good/A/Kereon"
    assert [note.replace(f"{tmp_path}/", "") for note in notes] == [
        "cut.zim: the archive is damaged or cut; fetch it again",
        "empty.zim is empty; fetch the archive again",
        "there is no archive at missing.zim; name a .zim file",
    ]
    with ExitStack() as stack, pytest.raises(CorpusError, match=r"cut\.zim: the archive is damaged or cut"):
        world.opened(replace(settings(tmp_path), corpus=(named[0],), offline=True), stack, [], notes.append)


def test_an_archive_in_parts_opens_by_its_first(made: Path, tmp_path: Path) -> None:
    whole = (made / "i.zim").read_bytes()
    third = len(whole) // 3 + 1
    for n, end in enumerate(("aa", "ab", "ac")):
        (tmp_path / f"p.zim{end}").write_bytes(whole[n * third : (n + 1) * third])
    assert run(tmp_path, "search", str(tmp_path / "p.zimaa"), "Kereon")[1].startswith("Kereon light\n  zim:p/A/Kereon")
    for name in ("p.zimab", "p.zim"):
        code, _, said = run(tmp_path, "create", "parts", str(tmp_path / name))
        assert (code, said.rpartition(", ")[2]) == (1, "p.zimaa\n")
    (tmp_path / "p.zimab").unlink()
    code, _, said = run(tmp_path, "create", "parts", str(tmp_path / "p.zimaa"))
    assert (code, said) == (
        1, "Error: p.zimaa: a part is missing or damaged; fetch all parts (p.zimaa, p.zimab, ...) again\n"
    )  # fmt: skip


def test_a_folder_is_a_folder_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "notes.zim").mkdir()
    (tmp_path / "notes.zim" / "a.md").write_text("# Kereon\n\nA lighthouse.")
    assert run(tmp_path, "create", "notes", str(tmp_path / "notes.zim"))[0] == 0
    assert run(tmp_path, "search", str(tmp_path / "notes.zim"), "lighthouse")[1].startswith("Kereon\n")
