"""A page's text is all there, with its structure; what is not the page is said to be what it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_edge.sources.extract import Extracted, extract
from venus_edge.sources.markdown import plain, safe
from venus_edge.values import Failure, Trouble

URL = "https://example.org/dir/page"
PAGES_DIR = Path(__file__).with_name("pages")
PARA = (
    "<p>The tide gauge at the harbour was installed by the port engineers and its daily ledger, kept in ink for more"
    " than a century, records mean sea level, storm surges, and repairs in detail, including the long interruption.</p>"
)
ZH = "<p>港口的验潮站由港务工程师安装，其每日台账用墨水记录了一个多世纪，详细记载了平均海平面、风暴潮和维修情况。</p>"


def html(body: str, head: str = "<title>Gauge</title>") -> bytes:
    return f"<html><head>{head}</head><body>{body}</body></html>".encode()


def read(body: str, head: str = "<title>Gauge</title>") -> str:
    extracted = extract(html(body, head), URL, "text/html; charset=utf-8")
    assert isinstance(extracted, Extracted), extracted
    return extracted.text


def test_a_page_with_every_structure_is_read_whole() -> None:
    page = """
    <nav><a href=/>Home</a></nav><article><h1>Gauge</h1>
    <p>First <b>bold</b> line,<br>second&nbsp;line with <a href="../a?b=1#c">a link</a>, <code>x = 1</code>
    and&#146;s.</p>
    <h2>List</h2><ul><li>one<ul><li>deep</li></ul></li><li><p>two</p></li></ul><ol start=3><li>three<li>four</ol>
    <blockquote><p>Said once.</p></blockquote>
    <dl><dt>Height</dt><dd>41 m</dd></dl>
    <table><caption>Levels</caption><tr><th>Year</th><th>mm</th></tr><tr><td rowspan=2>1990</td><td>6940 | a</td></tr>
    <tr><td>6941</td></tr><tr><td colspan=2>all</td></tr></table>
    <pre><code>def level(t):
    return a * cos(t)
