"""Servers on 127.0.0.1 for the tests: `Site` answers from a table, `Raw` sends exactly the bytes that it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from venus_edge.sources.address import IPAddress
from venus_edge.sources.gate import Gate, Policy


@dataclass(frozen=True)
class Reply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answer = Reply | Callable[[dict[str, str]], Reply]


class Site:
    """A web site: `pages` maps a path to its reply, or to a function of the request's headers (lower case)."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []  # of POSTs
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def do_POST(self) -> None:
                site.bodies.append(self.rfile.read(int(self.headers.get("content-length", "0"))))
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a client that hangs up is what some tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def page(self, path: str, html: str, **headers: str) -> str:
        """Puts up a page and gives its address."""
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        self.pages[path] = Reply(html.encode(), 200, {"Content-Type": "text/html; charset=utf-8", **names})
        return self.url(path)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {k.lower(): v for k, v in handler.headers.items()}
        self.asked.append(handler.path)
        self.headers.append(headers)
        page = self.pages.get(handler.path) or self.pages.get(
            handler.path.partition("?")[0], Reply(b"nothing here", 404)
        )
        reply = page(headers) if callable(page) else page
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def raw(chunks: Callable[[], Iterable[bytes]]) -> Iterator[str]:
    """A server that reads a request, sends `chunks()` as they come and hangs up. Gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_send, args=(connection, chunks, over), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _send(connection: socket.socket, chunks: Callable[[], Iterable[bytes]], over: threading.Event) -> None:
    with connection:
        try:
            connection.recv(65536)
            for chunk in chunks():
                if over.is_set():
                    return
                connection.sendall(chunk)
        except OSError:
            return


def open_gate(*hosts: str) -> Gate:
    """A gate that lets through to this machine and nowhere else."""
    return Gate(Policy(allow_hosts=hosts or ("127.0.0.1",)), resolver=_no_names)


def _no_names(host: str, port: int) -> list[IPAddress]:
    raise OSError(f"a test asked for the name {host}")
