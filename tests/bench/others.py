"""Twenty turns of a trajectory, played by three programs on the same tokens; and llama-cpp-python's long completion.

A turn writes some 40 scripted tokens (all that sampling costs is paid, then the script's token is taken), answered by
140 more. Ours does what the agent does with it: renders the conversation, tokenizes it, streams through the guards, the
grammar armed. llama-server cannot be scripted: it goes on from as many tokens of its own, and is given ids, so that its
prompt always extends its cache; nothing is rendered or streamed there.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.protocol.runs import released
from venus_edge import guards
from venus_edge.agent import CALLS, STOP
from venus_edge.engine import Request, Sampling
from venus_edge.engine.chain import Chain
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.protocol import rendering, stream
from venus_edge.values import Message

TURNS, WRITTEN, ANSWERED, N_CTX = 20, 40, 140, 8_192  # a quarter is written, as in the released runs
ENVIRONMENT = dict(os.environ)  # as the person has it: what loading our library sets is not for another program
PROSE = (
    "The tide gauge of the harbour was read every hour from the first winter on, and the keeper wrote the numbers into "
    "a book that the museum still shows; a storm took the pier, the book stayed, and what it says has been used since. "
)
SYSTEM = "You are a research assistant."


# -- what is played ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What a turn writes, as text and tokens, and what it is answered."""

    written: str
    ids: tuple[int, ...]
    answered: str


@dataclass(frozen=True)
class Script:
    question: str
    turns: tuple[Turn, ...]


def script(vocabulary: Vocabulary, shared: Path | None) -> Script:
    """Twenty turns: of the first released run where there is one, else prose; each cut to its tokens."""
    question, *rest = _recorded(shared) if shared else _prose()
    turns = []
    for written, answered in zip(rest[0 : 2 * TURNS : 2], rest[1::2], strict=False):
        cut = _cut(vocabulary, written, WRITTEN)
        turns.append(Turn(cut, tuple(vocabulary.encode(cut)), _cut(vocabulary, answered, ANSWERED)))
    return Script(question, tuple(turns))


def _prose() -> Iterator[str]:
    """A question, then turns and answers by turns."""
    return (f"Part {number}. {PROSE * 8 if number else PROSE}" for number in range(2 * TURNS + 1))


def _recorded(shared: Path) -> Iterator[str]:
    return (message.content.removeprefix("<think>").strip() for message in released(shared)[0].messages[1:])


def _cut(vocabulary: Vocabulary, text: str, count: int) -> str:
    """At most so many tokens of the text, up to a space, so that they are the same in whatever the text is put."""
    ids = vocabulary.encode(text)[:count]
    return b"".join(map(vocabulary.piece, ids)).decode("utf-8", "ignore").rpartition(" ")[0]


class Scripted(Chain):
    """Samples as ever, and takes the script's token instead."""

    script: list[int]

    def next(self, output: int = -1) -> int:
        super().next(output)
        return self.script.pop(0)


@cache
def _scripted_llama() -> Any:
    from llama_cpp import Llama

    class ScriptedLlama(Llama):  # type: ignore[misc]  # untyped
        """The same of llama-cpp-python's class."""

        script: list[int]

        def sample(self, *arguments: Any, **named: Any) -> int:
            super().sample(*arguments, **named)
            return self.script.pop(0)

    return ScriptedLlama


def _llama(path: Path, window: int, threads: int) -> Any:
    counts = {"n_threads": threads, "n_threads_batch": threads}
    return _scripted_llama()(str(path), n_ctx=window, verbose=False, flash_attn=True, **counts)


# -- the three programs -----------------------------------------------------------------------------------------------


