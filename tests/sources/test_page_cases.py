"""The kinds of cases P01 to P09 of pages, in words of our own: one table, kind -> what comes of it.

`make bench-web` prints it. Everything goes the whole way from an address to a page, over servers on loopback.
"""

from __future__ import annotations

import gzip
import io
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sources.loopback import Reply, Site, open_gate, raw
from venus_edge.sources.address import Address, parse
from venus_edge.sources.cache import Cache
from venus_edge.sources.gate import Gate
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.web import Web
from venus_edge.tools.evidence import GAP, ExtractiveReader, shown
from venus_edge.values import Failure, Page, Trouble

ZH = "<p>岬角灯塔建于光绪年间，塔身高三十七米，灯光射程二十二海里，由港务局看守。</p>" * 3
JA = "<p>岬の灯台は明治時代に建てられ、塔の高さは三十七メートルである。①㈱髙島</p>" * 3
TAIWAN = "<p>岬角燈塔建於光緒年間，塔身高三十七公尺，燈光射程二十二海里，由港務局看守。</p>" * 3
KO = "<p>곶의 등대는 1907년에 세워졌고 높이는 서른일곱 미터이다. 똠방각하</p>" * 3
EN = "<p>The light on the cape was built under the last keeper's father and stands thirty-seven metres high.</p>" * 4


def say(outcome: Page | Failure) -> str:
    """A page by its note, a failure by its kind and reason."""
    if isinstance(outcome, Page):
        return f"read{' (' + outcome.note + ')' if outcome.note else ''}"
    return outcome.detail


@dataclass(frozen=True, slots=True)
class Served:
    """A page on loopback, and what must be in its text (or must not)."""

    body: bytes
    content_type: str = "text/html"
    there: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    path: str = "/page"

    def __call__(self) -> str:
        with Site() as site, tempfile.TemporaryDirectory() as home, Cache(Path(home)) as cache:
            site.pages[self.path] = Reply(self.body, 200, {"Content-Type": self.content_type})
            outcome = Web(Fetcher(open_gate(), Limits(seconds=20)), cache).open(site.url(self.path))
        if isinstance(outcome, Page):
            lost = [text for text in self.there if text not in outcome.text.replace("{site}", "")]
            kept = [text for text in self.absent if text in outcome.text]
            if lost or kept:
                return f"lost {lost}, kept {kept}: {outcome.text[:300]!r}"
        return say(outcome)


def page(head: str, body: str, encoding: str = "utf-8") -> bytes:
    return f"<html><head>{head}</head><body>{body}</body></html>".encode(encoding)


def article(inside: str) -> bytes:
    return page("<title>Cape</title>", f"<article>{EN}{inside}</article>")


def pdf(text: str) -> bytes:
    """The smallest PDF with a line of text."""
    stream = f"BT /F1 18 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Root 1 0 R/Size 6>>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 6\n0000000000 65535 f \n" + table + end


def docx(text: str) -> bytes:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{space}">{body}</w:document>')
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Sent:
    """A server that sends exactly these bytes and hangs up: what is read, and whether it is kept as the page."""

    headers: str
    wire: bytes
    repeat: bool = False

    def chunks(self) -> Iterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{self.headers}\r\n".encode()
        yield self.wire
        while self.repeat:
            yield self.wire

    def __call__(self) -> str:
        with raw(self.chunks) as url, tempfile.TemporaryDirectory() as home, Cache(Path(home)) as cache:
            outcome = Web(Fetcher(open_gate(), Limits(seconds=20)), cache).open(url)
            return f"{say(outcome)}; {'kept' if cache.keys() else 'not kept'}"


def drips() -> str:
    """A server that sends a byte and another and another."""

    def drops() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"1\r\nx\r\n"
            time.sleep(0.1)

    with raw(drops) as url:
        began = time.monotonic()
        outcome = Web(Fetcher(open_gate(), Limits(seconds=1.0))).open(url)
        late = time.monotonic() - began > 5
    return "late" if late else outcome.trouble.value if isinstance(outcome, Failure) else say(outcome)


HTML = EN.encode()
PACKED = gzip.compress(page("", EN + "".join(f"<p>{n * n} is the square of {n}.</p>" for n in range(900))))
DEFLATED = zlib.compress(page("", EN))[2:-4]
MARKED = "read (incomplete: the body is cut or larger than what is read); not kept"
SHORT = "read (incomplete: the connection was cut); not kept"

