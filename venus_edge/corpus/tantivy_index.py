"""WORDS IN TANTIVY, in a folder beside the file of a corpus: for corpora past a million documents, where asked for.

In: a corpus file that was begun with it, whose table `words` stays empty. Out: passages by BM25, one field of twice the
title and the text. The file is the truth: `behind`, filled by triggers in the very transactions that change passages,
names those whose words tantivy does not have yet or should have no more. `Follower` brings them over, and strikes them
off once tantivy has them safe: a kill in between makes it do work again, and nothing else.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

from venus_edge import terms
from venus_edge.corpus import texts
from venus_edge.corpus.batch import index_words, words_of
from venus_edge.corpus.query import Tier
from venus_edge.errors import CorpusError, StorageError

if TYPE_CHECKING:
    from tantivy import Document, Index, Query, Searcher, TextAnalyzer

ENGINE = "tantivy"
MANY = 50_000  # passages that are brought over together
_ROWS = 2_000  # read together
_HEAP = 100_000_000
_TITLE = 2  # a title's weight: how often it is in the text
_MOST = 160  # alternatives that are looked for: the rarest
_STARTS = 50  # words that a single character may be the start of
_MAGIC = 1_337  # at the end of every file of tantivy: body, JSON with the body's CRC, length of that, this number

BEGIN = """
CREATE TABLE behind (passage INTEGER PRIMARY KEY);
CREATE TRIGGER behind_new AFTER INSERT ON passage BEGIN INSERT OR IGNORE INTO behind VALUES (new.id); END;
CREATE TRIGGER behind_gone AFTER DELETE ON passage BEGIN INSERT OR IGNORE INTO behind VALUES (old.id); END;
INSERT INTO meta VALUES ('tantivy', '');
"""
_END = """
DROP TRIGGER IF EXISTS behind_new; DROP TRIGGER IF EXISTS behind_gone; DROP TABLE IF EXISTS behind;
DELETE FROM meta WHERE name = 'tantivy';
"""
_TEXTS = f"""
SELECT behind.passage, title, host, beside, first, parts FROM behind LEFT JOIN passage ON passage.id = behind.passage
LEFT {texts.JOINED} LEFT JOIN document ON document.id = passage.document
WHERE behind.passage > ? ORDER BY behind.passage LIMIT ?
"""
_STILL_THERE = """
SELECT passage.document, passage.id FROM json_each(?) AS found JOIN passage ON passage.id = found.value
WHERE NOT EXISTS (SELECT 1 FROM behind WHERE behind.passage = passage.id) ORDER BY found.key
"""
_PHRASE = re.compile(r'"([^"]*)"( \*)?')  # as `query` writes them: words, and whether the last is only a start


def folder_of(db: sqlite3.Connection, path: Path) -> Path | None:
    """Where tantivy's files of this corpus lie, which may be gone; None for a corpus that is searched by FTS5."""
    row = db.execute("SELECT value FROM meta WHERE name = 'tantivy'").fetchone()
    return _folder(path, row[0]) if row else None


def size(path: Path) -> int:
    """Bytes of all that lies beside a corpus file."""
    return sum(file.stat().st_size for folder in folders(path) for file in folder.glob("*"))


def _folder(path: Path, token: str) -> Path:
    """Another one for each token, so that a rebuilt file comes with its own the moment it takes the old one's place."""
    return path.with_name(f"{path.name.removesuffix('.new')}.{token}.tantivy")


def folders(path: Path) -> list[Path]:
    """All that ever belonged to a corpus file of this name."""
    mine = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{8}}\.tantivy")
    return sorted(each for each in path.parent.iterdir() if mine.fullmatch(each.name)) if path.parent.is_dir() else []


def tidy(path: Path, kept: Path | None = None) -> None:
    """Removes those but one."""
    for each in folders(path):
        if each != kept:
            shutil.rmtree(each, ignore_errors=True)


def name_folder(db: sqlite3.Connection, path: Path) -> Path:
    """A new folder for a corpus file, all of whose passages are to be brought over. Within a transaction."""
    token = secrets.token_hex(4)
    db.execute("INSERT OR REPLACE INTO meta VALUES ('tantivy', ?)", (token,))
    db.execute("INSERT OR IGNORE INTO behind SELECT id FROM passage")
    return _folder(path, token)


