"""The remote engine on a real llama-server: VENUS_TEST_LLAMA_SERVER is the path of its binary; without it, skipped.

It comes with llama.cpp's sources, which the sdist of llama-cpp-python holds: cmake -DLLAMA_BUILD_SERVER=ON.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from tests.engine.remote_fakes import PlainClient
from venus_edge import demo, registry, world
from venus_edge.agent import Agent, Config
from venus_edge.corpus.shelf import Shelf
from venus_edge.engine import Engine, Request, Sampling, Triggered
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.remote import RemoteEngine
from venus_edge.engine.wire import Patience
from venus_edge.errors import EngineError
from venus_edge.events import AttemptStarted, Event, Replied
from venus_edge.protocol import Piece, Trust
from venus_edge.settings import Directories, Settings
from venus_edge.tools.evidence import ExtractiveReader
from venus_edge.tools.toolbox import Toolbox

MODEL = demo.HERE / f"{demo.MODEL}.gguf"
SERVER = os.environ.get("VENUS_TEST_LLAMA_SERVER", "")
pytestmark = pytest.mark.skipif(not SERVER, reason="VENUS_TEST_LLAMA_SERVER names no llama-server")
STOP = ("<tool_response>",)
QUICK = Patience(connect=5.0, answer=30.0, first=60.0, between=30.0, pauses=(0.1, 0.1))


@contextlib.contextmanager
def served(model: Path, n_ctx: int, *arguments: str) -> Iterator[RemoteEngine]:
    """A llama-server for the model, and the engine on it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [SERVER, "-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-c", str(n_ctx), "-t", "1"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with closing(ready(f"http://127.0.0.1:{port}")) as engine:
            yield engine
    finally:
        process.terminate()
        process.wait(60)


def ready(url: str) -> RemoteEngine:
    """The engine, when the server has loaded its model."""
    until = time.monotonic() + 120
    while True:
        try:
            return RemoteEngine(url, PlainClient(), key="sesame", patience=QUICK)
        except EngineError as error:
            if time.monotonic() > until or "401" in str(error):
                raise
            time.sleep(0.1)


@pytest.fixture(scope="module")
def local() -> Iterator[LlamaEngine]:
    with closing(LlamaEngine(MODEL, EngineOptions(n_ctx=4_096, n_threads=1))) as engine:
        yield engine


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteEngine]:
    with served(MODEL, 4_096, "-np", "1", "--api-key", "sesame") as engine:
        yield engine


def pieces(text: str) -> list[Piece]:
    return [
        Piece("<|im_start|>user\n", Trust.TEMPLATE),
        Piece(text, Trust.OUTSIDE),
        Piece("<|im_end|>\n<|im_start|>assistant\n<think>\n", Trust.TEMPLATE),
    ]


def played(engine: Engine, home: Path) -> list[Event]:
    """A greedy run of the demo's first question."""
    settings = Settings(Directories(home / "config", home / "data", home / "cache"), offline=True)
    spec = registry.find(demo.MODEL, registry.load(settings.directories.config))
    with closing(world.open_corpus(demo.CORPUS, settings, lambda _: None)) as corpus:
        shelf = Shelf([corpus])
        tools = Toolbox(shelf, shelf, ExtractiveReader(), spec.dialect, spec.results)
        agent = Agent(engine, tools, Config(date(2026, 3, 1), spec.sampling, template=engine.chat_template))
        return list(agent.run(demo.questions()[0].text))


def test_a_greedy_run_of_three_turns_is_the_local_engines(
    local: LlamaEngine, remote: RemoteEngine, tmp_path: Path
) -> None:
    mine, theirs = played(local, tmp_path), played(remote, tmp_path)
    replies = [event.reply.text for event in mine if isinstance(event, Replied)]
    assert [event.reply.text for event in theirs if isinstance(event, Replied)] == replies
    assert len(replies) == 3
    prompts = [[e.prompt_tokens for e in events if isinstance(e, AttemptStarted)] for events in (mine, theirs)]
    assert prompts[0] == prompts[1]
    usages = [event.usage for event in theirs if isinstance(event, Replied)]
    assert [usage.reused_tokens > 0.5 * usage.prompt_tokens for usage in usages[1:]] == [True, True]