PRIVATE = """
http://127.0.0.1/ http://127.8.9.10:8000/x http://localhost:631/ http://LocalHost./ http://app.localhost/
http://0.0.0.0/ http://0/ http://2130706433/ http://017700000001/ http://0x7f000001/ http://0x7F.1/ http://127.0.1/
http://①②⑦.⓪.⓪.①/ http://１９２.１６８.１.１/ http://10。1。2。3/ http://%31%32%37.0.0.1/ http://[::1]:80/
http://[0:0:0:0:0:0:0:1]/ http://[::]/ http://[::ffff:10.0.0.5]/ http://[::ffff:7f00:1]/ http://[::127.0.0.1]/
http://[64:ff9b::c0a8:101]/ http://[64:ff9b:1::1]/ http://[2002:a00:1::]/ http://[2002:7f00:1::1]/ http://[fe80::1]/
http://[fe80::1%25eth0]/ http://[fc00::2]/ http://[fdab::1]/ http://[ff02::1]/ http://[fec0::1]/ http://[2001::1]/
http://[2001:db8::5]/ http://[100::1]/ http://[2606:4700::5efe:10.0.0.1]/ http://10.1.2.3/ http://172.16.9.9/
http://172.31.0.1/ http://192.168.0.254/setup http://169.254.169.254/latest/user-data http://169.254.1.1/
http://100.64.1.1/ http://100.127.255.254/ http://192.0.0.1/ http://192.0.2.5/ http://198.18.0.5/ http://198.51.100.7/
http://203.0.113.9/ http://224.0.0.251/ http://239.1.1.1/ http://240.0.0.1/ http://255.255.255.255/ http://3232235521/
http://0xC0A80001/ http://0300.0250.0.1/ http://router.lan/ http://printer.local/ http://nas.home/ http://wiki.corp/
http://metadata.google.internal/ http://db.internal:5432/ http://intranet/ http://host.docker.internal/
http://x.home.arpa/ http://u:p@10.0.0.1/ http://1.1.1.1@10.0.0.1/ https://192.168.1.1:8443/ http://hidden.onion/
"""
NO_WEB = "file:///etc/hosts FILE:/etc/hosts ftp://example.org/a gopher://example.org/ data:text/plain,x javascript:1 ws://a.b/"


def refused(addresses: str) -> Callable[[], str]:
    """How many are refused, with nothing resolved."""

    def outcome() -> str:
        web = Web(Fetcher(Gate(resolver=lambda host, port: pytest.fail(f"{host} was resolved")), Limits(seconds=5)))
        outcomes = {url: web.open(url) for url in addresses.split()}
        let = [u for u, o in outcomes.items() if not (isinstance(o, Failure) and o.trouble is Trouble.BAD_ADDRESS)]
        return f"let through: {let}" if let else "all refused"

    return outcome


def redirected(target: str) -> Callable[[], str]:
    def outcome() -> str:
        with Site() as site, Site() as inside:
            site.pages["/"] = Reply(status=302, headers={"Location": target.format(inside.port)})
            found = Web(Fetcher(open_gate(f"127.0.0.1:{site.port}"), Limits(seconds=5))).open(site.url("/"))
            assert inside.asked == []
            return found.trouble.value if isinstance(found, Failure) else "read"

    return outcome


MEANT = {
    "see (https://example.net/a_(b)).": None,
    "(https://example.net/a_(b)).": "https://example.net/a_(b)",
    '[灯塔](https://example.net/灯塔_(法国) "t")': "https://example.net/%E7%81%AF%E5%A1%94_(%E6%B3%95%E5%9B%BD)",
    "<https://example.net/x>;": "https://example.net/x",
    "https://example.net/路径。": "https://example.net/%E8%B7%AF%E5%BE%84",
    "https://example.cn的开放时间": None,
    "www.example.net/a": "https://www.example.net/a",
    "https://example.net/a b?q=c d#e": "https://example.net/a%20b?q=c%20d",
    "https://münchen.example/": "https://xn--mnchen-3ya.example/",
    "HTTP://Example.NET:80/%7Ea": "http://example.net/%7Ea",
    "https:/example.net": "https://example.net/",
    "https://example.net:123456/": None,
    "https://a..example.net/": None,
    "the second result": None,
}