</code></pre>
    <figure><img src=x.png><figcaption>The gauge in 1916.</figcaption></figure></article>
    <footer>Imprint</footer><script>alert(1)</script><style>p{}</style>"""
    assert read(page) == (
        "# Gauge\n\n"
        "First bold line,\nsecond line with [a link](https://example.org/a?b=1#c), `x = 1` and’s.\n\n"
        "## List\n"
        "- one\n  - deep\n- two\n3. three\n4. four\n\n"
        "> Said once.\n\n"
        "Height\n: 41 m\n\n"
        "Levels\n\n"
        "| Year | mm |\n| --- | --- |\n| 1990 | 6940 \\| a |\n|  | 6941 |\n| all |  |\n\n"
        "```\ndef level(t):\n    return a * cos(t)\n```\n\n"
        "The gauge in 1916."
    )


ABOUT = {
    "en": ("utf-8", "Tide gauge of Port Kerrow - Harbour Archive", "Ines Morvan"),
    "zh": ("gb18030", "克罗港验潮站_港口档案", "莫凡"),
}


@pytest.mark.parametrize("language", ABOUT)
def test_the_extract_of_a_page_with_every_structure_is_the_committed_one(language: str) -> None:
    charset, title, author = ABOUT[language]
    page = (PAGES_DIR / f"structures.{language}.html").read_text("utf-8").encode(charset)
    text, rest = (PAGES_DIR / f"structures.{language}.md").read_text("utf-8").rstrip("\n").split("\n<!-- rest -->\n")
    assert extract(page, URL, "text/html") == Extracted(title, text, "2021-03-04", author, rest=rest)


TABLE = "<table><tr><th>Year</th><th>Level (mm)</th></tr>" + "".join(
    f"<tr><td>{y}</td><td>{6900 + y % 50}</td></tr>" for y in range(1990, 2000)
)
KEPT: dict[str, tuple[str, list[str], list[str]]] = {  # name: (body, what must be there, what must not)
    "short list": (f"<article>{PARA * 2}<ul><li>Brest</li><li>Cadiz</li></ul>{PARA}</article>", ["Brest", "Cadiz"], []),
    "numbered list": (
        f"<article>{PARA * 2}<ol><li>Brest</li><li>Cadiz</li></ol></article>",
        ["1. Brest", "2. Cadiz"],
        [],
    ),
    "side table": (
        f"<div><div class=entry>{PARA * 3}</div><div class=wrap>{TABLE}</table></div></div>",
        ["| 1994 | 6944 |"],
        [],
    ),
    "table alone": (f"<div id=content><h1>Gauge</h1>{TABLE}</table></div>", ["| 1990 | 6940 |"], ["19906940"]),
    "link table": (
        f"<article>{PARA * 3}<table>"
        + "".join(f"<tr><td><a href=/s{i}>Station {i}</a></td><td>{1800 + i}</td></tr>" for i in range(8))
        + "</table></article>",
        ["[Station 3](https://example.org/s3) | 1803"],
        [],
    ),
    "infobox": (
        f"<div id=content><table class=infobox><tr><th>Height</th><td>41 m</td></tr></table>{PARA * 4}</div>",
        ["Height", "41 m"],
        [],
    ),
    "references": (
        f"<article>{PARA * 3}<ul>"
        + "".join(f"<li><a href='https://example.com/r{i}'>Reference {i}</a></li>" for i in range(8))
        + "</ul></article>",
        ["[Reference 3](https://example.com/r3)"],
        [],
    ),
    "link index": (
        "<div id=main><h2>Publications</h2><ul>"
        + "".join(f"<li><a href='/p{i}'>Paper {i}: on tides</a></li>" for i in range(12))
        + "</ul></div>",
        ["Paper 0", "Paper 7", "Paper 11"],
        [],
    ),
    "forum": (
        "<div class=question><p>Which year?</p></div>"
        + "".join(f"<div class=comment><p>Answer {i}: it was 18{i:02d}, says volume {i}.</p></div>" for i in range(6)),
        ["Which year", "Answer 0", "Answer 4"],
        [],
    ),
    "text in a form": (f"<article>{PARA * 3}<form><p>Lamp lit 1916.</p></form></article>", ["1916"], []),
    "a page in a form": (f"<form><input name=q>{PARA * 4}<p>Lamp lit 1916.</p></form>", ["1916"], []),
    "code": (f"<article>{PARA}<pre>if a:\n    b()\n\n    c()</pre>{PARA}</article>", ["if a:\n    b()\n\n    c()"], []),
    "accordion": (
        f"<main>{PARA}<h3><button aria-expanded=false>How high?</button></h3><p>41 m</p></main>",
        ["How high?"],
        [],
    ),
    "definition list": (f"<article>{PARA * 2}<dl><dt>Range<dd>22 miles</dl></article>", ["Range", "22 miles"], []),
    "details": (
        f"<article>{PARA * 2}<details><summary>More</summary><p>Lit 1916</p></details></article>",
        ["Lit 1916"],
        [],
    ),
    "boilerplate": (
        "<nav><a href=/>Home</a></nav><div class=cookie-banner><p>We use cookies.</p></div>"
        f"<main>{PARA * 4}</main><aside>Related stories</aside><footer>Imprint</footer>"
        "<p hidden>secret</p><p style='display: none'>invisible</p><div aria-hidden=true>icon</div>",
        ["tide gauge"],
        ["Home", "cookies", "Related", "Imprint", "secret", "invisible", "icon"],
    ),
    "Chinese": (
        f"<div class=content>{ZH * 3}<table><tr><td>年份</td><td>水位</td></tr></table></div>",
        ["| 年份 | 水位 |"],
        [],
    ),
}


KEPT |= {
    "hidden until a script runs": (
        f"<div style='visibility: hidden'><article>{PARA * 3}<p>Lit 1916.</p></article></div>",
        ["Lit 1916"],
        [],
    ),
    "sent in parts": (
        "<main><h1>Lamp</h1><template id='P:1'></template><p>After.</p>"
        f"{PARA * 3}</main><div hidden id='S:1'><p>Before.</p></div>",
        ["Before.\n\nAfter."],
        [],
    ),
    "misnamed": (
        "".join(f"<div class=content-nav-section>{PARA}<p>Part {n}.</p></div>" for n in range(4)),
        ["Part 0.", "Part 3."],
        [],
    ),
    "a menu before the title": (
        "<div><ul>" + "".join(f"<li><a href=/{n}>Topic {n}</a></li>" for n in range(80)) + "</ul></div>"
        f"<div><h1>Lamp</h1>{PARA * 3}</div>",
        ["tide gauge"],
        ["Topic 7"],
    ),
    "a footer of links": (
        f"<main>{PARA}</main><footer>" + "".join(f"<a href=/{n}>Imprint {n} of the harbour</a>" for n in range(99)),
        ["tide gauge"],
        ["Imprint"],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_readers_lose_is_kept(name: str) -> None:
    body, there, absent = KEPT[name]
    text = read(body)
    assert [s for s in there if s not in text] == []
    assert [s for s in absent if s in text] == []


def test_what_a_page_carries_twice_is_read_once_and_code_and_tables_as_they_are() -> None:
    row, code = (
        "<tr><td>the lamp of the lighthouse was lit</td><td>in that year</td></tr>",
        "x = the_same_line_of_code()",
    )
    text = read(
        f"<main>{PARA * 3}<table>{row * 3}</table><pre>{code}\n{code}  # and more of it here\n{code}</pre></main>"
    )
    assert text.count("tide gauge") == 1
    assert text.count("| the lamp of the lighthouse") == 3
    assert text.count("x = the_same") == 3


def test_what_stands_beside_the_article_is_kept_apart_from_it() -> None:
    """The full form has all that a reader sees; notices, and what stands in the main text already, are not repeated."""
    links = "".join(f"<li><a href=/t{n}>Topic {n}</a></li>" for n in range(4))
    page = html(
        f"<nav><ul>{links}</ul></nav><div class=cookie-banner>We use cookies on this page.</div>"
        f"<div><div class=entry>{PARA * 9}</div><div class=teaser><p>Also read: the other lamp.</p></div></div>"
        f"<aside><table><tr><td>Height</td><td>41 m</td></tr></table>{PARA}</aside>"
    )
    extracted = extract(page, URL)
    assert isinstance(extracted, Extracted)
    assert extracted.text.count("tide gauge") == 1
    assert extracted.full == f"{extracted.text}\n\n{extracted.rest}"
    assert extracted.full.count("tide gauge") == 1
    assert [s for s in ("Topic 3", "the other lamp", "| Height | 41 m |") if s not in extracted.full] == []
    assert "| Height" in extracted.rest
    assert "cookies" not in extracted.full


DATES = {
    '<script type=\'application/ld+json\'>{"datePublished":"2021-03-04T10:00:00Z"}</script>': "2021-03-04",
    '<script type="application/ld+json">{"@graph":[{"datePublished":"2021-3-4"}]}</script>': "2021-03-04",
    '<meta property="article:published_time" content="2021-03-04">': "2021-03-04",
    '<meta name="DC.Date" content="2021-03">': "2021-03",
    '<meta name="pubdate" content="2021年3月4日">': "2021-03-04",
    '<script type="application/ld+json">{broken</script>': "",
    '<meta name="date" content="soon">': "",
}


@pytest.mark.parametrize("head", DATES)
def test_the_date_of_a_page_is_found_and_stands_in_its_text(head: str) -> None:
    extracted = extract(html(f"<article>{PARA * 3}</article>", head), URL)
    assert isinstance(extracted, Extracted)
    assert extracted.date == DATES[head]
    assert extracted.text.startswith(f"Published: {DATES[head]}\n\n" if DATES[head] else "The tide gauge")


SHOWN = ["2021-03-04", "March 4, 2021", "Mar. 4th 2021", "4 March 2021", "04.03.2021", "3/4/2021", "2021年3月4日"]


@pytest.mark.parametrize("shown", [*SHOWN, "4. März 2021", "4 de marzo de 2021"])
def test_a_date_that_the_text_shows_is_not_added(shown: str) -> None:
    head = '<meta property="article:published_time" content="2021-03-04">'
    assert not read(f"<article><p>{shown}</p>{PARA * 3}</article>", head).startswith("Published")
    assert read(f"<article><p>1{shown}1</p>{PARA * 3}</article>", head).startswith("Published")


def test_links_are_relative_to_the_base_of_the_page() -> None:
    text = read(f'{PARA * 2}<p>See <a href="b">there</a>.</p>', '<title>x</title><base href="/base/">')
    assert "[there](https://example.org/base/b)" in text


LINKS = {
    '<a href="#top">x</a>': "x",
    '<a href="javascript:go()">x</a>': "x",
    '<a href="mailto:a@b.co">x</a>': "x",
    '<a href="http://[bad">x</a>': "x",
    '<a href=" /a b ">x</a>': "[x](https://example.org/a%20b)",
    '<a href="/k_(l)">x</a>': "[x](https://example.org/k_(l))",
    '<a href="/k)">x</a>': "[x](https://example.org/k%29)",
    '<a href="https://example.org/">https://example.org/</a>': "<https://example.org/>",
    '<a href="/a"><p>block</p></a>': "block",
    '<a href="/a"><img src=x></a>y': "y",
}


@pytest.mark.parametrize("link", LINKS)
def test_links_are_written_with_their_absolute_address(link: str) -> None:
    assert read(f"<article>{PARA * 3}<div>{link}</div></article>").split("\n\n")[-1] == LINKS[link]


# -- not the page ----------------------------------------------------------------------------------------------------

CONSENT = (
    "<p>We and our 842 partners store and access information on a device, such as cookies, and process personal data"
    " for personalised ads and content measurement.</p>"
)
INSTEAD: dict[str, tuple[str, str, str]] = {  # name: (title, body, what stands there)
    "js": (
        "App",
        "<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>",
        "needs JavaScript",
    ),
    "js, Chinese": ("应用", "<noscript>请启用 JavaScript 后继续。</noscript><div id=app></div>", "needs JavaScript"),
    "js, in the body": ("App", "<p>JavaScript is required to view this page.</p>", "needs JavaScript"),
    "consent": (
        "Before you continue",
        f"<h1>We value your privacy</h1>{CONSENT * 3}<button>Accept all</button>",
        "consent wall",
    ),
    "consent, German": (
        "Zeitung",
        "<h1>Datenschutzeinstellungen</h1><p>Mit Ihrer Einwilligung nutzen wir Cookies und personenbezogene Daten.</p>"
        "<button>Alle akzeptieren</button>",
        "consent wall",
    ),
    "an error of the server": ("Error", "<p>500 Internal Server Error</p>", "error page"),
    "an error of the server, Chinese": ("提示", "<p>系统繁忙，请稍后再试。</p>", "error page"),
    "consent, Chinese": (
        "隐私设置",
        "<p>我们和合作伙伴使用 Cookie 处理您的个人信息。</p><p>点击同意即表示接受广告。</p>",
        "consent wall",
    ),
    "404": (
        "Page not found | Harbour Museum",
        "<main><h1>404</h1><p>Sorry, it could not be found.</p></main>",
        "not found",
    ),
    "404, in its heading": (
        "Harbour Museum",
        "<h1>Oops! That page can’t be found.</h1><p>Try a search.</p>",
        "not found",
    ),
    "404, Chinese": ("港口博物馆", "<h1>抱歉，您访问的页面不存在</h1><p>返回首页</p>", "not found"),
    "404, French": ("Page introuvable", "<p>Désolé.</p>", "not found"),
    "404, Japanese": ("404", "<p>お探しのページが見つかりません。</p>", "not found"),
    "bot": (
        "Just a moment...",
        "<p>Checking your browser. Enable JavaScript and cookies to continue.</p>",
        "bot check",
    ),
    "bot, denied": ("Access Denied", "<p>You don't have permission to access this. Reference #18</p>", "bot check"),
    "bot, Chinese": ("安全验证", "<p>请完成安全验证后继续访问</p>", "bot check"),
    "bot, captcha": ("Shop", "<p>Please solve the captcha to go on.</p>", "bot check"),
    "login": ("Sign in", "<form><p>Log in to continue reading.</p><input type=password></form>", "login"),
    "login, Chinese": ("论坛", "<p>请先登录后查看该内容</p><form><input type=password></form>", "login"),
    "login, paywall": ("The Daily", "<p>Subscribe to continue reading. Already a subscriber? Sign in.</p>", "login"),
    "error": ("502 Bad Gateway", "<center><h1>502 Bad Gateway</h1></center><hr>nginx", "error page"),
    "error, Chinese": ("提示", "<h1>服务器内部错误</h1>", "error page"),
    "parked": ("example.com", "<h1>example.com</h1><p>This domain is for sale. Buy this domain.</p>", "parked domain"),
    "empty": ("x", "<div></div>", "it shows no text"),
}

INSTEAD |= {
    "js, spinner": (
        "Tides",
        "<div id=root>Loading... please wait</div><script src=/a.js></script>",
        "needs JavaScript",
    ),
    "js, spinner, Chinese": ("潮汐", "<div id=app>加载中，请稍候…</div>", "needs JavaScript"),
    "404, of a shop": ("Shop", "<h1>We couldn't find that page</h1><p>The link may be broken.</p>", "not found"),
    "404, of a topic": ("Forum", "<p>The requested topic does not exist or has been removed.</p>", "not found"),
    "404, of a product": ("Product not found - Kerrow", "<p>Look at the others.</p>", "not found"),
    "404, of a Chinese forum": ("提示信息", "<p>抱歉，指定的主题不存在或已被删除或正在被审核</p>", "not found"),
    "404, of its author": ("", "<h2>该内容已被发布者删除</h2>", "not found"),
    "bot, in a frame": ("", "<iframe>Request unsuccessful. Incapsula incident ID: 877-33</iframe>", "bot check"),
    "bot, slider": ("购物", "<p>亲，请拖动下方滑块完成验证</p>", "bot check"),
    "bot, too often": ("访问受限", "<p>您的访问过于频繁，请输入验证码</p>", "bot check"),
    "subscribers": ("The Port", "<h1>Fees</h1><p>This article is for paid subscribers. Subscribe now.</p>", "login"),
    "subscribers, Chinese": ("港口周刊", "<h1>港口费上调</h1><p>订阅后可阅读全文</p>", "login"),
    "a failed script": ("", "<b>Fatal error</b>: Uncaught Error: Call to undefined function f()", "error page"),
    "a failed server": ("Runtime Error", "<h1>Server Error in '/' Application.</h1>", "error page"),
    "parked, free": ("kerrow.example", "<p>This Web page is parked for FREE.</p>", "parked domain"),
    "parked, empty server": (
        "Welcome to nginx!",
        "<p>If you see this page, the nginx web server is successfully installed and working.</p>",
        "parked domain",
    ),
    "parked, Chinese": ("提示", "<p>该域名尚未备案，网站暂时无法访问。</p>", "parked domain"),
}


@pytest.mark.parametrize("name", INSTEAD)
def test_what_stands_instead_of_the_page_is_named(name: str) -> None:
    title, body, instead = INSTEAD[name]
    failure = extract(html(body, f"<title>{title}</title>"), URL)
    assert failure == Failure(Trouble.UNREADABLE, f"page could not be read: {instead}")


PHRASE = (
    "<p>The phrase page not found became famous because early web servers sent it with every missing document, and"
    " designers later turned it into a small art form of its own.</p>"
)
PAGES = {
    "an article about the 404 page": ("History of the 404 page", f"<article>{PHRASE * 6}</article>"),
    "a short one": ("History of the 404 page", f"<article>{PHRASE}</article>"),
    "an article about cookies": (
        "How cookie consent came about",
        f"<article>{PARA * 2}{CONSENT * 2}{PARA * 2}</article>",
    ),
    "an article about the law of cookies": (
        "Cookie law explained",
        "<article>" + "<p>The European cookie directive asks sites for consent before they store cookies; its history"
        " began in 2002 and courts have refined it since.</p>" * 6,
    ),
    "a Chinese one": (
        "Cookie 的历史",
        "<article>"
        + "<p>欧盟的隐私指令要求网站在保存 Cookie 之前征得许可，这一规定始于二〇〇二年，广告业曾反对它。</p>" * 6,
    ),
    "an article about captchas": (
        "A history of the captcha",
        f"<article>{'<p>The captcha asks whether you are human.</p>' * 30}",
    ),
    "an article with a login in its head": (
        "Gauge",
        f"<form>Log in <input type=password></form><article>{PARA * 4}</article>",
    ),
    "an article that asks for JavaScript": (
        "Gauge",
        f"<noscript>Please enable JavaScript.</noscript><article>{PARA}</article>",
    ),
    "a very short page": ("Height", "<p>41 metres.</p>"),
    "a very short Chinese page": ("高度", "<p>四十一米。</p>"),
    "Peugeot 404": ("Peugeot 404 - Wikipedia", f"<article>{PARA * 3}</article>"),
    "room 404 of a museum": ("Room 404", f"<main><h1>Room 404</h1>{PARA * 2}</main>"),
    "an article on loading": ("Loading docks", f"<p>Loading... is what the dock is for.</p>{PARA}"),
    "an article on a removed product": (
        "The recall",
        f"<article>{PARA * 2}<p>The product was removed from sale.</p></article>",
    ),
    "an article on sliders, Chinese": (
        "滑块验证的历史",
        f"<article>{'<p>滑块验证要求用户拖动滑块，研究者记录了它的来历与争议。</p>' * 20}</article>",
    ),
    "an answer about a fatal error": (
        "Fatal error: Uncaught Error in level.php - Answers",
        f"<h1>How to read it</h1>{PARA * 4}",
    ),
    "a login howto": ("How to sign in to the archive", f"<article>{PARA * 4}</article>"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_speaks_of_such_things_is_a_page(name: str) -> None:
    title, body = PAGES[name]
    assert isinstance(extract(html(body, f"<title>{title}</title>"), URL), Extracted)


STORY = "The lamp was lit in 1916 and the keeper wrote the first line of the ledger that same evening. "
HIDDEN = {
    "JSON-LD": '<script type="application/ld+json">{"@type":"Article","articleBody":"%s"}</script>' % (STORY * 5),
    "a script's state": '<script>window.__DATA__ = {"a": [{"text": "%s"}]};</script>' % (STORY * 5),
    "application/json": '<script type="application/json">{"p": {"body": "<p>%s</p>"}}</script>' % (STORY * 5),
    "a state as a string": "<script>window.__STATE__ = JSON.parse("
    + json.dumps('{"t": "%s"}' % (STORY * 5))
    + ");</script>",
    "a variable": '<script>var pageData = {"a": {"className": "x", "text": "%s"}};</script>' % (STORY * 5),
    "React's stream": "<script>self.__next_f.push([1,"
    + json.dumps('5:["$","p",null,"%s"]\n' % (STORY * 5))
    + "])</script>",
    "markup in JSON-LD": '<script type="application/ld+json">{"articleBody":"<p>%s</p><p>b</p>"}</script>'
    % (STORY * 5),
    "a shadow root": f"<my-page><template shadowrootmode=open><p>{STORY * 5}</p></template></my-page>",
    "noscript": f"<noscript><article><p>{STORY * 8}</p></article></noscript>",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_an_empty_page_is_read_from_where_its_text_hides(name: str) -> None:
    extracted = extract(html(f"<div id=root></div>{HIDDEN[name]}"), URL)
    assert isinstance(extracted, Extracted)
    assert "The lamp was lit in 1916" in extracted.text
    assert "<p>" not in extracted.text


# -- other kinds -----------------------------------------------------------------------------------------------------


def test_plain_text_markdown_and_csv_stay_as_they_are() -> None:
    assert extract(b"# Gauge\n\n- a  b\n", URL + ".md") == Extracted("Gauge", "# Gauge\n\n- a  b", kind="markdown")
    assert extract(b"year,mm\n1990,6940\n", URL, "text/csv") == Extracted("", "year,mm\n1990,6940", kind="csv")
    assert extract("第一行\n 二".encode("gbk"), URL, "text/plain") == Extracted("第一行", "第一行\n 二", kind="plain")


def test_json_is_made_readable() -> None:
    extracted = extract(b'{"a": ["\\u706f\\u5854", 1]}', URL, "application/json")
    assert extracted == Extracted("", '{\n "a": [\n  "灯塔",\n  1\n ]\n}', kind="json")
    assert extract(b"{broken", URL, "application/json") == Extracted("", "{broken", kind="json")


def test_a_feed_is_read_item_by_item() -> None:
    feed = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><rss><channel><title>News</title>
    <item><title>Lit</title><link>https://example.org/1</link>
    <description>&lt;p&gt;In 1916 &e;&lt;/p&gt;</description></item></channel></rss>"""
    extracted = extract(feed, URL, "application/rss+xml")
    assert extracted == Extracted(
        "News", "title: News\ntitle: Lit\nlink: https://example.org/1\ndescription: In 1916", kind="xml"
    )


