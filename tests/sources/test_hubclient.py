"""The hub's library through the gate: offline by construction, proxies as the environment says, everything written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from venus_edge.errors import ModelError, UsageError
from venus_edge.sources import hubclient, proxies

VARIABLES = [f"{name}_proxy" for name in ("http", "https", "all", "no")]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def proxy() -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """A forward proxy that answers for every host itself; what it was asked, with the account it was given."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_offline_no_connection_is_made_whatever_the_library_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = hubclient.gate("http://127.0.0.1:9", offline=True)
    with proxy() as (port, asked), hubclient.client(gate, "list") as client:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        for address in ("http://127.0.0.1:9/", "http://huggingface.co/", "https://huggingface.co/"):
            with pytest.raises(ModelError, match="offline: no connection is made"):
                client.get(address)
        assert asked == []
    assert {entry.outcome for entry in gate.ledger.entries} == {"not allowed: offline"}


def test_a_proxy_of_the_environment_is_used_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = hubclient.gate("http://hub.example")
    with proxy() as (port, asked), hubclient.client(gate, "list") as client:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{port}")
        assert client.get("http://hub.example/api").text == "ok"
    assert asked == [("http://hub.example/api", "Basic bWU6cEBzcw==")]
    (entry,) = gate.ledger.entries
    assert (entry.host, entry.purpose, entry.outcome, entry.received > 0) == (
        "127.0.0.1",
        "list of hub.example",
        "ok",
        True,
    )


def test_a_proxy_is_not_asked_for_this_machine_or_for_what_no_proxy_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", "hub.lan")
    assert proxies.proxy_for("http", "127.0.0.1", 80) is None
    assert proxies.proxy_for("http", "hub.lan", 80) is None
    assert proxies.proxy_for("https", "hub.example", 443) is None
    found = proxies.proxy_for("http", "hub.example", 80)
    assert found is not None
    assert (found.url.host, found.url.port) == (b"proxy.example", 3_128)


def test_a_private_host_behind_a_proxy_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy() as (port, asked), hubclient.client(hubclient.gate("http://hub.example"), "list") as client:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(ModelError, match=r"10.0.0.1.*if it is yours, name it in VENUS_ALLOW_HOSTS"):
            client.get("http://10.0.0.1/x")
        assert asked == []


@pytest.mark.parametrize("address", ["gopher://me:s3cr3t@x", "http://", "http://x:me:s3cr3t", "socks5://me:s3cr3t@x"])
def test_what_is_no_proxy_is_one_line_without_its_password(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", address)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError) as raised:
        proxies.proxy_for("https", "hub.example", 443)
    assert "HTTPS_PROXY is" in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.1"])
def test_a_hub_of_ones_own_may_be_private_and_one_that_is_not_there_is_an_error_of_httpx(host: str) -> None:
    with (
        hubclient.client(hubclient.gate(f"http://{host}:1"), "list") as client,
        pytest.raises(httpx2.NetworkError),
    ):
        client.get(f"http://{host}:1/")
