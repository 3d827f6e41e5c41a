"""Each search service in the shape that it answers in: hits, nothing, and every way to refuse. All on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sources.loopback import Reply as Sent
from tests.sources.loopback import Site, open_gate
from venus_edge.errors import UsageError
from venus_edge.settings import Services, Settings
from venus_edge.sources.brave import Brave
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.language import named
from venus_edge.sources.provider import EMPTY, UNREACHABLE, Provider, Reply, found
from venus_edge.sources.searxng import SearXNG
from venus_edge.sources.serper import Serper
from venus_edge.sources.services import SERVICES, providers
from venus_edge.sources.tavily import Tavily
from venus_edge.sources.wikipedia import Wikipedia
from venus_edge.values import Hit, Trouble

KEY = "key-that-nobody-may-see"
PATHS = {"searxng": "/search", "serper": "/s", "brave": "/b", "tavily": "/t", "wikipedia": "/w/api.php"}
MAKE: dict[str, Callable[[Site, Gate], Provider]] = {
    "searxng": lambda site, gate: SearXNG(gate, site.url("/")),
    "serper": lambda site, gate: Serper(gate, KEY, site.url("/s")),
    "brave": lambda site, gate: Brave(gate, KEY, site.url("/b")),
    "tavily": lambda site, gate: Tavily(gate, KEY, site.url("/t")),
    "wikipedia": lambda site, gate: Wikipedia(gate, site.url("")),
}
ONE, TWO = "https://example.org/1", "https://example.org/2"
RESULTS: dict[str, Any] = {  # what each sends
    "searxng": {
        "query": "灯塔",
        "results": [
            {"url": ONE, "title": "灯塔", "content": "one", "publishedDate": "2021-03-04T00:00:00", "engine": "bing"},
            {"url": TWO, "title": "b", "content": None, "publishedDate": None},
            {"url": ONE, "title": "again"},
            "no object",
        ],
        "answers": [],
        "unresponsive_engines": [["google", "timeout"]],
    },
    "serper": {
        "searchParameters": {"q": "灯塔"},
        "organic": [
            {"title": "灯塔", "link": ONE, "snippet": "one", "position": 1, "date": "2021-03-04"},
            {"title": "b", "link": TWO, "position": 2},
        ],
        "credits": 1,
    },
    "brave": {
        "type": "search",
        "web": {
            "type": "search",
            "results": [
                {"title": "灯塔", "url": ONE, "description": "<strong>o</strong>n&#x65;", "page_age": "2021-03-04"},
                {"title": "b", "url": TWO},
            ],
        },
    },
    "tavily": {
        "query": "灯塔",
        "answer": None,
        "results": [
            {"title": "灯塔", "url": ONE, "content": "one", "score": 0.9, "published_date": "2021-03-04"},
            {"title": "b", "url": TWO, "content": ""},
        ],
    },
    "wikipedia": {
        "batchcomplete": True,
        "query": {
            "searchinfo": {"totalhits": 2},
            "search": [
                {
                    "ns": 0,
                    "title": "Kéréon (lighthouse)",
                    "snippet": 'the <span class="searchmatch">lamp</span> &amp; x',
                },
                {"ns": 0, "title": "灯塔", "snippet": "", "timestamp": "2021-03-04T10:00:00Z"},
            ],
        },
    },
}
EMPTIES: dict[str, Any] = {
    "searxng": {"query": "x", "results": [], "unresponsive_engines": []},
    "serper": {"organic": [], "credits": 1},
    "brave": {"type": "search", "query": {"original": "x"}},
    "tavily": {"results": []},
    "wikipedia": {"batchcomplete": True, "query": {"searchinfo": {"totalhits": 0}, "search": []}},
}


def ask(site: Site, name: str, query: str = "灯塔", limit: int = 10, gate: Gate | None = None) -> Reply:
    return MAKE[name](site, gate or open_gate()).ask(query, limit, time.monotonic() + 5)


def put(site: Site, name: str, value: object, status: int = 200, **headers: str) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    site.pages[PATHS[name]] = Sent(body, status, {k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize("name", MAKE)
def test_results_are_values_each_address_once(site: Site, name: str) -> None:
    put(site, name, RESULTS[name])
    hits: tuple[Hit, ...] = (Hit("灯塔", ONE, "one", "2021-03-04"), Hit("b", TWO, ""))
    if name == "searxng":
        hits = (Hit("灯塔", ONE, "one", "2021-03-04T00:00:00"), hits[1])
    if name == "wikipedia":
        hits = (
            Hit("Kéréon (lighthouse)", site.url("/wiki/K%C3%A9r%C3%A9on_(lighthouse)"), "the lamp & x"),
            Hit("灯塔", site.url("/wiki/%E7%81%AF%E5%A1%94"), "", "2021-03-04"),
        )
    assert ask(site, name) == Reply(hits)
    assert ask(site, name, limit=1) == Reply(hits[:1])


@pytest.mark.parametrize("name", MAKE)
def test_nothing_found_is_that_and_nothing_else(site: Site, name: str) -> None:
    put(site, name, EMPTIES[name])
    assert ask(site, name) == Reply(failure=EMPTY)


@pytest.mark.parametrize("name", MAKE)
def test_too_many_requests_are_a_refusal_for_a_while(site: Site, name: str) -> None:
    put(site, name, b"slow down", 429, Retry_After="7")
    reply = ask(site, name)
    assert reply.failure is not None
    assert (reply.failure.trouble, reply.again, reply.wait) == (Trouble.REFUSED, "soon", 7.0)


@pytest.mark.parametrize("name", MAKE)
def test_a_check_page_is_a_refusal_and_not_an_empty_result(site: Site, name: str) -> None:
    for body in (b"<html><h1>One last step</h1><div id=captcha></div></html>", b""):
        put(site, name, body)
        reply = ask(site, name)
        assert reply.failure is not None
        assert (reply.failure.trouble, reply.again) == (Trouble.REFUSED, "soon")


WRONG = {
    "no JSON": (b"<html>Welcome</html>", 200),
    "a list": (b"[]", 200),
    "a redirect": (b"", 302),
    "the query is too much": (b"{}", 422),
    "no such address": (b"", 404),
}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_answer_is_a_refusal(site: Site, name: str, case: str) -> None:
    put(site, name, *WRONG[case])
    reply = ask(site, name)
    assert reply.failure is not None
    assert reply.failure.trouble is Trouble.REFUSED


@pytest.mark.parametrize("name", MAKE)
def test_a_broken_service_is_out_of_reach(site: Site, name: str) -> None:
    put(site, name, {"error": "search error"}, 500)
    reply = ask(site, name)
    assert reply.failure is not None
    assert (reply.failure.trouble, reply.failure.detail) == (Trouble.TIMEOUT, "search service has an error (500)")
    with Site() as gone:
        provider = MAKE[name](gone, open_gate())
    assert provider.ask("x", 10, time.monotonic() + 5) == Reply(failure=UNREACHABLE)


@pytest.mark.parametrize("name", MAKE)
def test_a_service_that_hangs_is_over_at_the_deadline(site: Site, name: str) -> None:
    def hang(headers: dict[str, str]) -> Sent:
        time.sleep(2)
        return Sent(b"{}")

    site.pages[PATHS[name]] = hang
    started = time.monotonic()
    reply = MAKE[name](site, open_gate()).ask("x", 10, started + 0.4)
    assert reply == Reply(failure=UNREACHABLE)
    assert time.monotonic() - started < 1.8


@pytest.mark.parametrize("name", MAKE)
def test_a_service_on_a_private_address_is_not_asked_unless_it_is_ones_own(site: Site, name: str) -> None:
    reply = ask(site, name, gate=Gate())
    assert reply.failure is not None
    assert (reply.failure.trouble, reply.again, site.asked) == (Trouble.BAD_ADDRESS, "never", [])
    assert ask(site, name, gate=Gate(Policy(offline=True))).failure is not None
    assert site.asked == []


@pytest.mark.parametrize("name", ["serper", "brave", "tavily"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_accepted_is_said_and_never_shown(site: Site, name: str, status: int) -> None:
    put(site, name, {"message": f"Unauthorized: {KEY}", "statusCode": status}, status)
    provider = MAKE[name](site, gate := open_gate())
    reply = provider.ask("x", 10, time.monotonic() + 5)
    assert reply.failure is not None
    assert reply.failure.detail == f"search service refused: it does not accept the key ({status})"
    assert reply.again == "never"
    sent = [*site.headers[0].values(), site.asked[0], *map(repr, site.bodies)]
    assert [KEY in value for value in sent].count(True) == 1
    assert KEY not in f"{provider!r} {reply!r} {gate.ledger.entries!r}"


@pytest.mark.parametrize("name", ["serper", "brave", "tavily"])
@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", "nul\0"])
def test_a_malformed_key_is_said_and_never_shown(site: Site, name: str, key: str) -> None:
    put(site, name, EMPTIES[name])
    makes: dict[str, Callable[[], Provider]] = {
        "serper": lambda: Serper(open_gate(), key, site.url("/s")),
        "brave": lambda: Brave(open_gate(), key, site.url("/b")),
        "tavily": lambda: Tavily(open_gate(), key, site.url("/t")),
    }
    reply = makes[name]().ask("x", 10, time.monotonic() + 5)
    assert reply.failure is not None
    assert key not in reply.failure.detail


def test_searxng_whose_json_is_off_says_how_to_switch_it_on(site: Site) -> None:
    put(site, "searxng", b"<html>403 Forbidden</html>", 403)
    reply = ask(site, "searxng")
    assert reply.failure is not None
    assert "formats: [html, json]" in reply.failure.detail
    assert reply.again == "never"


def test_searxng_whose_engines_are_silent_has_not_found_nothing(site: Site) -> None:
    put(site, "searxng", {"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "timeout"]]})
    reply = ask(site, "searxng")
    assert reply.failure is not None
    assert (reply.failure.trouble, "google, bing" in reply.failure.detail) == (Trouble.TIMEOUT, True)


@pytest.mark.parametrize("reply", [{}, {"results": None}, {"results": "没有"}])
def test_searxng_without_a_list_of_results_has_not_found_nothing(site: Site, reply: dict[str, object]) -> None:
    put(site, "searxng", reply)
    said = ask(site, "searxng").failure
    assert said is not None
    assert (said.trouble, said.detail) == (
        Trouble.REFUSED,
        "search service refused: its reply is not what it should be",
    )


def test_two_places_of_a_page_are_one_result_and_two_routes_are_two() -> None:
    urls = (
        "https://a.cn/灯塔#高度",
        "https://a.cn/灯塔",
        "https://a.cn/灯塔#历史",
        "https://b.cn/#/a",
        "https://b.cn/#/b",
    )
    reply = found((Hit("", url, "", "") for url in urls), 10)
    assert [hit.url for hit in reply.hits] == ["https://a.cn/灯塔#高度", "https://b.cn/#/a", "https://b.cn/#/b"]


def test_wikipedias_own_errors_are_refusals(site: Site) -> None:
    put(site, "wikipedia", {"error": {"code": "srsearch-text-disabled", "info": "..."}})
    later = ask(site, "wikipedia")
    put(site, "wikipedia", {"error": {"code": "ratelimited", "info": "..."}})
    assert [later.again, ask(site, "wikipedia").again] == ["later", "soon"]


def test_tavilys_plan_is_used_up(site: Site) -> None:
    put(site, "tavily", {"detail": {"error": "limit"}}, 432)
    reply = ask(site, "tavily")
    assert reply.failure is not None
    assert (reply.failure.detail, reply.again) == ("search service refused: the plan of this key is used up", "never")


def test_braves_limit_of_a_query_is_known_without_asking(site: Site) -> None:
    assert ask(site, "brave", "x " * 60).again == "later"
    assert ask(site, "brave", "x" * 500).again == "later"
    assert site.asked == []


QUERY = '"灯塔" site:example.org -a'


def test_the_query_is_sent_as_it_is_with_its_market(site: Site) -> None:
    for name in MAKE:
        put(site, name, EMPTIES[name])
        ask(site, name, QUERY)
    asked = {urlsplit(path).path: parse_qs(urlsplit(path).query) for path in site.asked}
    posted = dict(zip(("serper", "tavily"), map(json.loads, site.bodies), strict=True))
    assert asked["/search"] == {"q": [QUERY], "format": ["json"], "language": ["zh-CN"], "pageno": ["1"]}
    assert posted["serper"] == {"q": QUERY, "num": 10, "gl": "cn", "hl": "zh-cn", "location": "China"}
    assert {k: asked["/b"][k] for k in ("q", "country", "search_lang", "count")} == {
        "q": [QUERY],
        "country": ["CN"],
        "search_lang": ["zh-hans"],
        "count": ["10"],
    }
    assert (posted["tavily"]["query"], posted["tavily"]["max_results"]) == (QUERY, 10)
    assert asked["/w/api.php"]["srsearch"] == [QUERY]


def test_a_market_that_is_named_wins(site: Site) -> None:
    place = named("de-de")
    put(site, "serper", EMPTIES["serper"])
    put(site, "searxng", EMPTIES["searxng"])
    Serper(open_gate(), KEY, site.url("/s"), place).ask("灯塔", 10, time.monotonic() + 5)
    SearXNG(open_gate(), site.url("/search"), place).ask("灯塔", 10, time.monotonic() + 5)
    assert json.loads(site.bodies[0]) == {"q": "灯塔", "num": 10, "gl": "de", "hl": "de-de"}
    assert "language=de-DE" in site.asked[1]


# -- which of them ---------------------------------------------------------------------------------------------------

ALL = Services("http://searx.lan:8888", KEY, KEY, KEY)


@pytest.mark.parametrize(
    ("order", "configured", "names"),
    [
        ("auto", Services(), ["ddgs", "wikipedia"]),
        ("auto", ALL, list(SERVICES)),
        ("auto", Services(serper=KEY), ["serper", "ddgs", "wikipedia"]),
        ("wikipedia,ddgs", ALL, ["wikipedia", "ddgs"]),
        (" brave , auto", ALL, ["brave", "searxng", "serper", "tavily", "ddgs", "wikipedia"]),
    ],
)
def test_services_are_asked_in_the_order_that_is_named(order: str, configured: Services, names: list[str]) -> None:
    assert [p.name for p in providers(order, configured, Gate())] == names


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("google", "no search service 'google'; known: auto, searxng, serper, brave, tavily, ddgs, wikipedia"),
        ("serper", "search service serper is not configured: set VENUS_SERPER_KEY, or serper_key in config.toml"),
        (" , ", "no search service is named; known: auto"),
    ],
)
def test_a_service_that_is_not_there_is_a_wrong_command(order: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        providers(order, Services(), Gate())


@pytest.mark.parametrize("base", ["searx.lan", "ftp://searx.lan", "http://", "http://x:99999"])
def test_an_address_of_ones_own_must_be_one(base: str) -> None:
    with pytest.raises(UsageError, match="VENUS_SEARXNG_URL is not an address"):
        providers("searxng", Services(base), Gate())


def test_ones_own_searxng_may_be_asked_and_visits_still_may_not_go_there(site: Site) -> None:
    put(site, "searxng", RESULTS["searxng"])
    gate = Gate()
    (provider,) = providers("searxng", Services(site.url("")), gate)
    assert len(provider.ask("x", 10, time.monotonic() + 5).hits) == 2
    assert gate.policy.refuses("127.0.0.1", site.port) is not None
    assert [(e.host, e.purpose) for e in gate.ledger.entries] == [("127.0.0.1", "search")]


def test_keys_come_from_the_environment_and_are_in_no_repr() -> None:
    names = ("VENUS_SEARXNG_URL", "VENUS_SERPER_KEY", "VENUS_BRAVE_KEY", "VENUS_TAVILY_KEY")
    read = Services.from_environment(dict.fromkeys(names[1:], f" {KEY} ") | {names[0]: "http://searx.lan"})
    assert read == Services("http://searx.lan", KEY, KEY, KEY)
    assert KEY not in repr(Settings(services=read))
