"""A folder becomes a corpus, and stays it with little work."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.corpus.conftest import extract
from venus_edge.corpus import collect, page
from venus_edge.corpus.collect import Report, Skipped, Step
from venus_edge.corpus.folder import build
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.page import decode
from venus_edge.errors import CorpusError
from venus_edge.sources.extract import extract as real
from venus_edge.values import Failure, Page


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub dir").mkdir(parents=True)
    (root / "kereon.html").write_text(
        '<!doctype html><title>Kereon</title><link href="https://lights.example/kereon" rel="canonical"><p>Lit in 1916.'
    )
    (root / "sub dir" / "灯塔.md").write_text("# 灯塔\n\n克雷翁灯塔于1916年点亮。", encoding="utf-8")
    (root / "notes.txt").write_text("A tide gauge stands at Brest.")
    return root


def made(docs: Path) -> Report:
    return build(docs, docs.parent / "corpus.sqlite", extract)


def urls(docs: Path, query: str) -> list[str]:
    with Corpus(docs.parent / "corpus.sqlite") as corpus:
        return [hit.url for hit in corpus.search(query).hits]


def opened(docs: Path, url: str) -> Page | Failure:
    with Corpus(docs.parent / "corpus.sqlite") as corpus:
        return corpus.open(url)


def test_every_document_is_found_and_its_address_opens(docs: Path) -> None:
    assert made(docs) == Report(added=3, documents=3)
    assert urls(docs, "1916") == ["https://lights.example/kereon", "file:docs/sub%20dir/%E7%81%AF%E5%A1%94.md"]
    for url, title in [
        ("http://www.lights.example/kereon/", "Kereon"),
        ("file:docs/kereon.html", "Kereon"),
        ("file:docs/sub dir/灯塔.md", "灯塔"),
        ("file:///docs/notes.txt", "A tide gauge stands at Brest."),
    ]:
        found = opened(docs, url)
        assert isinstance(found, Page)
        assert found.title == title


def test_the_index_is_one_file_and_holds_no_path_of_this_disk(docs: Path) -> None:
    made(docs)
    assert sorted(path.name for path in docs.parent.iterdir()) == ["corpus.sqlite", "docs"]
    assert str(docs.parent).encode() not in (docs.parent / "corpus.sqlite").read_bytes()


def test_only_what_changed_is_read_again(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(docs)
    (docs / "notes.txt").write_text("A barometer stands at Brest.")
    os.utime(docs / "notes.txt", ns=(1, 1))
    os.utime(docs / "kereon.html", ns=(2, 2))  # touched, the same bytes
    (docs / "sub dir" / "灯塔.md").unlink()
    (docs / "new.md").write_text("New.")
    assert made(docs) == Report(added=1, updated=1, unchanged=1, removed=1, documents=3)
    assert (urls(docs, "gauge"), urls(docs, "barometer"), urls(docs, "灯塔")) == ([], ["file:docs/notes.txt"], [])
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    assert made(docs) == Report(unchanged=3, documents=3)


def test_what_is_skipped_is_listed_with_the_reason(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LARGEST", 1000)
    (docs / "binary.txt").write_bytes(b"\x7fELF\0\0\1")
    (docs / "denied.html").write_text("denied")
    (docs / "empty.md").write_text(" \n")
    (docs / "front.md").write_text("---\ntitle: Only this\n---\n")
    (docs / "large.txt").write_text("x" * 1001)
    (docs / "picture.png").write_bytes(b"PNG")
    (docs / ".hidden.md").write_text("Hidden.")
    (docs / "lost.md").symlink_to(docs / "nowhere.md")
    report = made(docs)
    assert (report.documents, report.skipped) == (
        3,
        [
            Skipped("large.txt", "too large: 0 MB, at most 0"),
            Skipped("lost.md", "a link out of the folder, or to nothing"),
            Skipped("binary.txt", "it is not text"),
            Skipped("denied.html", "page could not be read: denied"),
            Skipped("empty.md", "it is empty"),
            Skipped("front.md", "it has no text"),
        ],
    )


@pytest.mark.parametrize(
    ("name", "body", "query"),
    [
        ("README", b"A barometer of 1788.", "barometer"),
        ("Kereon", "<!DOCTYPE html><title>t</title><p>克雷翁灯塔，高四十一米。</p>".encode(), "四十一米"),
        ("latin.txt", "Ein Café in der Größe eines Leuchtturms".encode("latin-1"), "größe"),
        ("gbk.md", "克雷翁灯塔高度四十一米，一九一六年首次点亮".encode("gbk"), "首次点亮"),
        ("big5.txt", "克雷翁燈塔高度四十一米，一九一六年首次點亮".encode("big5"), "首次點亮"),
        ("sjis.txt", "東京湾の潮位観測所で記録された潮位のデータです。".encode("shift_jis"), "潮位観測所"),
        ("korean.txt", "서울의 조위 관측소에서 기록한 자료입니다.".encode("euc-kr"), "관측소"),
        ("russian.txt", "Старый маяк стоит на берегу моря.".encode("cp1251"), "маяк"),
        ("marked.txt", "灯塔 in UTF-16".encode("utf-16"), "灯塔"),
        ("wide.txt", "barometer in UTF-16 without a mark".encode("utf-16-le"), "barometer"),
        ("wrong.html", "<html><head><meta charset='iso-8859-1'></head><p>灯塔</p></html>".encode(), "灯塔"),
        ("new\nline and space.md", "灯塔".encode(), "灯塔"),
        ("é" * 120 + ".md", b"A barometer.", "barometer"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_texts_of_many_charsets_and_names_are_found_and_open(
    tmp_path: Path, name: str, body: bytes, query: str
) -> None:
    folder, index = tmp_path / "docs", tmp_path / "x.sqlite"
    folder.mkdir()
    (folder / name).write_bytes(body)
    build(folder, index, real)
    with Corpus(index) as corpus:
        (hit,) = corpus.search(query).hits
        page = corpus.open(hit.url)
    assert isinstance(page, Page)
    assert page.url == hit.url


def test_what_is_no_document_is_said_and_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("A barometer.")
    os.mkfifo(folder / "pipe.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "self.txt").symlink_to("self.txt")
    (folder / "zero.txt").write_bytes(b"")
    (folder / "picture.txt").write_bytes(bytes(range(256)) * 20)
    (folder / "cut.docx").write_bytes(b"PK of nothing")
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(30_000_000)
    with (folder / "bad.txt").open("wb") as file:
        os.rename(os.fsencode(file.name), os.fsencode(folder) + b"/\xff\xfe.txt")
    report = build(folder, tmp_path / "x.sqlite", real)
    assert (report.documents, {skipped.path: skipped.reason for skipped in report.skipped}) == (
        1,
        {
            "pipe.txt": "not a file",
            "self.txt": "a link out of the folder, or to nothing",
            "huge.txt": "too large: 30 MB, at most 20",
            "??.txt": "its name is not UTF-8",
            "zero.txt": "it is empty",
            "picture.txt": "it is not text",
            "cut.docx": "page could not be read: it is an archive, which is not read",
        },
    )


def test_a_file_that_cannot_be_read_any_more_is_no_longer_in_the_corpus(docs: Path) -> None:
    made(docs)
    (docs / "notes.txt").write_bytes(b"\0\0\0")
    assert made(docs) == Report(unchanged=2, documents=2, skipped=[Skipped("notes.txt", "it is not text")])
    assert urls(docs, "gauge") == []


def test_links_out_of_the_folder_are_not_followed_and_circles_end(docs: Path) -> None:
    outside = docs.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("A secret.")
    (docs / "away").symlink_to(outside)
    (docs / "secret.md").symlink_to(outside / "secret.md")
    (docs / "sub dir" / "circle").symlink_to(docs)
    (docs / "self.md").symlink_to(docs / "self.md")
    assert made(docs) == Report(
        added=3,
        documents=3,
        skipped=[
            Skipped("away", "a link out of the folder"),
            Skipped("secret.md", "a link out of the folder, or to nothing"),
            Skipped("self.md", "a link out of the folder, or to nothing"),
        ],
    )


@pytest.mark.parametrize(
    "head",
    [
        "<link rel='alternate canonical' href='https://x.example/p?a=1&amp;b=2'>",
        '<LINK HREF=https://x.example/p?a=1&b=2 REL=canonical>',
        '<meta property="og:url" content="https://x.example/p?a=1&#38;b=2">',
        "<!-- saved from url=(0030)https://x.example/p?a=1&b=2 -->",
        '<link rel="canonical" href="/p"><meta content="https://x.example/p?a=1&b=2" property="og:url">',
    ],
)  # fmt: skip
def test_a_saved_page_keeps_its_web_address(docs: Path, head: str) -> None:
    (docs / "saved.html").write_text(f"<html>{head}<title>Saved</title><p>Barometer.")
    made(docs)
    assert urls(docs, "barometer") == ["https://x.example/p?a=1&b=2"]


def test_front_matter_gives_address_title_and_date(docs: Path) -> None:
    (docs / "a.md").write_text(
        '---\ntitle: "The barometer"\nurl: https://x.example/b\ndate: 2026-01-02T10:00\n---\n\n# B\n\nText.'
    )
    made(docs)
    found = opened(docs, "x.example/b")
    assert isinstance(found, Page)
    assert (found.url, found.title, found.text, found.date) == (
        "https://x.example/b", "The barometer", "# B\n\nText.", "2026-01-02"
    )  # fmt: skip


def test_pages_that_all_claim_one_address_are_all_kept(docs: Path) -> None:
    for name in ("a", "b", "c"):
        same = "b" if name == "c" else name
        (docs / f"{name}.html").write_text(f'<link rel="canonical" href="https://x.example/"><p>Barometer {same}.')
    report = made(docs)
    assert sorted(urls(docs, "barometer")) == ["file:docs/b.html", "https://x.example/"]
    assert report.documents == 6 - 1 + 1  # the third text is that of the second, under an address of its own


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("克雷翁灯塔，1916年。".encode("gb18030"), "克雷翁灯塔，1916年。"),
        ("Déjà vu à Ouessant, près du phare.".encode("cp1252"), "Déjà vu à Ouessant, près du phare."),
        ("Größe".encode("utf-8-sig"), "Größe"),
        ("灯塔".encode("utf-16"), "灯塔"),
        (b"a\r\nb\rc", "a\nb\nc"),
    ],
)  # fmt: skip
def test_encodings(body: bytes, expected: str) -> None:
    assert decode(body) == expected


def test_progress_tells_every_file(docs: Path) -> None:
    told: list[Step] = []
    build(docs, docs.parent / "corpus.sqlite", extract, told.append)
    sizes = [(docs / step.path).stat().st_size for step in told]
    assert told == [
        Step("docs", 1, 3, sizes[0], sum(sizes), 1, "kereon.html"),
        Step("docs", 2, 3, sum(sizes[:2]), sum(sizes), 2, "notes.txt"),
        Step("docs", 3, 3, sum(sizes), sum(sizes), 3, "sub dir/灯塔.md"),
    ]


def test_an_interrupted_build_goes_on_where_it_was(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "BATCH_ITEMS", 1)

    def interrupt(step: Step) -> None:
        if step.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(docs, docs.parent / "corpus.sqlite", extract, interrupt)
    assert made(docs) == Report(added=2, unchanged=1, documents=3)


def test_a_folder_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^there is nothing at .*nowhere; make a corpus with: .*$"):
        build(tmp_path / "nowhere", tmp_path / "x.sqlite", extract)


def test_an_empty_folder_is_an_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert made(tmp_path / "docs") == Report()
    assert urls(tmp_path / "docs", "anything") == []


PAGE = """<title>{0}</title><body><p>{0}: <a href="q.html">one</a>, <a href="./q.html#s">two</a>,
<a href="../up.html">three</a>,
<a href="sub%20dir/%E7%81%AF.html#塔">four</a>, <a href="sub dir/灯.html">five</a>, <a href="/up.html">six</a>, <a
href="sub dir/">seven</a>, <a href="..\\up.html?v=2">eight</a>;
<a href="../../out.html">a</a> <a href="../../up.html">b</a> <a href="javascript:go()">c</a>
<a href="data:text/html,x">d</a> <a href="mailto:a@b.example">e</a> <a href="file:///etc/passwd">f</a>
<a href="#s">g</a> <a href="http://[x">h</a> <a href="//web.example/x">nine</a>.</p></body>"""
LINKS = [
    ("one", "file:docs/{}/q.html"),
    ("two", "file:docs/{}/q.html#s"),
    ("three", "file:docs/up.html"),
    ("four", "file:docs/{}/sub%20dir/%E7%81%AF.html#塔"),
    ("five", "file:docs/{}/sub%20dir/灯.html"),
    ("six", "file:docs/up.html"),
    ("seven", "file:docs/{}/sub%20dir/"),
    ("eight", "file:docs/up.html"),
    ("nine", "http://web.example/x"),
]


@pytest.mark.parametrize("folder", ["lights", "灯塔"])
def test_links_between_the_pages_of_a_folder_open(tmp_path: Path, folder: str) -> None:
    docs = tmp_path / "docs"
    names = ("p.html", "q.html", "sub dir/灯.html", "sub dir/index.html", "../up.html")
    (docs / folder / "sub dir").mkdir(parents=True)
    for name in names:
        (docs / folder / name).write_text(PAGE.format(name), encoding="utf-8")
    build(docs, tmp_path / "x.sqlite", real)
    with Corpus(tmp_path / "x.sqlite") as corpus:
        page = corpus.open(f"file:docs/{folder}/p.html")
        assert isinstance(page, Page)
        links = re.findall(r"\[(\w+)\]\(([^)]*)\)", page.text)
        assert links == [(text, url.format(quote(folder))) for text, url in LINKS]
        found = [corpus.open(url) for _, url in links[:-1]]
    titles = ["q.html", "q.html", "../up.html", "sub dir/灯.html", "sub dir/灯.html", "../up.html"]
    assert [each.title for each in found if isinstance(each, Page)] == [*titles, "sub dir/index.html", "../up.html"]


def test_a_base_holds_and_what_leads_out_of_a_markdown_folder_stays_as_it_is_written(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "a").mkdir(parents=True)
    (docs / "a" / "based.html").write_text('<base href="../b/"><p>A <a href="灯.html">light</a>.', encoding="utf-8")
    (docs / "a" / "web.html").write_text('<base href="https://x.example/b/"><p>Another <a href="l.html">light</a>.')
    (docs / "a" / "m.md").write_text("[in](../b/灯.html) [out](../../b.html)", encoding="utf-8")
    build(docs, tmp_path / "x.sqlite", real)
    with Corpus(tmp_path / "x.sqlite") as corpus:
        pages = [corpus.open(f"file:docs/a/{name}") for name in ("based.html", "web.html", "m.md")]
    assert [page.text for page in pages if isinstance(page, Page)] == [
        "A [light](file:docs/b/灯.html).",
        "Another [light](https://x.example/b/l.html).",
        "[in](file:docs/b/灯.html) [out](../../b.html)",
    ]


@pytest.mark.parametrize(
    ("name", "body", "title", "begins"),
    [
        ("a.rst", "*******\n  Tides\n*******\n\n:Author: A.\n\n.. Fix\n\nPast\n====\n", "Tides", "# Tides"),
        ("b.rst", ".. _l:\n\n:mod:`tides` --- at ``Brest``\n====\n\nA.\n", "tides --- at Brest", ".. _l:"),
        ("c.rst.txt", "\n===\n~~~\n\n:class:`~sea.Tide` of `Brest <b>`_\n----\n\nA.", "Tide of Brest", "==="),
        ("d.rst", ".. meta::\n   :name: x\n\n====\n灯塔\n====\n\n历史\n----\n文字", "灯塔", ".. meta::"),
        ("e.rst", ".. note::\n   A.\n\nA text alone.\n", "A text alone.", ".. note::"),
        ("f.md", "Tides of Brest\n====\n\nText.\n", "Tides of Brest", "# Tides of Brest"),
        ("g.md", "潮汐\n--\n\n文字。\n", "潮汐", "## 潮汐"),
        ("h.md", "# Tides\n\n```\na\n\nb\n---\n```\n", "Tides", "# Tides\n\n```\na\n\nb\n---\n```"),
        ("i.md", "A line\n\n- one\n---\n", "A line", "A line\n\n- one\n---"),
        ("j.txt", "Tides\n=====\n\nA.", "Tides", "Tides\n====="),
    ],
    ids=lambda value: value[:9],
)
def test_a_title_is_what_is_underlined_and_the_line_is_no_text(name: str, body: str, title: str, begins: str) -> None:
    made = page.of_file(body.encode(), name, f"file:d/{name}", real)
    assert not isinstance(made, str)
    assert (made.title, made.text[: len(begins)]) == (title, begins)


def test_what_sphinx_made_a_page_from_is_left_out_as_long_as_the_page_is_there(tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "x.sqlite"
    pages = ["en/潮汐/a.html", "en/b.html", "en/c/index.html", "en/_sources/only.html"]
    left_out = ["en/_sources/b.md.txt", "en/_sources/c.txt", "en/_sources/潮汐/a.rst.txt"]
    sources = [*left_out, "en/_sources/d.rst.txt", "en/b.md.txt", "_sources/b.rst.txt"]
    for name in pages + sources:
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(f"<p>A barometer at {name}." if ".html" in name else f"A barometer, 气压计: {name}")
    report = build(docs, index, real)
    assert (report.documents, sorted(each.path for each in report.skipped)) == (len(pages) + 3, left_out)
    assert report.skipped[0].reason == "the page made from it is there: en/b.html"
    with Corpus(index) as corpus:
        assert isinstance(corpus.open("file:docs/en/_sources/d.rst.txt"), Page)
        assert isinstance(corpus.open("file:docs/en/_sources/b.md.txt"), Failure)
    (docs / "en/b.html").unlink()
    assert (build(docs, index, real).added, build(docs, index, real).unchanged) == (1, len(pages) + 3)


def test_a_file_that_is_not_what_its_name_says_is_left_out(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    names = ["a.pdf", "b.docx", "灯塔.epub"]
    for name in [*names, "data.json"]:
        (docs / name).write_text('{"lamp": "灯塔"}', encoding="utf-8")
    report = build(docs, tmp_path / "x.sqlite", real)
    assert report.documents == 1
    assert report.skipped == [Skipped(n, f"it is called .{n[-4:].lstrip('.')} and is something else") for n in names]


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ("(function(mw, $) { mw.lamp() })", True),
        ("/* 灯塔 */ // lamp\n.灯塔 > a { color: red; }", True),
        ("window.lamp = window.lamp || []", True),
        ("Function (mathematics)", False),
        ("灯塔 {高: 41}", False),
        ("/*" * 9_000, False),
    ],
    ids=lambda value: str(value)[:8],
)
def test_a_script_is_told_from_a_text(body: str, is_one: bool) -> None:
    assert page.is_script(body.encode()) is is_one
