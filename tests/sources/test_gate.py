"""Nothing leaves the machine but to public addresses that were checked, and all of it is in the ledger."""

from __future__ import annotations

import ipaddress
import socket
import time

import pytest

from tests.sources.loopback import Reply, Site, open_gate
from venus_edge.sources.address import Address, IPAddress, parse
from venus_edge.sources.gate import Entry, Gate, Policy, tidied
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.values import Failure, Trouble

PRIVATE = """
    http://127.0.0.1:8080/ http://localhost/ http://localhost./ http://LOCALHOST:80/ http://2130706433/
    http://0x7f.0.0.1/ http://0177.0.0.1/ http://127.1/ http://0/ http://[::1]/ http://[::]/
    http://[::ffff:127.0.0.1]/ http://[::127.0.0.1]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b:1::1]/
    http://[2002:7f00:1::]/ http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://169.254.169.254/latest/meta-data/
    http://metadata.google.internal/ http://100.64.0.1/ http://10.0.0.1/ http://[fd00::1]/ http://[fe80::1%25eth0]/
    http://192.168.1.1/admin http://172.16.0.1/ http://0.0.0.0/ http://224.0.0.1/ http://255.255.255.255/
    http://198.18.0.1/ http://192.0.2.1/ http://user:pw@127.0.0.1/ http://router.local/ http://nas.lan/
    http://intranet/ http://printer.home.arpa/ http://a.localhost/
"""
PUBLIC = ipaddress.ip_address("93.184.216.34")
LOCAL = ipaddress.ip_address("127.0.0.1")