def test_the_window_and_the_template_are_the_files(local: LlamaEngine, remote: RemoteEngine) -> None:
    assert (remote.n_ctx, remote.chat_template.strip()) == (4_096, local.chat_template.strip())


@pytest.mark.parametrize(
    "text", ["</tool_response><|im_end|>", "<tool_call> <think>", "é 汉字 🎉🦖", " \n\n  x", "<|im_start|", "\ud83d"]
)
def test_text_from_outside_is_tokenized_as_locally(local: LlamaEngine, remote: RemoteEngine, text: str) -> None:
    assert remote.tokenize(pieces(text)) == local.tokenize(pieces(text))


@pytest.mark.parametrize("penalty", [0.0, 1.1])
def test_greedy_text_counts_and_finish_are_the_local_engines(
    local: LlamaEngine, remote: RemoteEngine, penalty: float
) -> None:
    prompt = local.tokenize(pieces(demo.questions()[1].text))
    for limit in (300, 7):
        sampling = Sampling(temperature=0.0, presence_penalty=penalty, max_tokens=limit)
        mine, theirs = local.generate(Request(prompt, sampling, STOP)), remote.generate(Request(prompt, sampling, STOP))
        assert "".join(theirs) == "".join(mine)
        assert (theirs.finish, theirs.usage.generated_tokens) == (mine.finish, mine.usage.generated_tokens)


def test_a_grammar_binds(remote: RemoteEngine) -> None:
    request = Request(
        remote.tokenize(pieces("x")), Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=50), STOP,
        'root ::= "{" [a-c]+ "}"',
    )  # fmt: skip
    text = "".join(remote.generate(request))
    assert text.startswith("{")
    assert set(text) <= set("{abc}")


@pytest.mark.parametrize("penalty", [0.0, 1.1], ids=["one stretch", "several"])
def test_a_grammar_that_waits_binds_calls_and_leaves_thoughts_alone(
    local: LlamaEngine, remote: RemoteEngine, penalty: float
) -> None:
    """The grammar admits only one letter for what the model wants to write, so it is seen to bind, and from where."""
    call = Triggered('root ::= "\n{" "x"+ "}</tool_call>"', "<tool_call>", ("<think>", "</think>"))
    sampling = Sampling(temperature=0.0, presence_penalty=penalty, max_tokens=90)
    prompt = remote.tokenize(pieces(demo.questions()[0].text))
    free = "".join(remote.generate(Request(prompt, sampling, STOP)))
    bound = "".join(remote.generate(Request(prompt, sampling, STOP, triggered=call)))
    thought, tag, rest = bound.partition("<tool_call>")
    assert thought + tag == free.partition("<tool_call>")[0] + tag
    assert rest.startswith("\n{x")
    assert set(rest.removesuffix("</tool_call>")) <= set("\n{x}")
    assert "".join(local.generate(Request(prompt, sampling, STOP, triggered=call))).startswith(thought + tag + "\n{x")


def test_a_call_in_a_thought_is_not_bound(remote: RemoteEngine) -> None:
    call = Triggered('root ::= "x"+', "<tool_call>", ("<think>", "</think>"))
    sampling = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=20)
    thought = [*remote.tokenize(pieces("x")), *remote.tokenize([Piece("I may <tool_call>", Trust.MODEL)])]
    free = "".join(remote.generate(Request(thought, sampling, STOP)))
    assert "".join(remote.generate(Request(thought, sampling, STOP, triggered=call))) == free


def test_after_a_cancelled_one_the_server_is_free(remote: RemoteEngine) -> None:
    prompt = remote.tokenize(pieces(demo.questions()[2].text))
    generation = remote.generate(Request(prompt, Sampling(temperature=0.0, max_tokens=300), STOP))
    next(iter(generation))
    remote.cancel()
    "".join(generation)
    assert generation.finish == "cancelled"
    assert "".join(remote.generate(Request(prompt, Sampling(temperature=0.0, max_tokens=5), STOP)))


def test_a_wrong_key_is_refused(remote: RemoteEngine) -> None:
    with pytest.raises(EngineError, match="401"):
        RemoteEngine(remote.url, PlainClient(), key="wrong", patience=QUICK)
