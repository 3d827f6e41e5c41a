"""Offline is held by the process itself: whatever reaches out is stopped and told, and only what was named gets by."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import pytest

from venus_edge.sources.seal import Seal, sealed


def attempts() -> dict[str, Callable[[], object]]:
    tcp = socket.AF_INET, socket.SOCK_STREAM
    return {
        "a new socket": lambda: socket.socket(*tcp),
        "getaddrinfo 例子.example": lambda: socket.getaddrinfo("例子.example", 80),
        "gethostbyname a.example": lambda: socket.gethostbyname("a.example"),
        "gethostbyaddr 192.0.2.1": lambda: socket.gethostbyaddr("192.0.2.1"),
        "getaddrinfo localhost": lambda: socket.create_connection(("localhost", 9)),
    }


@pytest.mark.parametrize("said", attempts())
def test_what_reaches_out_is_stopped_and_told(said: str) -> None:
    with sealed() as seal:
        with pytest.raises(OSError, match=r"^\[Errno \d+\] offline: .* was stopped$"):
            attempts()[said]()
        assert seal.stopped == [said]


def test_a_socket_that_was_open_before_leads_nowhere() -> None:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, sealed() as seal:
        for attempt in (
            lambda: tcp.connect(("127.0.0.1", 443)),
            lambda: tcp.connect_ex(("127.0.0.1", 9)),
            lambda: udp.sendto(b"x", ("192.0.2.1", 53)),
        ):
            with pytest.raises(OSError, match="offline"):
                attempt()
        assert seal.stopped == ["connect 127.0.0.1:443", "connect 127.0.0.1:9", "sendto 192.0.2.1:53"]


def test_it_holds_in_every_thread() -> None:
    caught: list[str] = []

    def reach() -> None:
        try:
            socket.create_connection(("192.0.2.1", 80))
        except OSError as error:
            caught.append(str(error.strerror))

    with sealed() as seal:
        thread = threading.Thread(target=reach)
        thread.start()
        thread.join()
    assert caught == [f"offline: {seal.stopped[0]} was stopped"]


def test_the_server_that_was_named_is_reached_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port = server.getsockname()[1]
        with sealed(own=(("127.0.0.1", port),)) as seal:
            socket.create_connection(("127.0.0.1", port)).close()
            for place in (other.getsockname(), ("192.0.2.1", port), ("a.example", port)):
                with pytest.raises(OSError, match="offline"):
                    socket.create_connection(place)
            assert len(seal.stopped) == 3


def test_a_pair_within_the_process_is_no_connection() -> None:
    with sealed() as seal:
        left, right = socket.socketpair()
        left.sendall("灯塔".encode())
        assert right.recv(16).decode() == "灯塔"
        left.close()
        right.close()
    assert seal.stopped == []


def test_libraries_with_sockets_of_their_own_are_not_loaded() -> None:
    with pytest.raises(ImportError, match="offline: hf_xet opens sockets of its own"):
        Seal().judge("import", ("hf_xet", None, [], [], []))


def test_left_it_holds_nothing_and_the_hub_is_told_only_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with sealed(offline=False):
        assert "HF_HUB_OFFLINE" not in os.environ
    with sealed():
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in os.environ
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with sealed():
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["HF_HUB_OFFLINE"] == "0"
    socket.socket().close()
