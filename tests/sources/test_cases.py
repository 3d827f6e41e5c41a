"""The shared cases of search and pages (S01, S04, P01, P03, P04, P06, P07, P08), as they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sources.loopback import Reply, Site, open_gate, raw
from venus_edge.sources.address import Address, parse
from venus_edge.sources.cache import Cache
from venus_edge.sources.ddgs import Seen, judged
from venus_edge.sources.extract import Extracted, extract
from venus_edge.sources.gate import Gate
from venus_edge.sources.http import Fetcher, Limits, Response
from venus_edge.sources.language import market
from venus_edge.sources.web import Web
from venus_edge.values import Failure, Page, Trouble

URL = "https://example.org/a"


@pytest.fixture(scope="module")
def case(shared: Path) -> Callable[[str], Any]:
    """The `data` of a case, by its id."""
    lines = (shared / "cases" / "cases.jsonl").read_text().splitlines()
    cases = {c["id"]: c for c in map(json.loads, lines)}

    def data(name: str) -> Any:
        space: dict[str, Any] = {}
        exec(cases[name]["input"], space)
        return space["data"]

    return data


def test_s01_five_replies_are_refusals_and_one_is_empty(case: Callable[[str], Any]) -> None:
    troubles = [judged((Seen(r["status"], r["body"]),)).trouble for r in case("S01")]
    assert troubles == [Trouble.REFUSED] * 5 + [Trouble.EMPTY]


def test_s04_the_region_is_that_of_the_script(case: Callable[[str], Any]) -> None:
    regions = [market(query).region for query in case("S04")]
    assert regions == ["cn-zh", "jp-jp", "cn-zh", "kr-kr", "us-en", "us-en", "ru-ru", "cn-zh"]


def test_p01_every_page_is_read_in_its_charset(case: Callable[[str], Any]) -> None:
    for body, content_type, expected in case("P01"):
        extracted = extract(body, URL, content_type)
        assert isinstance(extracted, Extracted)
        assert expected in extracted.text


def test_p03_nothing_that_matters_is_lost(case: Callable[[str], Any]) -> None:
    for name, (page, there, *absent) in case("P03").items():
        extracted = extract(page.encode(), URL, "text/html")
        assert isinstance(extracted, Extracted), name
        assert [s for s in there if s not in extracted.text] == [], name
        assert [s for s in (absent[0] if absent else []) if s in extracted.text] == [], name


def test_p04_pages_that_are_not_the_page_are_named(case: Callable[[str], Any]) -> None:
    found = {name: extract(page.encode(), URL, "text/html") for name, page in case("P04").items()}
    said = {
        name: f.detail.removeprefix("page could not be read: ") for name, f in found.items() if isinstance(f, Failure)
    }
    assert said == {
        "js_only": "needs JavaScript",
        "consent": "consent wall",
        "soft404": "not found",
        "bot_check": "bot check",
        "login": "login",
    }


COMPLETE = {  # what is read of each server of P06: bytes of the page, and whether that is all
    "bomb": (10_000_000, False),
    "gzip_cut": (14_333, False),
    "gzip_lie": (15, True),
    "enc_utf8": (12, True),
    "deflate_raw": (16_897, True),
    "chunk_cut": (28, False),
    "short": (16, False),
}


def serving(headers: dict[str, str], body: bytes) -> Callable[[], Iterable[bytes]]:
    length = {} if {"Transfer-Encoding", "Content-Length"} & headers.keys() else {"Content-Length": str(len(body))}
    lines = "".join(f"{k}: {v}\r\n" for k, v in {"Content-Type": "text/html", **headers, **length}.items())
    return lambda: iter([f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + body])


@pytest.mark.parametrize("name", COMPLETE)
def test_p06_bad_servers_cost_bounded_time_and_memory(case: Callable[[str], Any], tmp_path: Path, name: str) -> None:
    headers, wire = case("P06")[name]
    with raw(serving(headers, wire)) as url, Cache(tmp_path) as cache:
        address = parse(url)
        assert isinstance(address, Address)
        fetcher = Fetcher(open_gate(), Limits(seconds=10))
        response = fetcher.fetch(address)
        assert isinstance(response, Response)
        assert (len(response.body), response.complete) == COMPLETE[name]
        page = Web(fetcher, cache).open(url)
        assert isinstance(page, Page) or name == "bomb"
        assert bool(cache.keys()) is response.complete


def test_p06_endless_zeros_end_at_the_limit() -> None:
    def zeros() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        while True:
            yield b"\0" * 65536

    with raw(zeros) as url:
        assert isinstance(Web(Fetcher(open_gate(), Limits(seconds=20))).open(url), Failure)


def test_p07_no_spelling_reaches_the_private_network(case: Callable[[str], Any], site: Site) -> None:
    web = Web(Fetcher(Gate(resolver=lambda host, port: pytest.fail(f"{host} was resolved")), Limits(seconds=5)))
    for url in case("P07"):
        if "public.example" not in url:
            failure = web.open(url)
            assert isinstance(failure, Failure), url
            assert failure.trouble is Trouble.BAD_ADDRESS, url
            assert failure.detail.startswith("address not allowed"), url
    for target in ("http://127.0.0.2/", "file:///etc/passwd"):
        site.pages["/"] = Reply(status=302, headers={"Location": target})
        failure = Web(Fetcher(open_gate(f"127.0.0.1:{site.port}"))).open(site.url("/"))
        assert isinstance(failure, Failure)
        assert failure.trouble is Trouble.BAD_ADDRESS


def test_p08_addresses_are_what_was_meant(case: Callable[[str], Any]) -> None:
    found = {written: parse(written) for written in case("P08")}
    assert {w: a.url if isinstance(a, Address) else None for w, a in found.items()} == case("P08")