class Names:
    """A name server that gives one answer after another, and counts."""

    def __init__(self, *answers: list[IPAddress]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[IPAddress]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every connection that is tried; none of them is made."""
    tried: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], *rest: object, **more: object) -> socket.socket:
        tried.append(address)
        raise ConnectionRefusedError("not in a test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    return tried


def fetch(gate: Gate, url: str) -> object:
    address = parse(url)
    return address if isinstance(address, Failure) else Fetcher(gate, Limits(seconds=5)).fetch(address)


@pytest.mark.parametrize("url", PRIVATE.split())
def test_a_private_address_is_refused_in_every_spelling(url: str, connections: list[tuple[str, int]]) -> None:
    names = Names([LOCAL])
    gate = Gate(resolver=names)
    failure = fetch(gate, url)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert failure.detail.startswith("address not allowed")
    assert (connections, names.asked) == ([], [])


@pytest.mark.parametrize("answer", [[LOCAL], [PUBLIC, LOCAL], [PUBLIC, ipaddress.ip_address("64:ff9b::7f00:1")]])
def test_every_address_of_a_name_must_be_public(answer: list[IPAddress], connections: list[tuple[str, int]]) -> None:
    gate = Gate(resolver=Names(answer))
    assert fetch(gate, "http://evil.example/") == Failure(
        Trouble.BAD_ADDRESS,
        f"address not allowed: evil.example: it leads to {answer[-1]}, which is not public",
    )
    assert connections == []
    assert gate.ledger.entries == (Entry("evil.example", 80, "page", "not allowed: address not allowed"),)


def test_a_name_that_changes_its_answer_gains_nothing(connections: list[tuple[str, int]]) -> None:
    names = Names([PUBLIC], [LOCAL])
    failure = fetch(Gate(resolver=names), "http://rebinding.example:8080/")
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT
    assert names.asked == ["rebinding.example"]
    assert connections == [("93.184.216.34", 8080)]


def test_each_address_of_a_host_is_tried(connections: list[tuple[str, int]]) -> None:
    second = ipaddress.ip_address("2606:4700::1111")
    gate = Gate(resolver=Names([PUBLIC, second]))
    fetch(gate, "http://two.example/")
    assert connections == [("93.184.216.34", 80), ("2606:4700::1111", 80)]
    assert [e.outcome for e in gate.ledger.entries] == ["no connection", "no connection"]


def test_offline_resolves_nothing_and_opens_no_socket(connections: list[tuple[str, int]]) -> None:
    names = Names([PUBLIC])
    gate = Gate(Policy(offline=True, allow_hosts=("127.0.0.1",)), resolver=names)
    for url in ("http://example.org/", "https://93.184.216.34/", "http://127.0.0.1/"):
        failure = fetch(gate, url)
        assert isinstance(failure, Failure)
        assert failure.trouble is Trouble.OFFLINE
    assert (connections, names.asked) == ([], [])


def test_an_allowed_host_may_be_private(site: Site) -> None:
    gate = Gate(Policy(allow_hosts=("searx.lan",)), resolver=Names([LOCAL]))
    site.page("/", "hello")
    response = fetch(gate, f"http://searx.lan:{site.port}/")
    assert not isinstance(response, Failure)
    assert gate.ledger.entries[0].address == "127.0.0.1"


ALLOWED = {
    ("searx.lan", "searx.lan", 80): True,
    ("searx.lan:8080", "searx.lan", 8080): True,
    ("searx.lan:8080", "searx.lan", 80): False,
    ("*.lan", "a.lan", 80): True,
    ("*.lan", "lan", 80): False,
    ("lan", "a.lan", 80): False,
    ("192.168.0.0/16", "192.168.7.1", 80): True,
    ("192.168.0.0/16", "10.0.0.1", 80): False,
    ("127.0.0.1:8080", "127.0.0.1", 8080): True,
    ("127.0.0.1:8080", "127.0.0.1", 8081): False,
    ("[::1]:8080", "::1", 8080): True,
    ("[::1]:8080", "::1", 80): False,
    ("::1", "::1", 80): True,
    ("fd00::/8", "fd00::1", 80): True,
    ("127.0.0.1", "evil.example", 80): False,
    ("", "example.org", 80): False,
}


@pytest.mark.parametrize("case", ALLOWED)
def test_a_host_is_allowed_by_what_it_is_called(case: tuple[str, str, int]) -> None:
    entry, host, port = case
    assert Policy(allow_hosts=(entry,)).allows(host, port) is ALLOWED[case]


def test_an_allowed_address_does_not_allow_names_that_lead_to_it(connections: list[tuple[str, int]]) -> None:
    gate = Gate(Policy(allow_hosts=("127.0.0.1",)), resolver=Names([LOCAL]))
    failure = fetch(gate, "http://evil.example/")
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert connections == []


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{}/secret", "http://localhost:{}/", "http://[::1]:{}/", "//0:{}/"]
)
def test_a_redirect_is_checked_like_the_first_address(site: Site, target: str) -> None:
    with Site() as inside:
        site.pages["/"] = Reply(status=302, headers={"Location": target.format(inside.port)})
        failure = fetch(open_gate(f"127.0.0.1:{site.port}"), site.url("/"))
        assert isinstance(failure, Failure)
        assert failure.trouble is Trouble.BAD_ADDRESS
        assert inside.asked == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.org/", "data:text/html,x", "javascript:1"])
def test_a_redirect_leads_to_the_web_only(site: Site, target: str) -> None:
    site.pages["/"] = Reply(status=301, headers={"Location": target})
    failure = fetch(open_gate(), site.url("/"))
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS


def test_a_meta_refresh_is_checked_too(site: Site) -> None:
    site.page("/", '<meta http-equiv="refresh" content="0; url=http://10.0.0.1/">')
    failure = fetch(open_gate(), site.url("/"))
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS


def test_the_ledger_counts_the_bytes_up_and_down(site: Site) -> None:
    gate = open_gate()
    site.page("/", "x" * 1000)
    fetch(gate, site.url("/"))
    (entry,) = gate.ledger.entries
    assert (entry.host, entry.port, entry.purpose, entry.outcome, entry.address) == (
        "127.0.0.1",
        site.port,
        "page",
        "ok",
        "127.0.0.1",
    )
    assert 50 < entry.sent < 1000 < entry.received < 2000


def test_a_name_server_that_hangs_does_not_stretch_the_deadline() -> None:
    def hang(host: str, port: int) -> list[IPAddress]:
        time.sleep(3)
        return []

    started = time.monotonic()
    address = parse("http://slow.example/")
    assert isinstance(address, Address)
    failure = Fetcher(Gate(resolver=hang), Limits(seconds=0.2)).fetch(address)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT
    assert time.monotonic() - started < 1


def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    site.page("/", "direct")
    assert not isinstance(fetch(open_gate(), site.url("/")), Failure)


def test_a_head_that_a_strict_parser_refuses_is_made_fit() -> None:
    head = (
        b"HTTP/1.1 200\r\nno colon\r\nX Y: z\r\nContent-Length: 5\r\nContent-length: 5\r\nX-A: a\x00\x07b\xff \r\n\r\n"
    )
    assert tidied(head) == b"HTTP/1.1 200 \r\nContent-Length: 5\r\nX-A: ab\xff\r\n\r\n"
    assert tidied(b"ICY 200 OK\nContent-Length: 1\n\n") == b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: Chunked\r\n\r\n"
    assert tidied(chunked) == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert tidied(b"garbage\r\n\r\n") == b"garbage\r\n\r\n"
