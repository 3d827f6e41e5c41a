"""Twenty turns of a trajectory, played by three programs on the same tokens; and llama-cpp-python's long completion.

A turn writes 60 scripted tokens (all that sampling costs is paid, then the script's token is taken) and is answered by
250 more. llama-server cannot be scripted: it goes on from its own 60.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from venus_edge.engine import Request, Sampling
from venus_edge.engine.chain import Chain
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.machine import cores
from venus_edge.engine.options import EngineOptions

TURNS, WRITTEN, ANSWERED, N_CTX = 20, 60, 250, 8_192
PROSE = (
    "The tide gauge of the harbour was read every hour from the first winter on, and the keeper wrote the numbers into "
    "a book that the museum still shows; a storm took the pier, the book stayed, and what it says has been used since. "
)


def _prose(engine: LlamaEngine, number: int, count: int) -> list[int]:
    ids = engine.vocabulary.encode(f"Part {number}. " + PROSE * 8)
    return ids[:count]


class Scripted(Chain):
    """Samples as ever, and takes the script's token instead."""

    script: list[int]

    def next(self, output: int = -1) -> int:
        super().next(output)
        return self.script.pop(0)


class OurSlice:
    """The engine's own loop and cache."""

    def __init__(self, path: Path) -> None:
        self._engine = LlamaEngine(path, EngineOptions(n_ctx=N_CTX, n_ctx_reading=0, speculate=False))

    def play(self) -> float:
        engine = self._engine
        engine._cached[0].cut(engine._context.keep(0, 0))
        prompt = _prose(engine, 0, ANSWERED)
        turns = [(_prose(engine, 2 * n + 1, WRITTEN), _prose(engine, 2 * n + 2, ANSWERED)) for n in range(TURNS)]
        began = time.perf_counter()
        for written, answered in turns:
            request = Request(prompt, Sampling(max_tokens=WRITTEN))
            chain = Scripted(engine._context, engine.vocabulary, request)
            chain.script = list(written)
            list(LocalGeneration(engine._context, engine._cached[0], request, chain, engine.stats, N_CTX, 512))
            prompt = [*prompt, *written, *answered]
        return time.perf_counter() - began

    def close(self) -> None:
        self._engine.close()


class ChatCompletion:
    """llama-cpp-python's chat, its logits bent to the script."""

    def __init__(self, path: Path) -> None:
        from llama_cpp import Llama

        self._llama = Llama(str(path), n_ctx=N_CTX, n_threads=cores(), verbose=False, flash_attn=True)

    def play(self) -> float:
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()
        messages = [{"role": "user", "content": self._text(0, ANSWERED)}]
        turns = [(self._ids(2 * n + 1, WRITTEN), self._text(2 * n + 2, ANSWERED)) for n in range(TURNS)]
        began = time.perf_counter()
        for written, answered in turns:
            content = self._turn(messages, written)
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": answered}]
        return time.perf_counter() - began

    def _turn(self, messages: list[dict[str, str]], written: list[int]) -> str:
        script = list(written)

        def bend(ids: Any, scores: Any) -> Any:
            scores[script.pop(0)] = 1e9
            return scores

        reply: Any = self._llama.create_chat_completion(
            messages, max_tokens=WRITTEN, temperature=1.0, top_k=20, top_p=0.95, min_p=0.0, logits_processor=[bend]
        )
        return str(reply["choices"][0]["message"]["content"])

    def _ids(self, number: int, count: int) -> list[int]:
        return list(self._llama.tokenize(f"Part {number}. {PROSE * 8}".encode(), add_bos=False))[:count]

    def _text(self, number: int, count: int) -> str:
        return str(self._llama.detokenize(self._ids(number, count)).decode())

    def close(self) -> None:
        self._llama.close()


class ServerSlice:
    """llama-server with its prompt cache, token ids in."""

    def __init__(self, path: Path, program: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        command = [str(program), "-m", str(path), "--port", str(port), "-c", str(N_CTX), "-np", "1", "-fa", "on"]
        self._process = subprocess.Popen(
            [*command, "-t", str(cores())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()
        self._played = 0

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

    def _ids(self, number: int, count: int) -> list[int]:
        text = f"Part {number}. {PROSE * 8}"
        return list(self._ask("/tokenize", {"content": text, "add_special": False})["tokens"])[:count]

    def play(self) -> float:
        self._played += 1  # another beginning, or its cache would know the whole conversation
        prompt = self._ids(1_000 * self._played, ANSWERED)
        answers = [self._ids(2 * n + 2, ANSWERED) for n in range(TURNS)]
        began = time.perf_counter()
        for answered in answers:
            body = {"prompt": prompt, "n_predict": WRITTEN, "ignore_eos": True, "cache_prompt": True}
            settings = {"temperature": 1.0, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "return_tokens": True}
            reply = self._ask("/completion", {**body, **settings})
            prompt = [*prompt, *reply["tokens"], *answered]
        return time.perf_counter() - began

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def long_completion(path: Path, tokens: int) -> list[float]:
    """Seconds between the texts of one `Llama.create_completion` of so many tokens."""
    from llama_cpp import Llama

    llama = Llama(str(path), n_ctx=4_096, n_threads=cores(), verbose=False, flash_attn=True)
    ending = llama.token_eos()

    def never_ends(ids: Any, scores: Any) -> Any:
        scores[ending] = -1e9
        return scores

    times, last = [], time.perf_counter()
    options: Any = {"max_tokens": tokens, "stream": True, "logits_processor": [never_ends], "seed": 1}
    for _ in llama.create_completion([100 + i * 7 % 900 for i in range(8)], temperature=1.0, top_k=20, **options):
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    llama.close()
    return times