def end(db: sqlite3.Connection) -> None:
    """Makes FTS5 the index of a file that is to go alone. Within no transaction, and nobody else's file."""
    db.execute("BEGIN IMMEDIATE")
    index_words(db)
    db.execute("COMMIT")
    db.executescript(_END)


# -- the library ------------------------------------------------------------------------------------------------------


def library() -> ModuleType:
    """Raises CorpusError where it is not installed."""
    try:
        import tantivy
    except ImportError as error:
        raise CorpusError(
            "this corpus is searched by tantivy, which is not installed; run: pip install 'venus-edge[tantivy]'"
        ) from error
    found: ModuleType = tantivy
    return found


def _analyzer() -> TextAnalyzer:
    """Words of a text that `terms.spaced` has folded, English ones stemmed. It parts at what is no letter or digit, so
    that some words of India are phrases; parting as FTS5 does, by an expression, takes twice the time."""
    lib = library()
    builder = lib.TextAnalyzerBuilder(lib.Tokenizer.simple())
    made: TextAnalyzer = builder.filter(lib.Filter.stemmer("english")).build()
    return made


def _opened(folder: Path, new: bool = False) -> Index:
    """The index, of which a reader sees nothing new before it is told to. Raises CorpusError, StorageError."""
    lib = library()
    with _translated(folder):
        if new:
            folder.mkdir(exist_ok=True)
            schema = lib.SchemaBuilder().add_text_field("text", tokenizer_name="words")
            schema = schema.add_text_field("site", tokenizer_name="raw", index_option="basic")
            schema = schema.add_integer_field("passage", indexed=True, fast=True)
            index: Index = lib.Index(schema.build(), path=str(folder))
        else:
            _check_files(folder, whole=False)
            index = lib.Index.open(str(folder if os.access(folder, os.W_OK) else _linked(folder)))
        index.register_tokenizer("words", _analyzer())
        index.config_reader("manual")
        return index


