"""What the remote engine's tests connect with and to: a client on plain sockets, and servers on the loopback that
answer as llama-server and vLLM do, or as a broken one would."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from venus_edge.engine.servers import CONTROL, ENDS, USER

SPECIAL = {text: 256 + n for n, text in enumerate((*CONTROL, *USER))}  # below them every byte is a token
NAMES = {token: text for text, token in SPECIAL.items()}
IM_END = SPECIAL["<|im_end|>"]

# -- the client -------------------------------------------------------------------------------------------------------


class PlainClient:
    """The `Client` of the engine on http.client, without a gate."""

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect: float, silence: float
    ) -> PlainExchange:
        return PlainExchange(method, url, headers, body, connect, silence)


class PlainExchange:
    def __init__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect: float, silence: float
    ) -> None:
        parts = urlsplit(url)
        self._asked = (method, parts.path, body, dict(headers))
        self._silence = silence
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=connect)
        self._response: http.client.HTTPResponse | None = None

    def status(self) -> int:
        try:
            self._connection.connect()
            self._connection.sock.settimeout(self._silence)
            self._connection.request(*self._asked)
            self._response = self._connection.getresponse()
        except http.client.HTTPException as error:
            raise ConnectionError(type(error).__name__) from error
        return self._response.status

    def read(self) -> bytes:
        assert self._response is not None
        try:
            return self._response.read1(65_536)
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError(type(error).__name__) from error

    def stop(self) -> None:
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()


# -- the servers ------------------------------------------------------------------------------------------------------

Fault = Callable[["Handler"], bool]  # True: it has answered


@dataclass
class FakeModel:
    """What the server answers with: the replies in order, each a list of token ids. `faults` come first, one a
    generation; `delay` is the seconds between tokens."""

    replies: list[list[int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    n_ctx: int = 4_096
    slots: int = 2
    vllm: bool = False
    key: str = ""
    delay: float = 0.0
    chunk: int = 1 << 20  # bytes that are written at once
    special_always: bool = False  # tokenizes special strings wherever they stand
    begins: int = -1  # the prompt's length when the reply was begun
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)  # a client went away in mid-reply

    def ids(self, text: str, special: bool) -> list[int]:
        """Bytes, and special tokens: user-defined ones always, as in llama.cpp; all of them always in vLLM."""
        wanted = SPECIAL if special or self.vllm or self.special_always else {name: SPECIAL[name] for name in USER}
        out: list[int] = []
        while text:
            name = next((name for name in wanted if text.startswith(name)), None)
            out += [wanted[name]] if name else list(text[0].encode())
            text = text[len(name) if name else 1 :]
        return out


def raw(ids: Sequence[int]) -> bytes:
    return b"".join(NAMES[token].encode() if token in NAMES else bytes([token]) for token in ids)


def spelled(text: str) -> list[int]:
    """The ids of a reply: special tokens where the text has their names."""
    return FakeModel().ids(text, special=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: FakeModel

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        self.model.paths.append(self.path)
        if self.path == "/props" and not self.model.vllm:
            settings = {"params": {}, "n_ctx": self.model.n_ctx}
            self.json({
                "default_generation_settings": settings, "total_slots": self.model.slots, "model_alias": "fake.gguf",
                "chat_template": "{{ messages }}",
            })  # fmt: skip
        elif self.path == "/v1/models":
            self.json({"object": "list", "data": [{"id": "fake", "max_model_len": self.model.n_ctx}]})
        else:
            self.error(404, "File Not Found")

    def do_POST(self) -> None:
        self.model.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.model.key and self.headers["Authorization"] != f"Bearer {self.model.key}":
            self.error(401, "Invalid API Key")
        elif self.path == "/tokenize" and self.model.vllm:
            self.json({"tokens": self.model.ids(body["prompt"], special=True), "max_model_len": self.model.n_ctx})
        elif self.path == "/tokenize":
            self.json({"tokens": self.model.ids(body["content"], body["parse_special"])})
        elif self.path == "/detokenize":
            self.json({"content": raw(body["tokens"]).decode("utf-8", "replace")})
        elif self.path in ("/completion", "/v1/completions"):
            self.model.asked.append(body)
            if not (self.model.faults and self.model.faults.pop(0)(self)):
                self.generate(body)
        else:
            self.error(404, "File Not Found")

    # -- answers --

    def json(self, found: object, status: int = 200) -> None:
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status: int, message: str, kind: str = "error") -> None:
        self.json({"error": {"code": status, "message": message, "type": kind}}, status)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), self.model.chunk):
            part = data[at : at + self.model.chunk]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()

    def event(self, found: object) -> None:
        self.write(b"data: " + json.dumps(found, ensure_ascii=False).encode() + b"\n\n")

    def finish_stream(self, done: bool) -> None:
        self.write(b"data: [DONE]\n\n" if done else b"")
        self.wfile.write(b"0\r\n\r\n")

    def drop(self) -> bool:
        """The connection breaks."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        return True

    # -- generations --

    def generate(self, body: dict[str, Any]) -> None:
        model, prompt = self.model, body["prompt"]
        if len(prompt) >= model.n_ctx:
            self.error(400, f"request ({len(prompt)} tokens) exceeds the available context size", "exceed_context")
            return
        cached = next((n for n, (a, b) in enumerate(zip(model.cached, prompt, strict=False)) if a != b), None)
        cached = min(len(model.cached), len(prompt)) if cached is None else cached
        cached = min(cached, len(prompt) - 1)
        self.begin()
        try:
            (self._vllm if model.vllm else self._llama)(body, prompt, cached)
        except OSError:
            self.close_connection = True
            model.stopped.set()

    def _llama(self, body: dict[str, Any], prompt: list[int], cached: int) -> None:
        """As llama-server: no event for a token within a character, text that may begin a stop string is kept back."""
        model = self.model
        model.begins = len(prompt) if model.begins < 0 else model.begins  # a reply may be asked for in stretches
        reply = model.replies[0][len(prompt) - model.begins :]
        self.event({
            "content": "", "tokens": [], "stop": False, "tokens_predicted": 0,
            "prompt_progress": {"total": len(prompt), "cache": cached, "processed": len(prompt), "time_ms": 5},
        })  # fmt: skip
        self.write(b":\n\n")
        text, sent, kind = b"", 0, "limit"
        produced: list[int] = []
        for token in reply[: body["n_predict"]]:
            produced.append(token)
            time.sleep(model.delay)
            if token in NAMES and NAMES[token] not in body["preserved_tokens"] and NAMES[token] not in USER:
                piece = b""
            else:
                piece = raw([token])
            text += piece
            try:
                text.decode()
            except UnicodeDecodeError:
                continue
            tail, ends = text[sent:], NAMES.get(token) in ENDS
            word = next((stop.encode() for stop in body["stop"] if stop.encode() in tail), None)
            if word is not None:
                text = text[: sent + tail.find(word)]
                kind = "word"
            held = word is None and not ends and any(
                tail.endswith(stop.encode()[:n]) for stop in body["stop"] for n in range(1, len(stop.encode()))
            )  # fmt: skip
            out = b"" if held else text[sent:]
            sent += len(out)
            self.event({"index": 0, "content": out.decode(), "tokens": [token], "stop": False,
                        "tokens_predicted": len(produced)})  # fmt: skip
            if ends:
                kind = "eos"
            if kind != "limit":
                break
        if kind == "limit" and len(produced) < body["n_predict"]:
            raise AssertionError("the reply has no end")
        if kind != "limit":
            model.replies.pop(0)
            model.begins = -1
        model.cached = prompt + produced
        timings = {"cache_n": cached, "prompt_n": len(prompt) - cached, "prompt_ms": 5.0,
                   "predicted_n": len(produced), "predicted_ms": 2.0 * len(produced)}  # fmt: skip
        self.event({"stop": True, "stop_type": kind, "truncated": False, "tokens_predicted": len(produced),
                    "timings": timings})  # fmt: skip
        self.finish_stream(done=False)

    def _vllm(self, body: dict[str, Any], prompt: list[int], cached: int) -> None:
        model, reply = self.model, self.model.replies.pop(0)
        made = reply[: body["max_tokens"]]
        reason = "length" if len(made) < len(reply) else "stop"
        for n, token in enumerate(made, 1):
            time.sleep(model.delay)
            last = n == len(made)
            text = "" if token == IM_END else raw([token]).decode()
            self.event({
                "object": "text_completion",
                "choices": [{"index": 0, "text": text, "finish_reason": reason if last else None}],
                "usage": {"prompt_tokens": len(prompt), "completion_tokens": n},
            })  # fmt: skip
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(made),
                 "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip
        self.event({"object": "text_completion", "choices": [], "usage": usage})
        model.cached = prompt + made
        self.finish_stream(done=True)


@contextlib.contextmanager
def serving(model: FakeModel) -> Iterator[str]:
    """The address of a server for the model."""
    handler = type("ModelHandler", (Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
