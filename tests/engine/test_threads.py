"""The threads of a context: whose count it is, and that changing it changes no text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count, cycle
from pathlib import Path

import numpy as np
import pytest

from venus_edge.engine import Request, Sampling, machine
from venus_edge.engine.crew import Crew
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.threads import DRAFTED, READ, Threads
from venus_edge.protocol import Piece, Trust

Q8 = EngineOptions(n_ctx=2_048, n_ctx_reading=0, n_batch=128, type_k="q8_0", speculate=False)
TEXTS = ["The tide gauge of Brest has recorded the level of the sea. ", "布雷斯特的验潮仪自一八〇七年起记录海平面。"]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of four cores, whose person has set nothing for OpenMP."""
    monkeypatch.setattr(machine, "cores", lambda: 4)
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"):
        monkeypatch.delenv(name, raising=False)


def told(options: EngineOptions, batches: list[int]) -> tuple[Threads, list[tuple[int, int]]]:
    """What llama.cpp is told as batches of these sizes go by."""
    heard: list[tuple[int, int]] = []
    seconds = count()
    threads = Threads(options, lambda *counts: heard.append(counts), lambda: next(seconds))
    for tokens in batches:
        threads.before(tokens)
        threads.after(tokens)
    return threads, heard


def test_counts_are_chosen_where_nobody_chose_them() -> None:
    threads, heard = told(Q8, [512, 1, 1, 1, 1, 1])
    assert (threads.first, threads.first_reading) == (4, 4)
    assert heard[-1][0] == 3  # the first that is tried


@pytest.mark.parametrize("batches", [[512, *[1] * 40, 3, 512, *[1] * 40]])
def test_a_count_that_was_asked_for_is_never_changed(batches: list[int]) -> None:
    threads, heard = told(EngineOptions(type_k="q8_0", n_threads=3), batches)
    assert (threads.first, threads.first_reading, set(heard)) == (3, 3, set())
    threads, heard = told(EngineOptions(type_k="q8_0", n_threads=3, n_threads_batch=2), batches)
    assert (threads.first, threads.first_reading) == (3, 2)
    assert heard == [(3, 3), (3, 2), (3, 3)]  # generates, a draft too; reads; generates


def test_the_batch_count_alone_leaves_the_other_to_be_chosen() -> None:
    threads, heard = told(EngineOptions(type_k="q8_0", n_threads_batch=2), [512, 1, 1, 1, 1])
    assert threads.first_reading == 2
    assert heard[-1][0] == 3


@pytest.mark.parametrize(("name", "said"), [("OMP_NUM_THREADS", "2"), ("OMP_NUM_THREADS", "2,1")])
def test_openmps_own_count_is_the_persons(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, said)
    threads, heard = told(Q8, [512, *[1] * 40])
    assert (threads.first, threads.first_reading, heard) == (2, 2, [])
    assert told(EngineOptions(n_threads=3), [1])[0].first == 3  # the option is nearer


def test_a_draft_takes_the_threads_that_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, heard = told(Q8, [1])
    threads._generates._at = 2
    for tokens in (1, DRAFTED, DRAFTED + 1, 1):
        threads.before(tokens)
    assert heard == [(2, 2), (2, 4), (2, 2)]


def test_what_reads_is_learned_from_large_batches_of_a_prompt_alone() -> None:
    assert told(Q8, [READ - 1] * 40)[1] == []
    threads, heard = told(Q8, [READ] * 4)
    assert heard == [(4, 3)]
    threads._reads._queue, threads._reads._at = [], 1
    for tokens in (READ, 100, 1):
        threads.before(tokens)
    assert heard[1:] == [(4, 4)]  # generates with the count that it had


def test_reading_is_chosen_where_only_generating_has_to_stay() -> None:
    assert told(EngineOptions(), [READ] * 4)[1] == [(4, 3)]


def test_an_unquantized_cache_under_flash_attention_keeps_its_threads_for_the_seeds_sake() -> None:
    f16 = EngineOptions()
    assert f16.keeps_threads
    assert told(f16, [100, *[1] * 40])[1] == []
    for free in (
        EngineOptions(steady=False), EngineOptions(flash_attention=False), EngineOptions(type_k="q8_0"),
        EngineOptions(type_k="q8_0", type_v="f16"), EngineOptions(type_k="f16", type_v="q8_0"),
    ):  # fmt: skip
        assert not free.keeps_threads
        assert told(free, [100, *[1] * 40])[1] != []


class Restless(Crew):
    """A crew that takes another count for every token."""

    def __init__(self) -> None:
        super().__init__(4)
        self._cycle = cycle([1, 3, 2, 4])
        self.used: list[int] = []

    @property
    def count(self) -> int:
        self.used.append(next(self._cycle))
        return self.used[-1]


@contextmanager
def opened(path: Path, options: EngineOptions, generates: Crew, reads: Crew) -> Iterator[LlamaEngine]:
    with closing(LlamaEngine(path, options)) as engine:
        engine._context.threads._generates, engine._context.threads._reads = generates, reads
        yield engine


def written(engine: LlamaEngine, text: str) -> tuple[str, list[float]]:
    """A prompt of 600 tokens and more and 60 after it: their text, and the last logits."""
    prompt = engine.tokenize([Piece(text * 60, Trust.OUTSIDE)])[:700]
    assert len(prompt) > 600
    generated = "".join(engine.generate(Request(prompt, Sampling(seed=5, max_tokens=60))))
    return generated, np.array(engine._context.logits()).tolist()


@pytest.mark.parametrize("kv", [("q8_0", None), ("q4_0", None), ("q8_0", "f16"), ("f16", "q8_0"), ("f16", None)])
def test_a_seed_gives_the_same_text_and_logits_whatever_the_threads(
    kv: tuple[str, str | None], model_file: Path
) -> None:
    options = EngineOptions(n_ctx=2_048, n_ctx_reading=0, n_batch=READ, type_k=kv[0], type_v=kv[1], speculate=False)
    still, reads, restless = Crew(4, still=True), Restless(), Restless()
    generates = still if options.keeps_threads else restless
    with opened(model_file, options, still, still) as one, opened(model_file, options, generates, reads) as other:
        for text in TEXTS:
            assert written(other, text) == written(one, text)
    assert {1, 3, 2} <= set(reads.used)
    assert set(restless.used) == (set() if options.keeps_threads else {1, 2, 3, 4})


def test_the_threads_are_llama_cpps(model_file: Path) -> None:
    with opened(model_file, Q8, Crew(4), Crew(4)) as engine:
        context, lib = engine._context, engine._context.lib
        seen = []
        for crew, tokens in ((None, [5]), (Restless(), [6]), (Crew(4), list(range(20)))):
            context.threads._generates = crew or Crew(4, still=True)
            context.evaluate(0, context.held(0), tokens)
            seen.append((lib.llama_n_threads(context.pointer), lib.llama_n_threads_batch(context.pointer)))
        assert seen == [(4, 4), (1, 1), (4, 4)]
