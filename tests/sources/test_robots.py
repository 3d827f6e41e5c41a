"""A site's wish is respected where the person says so."""

from __future__ import annotations

import pytest

from tests.sources.loopback import Reply, Site, open_gate
from venus_edge.sources.http import Fetcher
from venus_edge.sources.robots import REFUSED, Robots, allowed, rules
from venus_edge.sources.web import Web
from venus_edge.values import Page

RULES = b"User-agent: *\nDisallow: /private/\n\nUser-agent: venus-edge\nDisallow: /ours/\nAllow: /ours/but-this\n"


def web(respects: bool = True) -> Web:
    fetcher = Fetcher(open_gate())
    return Web(fetcher, robots=Robots(fetcher.fetch, fetcher.user_agent) if respects else None)


@pytest.fixture
def pages(site: Site) -> Site:
    for path in ("/ours/a", "/ours/but-this", "/private/a"):
        site.page(path, "<p>A page that says enough to be one, about the lamp of a lighthouse.</p>")
    return site


def test_the_rules_for_our_name_are_kept_and_asked_for_once(pages: Site) -> None:
    pages.pages["/robots.txt"] = Reply(RULES)
    opener = web()
    found = {path: opener.open(pages.url(path)) for path in ("/ours/a", "/ours/but-this", "/private/a")}
    assert found["/ours/a"] == REFUSED
    assert isinstance(found["/ours/but-this"], Page)
    assert isinstance(found["/private/a"], Page)  # that group is for others
    assert pages.asked == ["/robots.txt", "/ours/but-this", "/private/a"]


@pytest.mark.parametrize(("status", "read"), [(404, True), (403, True), (500, False), (503, False)])
def test_without_rules_a_page_is_read_unless_their_server_is_broken(pages: Site, status: int, read: bool) -> None:
    pages.pages["/robots.txt"] = Reply(b"", status)
    assert isinstance(web().open(pages.url("/ours/a")), Page) is read


def test_without_the_switch_nobody_asks(pages: Site) -> None:
    pages.pages["/robots.txt"] = Reply(RULES)
    assert isinstance(web(respects=False).open(pages.url("/ours/a")), Page)
    assert pages.asked == ["/ours/a"]


ALLOWED = {  # (rules, path): whether it may be read
    ("", "/a"): True,
    ("User-agent: *\nDisallow:", "/a"): True,
    ("User-agent: *\nDisallow: /", "/"): False,
    ("User-agent: other\nUser-agent: Venus-Edge\nDisallow: /a", "/a/b"): False,
    ("User-agent: other\nDisallow: /", "/a"): True,
    ("Disallow: /", "/a"): True,
    ("User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b/c"): True,
    ("User-agent: *\nAllow: /a\nDisallow: /a", "/a"): True,
    ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf"): False,
    ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?a"): True,
    ("User-agent: *\nDisallow: /a*b*c", "/a1b2c3"): False,
    ("User-agent: *\nDisallow: /a*b*c", "/a1c2b3"): True,
    ("User-agent: *\nDisallow: /a$", "/a"): False,
    ("User-agent: *\nDisallow: /a$", "/ab"): True,
    ("user-AGENT : * # all\r\nDISALLOW : /a # that", "/a"): False,
    ("User-agent: *\nDisallow: " + "/*a" * 5000, "/" + "a" * 5000): True,
}


@pytest.mark.parametrize("case", range(len(ALLOWED)))
def test_the_longest_rule_that_fits_decides(case: int) -> None:
    (text, path), expected = list(ALLOWED.items())[case]
    assert allowed(rules(text, "venus-edge"), path) is expected
