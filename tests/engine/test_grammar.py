"""A tool call cannot be malformed: the grammar takes over at the token `<tool_call>`, outside thinking, and lets every
call of the two tools pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.replay import RecordedTools
from tests.protocol.runs import released
from venus_edge.agent import CALLS, Agent, Config
from venus_edge.engine import Request, Sampling, Triggered
from venus_edge.engine.chain import samplers
from venus_edge.engine.grammar import Grammar, Lazy, apply, is_open
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.scripted import ScriptedEngine
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.errors import EngineError
from venus_edge.protocol.parse import parse
from venus_edge.values import SearchCall, VisitCall

WILD = Sampling(temperature=100.0, top_p=1.0, top_k=0, presence_penalty=0.0, max_tokens=3_000)  # any token, nearly
CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


def admits(vocabulary: Vocabulary, text: str) -> bool:
    """Whether the text may stand behind `<tool_call>`, token for token, and the turn end with it."""
    grammar = Grammar(vocabulary, CALLS.grammar, Sampling())
    try:
        for token in vocabulary.encode(text):
            if not grammar.allows(token):
                return False
            grammar.accept(token)
        return grammar.allows(vocabulary.specials.control["<|im_end|>"])
    finally:
        grammar.close()


# -- what it lets pass ------------------------------------------------------------------------------------------------


def test_every_released_call_passes_byte_for_byte(shared: Path, vocabulary: Vocabulary) -> None:
    rests = (turn.rpartition("</think>")[2] for run in released(shared) for turn in run.turns())
    calls = [rest.partition("<tool_call>")[2] for rest in rests if "<tool_call>" in rest]
    assert len(calls) > 400
    assert [call for call in calls if not admits(vocabulary, call)] == []


texts = st.lists(st.text(max_size=30), min_size=1, max_size=3)
calls = st.one_of(
    st.builds(lambda query: {"name": "search", "arguments": {"query": query}}, texts),
    st.builds(lambda url, goal: {"name": "visit", "arguments": {"url": url, "goal": goal}}, texts, st.text()),
)


@given(call=calls, ascii_only=st.booleans(), indent=st.sampled_from([None, 0, 2, 4]))
def test_every_call_passes_as_json_dumps_writes_it(
    vocabulary: Vocabulary, call: dict[str, object], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(call, ensure_ascii=ascii_only, indent=indent)
    assert admits(vocabulary, f"\n{text}\n</tool_call>")


SEARCH = '{"name": "search", "arguments": {"query": ["潮汐 Brest"]}}'


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (f"\n{SEARCH}\n</tool_call>", True),
        (f"{SEARCH}</tool_call>", True),
        (f"\n{SEARCH}\n", False),
        (f"\n{SEARCH}}}\n</tool_call>", False),
        (f"\n{SEARCH}\n</tool_call>\n<tool_call>", False),
        ('\n{"name": "search", "arguments": {"query": "tides"}}\n</tool_call>', False),
        ('\n{"name": "search", "arguments": {"query": []}}\n</tool_call>', False),
        ('\n{"name": "search", "arguments": {"query": [1]}}\n</tool_call>', False),
        ('\n{"name": "python", "arguments": {"code": "1"}}\n</tool_call>', False),
        ('\n{"name": "visit", "arguments": {"url": ["a"]}}\n</tool_call>', False),
        ('\n{"name": "visit", "arguments": {"url": ["a"], "goal": ["b"]}}\n</tool_call>', False),
        ("\n{'name': 'search', 'arguments': {'query': ['a']}}\n</tool_call>", False),
        ('\n{"name": "search", "arguments": {"query": ["a\nb"]}}\n</tool_call>', False),
        ('\n{"name": "search", "arguments": {"query": ["a\\qb"]}}\n</tool_call>', False),
        ('\n{"name": "visit", "arguments": {"url": ["</tool_call>"], "goal": "\\u704f"}}\n</tool_call>', True),
    ],
)
def test_only_calls_of_the_two_tools_with_their_arguments_pass(vocabulary: Vocabulary, text: str, passes: bool) -> None:
    assert admits(vocabulary, text) is passes


# -- when it binds ----------------------------------------------------------------------------------------------------


def binds_after(vocabulary: Vocabulary, prompt: str, written: str) -> bool:
    """Whether prose is refused behind what was written."""
    lazy = Lazy(vocabulary, CALLS, vocabulary.encode(prompt, parse_special=True), Sampling())
    try:
        for token in vocabulary.encode(written, parse_special=True):
            assert lazy.allows(token)
            lazy.accept(token)
        return not lazy.allows(vocabulary.encode("prose")[0])
    finally:
        lazy.close()


@pytest.mark.parametrize(
    ("prompt", "written", "binds"),
    [
        ("<think>\n", "I could <tool_call>", False),
        ("<think>\n", "I could not</think> prose", False),
        ("<think>\n", "I search.</think>\n\n<tool_call>", True),
        ("<think>\n", "I search.</think>\n\nSo: <tool_call>\n{", True),
        ("<think>a</think><think>", "<tool_call>", False),
        ("<think>\n</think>\n\n", "<tool_call>", True),
        ("no thought at all", "<tool_call>", True),
        ("<think>\n</think>\n\n", "<think><tool_call>", False),
    ],
)
def test_it_binds_from_the_token_outside_thinking(
    vocabulary: Vocabulary, prompt: str, written: str, binds: bool
) -> None:
    assert binds_after(vocabulary, prompt, written) is binds


def test_a_stretch_is_open_by_its_last_tag() -> None:
    assert [is_open(prompt, 1, 2) for prompt in ([], [1], [1, 2], [1, 2, 1, 9], [2, 9])] == [
        *(False, True, False, True, False)
    ]


# -- what is chosen where the sampler's choice is refused -------------------------------------------------------------

PLACES = (
    '\n{"name": "search", "arguments": {"query": ["潮汐 Brest"]}}\n</tool_call>',
    '{"name":"visit","arguments":{"url":["https://example.org/a?b=\\u704f"],"goal":"the year, 年份"}}</tool_call>',
)


class Counting(Grammar):
    """Counts the tokens that llama.cpp is asked about."""

    asked = 0

    def _allowed(self, logits: Any, ids: Any) -> Any:
        self.asked += len(ids)
        return super()._allowed(logits, ids)


def places(vocabulary: Vocabulary, text: str, settings: Sampling) -> Iterator[tuple[Counting, int]]:
    """The grammar in front of each token of the call, and behind the last."""
    grammar = Counting(vocabulary, CALLS.grammar, settings)
    for token in [*vocabulary.encode(text), vocabulary.specials.control["<|im_end|>"]]:
        yield grammar, token
        if not vocabulary.ends(token):
            grammar.accept(token)
    grammar.close()


@pytest.mark.parametrize("text", PLACES)
@pytest.mark.parametrize("settings", [Sampling(), Sampling(temperature=0.0), Sampling(temperature=1.7, top_k=0)])
def test_the_choice_is_the_samplers_among_all_that_the_grammar_allows(
    vocabulary: Vocabulary, text: str, settings: Sampling
) -> None:
    random = np.random.default_rng(3)
    for grammar, _ in places(vocabulary, text, settings):
        logits = random.normal(0, 4, vocabulary.size).astype(np.float32)
        every = grammar._allowed(logits, np.arange(vocabulary.size))
        narrowed = np.concatenate(vocabulary.prefixes.allowed(partial(grammar._allowed, logits)))
        assert np.array_equal(np.sort(narrowed["id"]), every["id"])
        chains = [samplers(vocabulary.lib, settings) for _ in range(2)]
        _, selected = apply(vocabulary.lib, chains[0], every)
        assert grammar.choose(logits, chains[1]) == every["id"][selected]
        for chain in chains:
            vocabulary.lib.llama_sampler_free(chain)


@pytest.mark.parametrize(("text", "most"), [(PLACES[0], 2_000), (PLACES[1], 11_000)], ids=["search", "visit, \\u"])
def test_a_refusal_asks_about_little_of_the_vocabulary(vocabulary: Vocabulary, text: str, most: int) -> None:
    """Where hexadecimal digits must follow, words of these letters have to be asked about."""
    chain = samplers(vocabulary.lib, Sampling())
    for grammar, token in places(vocabulary, text, Sampling()):
        logits = np.zeros(vocabulary.size, np.float32)
        logits[token] = -1.0  # what comes is the last that the model thinks of
        before = grammar.asked
        assert grammar.allows(grammar.choose(logits, chain))
        assert grammar.asked - before <= most
    vocabulary.lib.llama_sampler_free(chain)


# -- what a model writes under it -------------------------------------------------------------------------------------


def written_calls(engine: LlamaEngine, prompt: str, triggered: Triggered | None) -> Iterator[str]:
    """The replies to the prompt in which a call was begun, by the first seeds that do so."""
    ids = engine.vocabulary.encode(prompt, parse_special=True)
    for seed in range(12):
        generation = engine.generate(Request(ids, replace(WILD, seed=seed), triggered=triggered))
        text = "".join(generation)
        if "<tool_call>" in text and generation.finish == "stop":
            yield text


@pytest.fixture
def wide(model_file: Path) -> Iterator[LlamaEngine]:
    opened = LlamaEngine(model_file, EngineOptions(n_ctx=4_096, n_ctx_reading=0, n_threads=1))
    yield opened
    opened.close()


def test_a_model_of_random_weights_writes_only_valid_calls(wide: LlamaEngine) -> None:
    replies = (text for text in written_calls(wide, CLOSED, CALLS) if "<think>" not in text)
    called = [text.partition("<tool_call>")[2] for text in islice(replies, 2)]
    assert len(called) == 2
    for text in called:
        assert json.loads(text.removesuffix("</tool_call>"), strict=False)["name"] in ("search", "visit")
        assert isinstance(parse(f"</think><tool_call>{text}").action, SearchCall | VisitCall)


def test_without_the_grammar_it_writes_none(wide: LlamaEngine) -> None:
    replies = list(islice(written_calls(wide, CLOSED, None), 2))
    assert len(replies) == 2
    assert not any(isinstance(parse(f"</think>{text}").action, SearchCall | VisitCall) for text in replies)


@pytest.mark.parametrize("armed", [True, False])
def test_the_agent_arms_it_unless_told_not_to(armed: bool) -> None:
    engine = ScriptedEngine(["I know.\n</think>\n\n<answer>1807</answer>"])
    list(Agent(engine, RecordedTools([]), Config(date(2026, 3, 1), grammar=armed)).run("When?"))
    assert [request.triggered for request in engine.requests] == [CALLS if armed else None]


def test_a_grammar_that_is_none_is_refused_before_anything_is_evaluated(engine: LlamaEngine) -> None:
    broken = Triggered("root ::= (", CALLS.trigger, CALLS.quiet)
    with pytest.raises(EngineError, match="does not understand the grammar"):
        engine.generate(Request([5, 6], Sampling(), triggered=broken))
    assert engine.stats.evaluated_tokens == 0


def test_a_vocabulary_without_the_token_never_triggers(engine: LlamaEngine) -> None:
    other = Triggered(CALLS.grammar, "<call>", CALLS.quiet)
    bound, free = (
        "".join(engine.generate(Request(range(100, 140), Sampling(max_tokens=50), triggered=triggered)))
        for triggered in (other, None)
    )
    assert bound == free
