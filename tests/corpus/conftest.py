"""A corpus from a list of texts, and an extractor of ten lines in the place of the real one."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.values import Failure, Trouble


@dataclass(frozen=True)
class Extracted:
    title: str
    text: str
    date: str = ""
    rest: str = ""


def extract(body: bytes, url: str, content_type: str) -> Extracted | Failure:
    """Title, and the text without its tags; a page that only says "denied" is refused."""
    page = body.decode("utf-8", "replace")
    title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
    text = re.sub(r"<(title|script)\b.*?</\1>|<!--.*?-->|<[^>]*>", " ", page, flags=re.DOTALL)
    if text.strip() == "denied":
        return Failure(Trouble.UNREADABLE, "page could not be read: denied")
    return Extracted(html.unescape(title[1]) if title else "", " ".join(html.unescape(text).split()))


Make = Callable[[Sequence[Document]], Corpus]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a corpus of documents, closed after the test."""
    opened: list[Corpus] = []

    def made(documents: Sequence[Document]) -> Corpus:
        path = tmp_path / f"{len(opened)}.sqlite"
        with Writer(path) as writer, writer.batch():
            for document in documents:
                writer.put(document)
        opened.append(Corpus(path))
        return opened[-1]

    yield made
    for corpus in opened:
        corpus.close()
