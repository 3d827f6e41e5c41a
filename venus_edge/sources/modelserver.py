"""THE MODEL'S SERVER THROUGH THE GATE: the HTTP client of the remote engine (the `Client` of `engine/wire.py`).

In: a gate whose policy allows the server's host. Out: requests under way whose bodies are read as they come, and that
any thread can break off. Whatever goes wrong is an OSError; what the gate refuses is a PermissionError.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import httpcore2
import httpx2

from venus_edge.sources.gate import Gate, Refusal

_LONGEST = 86_400.0  # seconds of one request; the engine's own limits are shorter

T = TypeVar("T")


class ModelClient:
    """Sends the requests of the remote engine."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect: float, silence: float
    ) -> ModelExchange:
        """`connect` limits the seconds of connecting, `silence` those between two bytes. Nothing is sent yet."""
        limits = {"connect": connect, "read": silence, "write": silence, "pool": connect}
        request = httpx2.Request(method, url, headers=dict(headers), content=body, extensions={"timeout": limits})
        return ModelExchange(self._gate, request)


class ModelExchange:
    """One request under way."""

    def __init__(self, gate: Gate, request: httpx2.Request) -> None:
        self._gate = gate
        self._request = request
        self._request.extensions = {**request.extensions, "trace": self._traced}
        self._response: httpx2.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._stopped = False
        self._connection: httpcore2.NetworkStream | None = None

    def status(self) -> int:
        """Connects, sends, waits for the head of the answer."""
        transport = self._gate.transport("model", time.monotonic() + _LONGEST)
        self._response = response = _translated(lambda: transport.handle_request(self._request))
        assert isinstance(response.stream, httpx2.SyncByteStream)
        self._chunks = iter(response.stream)
        return response.status_code

    def read(self) -> bytes:
        """The next bytes of the body, b"" behind the last."""
        return _translated(lambda: next(self._chunks, b""))

    def stop(self) -> None:
        """Breaks the connection; from any thread."""
        self._stopped = True
        if self._connection is not None:
            self._break(self._connection)

    def close(self) -> None:
        if self._response is not None:
            with contextlib.suppress(httpcore2.NetworkError, httpcore2.ProtocolError, OSError):
                self._response.close()

    def _traced(self, event: str, info: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connection = info["return_value"]
            if self._stopped:
                self._break(info["return_value"])

    @staticmethod
    def _break(connection: httpcore2.NetworkStream) -> None:
        """A shutdown wakes the thread that waits for bytes, which closing the socket would not."""
        found = connection.get_extra_info("socket")
        if isinstance(found, socket.socket):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)


def _translated(work: Callable[[], T]) -> T:
    try:
        return work()
    except Refusal as refusal:
        raise PermissionError(refusal.failure.detail) from refusal
    except httpcore2.TimeoutException as error:
        raise TimeoutError(str(error) or type(error).__name__) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
