"""A large corpus is read whole once, and again as soon as its file is another one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge.corpus import files, sound, store
from venus_edge.corpus.store import Document, Writer
from venus_edge.errors import CorpusError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "灯塔.sqlite"
    with Writer(made) as writer, writer.batch():
        for i in range(200):
            writer.put(Document(f"https://x.example/{i}", f"Gauge {i}", f"tide gauge {i} " * 20 + "塔高41米"))
    return made


def damage(path: Path, quietly: bool) -> None:
    """Words go from the index; `quietly`: the file keeps its size and its time."""
    before = path.stat()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE words_data SET block = zeroblob(length(block)) WHERE id > 10")
        db.commit()
    if quietly:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_was_found_sound_is_not_read_again(path: Path) -> None:
    sound.check(path, large=0)
    damage(path, quietly=True)
    sound.check(path, large=0)
    with pytest.raises(CorpusError, match="damaged"):
        store.check(path)


def test_a_file_that_was_written_since_is_read_again(path: Path) -> None:
    sound.check(path, large=0)
    damage(path, quietly=False)
    with pytest.raises(CorpusError, match="damaged"):
        sound.check(path, large=0)


def test_a_small_file_is_always_read_and_gets_no_mark(path: Path) -> None:
    sound.check(path)
    assert not path.with_name(path.name + sound.SUFFIX).exists()
    damage(path, quietly=True)
    with pytest.raises(CorpusError, match="damaged"):
        sound.check(path)


def test_a_damaged_file_gets_no_mark_and_what_is_no_mark_counts_for_nothing(path: Path) -> None:
    mark = path.with_name(path.name + sound.SUFFIX)
    mark.write_bytes(b"\xff\xfe")
    damage(path, quietly=True)
    for _ in range(2):
        with pytest.raises(CorpusError, match="damaged"):
            sound.check(path, large=0)
    with pytest.raises(CorpusError, match="there is no corpus"):
        sound.check(path.with_name("nowhere.sqlite"), large=0)


def test_the_mark_goes_with_its_corpus(path: Path) -> None:
    sound.check(path, large=0)
    files.remove(path)
    assert list(path.parent.iterdir()) == []
