"""Offload for real, where llama.cpp has a card: what was decided is what llama.cpp did, and its logits are the CPU's.

A software GPU will do (Vulkan on Mesa's llvmpipe with GGML_VK_VISIBLE_DEVICES=0); without any card the tests skip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from venus_edge import demo, registry
from venus_edge.engine import Request, Sampling, devices
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import UsageError
from venus_edge.fit import header, machine, sizes
from venus_edge.values import KvTypes

CARDS = devices.build().cards
pytestmark = pytest.mark.skipif(not CARDS, reason="llama.cpp has no card here")

TINY = registry.PACKAGE / registry.load()[demo.MODEL].file
PROMPT = list(range(100, 164))
GREEDY = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=24)


def opened(path: Path, **asked: Any) -> closing[LlamaEngine]:
    return closing(LlamaEngine(path, EngineOptions(n_ctx=1_024, n_ctx_reading=256, **asked)))


def logits(engine: LlamaEngine, tokens: Sequence[int] = PROMPT) -> np.ndarray[Any, Any]:
    engine._context.keep(0, 0)
    engine._context.evaluate(0, 0, tokens)
    return np.array(engine._context.logits(), copy=True)


def text(engine: LlamaEngine) -> str:
    return "".join(engine.generate(Request(PROMPT, GREEDY)))


def test_without_a_word_all_layers_their_cache_and_their_work_are_on_the_card() -> None:
    with opened(TINY) as engine:
        placed, name = engine.placement, CARDS[0].name
        assert engine.notes == ()
        assert placed.layers == ((name, 5),)
        assert placed.size(name, "KV") == engine.kv_bytes
        assert placed.size("", "KV") == 0
        assert placed.size(name, "weights") > 6_000_000
        assert placed.size(name, "work") > 0
        assert placed.flash is not None
        assert placed.lines()[0].startswith(f"5 of 5 layers on {name} ({CARDS[0].description}): weights 6.8 MiB, KV ")


@pytest.mark.parametrize("kv", ["f16", "q8_0", "q4_0", "q8_0,f16", "f16,q4_0"])
def test_its_logits_are_the_cpus_up_to_rounding(kv: str) -> None:
    types = KvTypes.of(kv)
    with (
        opened(TINY, type_k=types.k, type_v=types.v) as card,
        opened(TINY, type_k=types.k, type_v=types.v, n_gpu_layers=0) as cpu,
    ):
        here, there = logits(cpu), logits(card)
    assert np.isfinite(there).all()
    assert int(here.argmax()) == int(there.argmax())
    assert float(np.abs(here - there).max()) < (0.3 if kv == "f16" else 1.5)  # of a range of about 30


def test_it_writes_what_the_cpu_writes() -> None:
    with opened(TINY) as card, opened(TINY, n_gpu_layers=0) as cpu:
        assert text(card) == text(cpu) != ""


def test_no_layers_are_as_a_build_without_cards() -> None:
    with opened(TINY, n_gpu_layers=0) as engine:
        assert engine.placement.layers == ()
        assert {part.device for part in engine.placement.buffers} == {""}
        assert engine.placement.cards == ()
        assert engine.placement.lines()[0].startswith("all layers on the CPU: weights 6.8 MiB")


@pytest.mark.parametrize("layers", [1, 3, 99])
def test_some_layers_are_as_many_as_were_asked_for(layers: int) -> None:
    with opened(TINY, n_gpu_layers=layers) as engine:
        assert engine.placement.offloaded == min(layers, 5)
        assert (engine.placement.size("", "KV") > 0) == (layers < 5)
        assert text(engine)


@pytest.mark.parametrize("kv", [("f16", "f16"), ("q8_0", "q8_0"), ("q8_0", "f16"), ("q4_0", "q8_0")])
def test_all_layers_take_what_was_planned_within_three_percent(kv: tuple[str, str]) -> None:
    model = header.model(header.read(TINY))
    (quant,) = model.weights
    ram, gpu = sizes.memory(model, quant, machine.probe().repacks, 1_280, kv, 5, 2)
    with opened(TINY, type_k=kv[0], type_v=kv[1]) as engine:
        placed, name = engine.placement, CARDS[0].name
        assert placed.size(name) == pytest.approx(gpu.allocated, rel=0.03)
        assert placed.size(name) + placed.size("") == pytest.approx(gpu.allocated + ram.allocated, rel=0.03)


def test_a_card_beyond_those_that_are_there_is_refused_before_loading() -> None:
    with pytest.raises(UsageError, match=rf"--main-gpu {len(CARDS)} is not there; llama.cpp finds 0: "):
        LlamaEngine(TINY, EngineOptions(main_gpu=len(CARDS)))
    with pytest.raises(UsageError, match=f"--tensor-split names {len(CARDS) + 1} cards"):
        LlamaEngine(TINY, EngineOptions(tensor_split=(1.0,) * (len(CARDS) + 1)))


# -- in a process of their own: cards that are counted twice, cards that are short of memory -------------------------

SCRIPT = """
import json, sys
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
asked = json.loads(sys.argv[2])
asked["tensor_split"] = tuple(asked.get("tensor_split", ()))
engine = LlamaEngine(sys.argv[1], EngineOptions(n_ctx=1024, n_ctx_reading=256, **asked))
greedy = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=24)
text = "".join(engine.generate(Request(list(range(100, 164)), greedy)))
cards = [engine.placement.size(name) for name, _ in engine.placement.layers]
print(json.dumps([engine.placement.layers, cards, engine.notes, text]))
engine.close()
"""


def alone(variables: dict[str, str], **asked: Any) -> tuple[dict[str, int], list[int], list[str], str]:
    """What comes of an engine under such an environment: layers by card, bytes on each, its notes, what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(TINY), json.dumps(asked)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    layers, taken, notes, written = json.loads(done.stdout.splitlines()[-1])
    return dict(layers), taken, notes, written


