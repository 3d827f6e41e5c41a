"""A cache on disk: the same next token, never believed where anything differs, and never half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.conftest import TEMPLATE
from tests.engine.vocabulary import write_model
from venus_edge.engine import Request, Sampling, snapshot
from venus_edge.engine.kv import Cached
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import EngineError, StorageError

OPTIONS = EngineOptions(n_ctx=4_096, n_ctx_reading=512, n_batch=128, n_threads=1)
TALK = [100 + i * 7 % 900 for i in range(2_000)]
GREEDY = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=8)


def text_of(engine: LlamaEngine, ids: Sequence[int] = TALK) -> str:
    return "".join(engine.generate(Request(ids, GREEDY)))


@pytest.fixture
def opened(model_file: Path) -> Iterator[LlamaEngine]:
    engine = LlamaEngine(model_file, OPTIONS)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def kept(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Any]:
    """A saved conversation, what the model wrote after it, and the logits of its last token."""
    path = tmp_path_factory.mktemp("snapshots") / "talk.kv"
    engine = LlamaEngine(model_file, OPTIONS)
    text = text_of(engine)
    list(engine.generate(Request(TALK, replace(GREEDY, max_tokens=1))))
    logits = engine._context.logits().copy()
    assert engine.save(path) == path.stat().st_size
    engine.close()
    return path, text, logits


def test_a_restored_conversation_goes_on_with_the_same_logits(kept: tuple[Path, str, Any], opened: LlamaEngine) -> None:
    path, text, logits = kept
    assert opened.restore(path) == len(TALK)
    assert opened.cached() == tuple(TALK)
    list(opened.generate(Request(TALK, replace(GREEDY, max_tokens=1))))
    assert opened.stats.evaluated_tokens == 1
    assert np.array_equal(opened._context.logits(), logits)
    assert text_of(opened) == text


def test_restoring_replaces_what_was_there_and_leaves_the_reading_alone(
    kept: tuple[Path, str, Any], opened: LlamaEngine
) -> None:
    list(opened.generate(Request(range(100, 150), GREEDY)))
    list(opened.generate(Request(range(200, 250), GREEDY, sequence=1)))
    page = opened.cached(1)
    assert opened.restore(kept[0]) == len(TALK)
    assert (opened.cached(), opened.cached(1)) == (tuple(TALK), page)
    assert text_of(opened) == kept[1]


def test_a_conversation_that_went_another_way_is_reused_up_to_there(
    kept: tuple[Path, str, Any], opened: LlamaEngine
) -> None:
    opened.restore(kept[0])
    other = opened.generate(Request([*TALK[:1_500], *range(50, 90)], GREEDY))
    list(other)
    assert other.usage.reused_tokens == 1_500


@pytest.mark.parametrize(
    "options",
    [
        replace(OPTIONS, n_ctx=2_048),
        replace(OPTIONS, type_k="q8_0"),
        replace(OPTIONS, type_v="q8_0"),
        replace(OPTIONS, flash_attention=False),
    ],
)
def test_another_window_or_kv_type_is_not_restored(
    kept: tuple[Path, str, Any], model_file: Path, options: EngineOptions
) -> None:
    engine = LlamaEngine(model_file, options)
    assert (engine.restore(kept[0]), engine.cached()) == (0, ())
    assert text_of(engine, TALK[:300])
    engine.close()


def test_another_model_of_the_same_size_is_not_restored(kept: tuple[Path, str, Any], tmp_path: Path) -> None:
    engine = LlamaEngine(write_model(tmp_path / "other.gguf", TEMPLATE, seed=1), OPTIONS)
    assert (engine.restore(kept[0]), engine.cached()) == (0, ())
    engine.close()


def test_a_copy_of_the_model_is_the_same_model(kept: tuple[Path, str, Any], model_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(model_file.read_bytes())
    engine = LlamaEngine(copy, OPTIONS)
    assert engine.restore(kept[0]) == len(TALK)
    engine.close()


def damaged(data: bytes) -> Iterator[bytes]:
    """The file cut, grown, and with one bit turned: in its head, its ids, its state, its seal."""
    yield b""
    yield data[:3]
    yield data[: len(data) // 2]
    yield data[:-1]
    yield data + b"\0"
    yield bytes(len(data))
    for at in (0, 5, 9, 20, 60, 5_000, len(data) // 2, len(data) - 60, len(data) - 1):
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_damaged_file_is_not_restored_and_nothing_is_lost(
    kept: tuple[Path, str, Any], opened: LlamaEngine, tmp_path: Path
) -> None:
    before = text_of(opened, TALK[:200])
    held, evaluated = opened.cached(), opened.stats.evaluated_tokens
    for data in damaged(kept[0].read_bytes()):
        (tmp_path / "damaged.kv").write_bytes(data)
        assert opened.restore(tmp_path / "damaged.kv") == 0
        assert opened.cached() == held
    assert opened.restore(tmp_path / "none.kv") == opened.restore(tmp_path) == 0
    assert text_of(opened, TALK[:200]) == before
    assert opened.stats.evaluated_tokens == evaluated + 8


def test_what_llama_cpp_itself_refuses_leaves_an_empty_cache() -> None:
    class Refusing:
        def keep(self, sequence: int, length: int) -> int:
            return length

        def state_bytes(self, sequence: int) -> int:
            return 10

        def save(self, sequence: int, path: Path, words: Sequence[int]) -> bool:
            path.write_bytes(b"qsgg" + (3).to_bytes(4, "little") + len(words).to_bytes(4, "little") + bytes(4 * 12))
            return True

        def load(self, sequence: int, path: Path, words: int) -> bool:
            return False

    cached = Cached()
    cached.extend([0, 0, 0, 0])
    path = Path(os.environ["HOME"]) / "refused.kv"
    assert snapshot.save(Refusing(), cached, path, bytes(32), 1_000) == path.stat().st_size
    assert snapshot.restore(Refusing(), cached, path, bytes(32)) == 0
    assert len(cached) == 0


def test_a_cache_that_is_empty_or_too_large_is_not_written(opened: LlamaEngine, tmp_path: Path) -> None:
    path = tmp_path / "new" / "talk.kv"
    assert opened.save(path) == 0
    text_of(opened, TALK[:500])
    assert opened.save(path, most=10_000) == 0
    assert not path.parent.exists()
    assert opened.save(path) > 10_000
    assert [file.name for file in path.parent.iterdir()] == ["talk.kv"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_place_that_cannot_be_written_is_one_line(opened: LlamaEngine, tmp_path: Path) -> None:
    text_of(opened, TALK[:50])
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "talk.kv", tmp_path):
        with pytest.raises(StorageError, match="cannot be written"):
            opened.save(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file"]


def test_a_closed_engine_neither_saves_nor_restores(model_file: Path, tmp_path: Path) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512))
    engine.close()
    for act in (engine.save, engine.restore):
        with pytest.raises(EngineError, match="closed"):
            act(tmp_path / "talk.kv")


@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_no_snapshot(data: bytes) -> None:
    path = Path(os.environ["HOME"]) / "any.kv"
    path.write_bytes(data)
    assert snapshot._trusted(path, bytes(32)) == []


PROGRAM = """
import sys
from pathlib import Path
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=4_096, n_ctx_reading=0, n_threads=1))
talk = [100 + i * 7 % 900 for i in range(3_000)]
list(engine.generate(Request(talk, Sampling(max_tokens=1))))
while True:
    engine.save(Path(sys.argv[2]))
    print("saved", flush=True)
"""


def test_kill_9_while_writing_leaves_a_whole_file(model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.kv"
    command = [sys.executable, "-c", PROGRAM, str(model_file), str(path)]
    engine = LlamaEngine(model_file, replace(OPTIONS, n_ctx_reading=0))
    for saves in (1, 3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            for _ in range(saves):
                assert process.stdout.readline() == "saved\n"
            process.send_signal(signal.SIGKILL)  # the next one is being written
            process.communicate()
        assert engine.restore(path) == 3_000
    engine.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["talk.kv"]  # what was half written is gone
    engine.close()
