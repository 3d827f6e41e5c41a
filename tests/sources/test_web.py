"""An address becomes a page: from the disk while it is fresh, else from the site, else from an old copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.loopback import Reply, Site, open_gate, raw
from venus_edge.sources import extract, web
from venus_edge.sources.cache import Cache
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.web import Web
from venus_edge.tools import Opener
from venus_edge.values import Failure, Page, Trouble

TEXT = "The lamp was lit in 1916, and the keeper wrote the first line of the ledger that same evening in black ink."
HTML = f"<html><head><title>Kéréon</title></head><body><article><p>{TEXT}</p></article></body></html>"
DAY = 86400.0


class Clock:
    """Seconds since 1970, as the test sets them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0  # 2027-01-15

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opener(tmp_path: Path, clock: Clock) -> Iterator[Web]:
    with Cache(tmp_path) as cache:
        yield Web(Fetcher(open_gate(), Limits(seconds=5)), cache, clock)


def page(url: str, note: str = "", text: str = TEXT) -> Page:
    return Page(url, "Kéréon", text, hashlib.sha256(text.encode()).hexdigest(), "", note)


def offline(opener: Web) -> Web:
    return Web(Fetcher(Gate(Policy(offline=True))), opener.cache, opener.clock)


def test_web_is_an_opener(opener: Opener, site: Site) -> None:
    url = site.page("/", HTML)
    assert opener.open(url) == page(url)


def test_the_second_visit_reads_the_disk(opener: Web, site: Site) -> None:
    url = site.page("/", HTML)
    assert [opener.open(url), opener.open(f"<{url}>.")] == [page(url)] * 2
    assert site.asked == ["/"]


def test_the_fragment_is_kept_for_display_and_not_for_the_key(opener: Web, site: Site) -> None:
    url = site.page("/", HTML)
    assert [opener.open(f"{url}#a"), opener.open(f"{url}#b")] == [page(f"{url}#a"), page(f"{url}#b")]
    assert site.asked == ["/"]


def test_a_stale_page_is_asked_for_by_its_etag(opener: Web, site: Site, clock: Clock) -> None:
    def answer(headers: dict[str, str]) -> Reply:
        seen = headers.get("if-none-match") == '"1"'
        return Reply(
            b"" if seen else HTML.encode(), 304 if seen else 200, {"ETag": '"1"', "Cache-Control": "max-age=60"}
        )

    site.pages["/"] = answer
    url = site.url("/")
    first = opener.open(url)
    clock.now += 100
    second = opener.open(url)
    clock.now += 50
    third = opener.open(url)
    assert [first, second, third] == [page(url)] * 3
    assert [h.get("if-none-match") for h in site.headers] == [None, '"1"']


def test_a_changed_page_replaces_the_copy(opener: Web, site: Site, clock: Clock) -> None:
    url = site.page("/", HTML, ETag='"1"', Cache_Control="max-age=60")
    opener.open(url)
    clock.now += 100
    site.page("/", HTML.replace("1916", "1917"))
    assert opener.open(url) == page(url, text=TEXT.replace("1916", "1917"))


@pytest.mark.parametrize("status", [500, 502, 503, 429, 403])
def test_an_old_copy_serves_when_the_site_fails(opener: Web, site: Site, clock: Clock, status: int) -> None:
    url = site.page("/", HTML)
    opener.open(url)
    clock.now += DAY
    site.pages["/"] = Reply(b"<p>error</p>", status)
    found = opener.open(url)
    now = "refused" if status in (403, 429) else "timed out or unreachable"
    assert found == page(url, f"copy of 2027-01-15 ({now} now)")


def test_an_old_copy_serves_when_the_site_is_gone_from_the_net(opener: Web, clock: Clock) -> None:
    with Site() as site:
        url = site.page("/", HTML)
        opener.open(url)
    clock.now += DAY
    assert opener.open(url) == page(url, "copy of 2027-01-15 (timed out or unreachable now)")