vulkan = pytest.mark.skipif(
    not CARDS or CARDS[0].backend != "Vulkan", reason="Vulkan counts a card twice and feigns a small one on request"
)


@pytest.fixture(scope="module")
def cpu_text() -> Iterator[str]:
    with opened(TINY, n_gpu_layers=0) as engine:
        yield text(engine)


@vulkan
@pytest.mark.parametrize("shares", [(1.0, 1.0), (3.0, 1.0), (1.0, 4.0)])
def test_two_cards_share_the_layers_as_planned(shares: tuple[float, float], cpu_text: str) -> None:
    layers, taken, notes, written = alone({"GGML_VK_VISIBLE_DEVICES": "0,0"}, tensor_split=shares)
    planned = sizes.split(4, 5, shares)
    assert layers == {f"Vulkan{card}": planned.count(card) for card in (0, 1)}
    assert notes == []
    assert written == cpu_text
    model = header.model(header.read(TINY))
    (quant,) = model.weights
    held = sizes.on_cards(model, quant, 1_280, ("f16", "f16"), 5, shares)
    for size, card in zip(taken, held, strict=True):
        assert size <= card.allocated * 1.03  # the card of the last layers needs less work than is planned for it


@vulkan
def test_one_of_two_cards_gets_everything(cpu_text: str) -> None:
    layers, _, notes, written = alone({"GGML_VK_VISIBLE_DEVICES": "0,0"}, main_gpu=1)
    assert (layers, notes, written) == ({"Vulkan1": 5}, [], cpu_text)


@vulkan
@pytest.mark.parametrize("asked", [None, -1, 5])
def test_a_card_without_room_gets_fewer_layers_and_that_is_said(asked: int | None, cpu_text: str) -> None:
    small = {"GGML_VK_FORCE_MAX_BUFFER_SIZE": "4000000"}
    layers, _, notes, written = alone(small, n_gpu_layers=asked, n_ubatch=64)
    assert layers == {"Vulkan0": 3}
    (line,) = notes
    assert line.startswith("the GPU has no room for 5 layers (")
    assert line.endswith("), so 3 are on it and the CPU computes the others")
    assert "Vulkan0" in line
    assert written == cpu_text


@vulkan
def test_a_card_without_any_room_leaves_it_to_the_cpu(cpu_text: str) -> None:
    layers, _, notes, written = alone({"GGML_VK_FORCE_MAX_BUFFER_SIZE": "20000"})
    assert (layers, written) == ({}, cpu_text)
    (line,) = notes
    assert line.endswith(", so the CPU computes")
