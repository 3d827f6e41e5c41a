"""OTHER SEARCH ENGINES on documents and queries from standard input, for `corpus`, in an interpreter that has them.

In: JSON {"documents": [[number, title, text]], "queries": [...]}. Out: a line of JSON for each engine, its name and the
best ten numbers for each query, or with why it is not there. Nothing of the project is imported.
"""

from __future__ import annotations

import importlib
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Documents = Sequence[tuple[int, str, str]]
Rank = Callable[[str], list[int]]


def fts5(documents: Documents, tokenizer: str) -> Rank:
    """Any of the words, stopwords and all; title and text weigh the same."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5 (title, body, tokenize='{tokenizer}')")
    db.executemany("INSERT INTO t (rowid, title, body) VALUES (?, ?, ?)", documents)

    def rank(query: str) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = db.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (words,)) if words else ()
        return [row[0] for row in rows]

    return rank


def tantivy(documents: Documents, fields: Sequence[str]) -> Rank:
    lib = importlib.import_module("tantivy")
    analyzer = (
        lib.TextAnalyzerBuilder(lib.Tokenizer.simple())
        .filter(lib.Filter.lowercase())
        .filter(lib.Filter.stopword("english"))
        .filter(lib.Filter.stemmer("english"))
        .build()
    )
    builder = lib.SchemaBuilder()
    for field in fields:
        builder.add_text_field(field, tokenizer_name="en_stop")
    builder.add_integer_field("number", stored=True)
    index = lib.Index(builder.build())
    index.register_tokenizer("en_stop", analyzer)
    writer = index.writer(heap_size=100_000_000, num_threads=1)
    for number, title, text in documents:
        texts = {"title": title, "body": text} if len(fields) == 2 else {"body": f"{title}\n{text}"}
        writer.add_document(lib.Document(number=number, **texts))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def rank(query: str) -> list[int]:
        words = " ".join(re.findall(r"\w+", query.lower()))
        hits = searcher.search(index.parse_query(words, list(fields)), 10).hits if words else []
        return [searcher.doc(address)["number"][0] for _, address in hits]

    return rank


def bm25s(documents: Documents) -> Rank:
    lib = importlib.import_module("bm25s")
    stemmer = importlib.import_module("Stemmer").Stemmer("english")

    def tokens(texts: list[str]) -> Any:
        return lib.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    retriever = lib.BM25(method="lucene")
    retriever.index(tokens([f"{title}\n{text}" for _, title, text in documents]), show_progress=False)

    def rank(query: str) -> list[int]:
        found, _ = retriever.retrieve(tokens([query]), k=10, show_progress=False)
        return [documents[int(place)][0] for place in found[0]]

    return rank


def engines(documents: Documents) -> Iterator[tuple[str, Callable[[], Rank]]]:
    yield "FTS5, unicode61", lambda: fts5(documents, "unicode61")
    yield "FTS5, porter", lambda: fts5(documents, "porter")
    yield "tantivy, one field", lambda: tantivy(documents, ["body"])
    yield "tantivy, two fields", lambda: tantivy(documents, ["title", "body"])
    yield "bm25s, lucene", lambda: bm25s(documents)


def main() -> None:
    given = json.load(sys.stdin)
    for name, make in engines(given["documents"]):
        try:
            rank = make()
        except ImportError as error:
            said: dict[str, Any] = {"name": name, "lacks": error.name}
        else:
            said = {"name": name, "ranked": [rank(query) for query in given["queries"]]}
        sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
