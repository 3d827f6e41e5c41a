"""Model files for the engine's tests, written once per session: the real vocabulary, and models of random weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.engine.vocabulary import Geometry, write_model, write_vocabulary
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.vocabulary import Vocabulary, open_vocabulary

settings.register_profile("engine", deadline=None)  # a machine may be busy
settings.load_profile("engine")

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "qwen.gguf")


@pytest.fixture(scope="session")
def vocabulary(vocabulary_file: Path) -> Vocabulary:
    """The real Qwen vocabulary: 151,643 tokens of text, 26 added ones."""
    return open_vocabulary(vocabulary_file)


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "random.gguf", TEMPLATE)


@pytest.fixture
def engine(model_file: Path) -> Iterator[LlamaEngine]:
    opened = LlamaEngine(model_file, EngineOptions(n_ctx=2_048, n_ctx_reading=512, n_batch=128, n_threads=1))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def slow_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose prompt of 30,000 tokens takes long to read: small weights, much attention."""
    size = Geometry(layers=4, width=256, heads=8, kv_heads=2, ffn=512, context=65_536)
    return write_model(tmp_path_factory.mktemp("slow") / "slow.gguf", TEMPLATE, count=600, size=size)
