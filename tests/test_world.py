"""Settings -> where hits and pages come from: the corpora, the web, or both; and how they are asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.sources.loopback import Reply, Site
from venus_edge import demo, model, runtime, world
from venus_edge.errors import UsageError
from venus_edge.settings import Directories, Services, Settings
from venus_edge.tools.evidence import ModelReader
from venus_edge.tools.kept import KeptReader
from venus_edge.tools.toolbox import Toolbox
from venus_edge.values import Evidence, Failure, SearchCall, ToolResult, Trouble, VisitCall

RESULTS = '{"results": [{"title": "Kereon on the web", "url": "%s", "content": "灯塔"}]}'
NOTE = "---\nurl: https://example.org/kereon\n---\n# 克雷翁灯塔\n\n1916年首次点亮。\n"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with Site() as running:
        url = running.page("/page", "<p>The lamp was lit in 1916 by its first keeper.</p>")
        running.pages["/search"] = Reply((RESULTS % url).encode())
        yield running


def settings(home: Path, site: Site, **given: Any) -> Settings:
    (home / "notes").mkdir(exist_ok=True)
    (home / "notes" / "灯塔.md").write_text(NOTE)
    base = Settings(
        Directories(home / "config", home / "data", home / "cache"),
        model=demo.MODEL,
        allow_hosts=("127.0.0.1",),
        services=Services(searxng=site.url("/")),
    )
    return replace(base, **given)


def called(chosen: Settings, *calls: SearchCall | VisitCall) -> list[ToolResult]:
    with runtime.prepare(chosen, lambda _: None) as ready:
        return [ready.agent._tools.call(call, "?") for call in calls]


SEARCH = SearchCall(("灯塔 点亮",))
LOCAL = "https://example.org/kereon"


def urls(result: ToolResult) -> list[str]:
    return [hit.url for hit in result.found[0].hits]


def test_a_corpus_alone_is_searched_instead_of_the_web(site: Site, tmp_path: Path) -> None:
    for order in ("auto", "searxng", "corpus"):
        (found,) = called(settings(tmp_path, site, corpus=(tmp_path / "notes",), search=order), SEARCH)
        assert urls(found) == [LOCAL]
    assert site.asked == []


def test_a_corpus_beside_the_web_is_ranked_with_it_and_opened_before_it(site: Site, tmp_path: Path) -> None:
    chosen = settings(tmp_path, site, corpus=(tmp_path / "notes",), search="corpus,searxng")
    visits = VisitCall((LOCAL, site.url("/page")), "灯塔点亮的年份")
    found, read = called(chosen, SEARCH, visits)
    assert urls(found) == [LOCAL, site.url("/page")]
    assert [isinstance(reading.outcome, Evidence) for reading in read.readings] == [True, True]
    assert [path.partition("?")[0] for path in site.asked] == ["/search", "/page"]


def test_beside_a_web_that_refuses_the_corpus_answers_and_the_refusal_is_told(site: Site, tmp_path: Path) -> None:
    site.pages["/search"] = Reply(status=403)
    chosen = settings(tmp_path, site, corpus=(tmp_path / "notes",), search="corpus,searxng")
    found = called(chosen, SEARCH)[0].found[0]
    assert ([hit.url for hit in found.hits], found.failure and found.failure.trouble) == ([LOCAL], Trouble.REFUSED)


def test_offline_a_corpus_and_what_was_fetched_before_answer_together(site: Site, tmp_path: Path) -> None:
    chosen = settings(tmp_path, site, corpus=(tmp_path / "notes",), search="corpus,searxng")
    visit = VisitCall((site.url("/page"),), "year")
    online = called(chosen, SEARCH, visit)
    asked = list(site.asked)
    assert [result.text for result in called(replace(chosen, offline=True), SEARCH, visit)] == [
        result.text for result in online
    ]
    assert site.asked == asked


def test_offline_without_a_corpus_what_was_fetched_before_is_all_there_is(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="offline there is nothing to search"):
        called(settings(tmp_path, site, offline=True))
    called(settings(tmp_path, site), SEARCH)
    found, other = called(settings(tmp_path, site, offline=True), SEARCH, SearchCall(("other",)))
    assert urls(found) == [site.url("/page")]
    failure = other.found[0].failure
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.OFFLINE


def test_a_corpus_that_is_named_and_not_there_is_a_wrong_command(site: Site, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="search names corpus, but there is none: name a folder, an archive or a corpus with --corpus"
    ):
        called(settings(tmp_path, site, search="corpus,ddgs"))


@pytest.mark.parametrize(
    ("given", "language", "accepted"),
    [
        ({}, "zh-CN", "en-US,en;q=0.9,*;q=0.5"),
        ({"region": "de-de"}, "de-DE", "de-DE,de;q=0.9,en;q=0.6,*;q=0.4"),
        ({"language": "ja"}, "ja-JP", "ja-JP,ja;q=0.9,en;q=0.6,*;q=0.4"),
        ({"language": "zh-CN", "region": "us-en"}, "zh-CN", "zh-CN,zh;q=0.9,en;q=0.6,*;q=0.4"),
    ],
)
def test_region_and_language_outweigh_the_querys_script(
    site: Site, tmp_path: Path, given: dict[str, str], language: str, accepted: str
) -> None:
    called(settings(tmp_path, site, user_agent="lamp/1", **given), SEARCH, VisitCall((site.url("/page"),), "year"))
    assert f"&language={language}&" in site.asked[0]
    assert (site.headers[1]["accept-language"], site.headers[1]["user-agent"]) == (accepted, "lamp/1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"language": "klingon"}, "language 'klingon' is not a language and a country, like zh-CN or sv-SE"),
        ({"region": "x"}, "region 'x' is not a country and a language"),
        ({"proxy": "ftp://x"}, "proxy is not the address of a proxy"),
        ({"search_seconds": 0.5}, "search_seconds must be at least 1, not 0.5"),
        ({"cache_mb": 0}, "cache_mb must be at least 1, not 0"),
        ({"read_tokens": 20}, "read_tokens must be at least 200, not 20"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(
    site: Site, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        called(settings(tmp_path, site, **given))


def test_robots_txt_counts_by_switch(site: Site, tmp_path: Path) -> None:
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /page\n")
    visit = VisitCall((site.url("/page"),), "year")
    (kept_out,) = called(settings(tmp_path, site, robots=True), visit)
    (let_in,) = called(settings(tmp_path, site), visit)
    assert "robots.txt asks robots not to read this page" in kept_out.text
    assert isinstance(let_in.readings[0].outcome, Evidence)


def test_the_page_cache_keeps_to_its_size(site: Site, tmp_path: Path) -> None:
    for n in range(8):
        site.page(f"/{n}", "<p>" + os.urandom(100_000).hex() + "</p>", Cache_Control="max-age=600")
    visit = VisitCall(tuple(site.url(f"/{n}") for n in range(5)), "x")
    called(settings(tmp_path, site, cache_mb=1), visit, VisitCall(tuple(site.url(f"/{n}") for n in (5, 6, 7)), "x"))
    with world.page_cache(settings(tmp_path, site).directories) as cache:
        stats = cache.stats()
    assert 1 <= stats.pages < 8
    assert stats.bytes <= 1_000_000


@pytest.mark.parametrize(("asked", "page", "window"), [(None, 6_000, 8_192), (3_000, 3_000, 5_000)])
def test_the_reading_is_as_long_as_was_asked_for(
    site: Site, tmp_path: Path, asked: int | None, page: int, window: int
) -> None:
    chosen = settings(tmp_path, site, read_tokens=asked, reader="model")
    assert model._reading_window(chosen) == window
    with runtime.prepare(chosen, lambda _: None) as ready:
        reader = cast(KeptReader, cast(Toolbox, ready.agent._tools).reader)
        assert isinstance(reader.reader, ModelReader)
        assert reader.reader._plan.page_tokens == page
        assert ready.engine.n_ctx_reading <= window
