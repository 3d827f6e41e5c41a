"""A certificate that nobody vouches for is a failure that says so, for a page and for a search service.

selfsigned.pem is a throwaway for 127.0.0.1, made for this test alone.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sources.loopback import open_gate
from venus_edge.sources.gate import Gate
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.provider import UNREACHABLE, Reply
from venus_edge.sources.tavily import Tavily
from venus_edge.sources.web import Web
from venus_edge.values import Failure, Page, Trouble

CERTIFICATE = Path(__file__).with_name("selfsigned.pem")
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 36\r\n\r\n<p>The lamp was lit in 1916, at dusk."
)


@pytest.fixture
def port() -> Iterator[int]:
    """A server on loopback that speaks TLS under a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), connection, context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(65536)
                secure.sendall(ANSWER)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def test_a_page_under_such_a_certificate_is_not_read(port: int) -> None:
    gate = open_gate()
    found = Web(Fetcher(gate, Limits(seconds=10))).open(f"https://127.0.0.1:{port}/")
    assert found == Failure(Trouble.TIMEOUT, "unreachable: 127.0.0.1: its certificate is not valid")
    assert [(e.outcome, e.port) for e in gate.ledger.entries] == [("no secure connection", port)]


def test_no_key_is_sent_to_a_service_under_such_a_certificate(port: int) -> None:
    reply = Tavily(open_gate(), "key", f"https://127.0.0.1:{port}/").ask("x", 10, time.monotonic() + 10)
    assert reply == Reply(failure=UNREACHABLE)


def test_a_certificate_that_is_vouched_for_is_accepted(port: int) -> None:
    gate: Gate = open_gate()
    context = ssl.create_default_context(cafile=CERTIFICATE)
    gate._tls.append(context)
    assert isinstance(Web(Fetcher(gate, Limits(seconds=10))).open(f"https://127.0.0.1:{port}/"), Page)


def test_a_server_without_tls_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def plainly() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")

        thread = threading.Thread(target=plainly, daemon=True)
        thread.start()
        found = Web(Fetcher(open_gate(), Limits(seconds=5))).open(f"https://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join(5)
    assert isinstance(found, Failure)
    assert found.trouble is Trouble.TIMEOUT
