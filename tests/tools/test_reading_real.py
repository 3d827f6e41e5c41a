"""The model as reader on the true path: llama.cpp, the grammar and the second sequence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from venus_edge import demo
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.protocol import Piece, Trust
from venus_edge.tools.evidence import ModelReader
from venus_edge.values import Page

LONG = "\n\n".join(f"The Kereon light, number {n}, was lit in {1800 + n % 150}. 灯塔于那一年点亮。" for n in range(400))


@pytest.fixture
def engine() -> Iterator[LlamaEngine]:
    opened = LlamaEngine(demo.HERE / "venus-tiny.gguf", EngineOptions(n_ctx=2_048, n_ctx_reading=2_048))
    yield opened
    opened.close()


def test_a_page_longer_than_the_reading_window_is_read_and_the_conversation_stays_in_the_cache(
    engine: LlamaEngine,
) -> None:
    asked = engine.tokenize([Piece("When was the Kereon light lit?", Trust.OUTSIDE)])
    "".join(engine.generate(Request(asked, Sampling(temperature=0, max_tokens=8))))
    kept = engine.cached(0)
    read = ModelReader(engine).read(Page("https://example.org/kereon", "Kereon", LONG, "0"), "year 点亮")
    assert engine.cached(0) == kept
    assert 256 < len(engine.cached(1)) <= 2_048
    assert all(part.strip() in LONG for part in read.evidence.split("\n...\n"))
    assert read.summary
