"""A QUERY -> THE BEST PASSAGE OF EACH OF THE BEST DOCUMENTS, each text once.

In: a parsed query and a connection. Out: numbers of passages, best first. BM25 over passages, the title weighing twice;
documents with all the words first, then those with any. What is alike is `alike`'s to say, what is left out of "any" in
a large corpus `frequency`'s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from venus_edge.corpus import texts
from venus_edge.corpus.alike import Copies
from venus_edge.corpus.frequency import Frequencies
from venus_edge.corpus.fusion import fused
from venus_edge.corpus.query import Query, Tier

_ROWS_A_HIT = 4  # passages looked at for every document wanted, at first
_FUSED = 100  # documents of each ranking, where there are two

_RANKED = """
SELECT passage.document, ranked.rowid
FROM (SELECT rowid, rank FROM words WHERE words MATCH :match {within} ORDER BY rank LIMIT :rows) AS ranked
JOIN passage ON passage.id = ranked.rowid
ORDER BY ranked.rank, ranked.rowid
"""
_WITHIN = """AND rowid IN (
  SELECT passage.id FROM passage JOIN document ON document.id = passage.document
  WHERE host = :site OR host LIKE '%.' || :site)"""

Ranked = tuple[int, int]  # a document, a passage of it
Tiered = tuple[int, int, bool]  # the same; whether a stricter tier found it than others that there are


class Words(Protocol):
    """Another index than FTS5's."""

    def ranked(self, db: sqlite3.Connection, tier: Tier, site: str, rows: int) -> list[Ranked]:
        """The best of what a tier finds; fewer than `rows` only if there are no more."""
        ...


@dataclass(slots=True)
class Ranking:
    """The way of ranking of one open corpus, by FTS5 or by `words`."""

    words: Words | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)

    def best(
        self, db: sqlite3.Connection, asked: Query, limit: int, near: Sequence[Ranked] = (), copies: bool = False
    ) -> list[int]:
        """The best passages. `near` is another ranking of passages, by meaning, to be joined; with `copies`, documents
        that say the same are all given."""
        site = asked.site if asked.site and _has_site(db, asked.site) else ""
        words = self._by_words(db, asked, site, max(limit, _FUSED) if near else limit)
        if near:
            words = _joined(words, [pair for pair in near if not site or _is_of(db, pair[0], site)])
        seen = Copies(asked.words)
        best: list[int] = []
        documents: set[int] = set()
        for document, passage, _ in words:
            if len(best) >= limit:
                break
            if document not in documents and (copies or seen.is_new(*_text_of(db, passage))):
                documents.add(document)
                best.append(passage)
        return best

    def _by_words(self, db: sqlite3.Connection, asked: Query, site: str, limit: int) -> Iterator[Tiered]:
        """Passages tier after tier; the caller stops when it has enough."""
        some = False
        for tier in (*asked.tiers, *asked.fallback):
            if some and tier in asked.fallback:
                return
            is_strict = len(asked.tiers) > 1 and tier is asked.tiers[0]
            for document, passage in self._tier(db, tier, site, limit):
                some = True
                yield document, passage, is_strict

    def _tier(self, db: sqlite3.Connection, tier: Tier, site: str, limit: int) -> Iterator[Ranked]:
        """More and more of what a tier finds, without what was given before."""
        find = self.words.ranked if self.words else self._in_fts5
        rows, given = limit * _ROWS_A_HIT, 0
        while True:
            found = find(db, tier, site, rows)
            yield from found[given:]
            if len(found) < rows:
                return
            rows, given = rows * 8, len(found)

    def _in_fts5(self, db: sqlite3.Connection, tier: Tier, site: str, rows: int) -> list[Ranked]:
        wanted, ranked = (tier.any, tier.any) if tier.needs else self.frequencies.rarest(db, tier.any)
        expression = tier.expression(wanted, ranked)
        sql = _RANKED.format(within=_WITHIN if site else "")
        return db.execute(sql, {"match": expression, "site": site, "rows": rows}).fetchall()


def _joined(words: Iterator[Tiered], near: Sequence[Ranked]) -> Iterator[Tiered]:
    """Both rankings of documents as one; the passage is the one that the words were found in, if any. What has all the
    words stays before what is only alike: of six words out of a document, its place in the first ten is 1.00 so, .87
    otherwise, and nDCG@10 is .566 and .508 on Cranfield and NPL instead of .565 and .500."""
    first = dict[int, int]()
    whole = set[int]()
    for document, passage, is_strict in words:
        first.setdefault(document, passage)
        if is_strict:
            whole.add(document)
        if len(first) >= _FUSED:
            break
    other = dict(reversed(near))
    by_meaning = [document for document, _ in near]
    both = fused([list(first), list(dict.fromkeys(by_meaning))[:_FUSED]])
    for document in sorted(both, key=lambda document: document not in whole):
        yield document, first.get(document) or other[document], document in whole


def _has_site(db: sqlite3.Connection, site: str) -> bool:
    """Whether any document is of this host: a filter that no document could pass is left out."""
    found = db.execute("SELECT 1 FROM document WHERE host = ? OR host LIKE '%.' || ? LIMIT 1", (site, site)).fetchone()
    return found is not None


def _is_of(db: sqlite3.Connection, document: int, site: str) -> bool:
    (host,) = db.execute("SELECT host FROM document WHERE id = ?", (document,)).fetchone()
    return host == site or str(host).endswith(f".{site}")


def _text_of(db: sqlite3.Connection, passage: int) -> tuple[str, str]:
    """The title and text of a passage."""
    title, number, parts = db.execute(
        f"SELECT title, passage.id - first, parts FROM passage JOIN document ON document.id = document {texts.JOINED}"
        " WHERE passage.id = ?",
        (passage,),
    ).fetchone()
    return title, texts.part(parts, number)