def test_a_page_that_is_gone_is_gone(opener: Web, site: Site, clock: Clock) -> None:
    url = site.page("/", HTML)
    opener.open(url)
    clock.now += DAY
    site.pages["/"] = Reply(status=404)
    assert opener.open(url) == Failure(Trouble.UNREADABLE, "page could not be read: not found (404)")


def test_offline_serves_what_is_kept_and_says_its_age(opener: Web, site: Site, clock: Clock) -> None:
    url = site.page("/", HTML)
    opener.open(url)
    assert offline(opener).open(url) == page(url)
    clock.now += DAY
    assert offline(opener).open(url) == page(url, "copy of 2027-01-15 (offline now)")
    assert offline(opener).open(site.url("/other")) == Failure(
        Trouble.OFFLINE, "offline: not in the local index or page cache"
    )
    assert site.asked == ["/"]


STATUSES = {
    401: Trouble.REFUSED,
    403: Trouble.REFUSED,
    404: Trouble.UNREADABLE,
    410: Trouble.UNREADABLE,
    418: Trouble.UNREADABLE,
    429: Trouble.REFUSED,
    451: Trouble.REFUSED,
    500: Trouble.TIMEOUT,
    503: Trouble.TIMEOUT,
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_that_brings_no_page_is_said(opener: Web, site: Site, status: int) -> None:
    site.pages["/"] = Reply(HTML.encode(), status)
    failure = opener.open(site.url("/"))
    assert isinstance(failure, Failure)
    assert failure.trouble is STATUSES[status]
    assert str(status) in failure.detail
    opener.open(site.url("/"))
    assert site.asked == ["/", "/"]


def test_half_a_page_is_used_marked_and_not_kept(opener: Web) -> None:
    sent = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99999\r\n\r\n" + HTML.encode()
    with raw(lambda: iter([sent])) as url:
        assert opener.open(url) == page(url, "incomplete: the connection was cut")
    assert opener.cache is not None
    assert opener.cache.keys() == ()


def test_a_consent_wall_is_kept_for_ten_minutes_and_never_served_as_a_page(
    opener: Web, site: Site, clock: Clock
) -> None:
    wall = "<title>Before you continue</title><p>We use cookies and process personal data with our partners.</p>"
    url = site.page("/", wall, Cache_Control="max-age=99999")
    refused = Failure(Trouble.UNREADABLE, "page could not be read: consent wall")
    assert [opener.open(url), opener.open(url)] == [refused, refused]
    assert site.asked == ["/"]
    clock.now += 700
    site.page("/", HTML)
    assert opener.open(url) == page(url)
    assert site.asked == ["/", "/"]


def test_better_rules_extract_again_without_a_fetch(opener: Web, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    url = site.page("/", HTML)
    opener.open(url)
    monkeypatch.setattr(web, "VERSION", extract.VERSION + 1)
    monkeypatch.setattr(web, "extract", lambda body, url, kind: extract.Extracted("new", "new text"))
    found = opener.open(url)
    assert isinstance(found, Page)
    assert (found.title, found.text) == ("new", "new text")
    assert site.asked == ["/"]


def test_what_is_not_allowed_is_not_served_from_the_disk_either(opener: Web, site: Site) -> None:
    url = site.page("/", HTML)
    opener.open(url)
    closed = Web(Fetcher(Gate()), opener.cache, opener.clock)
    failure = closed.open(url)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS


def test_a_web_without_a_cache_fetches_each_time(site: Site) -> None:
    url = site.page("/", HTML)
    opener = Web(Fetcher(open_gate()))
    assert [opener.open(url), opener.open(url)] == [page(url)] * 2
    assert site.asked == ["/", "/"]


@given(st.text(max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
def test_no_string_raises(written: str) -> None:
    assert isinstance(Web(Fetcher(Gate(Policy(offline=True)))).open(written), Failure)
