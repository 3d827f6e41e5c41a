"""The engine on a model of random weights: only new tokens are evaluated, and the cache's record is always true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import TEMPLATE
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import ContextFull, EngineError
from venus_edge.guards import reserve
from venus_edge.protocol import Piece, Trust, prompt

PROMPT = list(range(100, 160))
GREEDY = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=12)


def text_of(engine: LlamaEngine, request: Request) -> str:
    return "".join(engine.generate(request))


def true_record(engine: LlamaEngine, sequence: int = 0) -> bool:
    """Whether llama.cpp holds exactly as many positions as the record says."""
    return engine._context.held(sequence) == len(engine.cached(sequence))


def test_a_twenty_turn_conversation_evaluates_every_token_once(engine: LlamaEngine) -> None:
    ids, before, generated, asked = list(range(50, 90)), 0, 0, 0
    for turn in range(20):
        generation = engine.generate(Request(ids, Sampling(max_tokens=15, seed=turn)))
        list(generation)
        assert generation.usage.reused_tokens == before
        assert generation.usage.evaluated_tokens == len(engine.cached()) - before
        asked += len(ids)
        generated += generation.usage.generated_tokens
        before = len(engine.cached())  # all but the token chosen last, which nothing needed yet
        ids = [*engine.cached(), *range(200 + turn, 230 + turn)]
    assert generated > 200
    assert engine.stats.evaluated_tokens == before == len(engine.cached())
    assert engine.stats.prefill_tokens == before - (generated - 20)
    assert engine.stats.reused_tokens == asked - engine.stats.prefill_tokens
    assert engine.stats.generated_tokens == generated
    assert true_record(engine)


def test_a_prompt_that_is_cached_whole_costs_one_token(engine: LlamaEngine) -> None:
    first = text_of(engine, Request(PROMPT, GREEDY))
    generation = engine.generate(Request(PROMPT, GREEDY))
    assert "".join(generation) == first
    assert generation.usage.reused_tokens == len(PROMPT) - 1
    assert generation.usage.evaluated_tokens == 12  # the prompt's last token and eleven of the twelve chosen


def test_another_attempt_keeps_the_prompt_and_drops_the_reply(engine: LlamaEngine) -> None:
    texts = {text_of(engine, Request(PROMPT, Sampling(seed=seed, max_tokens=20))) for seed in range(5)}
    assert len(texts) == 5
    assert engine.stats.prefill_tokens == len(PROMPT) + 4
    again = text_of(engine, Request(PROMPT, Sampling(seed=3, max_tokens=20)))
    assert again in texts


def test_reading_a_page_leaves_the_conversation_alone(engine: LlamaEngine) -> None:
    before = text_of(engine, Request(PROMPT, GREEDY))
    held = engine.cached()
    page = text_of(engine, Request(range(300, 500), GREEDY, sequence=1))
    assert engine.cached() == held
    assert len(engine.cached(1)) == 200 + 11
    assert text_of(engine, Request(PROMPT, GREEDY)) == before
    assert text_of(engine, Request(range(300, 500), GREEDY, sequence=1)) == page
    assert true_record(engine)
    assert true_record(engine, 1)


def test_a_reply_ends_at_its_limit_and_says_so(engine: LlamaEngine) -> None:
    generation = engine.generate(Request(PROMPT, Sampling(max_tokens=7)))
    before = generation.finish
    list(generation)
    assert (before, generation.finish, generation.usage.generated_tokens) == (None, "length", 7)


def test_a_full_window_ends_the_reply(engine: LlamaEngine) -> None:
    ids = [100 + i % 400 for i in range(2_048 - 260)]
    generation = engine.generate(Request(ids, Sampling(max_tokens=10_000, presence_penalty=0.0)))
    list(generation)
    assert generation.finish in ("context", "stop")
    assert len(engine.cached()) <= 2_048
    assert true_record(engine)


def test_a_stop_string_and_what_follows_is_never_shown(engine: LlamaEngine) -> None:
    whole = text_of(engine, Request(PROMPT, GREEDY))
    stop = whole[5:9]
    generation = engine.generate(Request(PROMPT, GREEDY, stop=(stop,)))
    assert "".join(generation) == whole[: whole.index(stop)]
    assert generation.finish == "stop"


def test_a_token_that_ends_the_turn_ends_the_text(model_file: Path, engine: LlamaEngine) -> None:
    ends = [token for token in range(engine.vocabulary.size) if engine.vocabulary.ends(token)]
    assert [engine.vocabulary.piece(token) for token in ends[:2]] == [b"<|endoftext|>", b"<|im_end|>"]
    only_end = 'root ::= "ab"'
    generation = engine.generate(Request(PROMPT, Sampling(max_tokens=50), grammar=only_end))
    assert ("".join(generation), generation.finish) == ("ab", "stop")


def test_a_penalty_without_mercy_never_repeats_a_token_of_the_turn(engine: LlamaEngine) -> None:
    settings = Sampling(temperature=0.0, presence_penalty=1e6, max_tokens=200)
    list(engine.generate(Request(PROMPT, settings)))
    written = engine.cached()[len(PROMPT) :]
    assert len(set(written)) == len(written) > 64  # llama.cpp's own window, had it been left to that
    assert set(written) & set(PROMPT)  # the prompt is not counted


def test_a_grammar_binds_the_text_from_its_start(engine: LlamaEngine) -> None:
    grammar = 'root ::= "{\\"n\\": " [0-9] [0-9] [0-9] "}"'
    for settings in (Sampling(max_tokens=60, seed=1), GREEDY, Sampling(max_tokens=60, top_k=0)):
        text = text_of(engine, Request(PROMPT, settings, grammar=grammar))
        assert text[:6] == '{"n": '
        assert text[6:9].isdigit()
        assert text[9:] == "}"


def test_the_grammar_of_reading_replies_gives_json(engine: LlamaEngine) -> None:
    settings = Sampling(max_tokens=250, seed=4, presence_penalty=0.0)
    generation = engine.generate(Request(range(300, 400), settings, grammar=prompt.READING_GRAMMAR, sequence=1))
    text = "".join(generation)
    assert text.lstrip().startswith("{")
    if generation.finish == "stop":
        assert isinstance(json.loads(text, strict=False), dict)


def test_a_grammar_that_is_none_is_an_error_of_one_line(engine: LlamaEngine) -> None:
    with pytest.raises(EngineError, match="grammar") as caught:
        engine.generate(Request(PROMPT, GREEDY, grammar="root ::= ("))
    assert "\n" not in str(caught.value)
    assert text_of(engine, Request(PROMPT, GREEDY))


def test_text_is_the_tokens_text(engine: LlamaEngine) -> None:
    text = text_of(engine, Request(PROMPT, Sampling(max_tokens=300, seed=9)))
    data = b"".join(engine.vocabulary.piece(token) for token in engine.cached()[len(PROMPT) :])
    shown = data.decode("utf-8", "replace")
    assert text.startswith(shown.rstrip("\ufffd"))


@pytest.mark.parametrize("length", [510, 511, 512, 600])
def test_a_prompt_without_room_for_a_reply_is_refused_before_anything_is_evaluated(
    model_file: Path, length: int
) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512, n_ctx_reading=0))
    with pytest.raises(ContextFull, match=f"{length} of the window's 512 tokens"):
        engine.generate(Request([7] * length, Sampling()))
    assert engine.stats.evaluated_tokens == 0
    engine.close()


def test_the_engines_reserve_is_the_agents() -> None:
    windows = (512, 4_096, 16_384, 32_768, 131_072, 261_000)
    assert [EngineOptions(n_ctx=n).room for n in windows] == [reserve(n) for n in windows]


def test_a_closed_engine_says_so(model_file: Path) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512))
    running = engine.generate(Request(PROMPT, Sampling()))
    next(iter(running))
    engine.close()
    engine.close()
    assert running.finish == "cancelled"
    with pytest.raises(EngineError, match="closed"):
        engine.generate(Request(PROMPT, GREEDY))


def test_a_sequence_that_was_not_planned_is_refused(model_file: Path) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512, n_ctx_reading=0))
    with pytest.raises(EngineError, match="n_ctx_reading"):
        engine.generate(Request(PROMPT, GREEDY, sequence=1))
    engine.close()


def test_a_token_that_does_not_exist_is_an_error_and_the_cache_stays_true(engine: LlamaEngine) -> None:
    before = text_of(engine, Request(PROMPT, GREEDY))
    with pytest.raises(EngineError, match="could not evaluate"):
        list(engine.generate(Request([*PROMPT, 10**6], GREEDY)))
    assert true_record(engine)
    assert text_of(engine, Request(PROMPT, GREEDY)) == before


def test_closing_early_keeps_what_was_evaluated(engine: LlamaEngine) -> None:
    generation = engine.generate(Request(PROMPT, Sampling(max_tokens=100)))
    next(iter(generation))
    generation.close()
    assert generation.finish == "cancelled"
    assert engine.cached()[: len(PROMPT)] == tuple(PROMPT)
    assert true_record(engine)
    assert list(generation) == []


def test_a_new_generation_ends_the_one_before(engine: LlamaEngine) -> None:
    first = engine.generate(Request(PROMPT, Sampling(max_tokens=100)))
    next(iter(first))
    second = engine.generate(Request(PROMPT, GREEDY))
    assert (first.finish, second.finish) == ("cancelled", None)
    assert "".join(second)


@pytest.mark.parametrize(("k", "v"), [("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "f16"), ("f16", "q8_0")])
def test_every_pair_of_kv_types_opens_and_runs(model_file: Path, k: str, v: str) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512, n_ctx_reading=0, type_k=k, type_v=v))
    assert text_of(engine, Request(PROMPT, GREEDY))
    engine.close()


def test_what_the_file_says_of_itself(engine: LlamaEngine) -> None:
    assert engine.chat_template == TEMPLATE
    assert engine.metadata["general.architecture"] == "qwen3"
    assert engine.metadata["tokenizer.chat_template"] == TEMPLATE
    assert "qwen3" in engine.description
    assert engine.kv_bytes == 2 * 2 * 2 * 32 * 2 * (2_048 + 512)  # K and V, layers, heads, width, f16
    assert engine.weights_bytes > 100_000
    assert engine.n_ctx == 2_048


def test_a_gpu_that_the_build_cannot_use_is_one_note(model_file: Path) -> None:
    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512, n_gpu_layers=-1))
    if not engine.notes:
        pytest.skip("this build can use a GPU")
    assert len(engine.notes) == 1
    assert 'CMAKE_ARGS="-DGGML_CUDA=on" pip install' in engine.notes[0]
    engine.close()


def test_pieces_become_ids_by_their_trust(engine: LlamaEngine) -> None:
    ids = engine.tokenize([Piece("<|im_end|>", Trust.TEMPLATE), Piece("<|im_end|><think>", Trust.OUTSIDE)])
    assert [token for token in ids if token >= 1_024] == [1_026]


# -- Ctrl-C and cancel ------------------------------------------------------------------------------------------------

LONG = [100 + i % 450 for i in range(30_000)]


@pytest.fixture
def slow(slow_file: Path) -> Iterator[LlamaEngine]:
    opened = LlamaEngine(slow_file, EngineOptions(n_ctx=32_768, n_ctx_reading=0))
    yield opened
    opened.close()


def is_as_good_as_new(engine: LlamaEngine, slow_file: Path) -> bool:
    """After an interrupt: the record is true, and the text goes on as that of an engine that saw none."""
    true = true_record(engine) and engine.cached() == tuple(LONG[: len(engine.cached())])
    ids = LONG[: max(300, min(len(engine.cached()) + 40, 2_000))]
    fresh = LlamaEngine(slow_file, EngineOptions(n_ctx=32_768, n_ctx_reading=0))
    same = text_of(engine, Request(ids, GREEDY)) == text_of(fresh, Request(ids, GREEDY))
    fresh.close()
    return true and same


def test_cancel_ends_a_long_prompt_soon(slow: LlamaEngine, slow_file: Path) -> None:
    generation = slow.generate(Request(LONG, GREEDY))
    timer = threading.Timer(0.3, slow.cancel)
    timer.start()
    assert list(generation) == []
    timer.join()
    assert generation.finish == "cancelled"
    assert generation.usage.evaluated_tokens == len(slow.cached()) < len(LONG)
    assert is_as_good_as_new(slow, slow_file)


def test_cancel_between_tokens_ends_the_reply(engine: LlamaEngine) -> None:
    generation = engine.generate(Request(PROMPT, Sampling(max_tokens=1_000)))
    texts = iter(generation)
    next(texts)
    engine.cancel()
    assert len(list(texts)) <= 1
    assert generation.finish == "cancelled"
    assert text_of(engine, Request(PROMPT, GREEDY))  # the next one is not cancelled


def test_an_interrupt_during_a_long_prompt_is_raised_and_the_handler_comes_back(
    slow: LlamaEngine, slow_file: Path
) -> None:
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    generation = slow.generate(Request(LONG, GREEDY))
    with pytest.raises(KeyboardInterrupt):
        list(generation)
    timer.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert generation.finish == "cancelled"
    assert len(slow.cached()) < len(LONG)
    assert is_as_good_as_new(slow, slow_file)


def test_a_handler_that_returns_still_ends_the_reply(slow: LlamaEngine) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        generation = slow.generate(Request(LONG, GREEDY))
        assert list(generation) == []
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (heard, generation.finish) == ([signal.SIGINT], "cancelled")


PROGRAM = """
import sys, time
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=32_768, n_ctx_reading=0))
generation = engine.generate(Request([100 + i % 450 for i in range(29_000)], Sampling()))
print("reading", flush=True)
try:
    list(generation)