def meant() -> str:
    found = {written: parse(written) for written in MEANT}
    wrong = {
        w: a for w, a in found.items() if (a.url if isinstance(a, Address) else None) != MEANT[w] and w[:3] != "see"
    }
    return f"wrong: {wrong}" if wrong else "as it was meant"


def circle() -> str:
    with Site() as site:
        site.pages["/a"] = Reply(status=301, headers={"Location": "/b"})
        site.pages["/b"] = Reply(status=302, headers={"Location": "/a"})
        return say(Web(Fetcher(open_gate(), Limits(seconds=5))).open(site.url("/a")))


def long_page(fact: str, goal: str, filler: str) -> Callable[[], str]:
    """A fact in the middle of a page of a million characters."""

    def outcome() -> str:
        half = "\n\n".join(f"{filler} ({n})" for n in range(500_000 // len(filler)))
        found = Page("https://example.net/", "", f"{half}\n\n{fact}\n\n{half}", "0")
        read = ExtractiveReader().read(found, goal)
        verbatim = all(quote in shown(found).text for quote in read.evidence.split(GAP))
        return f"{'found' if fact in read.evidence else 'lost'}, {'verbatim' if verbatim else 'invented'}"

    return outcome


DEEP = page("<title>Deep</title>", "<div>" * 3000 + EN + "</div>" * 3000)
STATE = (
    '<script id="__NEXT_DATA__" type="application/json">{"a":{"body":"'
    + "The lamp was lit in the war. " * 12
    + '"}}</script>'
)
TABLE: list[tuple[str, str, Callable[[], str], str]] = [  # case, kind, what is done, what comes of it
    (
        "P01",
        "gb2312 that is GB18030",
        Served(page("<meta charset=gb2312>", ZH + "镕喆㐂", "gb18030"), there=("镕喆㐂",)),
        "read",
    ),
    (
        "P01",
        "header says utf-8, bytes are GBK",
        Served(page("<meta charset=gbk>", ZH, "gbk"), "text/html; charset=utf-8", ("岬角灯塔",)),
        "read",
    ),
    ("P01", "nothing says that it is Big5", Served(page("", TAIWAN, "big5"), there=("燈塔",)), "read"),
    (
        "P01",
        "Shift_JIS that is cp932",
        Served(page("<meta charset=Shift_JIS>", JA, "cp932"), there=("㈱髙島",)),
        "read",
    ),
    ("P01", "EUC-JP by its bytes", Served(page("", JA.replace("①㈱髙島", ""), "euc-jp"), there=("灯台",)), "read"),
    ("P01", "euc-kr that is cp949", Served(page("<meta charset=euc-kr>", KO, "cp949"), there=("똠방각하",)), "read"),
    (
        "P01",
        "windows-1251 by its bytes",
        Served(
            page("", "<p>Маяк на мысе построен в прошлом веке, высота башни тридцать семь метров.</p>" * 3, "cp1251"),
            there=("Маяк на мысе",),
        ),
        "read",
    ),
    (
        "P01",
        "latin-1 is windows-1252",
        Served(
            page("", "<p>“cape” – 7 €, naïve café</p>", "cp1252"), "text/html; charset=iso-8859-1", ("“cape” – 7 €",)
        ),
        "read",
    ),
    (
        "P01",
        "mark before everything",
        Served(b"\xff\xfe" + page("<meta charset=gbk>", ZH).decode().encode("utf-16-le"), there=("岬角灯塔",)),
        "read",
    ),
    (
        "P01",
        "UTF-8 cut in a character",
        Served(page("<meta charset=utf-8>", ZH) + b"\xe7\x81", there=("岬角灯塔",)),
        "read",
    ),
    (
        "P01",
        "a charset that is none",
        Served(page("<meta charset='utf-8; ie=edge'>", EN), "text/html; charset=utf8mb4", ("thirty-seven",)),
        "read",
    ),
    (
        "P02",
        "a PDF called .html, sent as text/html",
        Served(
            pdf("The light of the cape has a range of 22 nautical miles, says the list of lights of 1911"),
            "text/html",
            ("The light of the cape has a range of 22 nautical miles, says the list of lights of 1911",),
            path="/a.html",
        ),
        "read",
    ),
    (
        "P02",
        "a PDF without a suffix or type",
        Served(
            pdf("The light of the cape has a range of 22 nautical miles, says the list of lights of 1911"),
            "application/octet-stream",
            ("The light of the cape has a range of 22 nautical miles, says the list of lights of 1911",),
            path="/a",
        ),
        "read",
    ),
    ("P02", "HTML called .pdf", Served(article(""), "application/pdf", ("thirty-seven",), path="/a.pdf"), "read"),
    ("P02", "DOCX as octets", Served(docx("灯塔高三十七米"), "application/octet-stream", ("灯塔高三十七米",)), "read"),
    ("P02", "JSON", Served(b'{"height": 37, "name": "\\u706f\\u5854"}', "application/json", ("37", "灯塔")), "read"),
    (
        "P02",
        "a picture",
        Served(b"\x89PNG\r\n\x1a\n" + bytes(64), "text/html"),
        "page could not be read: it is an image, which is not read",
    ),
    (
        "P02",
        "an archive",
        Served(gzip.compress(b"x" * 999), "application/octet-stream"),
        "page could not be read: it is an archive, which is not read",
    ),
    (
        "P03",
        "table beside the article",
        Served(
            article("<table><tr><th>Year<th>mm</tr><tr><td>1911<td>6911</tr></table>"),
            there=("1911", "6911"),
            absent=("19116911",),
        ),
        "read",
    ),
    (
        "P03",
        "list of names",
        Served(article("<ul><li>Ouessant<li>Sein<li>Groix</ul>"), there=("Ouessant", "Sein", "Groix")),
        "read",
    ),
    (
        "P03",
        "references with addresses",
        Served(
            article("<ol><li><a href='https://example.net/r7'>Reference seven</a></ol>"),
            there=("Reference seven", "https://example.net/r7"),
        ),
        "read",
    ),
    (
        "P03",
        "a page that is an index of links",
        Served(
            page(
                "<title>Index</title>",
                "<main><ul>"
                + "".join(f"<li><a href='/p{n}'>Paper {n} on lamps</a>" for n in range(15))
                + "</ul></main>",
            ),
            there=("Paper 9 on lamps",),
        ),
        "read",
    ),
    (
        "P03",
        "answers of a forum",
        Served(
            page(
                "<title>Q</title>",
                "<div class=post>How high?</div>"
                + "".join(
                    f"<div class=comment><p>Reply {n}: it is {30 + n} metres, says volume {n}.</p></div>"
                    for n in range(5)
                ),
            ),
            there=("How high", "Reply 3"),
        ),
        "read",
    ),
    (
        "P03",
        "text in a form",
        Served(page("", f"<article>{EN}<form><p>Lit in 1907, range 22 miles.</p></form></article>"), there=("1907",)),
        "read",
    ),
    (
        "P03",
        "code as it stands",
        Served(
            article("<pre><code>def lamp(t):\n    return t % 5\n</code></pre>"),
            there=("def lamp(t):\n    return t % 5",),
        ),
        "read",
    ),
    (
        "P03",
        "date in JSON-LD only",
        Served(
            page(
                '<script type="application/ld+json">{"@type":"Article","datePublished":"2019-05-06"}</script>',
                f"<article>{EN}</article>",
            ),
            there=("2019-05-06",),
        ),
        "read",
    ),
    (
        "P04",
        "needs JavaScript",
        Served(
            page(
                "<title>App</title>", "<noscript>Please enable JavaScript to use this app.</noscript><div id=app></div>"
            )
        ),
        "page could not be read: needs JavaScript",
    ),
    (
        "P04",
        "needs JavaScript, text in its state",
        Served(page("<title>App</title>", f"<div id=app></div>{STATE}"), there=("The lamp was lit",)),
        "read (text taken from the page's own data)",
    ),
    (
        "P04",
        "consent wall",
        Served(
            page(
                "<title>Before you go on</title>",
                "<h1>Your privacy</h1>"
                + "<p>We and our 611 partners keep cookies on your device for personalised ads.</p>" * 3
                + "<button>Accept all</button>",
            )
        ),
        "page could not be read: consent wall",
    ),
    (
        "P04",
        "not found with status 200",
        Served(
            page(
                "<title>404 - Page not found</title>",
                "<h1>Page not found</h1><p>The page you were looking for does not exist.</p>",
            )
        ),
        "page could not be read: not found",
    ),
    (
        "P04",
        "not found in Chinese",
        Served(page("<title>页面不存在</title>", "<h1>404</h1><p>抱歉，您访问的页面不存在或已被删除。</p>")),
        "page could not be read: not found",
    ),
    (
        "P04",
        "bot check",
        Served(page("<title>Just a moment...</title>", "<p>Verifying you are human. This may take a few seconds.</p>")),
        "page could not be read: bot check",
    ),
    (
        "P04",
        "login",
        Served(
            page("<title>Log in</title>", "<form><p>Sign in to continue.</p><input name=u><input type=password></form>")
        ),
        "page could not be read: login",
    ),
    (
        "P04",
        "an article about 404 pages",
        Served(
            page(
                "<title>A history of Page not found</title>",
                "<article>"
                + "<p>The words page not found came with every missing document, and became a small art.</p>" * 6
                + "</article>",
            ),
            there=("small art",),
        ),
        "read",
    ),
    ("P05", "3,000 levels deep", Served(DEEP, there=("thirty-seven",)), "read"),
    (
        "P05",
        "NUL, controls, lone surrogates",
        Served(
            article("<p>be\x00fore\x07 af\x1bter &#xD800;</p>"),
            there=("before after",),
            absent=("\x00", "\x07", "\x1b"),
        ),
        "read",
    ),
    (
        "P05",
        "unclosed tags by the thousand",
        Served(page("", EN + "<b><i><a href=x>" * 4000), there=("thirty-seven",)),
        "read",
    ),
    (
        "P06",
        "gzip: 300 MB out of 0.3",
        Sent("Content-Encoding: gzip\r\n", gzip.compress(b"\0" * 300_000_000, 1)),
        "page could not be read: it is a binary file, which is not read; not kept",
    ),
    (
        "P06",
        "gzip cut short",
        Sent(f"Content-Encoding: gzip\r\nContent-Length: {len(PACKED) - 700}\r\n", PACKED[:-700]),
        MARKED,
    ),
    (
        "P06",
        "says gzip and is not",
        Sent(f"Content-Encoding: gzip\r\nContent-Length: {len(HTML)}\r\n", HTML),
        "read; kept",
    ),
    (
        "P06",
        "an encoding that is none",
        Sent(f"Content-Encoding: UTF-8\r\nContent-Length: {len(HTML)}\r\n", HTML),
        "read; kept",
    ),
    (
        "P06",
        "deflate without its header",
        Sent(f"Content-Encoding: deflate\r\nContent-Length: {len(DEFLATED)}\r\n", DEFLATED),
        "read; kept",
    ),
    (
        "P06",
        "chunks without an end",
        Sent("Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n" % (len(HTML), HTML)),
        SHORT,
    ),
    ("P06", "shorter than it says", Sent("Content-Length: 99999\r\n", HTML), SHORT),
    (
        "P06",
        "endless zeros",
        Sent("", bytes(65536), repeat=True),
        "page could not be read: it is a binary file, which is not read; not kept",
    ),
    (
        "P06",
        "endless text",
        Sent("", EN.encode() * 99, repeat=True),
        "read (incomplete: only the first 10 MB were read); not kept",
    ),
    ("P06", "a byte now and then", drips, "timed out or unreachable"),
    ("P07", f"{len(PRIVATE.split())} spellings of private addresses", refused(PRIVATE), "all refused"),
    ("P07", "what is not the web", refused(NO_WEB), "all refused"),
    ("P07", "a redirect to this machine", redirected("http://127.0.0.1:{}/"), "address not allowed"),
    ("P07", "a redirect to it in hex", redirected("http://0x7f.1:{}/"), "address not allowed"),
    ("P07", "a redirect to a file", redirected("file:///etc/hosts"), "address not allowed"),
    ("P08", "addresses as models write them", meant, "as it was meant"),
    ("P09", "redirects in a circle", circle, "page could not be read: it redirects in a circle"),
    (
        "P09",
        "a fact in a million characters",
        long_page(
            "The lens of the lamp weighs 312 kilograms.",
            "weight of the lens",
            "Sheep graze on the cliffs and the road is narrow.",
        ),
        "found, verbatim",
    ),
    (
        "P09",
        "the same in Chinese",
        long_page("灯塔的透镜重达三百一十二公斤。", "灯塔透镜的重量", "悬崖上有羊群吃草，道路狭窄而曲折。"),
        "found, verbatim",
    ),
]


@pytest.mark.parametrize(("case", "kind", "done", "expected"), TABLE, ids=[f"{row[0]} {row[1]}" for row in TABLE])
def test_each_kind_comes_out_right(case: str, kind: str, done: Callable[[], str], expected: str) -> None:
    assert done() == expected