NAMED = {
    b"PK\x03\x04\0\0\0\0": "it is an archive, which is not read",
    b"\x89PNG\r\n\x1a\n": "it is an image, which is not read",
    b"": "it is empty",
    b" \n\t": "it is empty",
    b"\0" * 5000: "it is a binary file, which is not read",
}


@pytest.mark.parametrize("body", NAMED)
def test_what_is_not_read_is_named(body: bytes) -> None:
    assert extract(body, URL, "text/html") == Failure(Trouble.UNREADABLE, f"page could not be read: {NAMED[body]}")


# -- hostile pages ---------------------------------------------------------------------------------------------------

HOSTILE: dict[str, Callable[[], str]] = {
    "3,000 deep": lambda: "<div>" * 3000 + "The lamp was lit in 1916." + PARA,
    "30,000 deep": lambda: "<b>" * 30_000 + PARA,
    "3,000 tables deep": lambda: "<table><tr><td>" * 3000 + PARA,
    "3,000 lists deep": lambda: "<ul><li>" * 3000 + PARA,
    "20 MB of paragraphs": lambda: PARA * 95_000,
    "a table of 100,000 cells": lambda: "<table>" + "<tr><td>1<td>2" * 50_000 + "</table>",
    "a colspan of a billion": lambda: PARA * 2 + "<table><tr><td colspan=999999999 rowspan=999999999>a<td>b</table>",
    "100,000 links": lambda: PARA + "<a href=x>y</a>" * 100_000,
    "5 MB of spaces": lambda: PARA + " " * 5_000_000 + PARA,
    "5 MB of <": lambda: PARA + "<" * 5_000_000,
    "an attribute of 5 MB": lambda: f"<p title='{'x' * 5_000_000}'>{PARA}",
    "100,000 unclosed paragraphs": lambda: PARA + "<p>x" * 100_000,
    "a script of 5 MB": lambda: PARA + "<script>" + "window.a = {" * 400_000 + "</script>",
    "JSON 100,000 deep": lambda: PARA + "<script type='application/ld+json'>" + "[" * 100_000 + "</script>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_is_read_in_bounded_time(name: str) -> None:
    body = html(HOSTILE[name]())
    started = time.process_time()
    extracted = extract(body, URL, "text/html")
    assert time.process_time() - started < 15
    assert isinstance(extracted, Extracted), extracted
    assert name == "a table of 100,000 cells" or "tide gauge" in extracted.text


@given(st.binary(max_size=300) | st.text(alphabet="<>/ab =\"'&;!-?p灯\n\0", max_size=300).map(str.encode))
@settings(deadline=None)
def test_no_bytes_raise(body: bytes) -> None:
    assert isinstance(extract(body, URL, "text/html"), Extracted | Failure)


def test_what_cannot_be_seen_is_taken_out() -> None:
    assert (
        safe("a\0b\x07c\x1bd\u200be\u00adf\ufeffg\u202eh\ud800i\U000e0041j\ufffek\r\nl\u2028m") == "abcdefghijk\nl\nm"
    )
    assert safe("灯塔 é 👩‍👩‍👧 \t\n") == "灯塔 é 👩‍👩‍👧 \t\n"


def test_words_alone_are_counted() -> None:
    assert plain("[a b](https://x.example/k_(l)) | c |\n```\nd\n```").split() == ["[a", "b]", "c", "d"]
