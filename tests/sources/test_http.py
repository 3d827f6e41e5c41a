"""A fetch ends in time and in bounds, whatever the server does; what broke off is kept and marked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.sources.loopback import Reply, Site, open_gate, raw
from venus_edge.sources.address import Address, parse
from venus_edge.sources.encodings import offered
from venus_edge.sources.http import (
    USER_AGENT,
    Fetcher,
    Limits,
    Response,
    accept_language,
    refresh_target,
)
from venus_edge.values import Failure, Trouble

PAGE = b"<p>" + str(list(range(3000))).encode() + b"</p>"


def fetch(url: str, limits: Limits = Limits(seconds=5), **settings: Any) -> Response | Failure:  # noqa: B008 - frozen
    address = parse(url)
    assert isinstance(address, Address)
    return Fetcher(open_gate(), limits, **settings).fetch(address)


def got(url: str, limits: Limits = Limits(seconds=5), **settings: str) -> Response:  # noqa: B008 - frozen
    response = fetch(url, limits, **settings)
    assert isinstance(response, Response), response
    return response


def wire(*parts: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: iter(parts)


def test_a_page_comes_as_it_is(site: Site) -> None:
    site.pages["/"] = Reply(b"<p>\xff", headers={"Content-Type": "text/html", "X-Two": "a"})
    response = got(site.url("/"))
    assert (response.url, response.status, response.body, response.complete, response.note) == (
        site.url("/"),
        200,
        b"<p>\xff",
        True,
        "",
    )
    assert response.header("content-type") == "text/html"


def test_the_request_says_who_asks_and_in_which_language(site: Site) -> None:
    site.page("/", "x")
    got(site.url("/"), language="zh-CN")
    got(site.url("/"), user_agent="me/1")
    first, second = site.headers
    assert first == {
        "host": f"127.0.0.1:{site.port}",
        "user-agent": USER_AGENT,
        "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.9,*/*;q=0.5",
        "accept-language": "zh-CN,zh;q=0.9,en;q=0.6,*;q=0.4",
        "accept-encoding": ", ".join(["gzip", "deflate", *offered()]),
        "connection": "close",
    }
    assert second["user-agent"] == "me/1"
    assert accept_language("") == "en-US,en;q=0.9,*;q=0.5"


# -- what servers do wrong -------------------------------------------------------------------------------------------

PART = b"<p>" + b"first half of the page " * 40
CUT = {
    "a chunk without an end": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + PART, PART),
    "no last chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n", b"<p>"),
    "fewer bytes than said": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + PART, PART),
    "chunks that are none": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\nzz\r\n", b"<p>"),
}


@pytest.mark.parametrize("name", CUT)
def test_a_body_that_breaks_off_is_used_and_marked(name: str) -> None:
    sent, body = CUT[name]
    with raw(wire(sent)) as url:
        response = got(url)
    assert (response.body, response.complete, response.note) == (body, False, "incomplete: the connection was cut")


WHOLE = {
    "no length, the end is the end": b"HTTP/1.0 200 OK\r\n\r\n<p>hello</p>",
    "line feeds alone": b"HTTP/1.1 200 OK\nContent-Length: 12\n\n<p>hello</p>",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nthis is no header\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
    "bytes in a header": b"HTTP/1.1 200 OK\r\nX: \xff\x00\xe7\x81\xaf\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Length: 99\r\n\r\n<p>hello</p>",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: twelve\r\n\r\n<p>hello</p>",
    "a length beside chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"c\r\n<p>hello</p>\r\n0\r\n\r\n",
    "early hints first": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
    "a status without a reason": b"HTTP/1.1 200\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_clumsy_answer_is_still_an_answer(name: str) -> None:
    with raw(wire(WHOLE[name])) as url:
        response = got(url)
    assert (response.status, response.body) == (200, b"<p>hello</p>")
    assert response.complete


BROKEN = {
    "nothing at all": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X-Y: zzzzzzzzzzzzzzzz\r\n" * 20_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_answer_is_unreachable(name: str) -> None:
    with raw(wire(BROKEN[name])) as url:
        failure = fetch(url)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT
    assert failure.detail.startswith("unreachable: 127.0.0.1: ")


def test_nobody_there_is_unreachable() -> None:
    with raw(wire()) as url:
        pass
    failure = fetch(url)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT


# -- time and size ---------------------------------------------------------------------------------------------------


def drip(first: bytes, drop: bytes) -> Callable[[], Iterator[bytes]]:
    def drops() -> Iterator[bytes]:
        yield first
        while True:
            time.sleep(0.05)
            yield drop

    return drops


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"",
    ],
)
def test_a_dripping_server_cannot_stretch_the_deadline(first: bytes) -> None:
    started = time.monotonic()
    with raw(drip(first, b"1\r\nx\r\n" if b"chunked" in first else b"x")) as url:
        failure = fetch(url, Limits(seconds=0.5))
    assert failure == Failure(Trouble.TIMEOUT, "timed out: 127.0.0.1 did not answer within 0.5 s")
    assert time.monotonic() - started < 1.5


def test_what_came_before_the_deadline_is_used_and_marked() -> None:
    with raw(drip(b"HTTP/1.1 200 OK\r\n\r\n" + PART, b"x")) as url:
        response = got(url, Limits(seconds=0.5))
    assert response.body.startswith(PART)
    assert (response.complete, response.note) == (False, "incomplete: the time limit was reached")


def test_redirects_do_not_stretch_the_deadline(site: Site) -> None:
    def slowly(location: str) -> Callable[[dict[str, str]], Reply]:
        def answer(headers: dict[str, str]) -> Reply:
            time.sleep(0.3)
            return moved(location)

        return answer

    site.pages = {"/": slowly("/1"), "/1": slowly("/2"), "/2": slowly("/3")}
    started = time.monotonic()
    failure = fetch(site.url("/"), Limits(seconds=0.5))
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT
    assert time.monotonic() - started < 1.5


def test_an_endless_body_is_cut_at_the_limit() -> None:
    def zeros() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        while True:
            yield b"\0" * 65536

    with raw(zeros) as url:
        response = got(url, Limits(seconds=20, wire_bytes=1_000_000))
    assert (len(response.body), response.complete) == (1_000_000, False)
    assert response.note == "incomplete: only the first 1 MB were read"


def test_a_film_is_not_fetched_to_its_end(site: Site) -> None:
    site.pages["/"] = Reply(b"\0\0\0 ftypisom" + b"\0" * 5_000_000, headers={"Content-Type": "text/html"})
    response = got(site.url("/"))
    assert len(response.body) < 300_000
    assert not response.complete


# -- redirects -------------------------------------------------------------------------------------------------------


def moved(location: str, status: int = 302, cookie: str = "") -> Reply:
    return Reply(status=status, headers={"Location": location, **({"Set-Cookie": cookie} if cookie else {})})


def test_redirects_are_followed_to_the_page(site: Site) -> None:
    site.pages["/"] = moved("/a?b#c", 301)
    site.pages["/a?b"] = moved(f"//127.0.0.1:{site.port}/wiki/灯塔".encode().decode("latin-1"), 308)
    site.page("/wiki/%E7%81%AF%E5%A1%94", "here")
    response = got(site.url("/"))
    assert (response.url, response.body) == (site.url("/wiki/%E7%81%AF%E5%A1%94"), b"here")


def test_a_circle_of_redirects_is_seen(site: Site) -> None:
    site.pages["/"] = moved("/a")
    site.pages["/a"] = moved("/")
    assert fetch(site.url("/")) == Failure(Trouble.UNREADABLE, "page could not be read: it redirects in a circle")
    assert site.asked == ["/", "/a"]


def test_ten_redirects_are_enough(site: Site) -> None:
    for n in range(20):
        site.pages[f"/{n}"] = moved(f"/{n + 1}")
    failure = fetch(site.url("/0"))
    assert failure == Failure(Trouble.UNREADABLE, "page could not be read: more than 10 redirects")
    assert len(site.asked) == 11


def test_a_redirect_to_itself_with_a_cookie_is_no_circle(site: Site) -> None:
    def gate(headers: dict[str, str]) -> Reply:
        return Reply(b"in") if "ok=1" in headers.get("cookie", "") else moved("/", cookie="ok=1")

    site.pages["/"] = gate
    assert got(site.url("/")).body == b"in"
    assert got(site.url("/")).body == b"in"
    assert site.asked == ["/"] * 4  # cookies last for one visit


def test_a_redirect_without_a_target_is_the_page(site: Site) -> None:
    site.pages["/"] = Reply(b"moved, somewhere", 302)
    assert got(site.url("/")).status == 302


def test_a_meta_refresh_is_followed_once(site: Site) -> None:
    site.page("/", "<META content='0;URL=/two' http-equiv=Refresh>")
    site.page("/two", '<meta http-equiv="refresh" content="1; url=/three">')
    site.page("/three", "three")
    assert got(site.url("/")).url == site.url("/two")


REFRESHES = {
    b'<meta http-equiv="refresh" content="0; url=https://example.org/?a=1&amp;b=2">': "https://example.org/?a=1&b=2",
    b"<meta http-equiv=refresh content='5;URL=\"/x\"'>": "/x",
    b'<meta content="0;/x" http-equiv="refresh">': "/x",
    b'<meta http-equiv="refresh" content="300">': "",
    b'<meta http-equiv="refresh" content="600; url=/later">': "",
    b'<noscript><meta http-equiv="refresh" content="0; url=/nojs"></noscript>': "",
    b'<!-- <meta http-equiv="refresh" content="0; url=/old"> -->': "",
    b'<meta name="refresh" content="0; url=/x">': "",
    b"": "",
}


@pytest.mark.parametrize("html", REFRESHES)
def test_a_meta_refresh_that_leads_away_is_one(html: bytes) -> None:
    assert refresh_target(html) == REFRESHES[html]
