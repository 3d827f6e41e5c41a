"""A web site on loopback for the tests of `sources`; and no test reaches another address."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.sources.loopback import Site


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: tuple[object, ...]) -> None:
        assert address[0] in ("127.0.0.1", "::1"), f"a test connects to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running
