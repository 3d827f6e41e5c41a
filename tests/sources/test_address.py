"""What the model writes becomes an address or a reason; and only public IP addresses are spoken to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.sources.address import Address, ipv4, is_public, parse
from venus_edge.values import Failure, Trouble

FETCHED = {
    "https://en.wikipedia.org/wiki/Keeper_(lighthouse)": "https://en.wikipedia.org/wiki/Keeper_(lighthouse)",
    "(https://en.wikipedia.org/wiki/Keeper_(lighthouse)),": "https://en.wikipedia.org/wiki/Keeper_(lighthouse)",
    "[Keeper](https://en.wikipedia.org/wiki/Keeper_(lighthouse))": "https://en.wikipedia.org/wiki/Keeper_(lighthouse)",
    '[Keeper]( https://example.org/x "title")': "https://example.org/x",
    "<https://example.org/a>": "https://example.org/a",
    "**https://example.org/a**": "https://example.org/a",
    "`https://example.org/a`": "https://example.org/a",
    "《https://example.org/a》": "https://example.org/a",
    "https://example.org/a）。": "https://example.org/a",
    "https://example.org/a.": "https://example.org/a",
    'https://example.org/a" target=': "https://example.org/a",
    "https://example.org/a&amp;b=1": "https://example.org/a&b=1",
    "https://example.org/wiki/灯塔。": "https://example.org/wiki/%E7%81%AF%E5%A1%94",
    "https://example.org/?q=灯塔&x=[1]": "https://example.org/?q=%E7%81%AF%E5%A1%94&x=[1]",
    "https://example.org/a b/ü?q=x y": "https://example.org/a%20b/%C3%BC?q=x%20y",
    "https://example.org/a%20b%2": "https://example.org/a%20b%252",
    "https://bücher.example/straße": "https://xn--bcher-kva.example/stra%C3%9Fe",
    "https://例え.jp": "https://xn--r8jz45g.jp/",
    "https://example。org/x": "https://example.org/x",
    "https://EXAMPLE.org./x": "https://example.org/x",
    "example.org/page": "https://example.org/page",
    "www.example.org": "https://www.example.org/",
    "example.org:8080/x": "https://example.org:8080/x",
    "localhost:8080/x": "http://localhost:8080/x",
    "//example.org/x": "https://example.org/x",
    "https:/example.org/x": "https://example.org/x",
    "https:///example.org/x": "https://example.org/x",
    "https://https://example.org/x": "https://example.org/x",
    "HTTPS://EXAMPLE.ORG:443/x#sec": "https://example.org/x",
    "http://example.org:80": "http://example.org/",
    "http://user:pw@example.org/": "http://example.org/",
    "https://example.org\\@127.0.0.1/": "https://example.org/@127.0.0.1/",
    " https://example.org/\u200bpage\n": "https://example.org/page",
    "https://example.org/a\nb": "https://example.org/ab",
    "https://example.org/\ud800x": "https://example.org/x",
    "See https://example.org/a for more": "https://example.org/a",
    "链接：https://example.org/a": "https://example.org/a",
    "《灯塔》https://example.org/a": "https://example.org/a",
    "https://web.archive.org/web/2020/https://example.org/x": "https://web.archive.org/web/2020/https://example.org/x",
}
REFUSED = (
    "",
    "   ",
    "visit the first result",
    "e.g.",
    "3.14",
    "a@b.co",
    "/wiki/Keeper",
    "https://example.org/...",
    "https://example.org/wiki/…",
    "https://m.example.cn查一下灯塔开放时间,谢谢",
    "https://example.org，谢谢",
    "http://.example.org/",
    "http://example..org/",
    "http:///",
    "https://-a.example/",
    "https://exa mple.org/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 130 + "example/",
    "https://example.org:99999/",
    "https://example.org:0/",
    "https://example.org:x/",
    "https://[::1/",
    "https://[zz]/",
    "http://1.2.3.4.5/",
    "http://999.1.1.1/",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "data:text/html,<p>hi",
    'data:text/html,<a href="https://example.org/">',
    "ftp://example.org/x",
    "javascript:alert(1)",
    "view-source:https://example.org/",
    "mailto:a@b.co",
)


@pytest.mark.parametrize("written", FETCHED)
def test_almost_right_is_made_right(written: str) -> None:
    address = parse(written)
    assert isinstance(address, Address)
    assert address.url == FETCHED[written]


@pytest.mark.parametrize("written", REFUSED)
def test_what_is_no_web_address_is_refused_with_a_reason(written: str) -> None:
    failure = parse(written)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert failure.detail.startswith("address not allowed: ")


@pytest.mark.parametrize("url", FETCHED.values())
def test_an_address_made_right_stays_as_it_is(url: str) -> None:
    address = parse(url)
    assert isinstance(address, Address)
    assert address.url == url


def test_the_fragment_is_for_display_only() -> None:
    assert parse("https://Example.org/x#Sec 1") == Address(
        "https://example.org/x", "https://example.org/x#Sec%201", "https", "example.org", 443
    )


@given(st.text(max_size=60) | st.text(alphabet="htps:/.[]()@#?%0x127灯塔。\\ \n", max_size=60).map("http://{}".format))
def test_no_string_raises(written: str) -> None:
    assert isinstance(parse(written), Address | Failure)


SPELLINGS = {
    "2130706433": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "0x7f.0.0.1": "127.0.0.1",
    "0177.0.0.1": "127.0.0.1",
    "127.1": "127.0.0.1",
    "127.0.1": "127.0.0.1",
    "0": "0.0.0.0",
    "0x": "0.0.0.0",
    "10.0.0.1": "10.0.0.1",
    "①②⑦.⓪.⓪.①": "127.0.0.1",
    "１２７.0.0.1": "127.0.0.1",
    "127。0。0。1": "127.0.0.1",
    "%31%32%37.0.0.1": "127.0.0.1",
    "3232235777": "192.168.1.1",
}


@pytest.mark.parametrize("host", SPELLINGS)
def test_every_spelling_of_an_ip_address_is_that_address(host: str) -> None:
    address = parse(f"http://{host}/")
    assert isinstance(address, Address)
    assert address.host == SPELLINGS[host]


def test_what_no_browser_reads_as_an_ip_address_is_none() -> None:
    assert [ipv4(h) for h in ("256.1.1.1", "1.2.3.4.5", "08.1.1.1", "1.2.3.256", "4294967296", "x", "1..2")] == [
        None
    ] * 7


NOT_PUBLIC = """
    127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
    100.64.0.1 100.127.255.255 192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 ::1 :: ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
    64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1:: 2002:c0a8:101:: 2002:a00:1::1 2001::1 2001:db8::1
    3fff::1 5f00::1 100::1 fc00::1 fd00::1 fe80::1 fec0::1 ff02::1 ff0e::1 2606:4700::5efe:10.0.0.1
    2606:4700::200:5efe:127.0.0.1 4000::1
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.1 172.32.0.1 192.167.255.255 198.20.0.1 223.255.255.255
    2606:4700::1111 2001:4860:4860::8888 64:ff9b::808:808 ::ffff:8.8.8.8 2002:808:808::1 2400:3200::1
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_what_is_not_the_public_internet_is_known(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
