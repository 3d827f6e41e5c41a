"""A cache on disk: the same next token, never believed where anything differs, and never half written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.conftest import TEMPLATE
from tests.engine.vocabulary import write_model
from venus_edge.engine import Request, Sampling, library, snapshot
from venus_edge.engine.kv import Cached
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import EngineError, StorageError

ROOT = Path(__file__).parents[2]
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


# -- kinds of files that are not believed -----------------------------------------------------------------------------


def turned(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


UNTRUSTED: dict[str, Callable[[Path, bytes], object]] = {
    "absent": lambda path, data: None,
    "a folder": lambda path, data: path.mkdir(),
    "a link to itself": lambda path, data: path.symlink_to(path),
    "empty": lambda path, data: path.write_bytes(b""),
    "a head alone": lambda path, data: path.write_bytes(data[:12]),
    "cut in the ids": lambda path, data: path.write_bytes(data[:1_000]),
    "cut in the state": lambda path, data: path.write_bytes(data[: len(data) * 2 // 3]),
    "cut by a byte": lambda path, data: path.write_bytes(data[:-1]),
    "longer": lambda path, data: path.write_bytes(data + bytes(40)),
    "twice": lambda path, data: path.write_bytes(data + data),
    "another seal": lambda path, data: path.write_bytes(data[:-32] + bytes(32)),
    "a count beyond it": lambda path, data: path.write_bytes(data[:8] + b"\xff\xff\xff\x7f" + data[12:]),
    "a bit of an id": lambda path, data: path.write_bytes(turned(data, 200)),
    "a bit of the fingerprint": lambda path, data: path.write_bytes(turned(data, 20)),
    "a bit of the state": lambda path, data: path.write_bytes(turned(data, len(data) // 2)),
    "zeros": lambda path, data: path.write_bytes(bytes(len(data))),
    "text": lambda path, data: path.write_text("这不是缓存。" * 1_000, encoding="utf-8"),
}


@pytest.mark.parametrize("spoil", UNTRUSTED.values(), ids=UNTRUSTED.keys())
def test_what_is_not_believed_is_evaluated_and_the_logits_are_the_same(
    kept: tuple[Path, str, Any], opened: LlamaEngine, tmp_path: Path, spoil: Callable[[Path, bytes], object]
) -> None:
    spoil(tmp_path / "talk.kv", kept[0].read_bytes())
    assert opened.restore(tmp_path / "talk.kv") == 0
    assert evaluates_whole(opened, kept[2])


def test_a_cache_of_another_llama_cpp_is_not_believed(
    kept: tuple[Path, str, Any], opened: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(library, "version", lambda: "0.3.35")
        assert opened.restore(kept[0]) == 0
    assert evaluates_whole(opened, kept[2])


def test_a_file_that_may_not_be_read_is_evaluated(
    kept: tuple[Path, str, Any], opened: LlamaEngine, tmp_path: Path
) -> None:
    path = tmp_path / "talk.kv"
    path.write_bytes(kept[0].read_bytes())
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read anything")
    assert opened.restore(path) == 0
    assert evaluates_whole(opened, kept[2])


def evaluates_whole(engine: LlamaEngine, logits: Any) -> bool:
    """Every token goes through the model, and the next token's logits are those that were kept: of the last token
    alone, because a batch sums in another order."""
    one = Request(TALK, replace(GREEDY, max_tokens=1))
    list(engine.generate(one))
    evaluated = engine.stats.evaluated_tokens
    list(engine.generate(one))
    return evaluated == len(TALK) and np.array_equal(engine._context.logits(), logits)


# -- kill -9 ----------------------------------------------------------------------------------------------------------

HALF = """
import os, sys
from pathlib import Path
from venus_edge.engine import snapshot
from venus_edge.engine.kv import Cached

class Stuck:
    def state_bytes(self, sequence):
        return 10
    def save(self, sequence, path, words):
        path.write_bytes(bytes(500))
        print(path.name, flush=True)
        sys.stdin.read()

cached = Cached()
cached.extend([1, 2, 3])
snapshot.save(Stuck(), cached, Path(sys.argv[1]), bytes(32), 1_000)
"""


def test_what_a_killed_process_left_half_written_is_taken_away_by_the_next_save(
    kept: tuple[Path, str, Any], opened: LlamaEngine, tmp_path: Path
) -> None:
    path = tmp_path / "talk.kv"
    path.write_bytes(kept[0].read_bytes())
    command = [sys.executable, "-c", HALF, str(path)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        part = process.stdout.readline().strip()
        process.kill()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["talk.kv", part])
    assert opened.restore(path) == len(TALK)  # the old one
    opened.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["talk.kv"]


SAVING = """
import os, sys
from pathlib import Path
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=4_096, n_ctx_reading=0, n_threads=1))
talk = [100 + i * 7 % 900 for i in range(3_000)]
list(engine.generate(Request(talk, Sampling(max_tokens=1))))
for line in sys.stdin:
    if not (child := os.fork()):
        for tokens in [3_000 - int(line)] * 10_000:
            engine._cached[0].cut(engine._context.keep(0, tokens))
            engine.save(Path(sys.argv[2]))
    print(child, flush=True)
    os.waitpid(child, 0)
"""


def test_kill_9_while_writing_leaves_the_old_file_or_the_new_one(model_file: Path, tmp_path: Path) -> None:
    """A process that does nothing but save is killed again and again, at any moment; each has its own length."""
    path, kills, pick = tmp_path / "talk.kv", 24, random.Random(7)
    command = [sys.executable, "-c", SAVING, str(model_file), str(path)]
    engine = LlamaEngine(model_file, replace(OPTIONS, n_ctx_reading=0))
    restored = 0
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for kill in range(kills):
            process.stdin.write(f"{kill}\n")
            child = int(process.stdout.readline())
            time.sleep(pick.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            before, restored = restored, engine.restore(path)
            assert restored in (before, 3_000 - kill)  # before the first: none
            assert engine.cached() == tuple(100 + i * 7 % 900 for i in range(restored)) or not restored
        process.stdin.close()
    assert restored
    engine.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["talk.kv"]
    engine.close()
