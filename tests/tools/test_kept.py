"""The same page for another goal costs no fetch and no extraction; the same page and goal cost nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.sources.loopback import Site, open_gate
from venus_edge.sources import web
from venus_edge.sources.address import parse
from venus_edge.sources.cache import Cache, Stats
from venus_edge.sources.extract import Extracted, extract
from venus_edge.sources.http import Fetcher
from venus_edge.sources.web import Recent, Web
from venus_edge.tools.evidence import ExtractiveReader
from venus_edge.tools.kept import KeptReader
from venus_edge.tools.visit import visit
from venus_edge.values import Evidence, Failure, Page, VisitCall

HTML = "<html><head><title>Kereon</title></head><body><article><p>{}</p></article></body></html>"
TEXT = "The lamp was lit in 1916 by its first keeper. The tower is 41 metres high. 灯塔位于法国西部的礁石上。"


@dataclass
class Counted:
    """A reader that counts."""

    name: str = "counted 1"
    broken_off: bool = False
    goals: list[str] = field(default_factory=list)

    def read(self, page: Page, goal: str) -> Evidence:
        self.goals.append(goal)
        return ExtractiveReader().read(page, goal)


@pytest.fixture
def extractions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the pages that were extracted."""
    done: list[str] = []

    def counted(body: bytes, url: str, content_type: str = "") -> Extracted | Failure:
        done.append(url)
        return extract(body, url, content_type)

    monkeypatch.setattr(web, "extract", counted)
    return done


Ask = Callable[[str], Evidence | Failure]


def asking(cache: Cache, reader: Counted, url: str, recent: Recent | None = None) -> Ask:
    """Visits of one run: each opens its own Web over the same disk."""
    opener = Web(Fetcher(open_gate()), cache, recent=recent)

    def ask(goal: str) -> Evidence | Failure:
        return visit(VisitCall((url,), goal), opener, KeptReader(reader, cache), "rl", "?").readings[0].outcome

    return ask


def test_a_page_is_fetched_and_extracted_once_and_read_once_a_goal_also_by_another_run(
    site: Site, tmp_path: Path, extractions: list[str]
) -> None:
    url, reader = site.page("/", HTML.format(TEXT), Cache_Control="max-age=600"), Counted()
    goals = ["when was it lit", "how high is it", "灯塔位于哪里", "when was  it lit\n", "how high is it"]
    with Cache(tmp_path) as cache:
        first = [asking(cache, reader, url)(goal) for goal in goals]
    with Cache(tmp_path) as cache:
        assert [asking(cache, reader, url)(goal) for goal in goals] == first
        assert cache.stats().readings == 3
    assert first[0] == first[3] != first[1]
    assert (site.asked, len(extractions), reader.goals) == (["/"], 1, goals[:3])


@pytest.mark.parametrize("control", ["no-store", "no-cache", "max-age=0"])
def test_within_a_run_a_page_is_not_asked_for_again_whatever_its_headers(
    site: Site, tmp_path: Path, extractions: list[str], control: str
) -> None:
    url, reader = site.page("/", HTML.format(TEXT), Cache_Control=control), Counted()
    with Cache(tmp_path) as cache:
        ask = asking(cache, reader, url, Recent())
        assert [isinstance(ask(goal), Evidence) for goal in ("lit", "high", "lit")] == [True] * 3
        assert cache.stats().pages == (0 if control == "no-store" else 1)
    assert (site.asked, len(extractions), reader.goals) == (["/"], 1, ["lit", "high"])


def test_what_has_changed_is_read_again(site: Site, tmp_path: Path) -> None:
    url, reader = site.page("/", HTML.format(TEXT), Cache_Control="max-age=0"), Counted()
    with Cache(tmp_path) as cache:
        ask = asking(cache, reader, url)
        ask("lit")
        site.page("/", HTML.format(TEXT.replace("1916", "1917")), Cache_Control="max-age=0")
        changed = ask("lit")
    assert isinstance(changed, Evidence)
    assert "1917" in changed.evidence
    assert reader.goals == ["lit", "lit"]


def test_another_reader_reads_for_itself_and_a_reading_that_was_broken_off_is_not_kept(tmp_path: Path) -> None:
    page = Page("https://example.org/", "Kereon", TEXT, "")
    with Cache(tmp_path) as cache:
        for reader in (Counted("a"), Counted("b"), Counted("c", broken_off=True), Counted("c")):
            KeptReader(reader, cache).read(page, "lit")
            assert reader.goals == ["lit"]
        assert cache.stats() == Stats(0, 0, 0, 3)


def test_what_was_read_of_a_page_goes_with_it(site: Site, tmp_path: Path) -> None:
    url = site.page("/", HTML.format(TEXT), Cache_Control="max-age=600")
    with Cache(tmp_path / "a") as cache:
        asking(cache, Counted(), url)("lit")
        assert cache.export(tmp_path / "out.sqlite")
        assert cache.remove(url)
        assert cache.stats() == Stats(0, 0)
    with Cache(tmp_path / "b") as other:
        assert other.take_in(tmp_path / "out.sqlite") == 1
        assert other.stats().readings == 1
        other.clear()
        assert other.stats() == Stats(0, 0)


def test_a_page_of_long_ago_is_not_recent() -> None:
    recent, address = Recent(seconds=10, most=2), parse("https://example.org/a#x")
    assert not isinstance(address, Failure)
    recent.put(address, Page("", "灯塔", "", ""), 100.0)
    assert recent.get(address, 109.0) == Page("https://example.org/a#x", "灯塔", "", "")
    assert recent.get(address, 111.0) is None
