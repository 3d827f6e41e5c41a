"""Only new tokens go through the model: recorded runs played again, by the true agent and the true record of the cache.

`tests/bench/replay.py` gives the figure for every released run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.replay import replay
from tests.protocol.runs import released
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.values import Message

LOOP = "Wait, I should look at the tide table again. " * 60


def turn(number: int, gap: str = "\n\n") -> str:
    thought = f"Round {number}: the gauge of Brest, 布雷斯特验潮站, was read in {1_807 + number}. " * 4
    call = f'{{"name": "search", "arguments": {{"query": ["tide gauge {number}"]}}}}'
    return f"<think>\n{thought}\n</think>{gap}<tool_call>\n{call}\n</tool_call>"


def run(turns: int = 12, gap: str = "\n\n") -> list[Message]:
    """A run of searches and an answer, as its messages."""
    messages = [Message("system", ""), Message("user", "Since when is the tide read at Brest? 自何时起?")]
    for number in range(turns):
        messages.append(Message("assistant", turn(number, gap)))
        messages.append(Message("user", f"<tool_response>\nhit {number}, 命中: 1807 and <think>\n</tool_response>"))
    return [*messages, Message("assistant", "<think>\nIt says so.\n</think>\n\n<answer>1807</answer>")]


def test_a_run_evaluates_every_token_of_its_conversation_once(vocabulary: Vocabulary) -> None:
    engine, result = replay(vocabulary, run())
    assert (result.termination, result.turns) == ("answered", 13)
    assert result.final_token_count - engine.stats.evaluated_tokens == 2  # the last <|im_end|> and its line break
    assert engine.is_true


def test_attempts_that_failed_are_rolled_back_and_the_prompt_is_not_read_again(vocabulary: Vocabulary) -> None:
    ends = vocabulary.specials.control["<|im_end|>"]
    failed = [vocabulary.encode(LOOP), [*vocabulary.encode("no action at all"), ends]]
    engine, result = replay(vocabulary, run(), lambda turn, ids: [*failed, ids] if turn % 3 == 1 else [ids])
    plain, _ = replay(vocabulary, run())
    assert result.parse_error_count == 2 * 4
    assert engine.cached.ids == plain.cached.ids
    assert engine.stats.prefill_tokens == plain.stats.prefill_tokens + 2 * 4  # the prompt's last token, whose logits
    assert engine.is_true


def test_a_turn_that_was_written_in_other_tokens_is_evaluated_again_and_nothing_else_is(vocabulary: Vocabulary) -> None:
    start = "Round 4: the"
    bytewise = [vocabulary.encode(letter)[0] for letter in start]

    def spelled(number: int, ids: list[int]) -> list[list[int]]:
        return [[*bytewise, *ids[len(vocabulary.encode(start)) :]]] if number == 4 else [ids]

    engine, result = replay(vocabulary, run(), spelled)
    plain, same = replay(vocabulary, run())
    again = engine.stats.evaluated_tokens - plain.stats.evaluated_tokens
    assert result.messages == same.messages
    assert engine.cached.ids == plain.cached.ids
    written = len(vocabulary.encode(turn(4)))
    assert written - 5 < again < written + 20
    assert engine.is_true


@pytest.mark.parametrize("gap", ["\n", "", "\n\n\n", "  \n"])
def test_a_turn_keeps_the_white_space_that_the_template_would_reset(vocabulary: Vocabulary, gap: str) -> None:
    engine, result = replay(vocabulary, run(gap=gap))
    assert result.final_token_count - engine.stats.evaluated_tokens == 2
    assert engine.is_true


@pytest.fixture
def window(model_file: Path) -> Iterator[LlamaEngine]:
    opened = LlamaEngine(model_file, EngineOptions(n_ctx=8_192, n_ctx_reading=0, n_threads=1))
    yield opened
    opened.close()


def test_llama_cpp_holds_after_a_run_what_evaluating_its_conversation_gives(window: LlamaEngine) -> None:
    """Attempts that failed and turns in other tokens among it: the next token's logits are those of a fresh cache."""
    ends = window.vocabulary.specials.control["<|im_end|>"]
    failed = [*window.vocabulary.encode("no action at all"), ends]
    engine, result = replay(
        window.vocabulary, run(), lambda turn, ids: [failed, ids] if turn % 2 else [ids], window._context
    )
    ids = engine.cached.ids
    assert result.final_token_count - len(ids) == 2
    assert engine.is_true
    window._context.evaluate(0, len(ids), [ends])
    played = window._context.logits().copy()
    window._context.keep(0, 0)
    for at in range(0, len(ids), 512):
        window._context.evaluate(0, at, ids[at : at + 512])
    window._context.evaluate(0, len(ids), [ends])
    assert abs(window._context.logits() - played).max() < 1e-2 * abs(played).max()
    assert window._context.logits().argmax() == played.argmax()


def test_every_released_run_evaluates_what_it_holds(shared: Path, vocabulary: Vocabulary) -> None:
    turns = []
    for recorded in released(shared):
        engine, result = replay(vocabulary, recorded.messages)
        turns.append(result.turns)
        assert result.termination == "answered"
        assert engine.stats.evaluated_tokens <= 1.02 * result.final_token_count
        assert engine.is_true
    assert max(turns) == 89