def _linked(folder: Path) -> Path:
    """For a folder that cannot be written one that can: tantivy wants a lock even to read. The files are links."""
    made = Path(tempfile.mkdtemp(prefix="venus-edge-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for file in folder.glob("[!.]*"):
        (made / file.name).symlink_to(file.absolute())
    return made


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """tantivy's errors as ours; what its Rust gives up on arrives as no Exception."""
    try:
        yield
    except (CorpusError, StorageError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError as error:
        raise damaged(folder) from error
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}; free space, or allow it to be written") from error
    except (ValueError, KeyError) as error:
        if "LockBusy" in str(error):
            raise CorpusError(
                f"{folder}: another process is writing this index; try again when it has finished"
            ) from error
        raise damaged(folder) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(folder) from error


def damaged(folder: Path) -> CorpusError:
    named = folder.name.split(".sqlite.")[0]
    return CorpusError(f"{folder} is damaged or not there; make it again with: venus-edge corpus update {named}")


def check(db: sqlite3.Connection, folder: Path) -> None:
    """Reads the whole index. Raises CorpusError if it is damaged, or has other passages than the file."""
    with _translated(folder):
        _check_files(folder, whole=True)
        held = _opened(folder).searcher().num_docs
    passages, behind = db.execute("SELECT (SELECT count(*) FROM passage), (SELECT count(*) FROM behind)").fetchone()
    if not behind and held != passages:
        raise damaged(folder)


def _check_files(folder: Path, whole: bool) -> None:
    """Looks at the sums that tantivy keeps and does not look at: at a cut file it would end in a panic."""
    while True:
        seen = (folder / "meta.json").read_bytes()
        try:
            _check_segments(folder, json.loads(seen)["segments"], whole)
            return
        except (CorpusError, FileNotFoundError):
            if (folder / "meta.json").read_bytes() == seen:
                raise  # else its writer has put others in their place meanwhile


def _check_segments(folder: Path, segments: Sequence[dict[str, str]], whole: bool) -> None:
    for segment in segments:
        files = list(folder.glob(f"{segment['segment_id'].replace('-', '')}.*"))
        if len({file.suffix for file in files} & {".idx", ".pos", ".term", ".fast", ".fieldnorm"}) < 5:
            raise damaged(folder)
        for file in files:
            _check_file(file, folder, whole)


def _check_file(file: Path, folder: Path, whole: bool) -> None:
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(size - 8, 0))
        last = opened.read()
        body = size - 8 - int.from_bytes(last[:4], "little")
        if int.from_bytes(last[4:], "little") != _MAGIC or body < 0:
            raise damaged(folder)
        opened.seek(body)
        sum_ = json.loads(opened.read(size - 8 - body))["crc"]
        if whole:
            opened.seek(0)
            seen = 0
            while body and (part := opened.read(min(body, 1 << 20))):
                seen, body = zlib.crc32(part, seen), body - len(part)
            if seen != sum_:
                raise damaged(folder)


# -- writing ----------------------------------------------------------------------------------------------------------


class Follower:
    """Brings over to tantivy what has changed in a file. For the one that writes it."""

    def __init__(self, db: sqlite3.Connection, path: Path, folder: Path) -> None:
        """An index that is not there or damaged is made anew from the file. Raises CorpusError, StorageError."""
        self._db = db
        try:
            index = _opened(folder)
        except CorpusError:
            library()
            shutil.rmtree(folder, ignore_errors=True)
            db.execute("BEGIN IMMEDIATE")
            folder = name_folder(db, path)
            db.execute("COMMIT")
            index = _opened(folder, new=True)
        self.folder = folder
        self._lib = library()
        with _translated(folder):
            self._writer = index.writer(heap_size=_HEAP, num_threads=1)
            self._last = _last(index.searcher())

    def follow(self, least: int = 1) -> None:
        """If so many passages are behind, none is afterwards. In no transaction. Raises CorpusError, StorageError."""
        if self._db.execute("SELECT count(*) FROM behind").fetchone()[0] < least:
            return
        self._db.execute("BEGIN IMMEDIATE")  # nobody puts another one on the list meanwhile
        try:
            with _translated(self.folder):
                self._bring()
                self._writer.commit()
            self._db.execute("DELETE FROM behind")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._writer.rollback()
            raise

    def _bring(self) -> None:
        last, highest = 0, self._last
        while rows := self._db.execute(_TEXTS, (last, _ROWS)).fetchall():
            for passage, title, host, beside, first, parts in rows:
                if passage <= self._last:  # else it cannot be there
                    self._writer.delete_documents_by_term("passage", passage)
                if parts is not None:
                    words = words_of(terms.spaced(title), texts.part(parts, passage - first), beside)
                    self._writer.add_document(self._document(passage, host, words))
            last = rows[-1][0]
        self._last = max(highest, last)

    def _document(self, passage: int, host: str, words: Sequence[str]) -> Document:
        made: Document = self._lib.Document()
        title, *others = words
        for each in (*[title] * _TITLE, *others):
            if each:
                made.add_text("text", each)  # no phrase reaches from one value into the next
        made.add_integer("passage", passage)
        labels = host.split(".")
        for n in range(len(labels) if host else 0):
            made.add_text("site", ".".join(labels[n:]))
        return made

    def close(self, whole: bool) -> None:
        """Brings over what is behind, if `whole`, and waits for tantivy's own tidying."""
        try:
            if whole:
                self.follow()
        finally:
            with _translated(self.folder):
                self._writer.wait_merging_threads()  # and lets go of its lock


def _last(searcher: Searcher) -> int:
    """The highest number of a passage."""
    asked = {"last": {"max": {"field": "passage"}}}
    value = searcher.aggregate(library().Query.all_query(), asked)["last"]["value"]
    return int(value or 0)


# -- searching --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """An index as it was when its list of files was of this age."""

    index: Index
    searcher: Searcher
    seen: int


class Words:
    """The index of an open corpus. Threads may share it; opened at the first query."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._folder: Path | None = None
        self._state: _State | None = None

    def ranked(self, db: sqlite3.Connection, tier: Tier, site: str, rows: int) -> list[tuple[int, int]]:
        """(document, passage), the best first: as many as are wanted, if there are. Raises CorpusError."""
        folder = folder_of(db, self._path)
        assert folder is not None
        with _translated(folder):
            state = self._current(folder)
            query = _Asked(state).of(tier, site)
            wanted = rows
            while True:
                hits = state.searcher.search(query, wanted, count=False).hits
                numbers = state.searcher.fast_field_values("passage", [place for _, place in hits])
                best = sorted(zip((-float(score) for score, _ in hits), map(_number, numbers), strict=True))
                found = db.execute(_STILL_THERE, (json.dumps([number for _, number in best]),)).fetchall()
                if len(found) >= rows or len(hits) < wanted:
                    return [(document, passage) for document, passage in found[:rows]]
                wanted *= 4  # some of them are gone from the file

    def _current(self, folder: Path) -> _State:
        """The state that was committed last; of a corpus that was rebuilt since, the one that was read."""
        with self._lock:
            if self._state and folder == self._folder and not folder.exists():
                return self._state
            seen = (folder / "meta.json").stat().st_mtime_ns
            if self._state is None or folder != self._folder:
                index = _opened(folder)
                self._folder, self._state = folder, _State(index, index.searcher(), seen)
            elif self._state.seen != seen:
                self._state.index.reload()
                self._state = _State(self._state.index, self._state.index.searcher(), seen)
            return self._state


def _number(value: float | None) -> int:
    return int(value or 0)


class _Asked:
    """What a tier asks for, in tantivy's words."""

    def __init__(self, state: _State) -> None:
        self._lib = library()
        self._schema = state.index.schema
        self._searcher = state.searcher
        self._analyzer = _analyzer()

    def of(self, tier: Tier, site: str) -> Query:
        occur = self._lib.Occur
        parts = [(occur.Must, query) for query in self._phrases(tier.needs)]
        parts += [(occur.Should, query) for each in self._rarest(tier.any) for query in self._phrases(each)]
        made: Query = self._lib.Query.boolean_query(parts)
        if not site:
            return made
        there = self._lib.Query.const_score_query(self._lib.Query.term_query(self._schema, "site", site), 0.0)
        return self._lib.Query.boolean_query([(occur.Must, made), (occur.Must, there)])

    def _rarest(self, alternatives: Sequence[str]) -> Sequence[str]:
        if len(alternatives) <= _MOST:
            return alternatives
        counts = {each: self._count(each) for each in alternatives}
        return sorted((each for each in alternatives if counts[each]), key=counts.__getitem__)[:_MOST]

    def _count(self, expression: str) -> int:
        """Passages that a word or phrase can be in; of the start of a word, as many as there are."""
        words, start = _PHRASE.findall(expression)[0]
        whole = self._analyzer.analyze(words)[: -1 if start else None]
        counts: list[int] = [self._searcher.doc_freq("text", word) for word in whole]
        return min(counts, default=self._searcher.num_docs)

    def _phrases(self, expression: str) -> list[Query]:
        return [
            self._phrase(self._analyzer.analyze(words), bool(start)) for words, start in _PHRASE.findall(expression)
        ]

    def _phrase(self, words: Sequence[str], start: bool) -> Query:
        """Words side by side, the last of them whole or as a start."""
        query = self._lib.Query
        if len(words) == 1:
            return self._start(words[0]) if start else query.term_query(self._schema, "text", words[0])
        make = query.phrase_prefix_query if start else query.phrase_query
        return make(self._schema, "text", list(words)) if words else query.empty_query()

    def _start(self, word: str) -> Query:
        """Any word that begins so, of the most frequent, each with the weight that it has by itself."""
        found = self._searcher.terms_with_prefix("text", word)
        best = sorted(found, key=lambda term: -term[1])[:_STARTS]
        either = [(self._lib.Occur.Should, self._lib.Query.term_query(self._schema, "text", term)) for term, _ in best]
        return self._lib.Query.boolean_query(either) if either else self._lib.Query.empty_query()