class OurSlice:
    """The agent's way through the engine."""

    def __init__(self, path: Path, told: Script, threads: int) -> None:
        options = EngineOptions(
            n_ctx=N_CTX, n_ctx_reading=0, n_threads=threads, n_threads_batch=threads, speculate=False
        )
        self._engine = LlamaEngine(path, options)
        self._told = told

    def play(self) -> float:
        engine = self._engine
        engine._cached[0].cut(engine._context.keep(0, 0))
        messages = [Message("system", SYSTEM), Message("user", self._told.question)]
        began = time.perf_counter()
        for turn in self._told.turns:
            prompt = engine.tokenize(rendering.render(messages, engine.chat_template, as_generated=True))
            messages.append(Message("assistant", self._written(prompt, turn)))
            messages.append(Message("user", turn.answered))
        return time.perf_counter() - began

    def _written(self, prompt: list[int], turn: Turn) -> str:
        engine = self._engine
        request = Request(prompt, Sampling(max_tokens=len(turn.ids)), STOP, triggered=CALLS)
        chain = Scripted(engine._context, engine.vocabulary, request)
        chain.script = list(turn.ids)
        watch, splitter, texts = guards.LoopWatch(), stream.Splitter(), []
        for text in LocalGeneration(
            engine._context, engine._cached[0], request, chain, engine.stats, N_CTX, engine._context.batch
        ):
            list(splitter.feed(text))
            watch.feed(text)
            texts.append(text)
        return "".join(texts)

    @property
    def held(self) -> Sequence[int]:
        """The ids of the conversation, as far as they were evaluated."""
        return self._engine.cached()

    def close(self) -> None:
        self._engine.close()


class ChatCompletion:
    """llama-cpp-python's chat."""

    def __init__(self, path: Path, told: Script, threads: int) -> None:
        self._llama = _llama(path, N_CTX, threads)
        self._told = told

    def play(self) -> float:
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": self._told.question}]
        began = time.perf_counter()
        for turn in self._told.turns:
            self._llama.script = list(turn.ids)
            content = self._written(messages, len(turn.ids))
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": turn.answered}]
        return time.perf_counter() - began

    def _written(self, messages: list[dict[str, str]], count: int) -> str:
        settings = {"temperature": 1.0, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "presence_penalty": 1.1}
        reply: Any = self._llama.create_chat_completion(messages, max_tokens=count, **settings)
        return str(reply["choices"][0]["message"]["content"])

    @property
    def held(self) -> Sequence[int]:
        return [int(token) for token in self._llama._input_ids]

    def close(self) -> None:
        self._llama.close()


class ServerSlice:
    """llama-server with its prompt cache, token ids in and out."""

    def __init__(self, path: Path, told: Script, threads: int, program: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        command = [str(program), "-m", str(path), "--port", str(port), "-c", str(N_CTX), "-np", "1", "-fa", "on"]
        self._process = subprocess.Popen(
            [*command, "-t", str(threads), "-tb", str(threads)],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._told = told
        self._played = 0
        self.held: Sequence[int] = ()
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self._url}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("llama-server does not answer")

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def _ids(self, text: str) -> list[int]:
        return list(self._ask("/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"])

    def play(self) -> float:
        self._played += 1  # another beginning, or its cache would know the whole conversation
        question = f"{self._played}. {self._told.question}"
        opening = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        prompt = self._ids(self._ask("/apply-template", {"messages": opening})["prompt"])
        answers = [
            self._ids(f"<|im_end|>\n<|im_start|>user\n{turn.answered}<|im_end|>\n<|im_start|>assistant\n")
            for turn in self._told.turns
        ]
        settings = {"temperature": 1.0, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "presence_penalty": 1.1}
        began = time.perf_counter()
        for turn, answered in zip(self._told.turns, answers, strict=True):
            body = {"prompt": prompt, "n_predict": len(turn.ids), "ignore_eos": True, "cache_prompt": True}
            reply = self._ask("/completion", {**body, **settings, "return_tokens": True})
            self.held = [*prompt, *reply["tokens"]]
            prompt = [*self.held, *answered]
        return time.perf_counter() - began

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def long_completion(path: Path, tokens: int, threads: int) -> list[float]:
    """Seconds between the texts of one `Llama.create_completion` of so many scripted tokens."""
    llama = _llama(path, 4_096, threads)
    prose = llama.tokenize(PROSE.encode(), add_bos=False)
    llama.script = [prose[number % len(prose)] for number in range(tokens)]
    times, last = [], time.perf_counter()
    settings = {"max_tokens": tokens, "temperature": 1.0, "top_k": 20, "top_p": 0.95, "min_p": 0.0}
    for _ in llama.create_completion(prose[:8], stream=True, **settings):
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    llama.close()
    return times
