"""A corpus whose words are in tantivy: it finds what FTS5 finds, and what a kill leaves behind is brought over."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge import corpora
from venus_edge.corpus import ledger, store, tantivy_index
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.errors import CorpusError, UsageError
from venus_edge.settings import Directories, Settings

pytest.importorskip("tantivy")

DOCUMENTS = (
    Document("https://www.example.org/kereon", "Kereon light", "The Kereon lighthouse off Ushant was first lit in 1916."
             " State-of-the-art: a C++ controller, KRN-190416. Height: 41 metres."),
    Document("https://sea.example.org/men", "Ar Men", "Ar Men lighthouse, 1881, 37 metres. Its keepers were running."),
    Document("https://x.example/brest", "Brest", "Port city in Brittany, metres above the sea."),
    Document("https://x.example/zh", "", "克雷翁灯塔于1916年首次点亮，塔高41米。使用lamp-ctl工具"),
    Document("https://x.example/ja", "", "東京湾の潮位観測所"),
    Document("https://x.example/ko", "", "서울의 조위 관측소"),
    Document("https://x.example/de", "", "Größe naïve café Kéréon ﬁle Straße"),
    Document("https://x.example/hi", "", "समुद्र का प्रकाशस्तंभ"),
)  # fmt: skip
QUERIES = (
    ("when was the Kereon lighthouse first lit", "kereon"), ("Kereon lighthouse height metres wikipedia", "kereon"),
    ("lighthouses near Ushant", "kereon"), ("keeper runs", "men"), ('"Ar Men lighthouse" 1881', "men"),
    ("KRN-190416", "kereon"), ("C++ controller", "kereon"), ("site:sea.example.org lighthouse", "men"),
    ("site:example.org 37 metres", "men"), ("灯塔", "zh"), ("点亮", "zh"), ("灯", "zh"), ("塔高", "zh"), ("lamp", "zh"),
    ("克雷翁 高度", "zh"), ("東京", "ja"), ("潮位", "ja"), ("관측소", "ko"), ("소", "ko"), ("cafe naive", "de"),
    ("GRÖSSE", "de"), ("strasse", "de"), ("प्रकाशस्तंभ", "hi"), ("{x} Brest NOT (^city*", "brest"),
    ('"unbalanced Brest', "brest"),
)  # fmt: skip


def corpus_of(path: Path, documents: Sequence[Document], engine: str = "tantivy") -> Path:
    with Writer(path, engine) as writer, writer.batch():
        for document in documents:
            writer.put(document)
    return path


def urls(corpus: Corpus, query: str) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in corpus.search(query).hits]


def folder_of(path: Path) -> Path:
    found = store.beside(path)
    assert found is not None
    return found


def test_every_query_finds_first_what_fts5_finds_first(tmp_path: Path) -> None:
    ours, fts5 = corpus_of(tmp_path / "t.sqlite", DOCUMENTS), corpus_of(tmp_path / "f.sqlite", DOCUMENTS, "fts5")
    assert (store.beside(fts5), tantivy_index.folders(fts5)) == (None, [])
    with Corpus(ours) as corpus, Corpus(fts5) as other:
        assert [urls(corpus, query)[0] for query, _ in QUERIES] == [first for _, first in QUERIES]
        for query, first in QUERIES:
            found = urls(corpus, query)
            assert (set(found), found[0]) == (set(urls(other, query)), first), query


def test_a_title_weighs_twice_and_no_phrase_reaches_over_its_end(tmp_path: Path) -> None:
    filler = "the sea is wide and the wind is strong today, as ever"
    documents = [Document("https://x.example/body", "Notes", f"tide gauge {filler} {filler}"),
                 Document("https://x.example/title", "Gauge of the tide", f"notes {filler} {filler}")]  # fmt: skip
    with Corpus(corpus_of(tmp_path / "x.sqlite", documents)) as corpus:
        assert urls(corpus, "tide gauge")[0] == "title"
        assert urls(corpus, '"tide gauge"') == ["body"]
        assert urls(corpus, '"tide notes"') == urls(corpus, "tide notes")


def test_what_is_put_replaced_and_dropped_shows_at_once_in_an_open_corpus(tmp_path: Path) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS[:2])
    with Corpus(path) as corpus:
        assert sorted(urls(corpus, "lighthouse")) == ["kereon", "men"]
        with Writer(path) as writer:
            with writer.batch():
                writer.put(Document("https://sea.example.org/men", "Ar Men", "A tower. 灯塔"))
                writer.put(DOCUMENTS[2])
                assert urls(corpus, "Brest") == []
            assert (urls(corpus, "keeper"), urls(corpus, "Brest")) == ([], [])  # gone at once, there when it is brought
        assert (urls(corpus, "lighthouse"), urls(corpus, "Brest"), urls(corpus, "灯塔")) == (
            ["kereon"],
            ["brest"],
            ["men"],
        )
        with Writer(path) as writer, writer.batch():
            for url in ("https://x.example/brest", "https://sea.example.org/men"):
                found = writer.find(url)
                assert found is not None
                writer.drop(found[0])
            writer.put(DOCUMENTS[4])  # takes the number of a passage that went
        assert (urls(corpus, "Brest"), urls(corpus, "tower"), urls(corpus, "東京")) == ([], [], ["ja"])
    store.check(path)


def test_a_kill_between_the_two_commits_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS[:4])
    writer = Writer(path)
    with writer.batch():
        writer.put(DOCUMENTS[4])
        writer.put(Document(DOCUMENTS[0].url, "Kereon light", "It was lit again."))
    assert writer._follower is not None
    writer._follower._bring()  # tantivy has them safe, and the file does not know
    writer._follower._writer.commit()
    writer.close(whole=False)
    with Corpus(path, check=False) as corpus:
        assert (urls(corpus, "東京"), urls(corpus, "Ushant"), urls(corpus, "Brest")) == ([], [], ["brest"])
        Writer(path).close()
        assert (urls(corpus, "東京"), urls(corpus, "Ushant"), urls(corpus, "lit")) == (["ja"], [], ["kereon"])
    store.check(path)
    with closing(store.connect_to_read(path)) as db:
        assert db.execute("SELECT count(*) FROM behind").fetchone() == (0,)


def test_a_stop_in_the_middle_leaves_nothing_half_brought(tmp_path: Path) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS[:1])
    writer = Writer(path)
    with writer.batch():
        writer.put(DOCUMENTS[1])
    with writer.batch():
        damaged = writer.put(DOCUMENTS[2])
    writer.connection.execute(
        "UPDATE text SET parts = x'00' WHERE first = (SELECT id FROM passage WHERE document = ?)", (damaged,)
    )
    with pytest.raises(CorpusError, match="the corpus is damaged"):
        writer.close()
    with closing(store.connect(path, "rw")) as db:
        assert db.execute("SELECT count(*) FROM behind").fetchone() == (2,)
        db.execute("DELETE FROM passage WHERE document = ?", (damaged,))
    Writer(path).close()
    with Corpus(path, check=False) as corpus, closing(store.connect_to_read(path)) as db:
        assert sorted(urls(corpus, "lighthouse metres")) == ["kereon", "men"]
        tantivy_index.check(db, folder_of(path))


@pytest.mark.parametrize("how", ["gone", "cut", "flipped", "no list", "half a list"])
def test_a_damaged_index_is_one_line_and_the_next_update_makes_it_again(tmp_path: Path, how: str) -> None:
    path = corpus_of(tmp_path / "papers.sqlite", DOCUMENTS)
    folder = folder_of(path)
    file = max(folder.glob("*.term"), key=lambda each: each.stat().st_size)
    data = bytearray(file.read_bytes())
    match how:
        case "gone":
            shutil.rmtree(folder)
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "flipped":
            data[10] ^= 0xFF
            file.write_bytes(data)
        case "no list":
            (folder / "meta.json").unlink()
        case _:
            (folder / "meta.json").write_text((folder / "meta.json").read_text()[:40])
    with pytest.raises(
        CorpusError, match="is damaged or not there; make it again with: venus-edge corpus update papers"
    ):
        store.check(path)
    if how != "flipped":  # which only a whole reading shows
        with Corpus(path, check=False) as corpus, pytest.raises(CorpusError, match="corpus update papers"):
            corpus.search("lighthouse")
        Writer(path).close()
        with Corpus(path) as corpus:
            assert urls(corpus, "灯塔") == ["zh"]
        assert len(tantivy_index.folders(path)) == 1


def test_without_the_package_it_is_one_line_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    monkeypatch.setitem(sys.modules, "tantivy", None)
    line = r"tantivy, which is not installed; run: pip install 'venus-edge\[tantivy\]'"
    with Corpus(path, check=False) as corpus:
        assert corpus.info().documents == len(DOCUMENTS)
        with pytest.raises(CorpusError, match=line):
            corpus.search("lighthouse")
    for made in (path, tmp_path / "new.sqlite"):
        with pytest.raises(CorpusError, match=line):
            Writer(made, "tantivy")
    assert not (tmp_path / "new.sqlite").exists()
    assert corpus_of(tmp_path / "f.sqlite", DOCUMENTS, "").is_file()


def test_a_copy_for_another_machine_is_one_file_that_needs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    (tmp_path / "away").mkdir()
    ledger.export(path, tmp_path / "away" / "copy.sqlite")
    monkeypatch.setitem(sys.modules, "tantivy", None)
    assert [each.name for each in (tmp_path / "away").iterdir()] == ["copy.sqlite"]
    with Corpus(tmp_path / "away" / "copy.sqlite") as corpus:
        assert [urls(corpus, query)[0] for query, _ in QUERIES] == [first for _, first in QUERIES]


def test_a_named_corpus_keeps_its_engine_until_another_is_asked_for(tmp_path: Path) -> None:
    settings = Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "light.md").write_text("# Kereon\n\nThe lighthouse was lit in 1916.")
    (notes / "灯塔.txt").write_text("克雷翁灯塔于1916年首次点亮")
    corpora.create("papers", [str(notes)], settings, engine="tantivy")
    path = corpora.there("papers", settings)
    with pytest.raises(UsageError, match="was begun otherwise: venus-edge corpus rebuild papers --engine fts5"):
        corpora.create("papers", [str(notes)], settings, engine="fts5")
    (notes / "brest.md").write_text("# Brest\n\nA port.")
    (notes / "light.md").unlink()
    assert corpora.update("papers", settings).added == 1
    with Corpus(path) as before:
        assert urls(before, "port") == ["brest.md"]
        corpora.rebuild("papers", settings)
        assert urls(before, "灯塔") == ["%E7%81%AF%E5%A1%94.txt"]  # what is open stays whole
    for engine, expected in (("", "tantivy"), ("fts5", "fts5"), ("", "fts5"), ("tantivy", "tantivy")):
        assert corpora.rebuild("papers", settings, engine=engine).documents == 2
        assert (corpora.engine_of(path), len(tantivy_index.folders(path))) == (expected, expected == "tantivy")
        with Corpus(path) as corpus:
            assert [len(corpus.search(query).hits) for query in ("port", "灯塔", "lighthouse")] == [1, 1, 0]
        assert corpora.check("papers", settings) == []
    (named,) = corpora.listed(settings)
    assert named.size == path.stat().st_size + tantivy_index.size(path) > path.stat().st_size
    corpora.rm("papers", settings)
    assert list(path.parent.glob("papers*")) == []


def test_a_corpus_on_a_disk_that_cannot_be_written_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    before = sorted(folder_of(path).iterdir())
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may write anywhere
    (folder_of(path) / ".tantivy-meta.lock").unlink()
    with Corpus(path) as corpus:
        assert [urls(corpus, query)[0] for query, _ in QUERIES] == [first for _, first in QUERIES]
    assert sorted(folder_of(path).iterdir()) == [each for each in before if each.name != ".tantivy-meta.lock"]
