"""Only new tokens go through the model: recorded runs played again, by the true agent and the true record of the cache.

`tests/bench/replay.py` gives the figure for every released run.
"""

from __future__ import annotations

from pathlib import Path

from tests.engine.replay import replay
from tests.protocol.runs import released
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


def test_a_turn_whose_white_space_the_template_resets_is_evaluated_again_from_there(vocabulary: Vocabulary) -> None:
    engine, result = replay(vocabulary, run(gap="\n"))
    again = engine.stats.evaluated_tokens - result.final_token_count + 2
    behind = len(vocabulary.encode(turn(0).partition("</think>")[2]))
    assert 12 * (behind - 2) <= again <= 12 * (behind + 2)
    assert engine.is_true


def test_a_released_run_of_ninety_turns_evaluates_what_it_holds(shared: Path, vocabulary: Vocabulary) -> None:
    longest = max(released(shared), key=lambda run: len(run.messages))
    engine, result = replay(vocabulary, longest.messages)
    assert (result.termination, result.turns) == ("answered", 89)
    assert engine.stats.evaluated_tokens <= 1.02 * result.final_token_count
    assert engine.is_true