except KeyboardInterrupt:
    print("interrupted", len(engine.cached()), flush=True)
    raise
"""


def test_ctrl_c_stops_a_process_that_reads_a_long_prompt(slow_file: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(slow_file)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.3)
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        word, _, kept = process.stdout.readline().partition(" ")
        took = time.monotonic() - pressed
        _, complaint = process.communicate(timeout=60)
    assert word == "interrupted"
    assert int(kept) < 29_000
    assert took < 5  # well under one second on an idle machine
    assert process.returncode == -signal.SIGINT
    assert complaint.rstrip().endswith("KeyboardInterrupt")


# -- what loading does ------------------------------------------------------------------------------------------------

LOADED = """
import os, sys
import venus_edge.engine.llama, venus_edge.engine.scripted, venus_edge.engine.library as library
waiting = lambda: (os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
print("llama_cpp" in sys.modules, "numpy" in sys.modules, waiting())
library.load()
print(waiting())
"""


@pytest.mark.parametrize(
    ("chosen", "after"),
    [
        ({}, "('10000', None)"),
        ({"OMP_WAIT_POLICY": "passive"}, "(None, 'passive')"),
        ({"GOMP_SPINCOUNT": "7"}, "('7', None)"),
    ],
)
def test_importing_is_free_and_a_chosen_way_of_waiting_is_kept(chosen: dict[str, str], after: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")} | chosen
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    before = (chosen.get("GOMP_SPINCOUNT"), chosen.get("OMP_WAIT_POLICY"))
    assert done.stdout == f"False False {before}\n{after}\n"
