"""Proxies of the environment or the person's own: used for pages and searches, and no way into the private network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import ddgs.engines
import pytest

from tests.sources.loopback import Reply, Site
from tests.sources.test_gate import PRIVATE
from venus_edge.errors import UsageError
from venus_edge.sources.ddgs import Ddgs
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.proxies import Proxies, address_of
from venus_edge.sources.search import Search
from venus_edge.sources.serper import Serper
from venus_edge.sources.web import Web
from venus_edge.values import Failure, Page, Trouble

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def tunnel(status: str) -> Iterator[tuple[str, list[str]]]:
    """A proxy that answers every request with one status. Gives its address and the first lines that it was sent."""
    listener, lines = socket.create_server(("127.0.0.1", 0)), list[str]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                lines.append(connection.recv(65536).partition(b"\r\n")[0].decode())
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", lines
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def web(address: str = "", policy: Policy | None = None) -> tuple[Web, Gate]:
    gate = Gate(policy or Policy(), resolver=lambda host, port: pytest.fail(f"{host} was resolved here"))
    gate = Gate(gate.policy, gate.ledger, gate.resolver, proxies=Proxies(address))
    return Web(Fetcher(gate, Limits(seconds=5))), gate


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", ""])
def test_a_page_comes_through_the_proxy_which_resolves_its_name(
    site: Site, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["http://light.example/%E7%81%AF%E5%A1%94"] = Reply(
        "<p>1916年首次点亮。</p>".encode(), 200, {"Content-Type": "text/html"}
    )
    proxy = f"http://me:p%40ss@127.0.0.1:{site.port}"
    if variable:
        monkeypatch.setenv(variable, proxy)
    opener, gate = web("" if variable else proxy)
    page = opener.open("http://light.example/灯塔")
    assert isinstance(page, Page)
    assert page.text == "1916年首次点亮。"
    assert site.headers[0]["proxy-authorization"] == "Basic bWU6cEBzcw=="
    (entry,) = gate.ledger.entries
    assert (entry.host, entry.purpose, entry.outcome) == ("127.0.0.1", "page of light.example", "ok")


@pytest.mark.parametrize("url", PRIVATE.split())
def test_no_spelling_of_a_private_address_goes_through_a_proxy(site: Site, url: str) -> None:
    opener, _ = web(f"http://127.0.0.1:{site.port}")
    failure = opener.open(url)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert site.asked == []


def test_a_redirect_that_a_proxy_brings_is_checked_like_any_other(site: Site) -> None:
    site.pages["http://a.example/"] = Reply(status=302, headers={"Location": "http://169.254.169.254/latest"})
    opener, _ = web(f"http://127.0.0.1:{site.port}")
    failure = opener.open("http://a.example/")
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert site.asked == ["http://a.example/"]


def test_a_secure_page_is_asked_for_through_a_tunnel_and_what_the_proxy_says_is_told() -> None:
    with tunnel("407 Proxy Authentication Required") as (address, lines):
        opener, _ = web(address)
        failure = opener.open("https://a.example/x")
    assert lines == ["CONNECT a.example:443 HTTP/1.1"]
    assert failure == Failure(
        Trouble.TIMEOUT, "unreachable: a.example: the proxy says: 407 Proxy Authentication Required"
    )


def test_no_proxy_and_none_and_offline(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{site.port}")
    monkeypatch.setenv("no_proxy", "lan.example,.intern.example")
    assert [Proxies().of("http", host, 80) is None for host in ("lan.example", "a.intern.example", "b.example")] == [
        True,
        True,
        False,
    ]
    assert Proxies("none").of("http", "b.example", 80) is None
    assert Proxies("proxy:3128").of("http", "lan.example", 80) is None
    assert Proxies("proxy:3128").of("https", "127.0.0.1", 443) is None
    failure = web(policy=Policy(offline=True))[0].open("http://b.example/")
    assert isinstance(failure, Failure)
    assert (failure.trouble, site.asked) == (Trouble.OFFLINE, [])


@pytest.mark.parametrize("address", ["ftp://me:s3cr3t@proxy", "http://me:s3cr3t@:1", "http://p:s3cr3t"])
def test_what_is_no_proxy_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(UsageError, match="proxy is not the address of a proxy") as raised:
        Proxies(address).check()
    assert "s3cr3t" not in str(raised.value) + repr(Proxies(address))


def test_an_address_is_given_on_whole() -> None:
    proxy = Proxies("http://m%40e:p%3Aw@[fd00::1]:8080").of("http", "a.example", 80)
    assert proxy is not None
    assert address_of(proxy) == "http://m%40e:p%3Aw@[fd00::1]:8080"


def test_a_search_service_is_asked_through_the_proxy(site: Site) -> None:
    body = '{"organic": [{"title": "灯塔", "link": "https://example.org/", "snippet": "s"}]}'
    site.pages["http://serper.example/search"] = Reply(body.encode())
    gate = Gate(proxies=Proxies(f"127.0.0.1:{site.port}"))
    found = Search((Serper(gate, "k", "http://serper.example/search"),)).search("灯塔", 10)
    assert [hit.title for hit in found.hits] == ["灯塔"]
    with tunnel("503 Service Unavailable") as (address, _):
        gate = Gate(proxies=Proxies(address))
        failed = Search((Serper(gate, "k", "https://serper.example/search"),)).search("灯塔", 10)
    assert failed.failure == Failure(
        Trouble.TIMEOUT, "search service is unreachable: the proxy says: 503 Service Unavailable"
    )


@pytest.mark.parametrize(("address", "through"), [("http://127.0.0.1:{}", True), ("none", False), ("", True)])
def test_ddgs_goes_the_way_that_is_set_and_not_the_environments(
    site: Site, address: str, through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ddgs.engines.ENGINES["text"], "duckduckgo", ddgs.engines.ENGINES["text"]["duckduckgo"])
    monkeypatch.setattr(ddgs.engines.ENGINES["text"]["duckduckgo"], "search_url", "http://ddg.example/html/")
    page = "<div class='body'><h2>灯塔</h2><a href='https://example.org/'>text</a></div>"
    site.pages["http://ddg.example/html/"] = Reply(page.encode())
    monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{site.port}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{site.port}")
    gate = Gate(proxies=Proxies(address.format(site.port)))
    reply = Search((Ddgs(gate, backends="duckduckgo", pause=0.0),), seconds=1.5).search("灯塔")
    assert ([hit.title for hit in reply.hits] == ["灯塔"], bool(site.asked)) == (through, through)
    assert {entry.host for entry in gate.ledger.entries} == {"ddg.example"}


def test_a_redirect_of_a_search_service_is_checked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddgs.engines.ENGINES["text"]["duckduckgo"], "search_url", site.url("/html/"))
    site.pages["/html/"] = Reply(status=302, headers={"Location": "http://10.0.0.1/"})
    gate = Gate(Policy(allow_hosts=("127.0.0.1",)))
    reply = Search((Ddgs(gate, backends="duckduckgo", pause=0.0),), seconds=2.0).search("灯塔")
    assert reply.failure is not None
    assert reply.failure.trouble is Trouble.BAD_ADDRESS
    assert [entry.host for entry in gate.ledger.entries] == ["127.0.0.1", "10.0.0.1"]
