"""A REQUEST TO THE MODEL'S SERVER -> ITS ANSWER AS IT COMES, or the one line that says what to do.

In: an HTTP client that was made elsewhere (every outward connection passes `sources/gate.py`), a URL, a key. Out: JSON
or chunks of bytes. Waiting happens in a mailbox, so that it ends at its limit, at Ctrl-C, or when somebody cancels,
whatever the socket does. Nothing here knows what is asked for.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, Protocol
from urllib.parse import urlsplit

from venus_edge.errors import ContextFull, EngineError, UsageError

_GLANCE = 0.25  # seconds; a wait is not interrupted by Ctrl-C on every system, so it is never longer
_LARGEST = 64_000_000  # bytes of an answer that is read whole


class Exchange(Protocol):
    """One request under way. Whatever goes wrong on the way is an OSError."""

    def status(self) -> int:
        """Connects, sends, waits for the head of the answer: its status."""
        ...

    def read(self) -> bytes:
        """The next bytes of the body, b"" behind the last. A body that ends too early is an OSError."""
        ...

    def stop(self) -> None:
        """Breaks the connection, so that what waits for it ends. From any thread, at any time, more than once."""
        ...

    def close(self) -> None:
        """Gives everything back. From the thread that called `status` and `read`, as the last thing."""
        ...


class Client(Protocol):
    """What makes connections. `connect` limits the seconds of connecting, `silence` those between two bytes."""

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect: float, silence: float
    ) -> Exchange: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the server may take, in seconds, and how often a lost connection is made again.

    connect  to connect             answer   for a short answer (/tokenize, /props)
    first    to the first token: a server reads a long prompt for minutes, or serves others before
    between  from one token to the next
    pauses   before each further try, as long as no token was given out
    """

    connect: float = 10.0
    answer: float = 60.0
    first: float = 3_600.0
    between: float = 300.0
    pauses: tuple[float, ...] = (0.5, 2.0, 5.0)


class Cancelled(Exception):
    """Somebody wants the generation to end. Stays inside the engine."""


class Lost(Exception):
    """No connection, or it broke: worth another try. Stays inside the engine."""


def origin(url: str) -> str:
    """The URL as it is used: http or https, a host, no slash at the end. Raises UsageError."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https") or port == 0 or not url.isascii():
        raise UsageError(f"--engine takes the address of a server, as http://127.0.0.1:8080, not {_shown(url)!r}")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("the address of --engine holds no user, password, query or fragment; a key has its own option")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"


def host_of(url: str) -> str:
    """Host and port, as a policy names them: "127.0.0.1:8080", "[::1]:8080". Raises UsageError."""
    parts = urlsplit(origin(url))
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _shown(url: str) -> str:
    """The address without what may be a password."""
    return url.rpartition("@")[2][:200]


def place(url: str) -> str:
    """Where the server is, for the person: nothing leaves the machine only if it is this one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        where = "this machine" if host == "localhost" else "another machine"
    else:
        private = "another machine of the local network" if address.is_private else "a machine on the Internet"
        where = "this machine" if address.is_loopback else private
    return where if where == "this machine" or parts.scheme == "https" else f"{where}, unencrypted"


class Mailbox:
    """What a generation waits for: bytes that a thread reads, and the wish to end. `cancel` may be called anywhere, in
    a signal handler too (SimpleQueue's put is made for that)."""

    def __init__(self) -> None:
        self.cancelled = False
        self._letters: SimpleQueue[tuple[Exchange | None, object]] = SimpleQueue()

    def cancel(self) -> None:
        self.cancelled = True
        self._letters.put((None, None))

    def start(self, exchange: Exchange) -> None:
        """Reads the exchange in a thread of its own: its status, its chunks, b"" or the exception that ended it."""
        threading.Thread(target=self._fetch, args=(exchange,), daemon=True, name="venus-edge server").start()

    def _fetch(self, exchange: Exchange) -> None:
        try:
            self._letters.put((exchange, exchange.status()))
            while chunk := exchange.read():
                self._letters.put((exchange, chunk))
            self._letters.put((exchange, b""))
        except Exception as error:  # noqa: BLE001 (it is raised where the answer is waited for)
            self._letters.put((exchange, error))
        finally:
            exchange.close()

    def next(self, exchange: Exchange | None, until: float) -> object:
        """What comes of this exchange before `until` (of time.monotonic). Raises TimeoutError, Cancelled, or what the
        exchange ended with."""
        while not self.cancelled:
            try:
                left = until - time.monotonic()
                whose, letter = self._letters.get(timeout=max(0.0, min(left, _GLANCE)))
            except Empty:
                if left > _GLANCE:
                    continue
                raise TimeoutError from None
            if whose is not None and whose is exchange:  # else of a try that was given up
                if isinstance(letter, Exception):
                    raise letter
                return letter
        raise Cancelled

    def pause(self, seconds: float) -> None:
        """Waits. Raises Cancelled."""
        try:
            self.next(None, time.monotonic() + seconds)
        except TimeoutError:
            return


