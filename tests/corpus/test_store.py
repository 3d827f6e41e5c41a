"""A corpus file that is not sound is said to be so: case L05 and its kind."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge.corpus import store
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.errors import CorpusError
from venus_edge.values import Page


def documents(count: int) -> Iterator[Document]:
    for i in range(count):
        yield Document(f"https://x.example/{i}", f"Gauge {i}", f"tide gauge {i} " * 20 + "塔高41米")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "x.sqlite"
    with Writer(path) as writer, writer.batch():
        for document in documents(400):
            writer.put(document)
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "x.sqlite"))


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
        db.commit()


def test_a_damaged_word_index_is_noticed_though_sqlite_calls_the_file_sound(path: Path) -> None:
    change(path, "UPDATE words_data SET block = zeroblob(length(block)) WHERE id > 10 AND id % 3 = 0")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(CorpusError, match=r"the corpus is damaged; .* venus-edge corpus build DIR$"):
        Corpus(path)


def test_damage_is_noticed_on_a_medium_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_is_checked_by_fts5", lambda *_: False)
    Corpus(path).close()
    change(path, "UPDATE words_data SET block = zeroblob(length(block)) WHERE id > 10 AND id % 3 = 0")
    with pytest.raises(CorpusError, match="the corpus is damaged"):
        Corpus(path)


def test_every_kind_of_unsound_file_is_one_line_with_the_command(path: Path) -> None:
    raw = path.read_bytes()
    folder = path.parent
    made = {
        "cut": raw[: len(raw) // 2],
        "text": b"not a database, padded " * 50,
        "zero": b"",
        "other": b"SQLite format 3\x00" + b"\0" * 84,
        "garbled": raw[:4096] + b"\xff" * 8192 + raw[12288:],
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    said = {}
    for name in (*made, "nodir/x.db", "."):
        with pytest.raises(CorpusError) as caught:
            Corpus(folder / name)
        message = str(caught.value).replace(str(folder), "F")
        assert "\n" not in message
        assert message.endswith("venus-edge corpus build DIR")
        said[name] = message.split(";")[0]
    assert said == {
        "cut": "F/cut: the corpus is damaged",
        "text": "F/text is not a corpus",
        "zero": "F/zero is empty",
        "other": said["other"],  # SQLite's own word for it differs between versions
        "garbled": "F/garbled: the corpus is damaged",
        "nodir/x.db": "there is no corpus at F/nodir/x.db",
        ".": "there is no corpus at F",
    }


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    change(path, "CREATE TABLE t (x)")
    with pytest.raises(CorpusError, match="is a database, but not a corpus"):
        Corpus(path)
    with pytest.raises(CorpusError, match="is a database, but not a corpus"):
        Writer(path)


def test_a_newer_corpus_is_neither_read_nor_replaced(path: Path) -> None:
    change(path, f"PRAGMA user_version = {store.SCHEMA + 1}")
    for opening in (Corpus, Writer):
        with pytest.raises(CorpusError, match="made by a newer venus-edge"):
            opening(path)


def test_an_older_reading_of_words_is_made_again(path: Path) -> None:
    change(path, "UPDATE meta SET value = '0' WHERE name = 'terms'")
    with pytest.raises(CorpusError, match="made by an older venus-edge"):
        Corpus(path)


def test_a_damaged_corpus_is_kept_aside_when_it_is_made_again(path: Path) -> None:
    damaged = path.read_bytes()[:20_000]
    path.write_bytes(damaged)
    with Writer(path) as writer, writer.batch():
        writer.put(Document("https://x.example/new", "New", "A new text."))
    with Corpus(path) as corpus:
        assert [hit.url for hit in corpus.search("new").hits] == ["https://x.example/new"]
    assert (path.parent / "x.sqlite.old-1").read_bytes() == damaged


def test_a_document_put_again_or_dropped_leaves_no_word_behind(path: Path) -> None:
    with Writer(path) as writer, writer.batch():
        writer.put(Document("http://www.x.example/0/", "Barometer", "A barometer."))
        found = writer.find("https://x.example/1")
        assert found is not None
        writer.drop(found[0])
    with Corpus(path) as corpus:
        assert corpus.info().documents == 399
        assert [hit.url for hit in corpus.search("barometer").hits] == ["http://www.x.example/0/"]
        urls = {hit.url for hit in corpus.search("tide gauge", 1000).hits}
        assert urls == {f"https://x.example/{i}" for i in range(2, 400)}


def test_a_batch_that_fails_writes_nothing(path: Path) -> None:
    def fail(writer: Writer) -> None:
        with writer.batch():
            writer.put(Document("https://x.example/new", "New", "A barometer."))
            raise ZeroDivisionError

    with Writer(path) as writer:
        with pytest.raises(ZeroDivisionError):
            fail(writer)
        assert writer.count() == 400
    with Corpus(path) as corpus:
        assert corpus.search("barometer").hits == ()


def test_a_reader_sees_the_last_whole_batch_while_another_is_written(path: Path) -> None:
    with Corpus(path) as corpus, Writer(path) as writer:
        with writer.batch():
            writer.put(Document("https://x.example/new", "New", "A barometer."))
            assert corpus.search("barometer").hits == ()
            Corpus(path).close()  # and may be opened, too
        assert len(corpus.search("barometer").hits) == 1


def test_a_second_writer_is_told_of_the_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(path) as first, Writer(path) as second:
        second._db.execute("PRAGMA busy_timeout = 10")
        with first.batch(), pytest.raises(CorpusError, match="another process is writing this corpus"):
            second.batch().__enter__()


KILLED = """
import sys
from pathlib import Path
from tests.corpus.test_store import documents
from venus_edge.corpus.store import Writer
with Writer(Path(sys.argv[1])) as writer:
    for document in documents(100_000):
        with writer.batch():
            writer.put(document)
        print(document.url, flush=True)
"""


def test_killed_while_writing_it_holds_every_batch_that_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(path)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
            assert child.stdout is not None
            written = [child.stdout.readline().strip() for _ in range(20)]
            time.sleep(0.05)
            child.send_signal(signal.SIGKILL)
        with Corpus(path) as corpus:
            opened = [corpus.open(url) for url in written]
        assert [page.url for page in opened if isinstance(page, Page)] == written
