"""The remote engine's requests through the gate: what is allowed, what is refused, and that they can be broken off."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.engine.remote_fakes import IM_END, FakeModel, Handler, serving, spelled
from venus_edge.engine import Request, Sampling
from venus_edge.engine.remote import RemoteEngine
from venus_edge.engine.wire import Patience, host_of
from venus_edge.errors import EngineError
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.modelserver import ModelClient

QUICK = Patience(connect=5.0, answer=5.0, first=5.0, between=5.0, pauses=(0.01, 0.01))
REQUEST = Request(list(b"a prompt"), Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=400))


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def url(model: FakeModel) -> Iterator[str]:
    with serving(model) as address:
        yield address


def gate(url: str) -> Gate:
    return Gate(Policy(allow_hosts=(host_of(url),)))


def test_a_reply_comes_through_the_gate_and_into_the_ledger(model: FakeModel, url: str) -> None:
    model.replies = [[*spelled("é 汉 done"), IM_END]]
    through = gate(url)
    assert "".join(RemoteEngine(url, ModelClient(through), patience=QUICK).generate(REQUEST)) == "é 汉 done"
    until = time.monotonic() + 5
    while len(through.ledger.entries) < 3 and time.monotonic() < until:
        time.sleep(0.01)  # the thread that read writes the line
    entries = through.ledger.entries
    assert {(e.host, e.purpose, e.outcome, e.address) for e in entries} == {("127.0.0.1", "model", "ok", "127.0.0.1")}
    assert len(entries) == 3  # /props, /tokenize, /completion


@pytest.mark.parametrize("policy", [Policy(), Policy(offline=True), Policy(allow_hosts=("127.0.0.1:1",))])
def test_a_server_that_nobody_named_is_not_reached(model: FakeModel, url: str, policy: Policy) -> None:
    with pytest.raises(EngineError, match="may not be asked"):
        RemoteEngine(url, ModelClient(Gate(policy)), patience=QUICK)
    assert model.paths == []


def test_a_server_that_is_not_there_is_one_line(model: FakeModel) -> None:
    with serving(model) as url:
        pass
    with pytest.raises(EngineError, match=r"no connection to .*: start it"):
        RemoteEngine(url, ModelClient(gate(url)), patience=QUICK)


def test_a_connection_that_breaks_is_one_line(model: FakeModel, url: str) -> None:
    def fault(handler: Handler) -> bool:
        handler.begin()
        handler.event({"content": "x", "tokens": [65], "stop": False, "tokens_predicted": 1})
        return handler.drop()

    model.faults = [fault]
    with pytest.raises(EngineError, match="broke after 1 tokens"):
        "".join(RemoteEngine(url, ModelClient(gate(url)), patience=QUICK).generate(REQUEST))


@pytest.mark.parametrize("silent", [True, False], ids=["in prefill", "in decode"])
def test_cancel_breaks_the_connection(model: FakeModel, url: str, silent: bool) -> None:
    release = threading.Event()

    def fault(handler: Handler) -> bool:
        release.wait(10)
        return handler.drop()

    model.replies, model.delay, model.faults = [spelled("x" * 399)], 0.02, [fault] if silent else []
    engine = RemoteEngine(url, ModelClient(gate(url)), patience=QUICK)
    generation = engine.generate(REQUEST)
    threading.Timer(0.1, engine.cancel).start()
    began = time.monotonic()
    "".join(generation)
    release.set()
    assert generation.finish == "cancelled"
    assert time.monotonic() - began < 4
    assert silent or model.stopped.wait(10)