class Server:
    """Asks one server. Raises EngineError with its address and a remedy; the key is never in it."""

    def __init__(self, url: str, client: Client, key: str, patience: Patience) -> None:
        self.url = origin(url)
        self.place = place(self.url)
        self.patience = patience
        self._client = client
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key:
            if not key.isascii() or not key.isprintable():
                raise UsageError("the key of the server holds characters that no header carries")
            self._headers["Authorization"] = f"Bearer {key}"

    def __str__(self) -> str:
        return f"the server at {self.url} ({self.place})"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of a short answer; tried again when the connection is lost. Raises Missing for a 404."""
        for pause in (*self.patience.pauses, None):
            mailbox = Mailbox()
            try:
                return self._asked(mailbox, method, path, body)
            except Lost as lost:
                if pause is None:
                    raise EngineError(str(lost)) from lost
                mailbox.pause(pause)
        raise AssertionError("the last try returns or raises")

    def _asked(self, mailbox: Mailbox, method: str, path: str, body: object) -> Any:
        until = time.monotonic() + self.patience.answer
        answer = self.open(mailbox, method, path, body, until)
        try:
            return parsed(answer.whole(until), f"{self}{path}")
        finally:
            answer.close()

    def open(self, mailbox: Mailbox, method: str, path: str, body: object, until: float) -> Answer:
        """The answer to a request, its head read. Raises Lost, EngineError for a status that is not 200, Cancelled."""
        data = None if body is None else json.dumps(body).encode()
        patience = self.patience
        silence = max(patience.answer, patience.first, patience.between)
        exchange = self._client.send(method, self.url + path, self._headers, data, patience.connect, silence)
        mailbox.start(exchange)
        answer = Answer(self, mailbox, exchange)
        try:
            status = answer.next(until)
            if status != 200:
                raise self._refusal(int(str(status)), answer, path)
        except BaseException:
            answer.close()
            raise
        return answer

    def _refusal(self, status: int, answer: Answer, path: str) -> EngineError:
        try:
            said = _message(answer.whole(time.monotonic() + self.patience.answer))
        except (Lost, EngineError):
            said = ""
        return refusal(status, str(self), path, said)


class Missing(EngineError):
    """The server has no such endpoint."""


class Answer:
    """An answer whose body is still coming."""

    def __init__(self, server: Server, mailbox: Mailbox, exchange: Exchange) -> None:
        self._server = server
        self._mailbox = mailbox
        self._exchange = exchange

    def next(self, until: float) -> object:
        """The next chunk, b"" behind the last (before all of them: the status). Raises Lost, EngineError, Cancelled."""
        try:
            return self._mailbox.next(self._exchange, until)
        except TimeoutError:
            raise EngineError(
                f"{self._server} said nothing for too long: see whether it still runs, or give it more time"
            ) from None
        except PermissionError as error:  # the gate's refusal: another try changes nothing
            raise EngineError(f"{self._server} may not be asked ({error})") from error
        except OSError as error:
            reason = str(error) or type(error).__name__
            raise Lost(f"no connection to {self._server} ({reason}): start it, or check the address") from error

    def chunk(self, until: float) -> bytes:
        found = self.next(until)
        assert isinstance(found, bytes)
        return found

    def whole(self, until: float) -> bytes:
        data = b""
        while chunk := self.chunk(until):
            data += chunk
            if len(data) > _LARGEST:
                raise EngineError(f"{self._server} does not stop answering: is it a model's server?")
        return data

    def close(self) -> None:
        self._exchange.stop()


def parsed(data: bytes | str, whose: str) -> Any:
    """The JSON object. Raises EngineError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise EngineError(f"{whose} did not answer with a JSON object: is it llama-server or vLLM?")
    return found


def _message(body: bytes) -> str:
    """What the server says of an error, on one line."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return message_of(found)


def message_of(found: object) -> str:
    """The message of an error object: {"error": {"message": ...}}, or as older servers have it."""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return " ".join(found.split())[:300] if isinstance(found, str) else ""


_REMEDIES = {
    401: "its key is wanted, or another one: give it with --engine-key",
    403: "its key is wanted, or another one: give it with --engine-key",
    404: "it has no such endpoint: is it llama-server or vLLM, and is the address right?",
    413: "the prompt is too long for it",
    429: "it has too much to do: try again later",
    500: "its log says more",
    502: "there is a proxy, but no server behind it: start it",
    503: "it is not ready, it may be loading the model: wait until it is, then try again",
    504: "there is a proxy, but the server behind it is too slow",
}


def refusal(status: int, server: str, path: str, said: str) -> EngineError:
    """The error for a status, with what to do."""
    if status in (400, 413) and ("context" in said or "maximum" in said):
        return ContextFull(f"the prompt is too long for {server} ({said}): start it with a larger window")
    remedy = _REMEDIES.get(status, "its log says more" if status >= 500 else "it does not understand what is asked")
    kind = Missing if status == 404 else EngineError
    return kind(f"{server} refuses {path} with {status}{f' ({said})' if said else ''}: {remedy}")
