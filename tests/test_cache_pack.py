"""What was researched online is there offline: a run on pages of a loopback site, `cache pack` of its session, and the
same question without a network, without the cache, and with the site gone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.engine.remote_fakes import FakeModel, serving, spelled
from tests.sources.loopback import Reply, Site
from venus_edge import demo
from venus_edge.cli.app import cli
from venus_edge.settings import Directories

KEREON = """<html><head><title>Kereon</title></head><body><article><h1>Kereon</h1>
<p>The Kereon lighthouse was first lit in 1916. It stands off Ushant, and its keeper wrote a book about the sea.</p>
</article></body></html>"""
LIT = "<html><head><title>克雷翁灯塔</title></head><body><p>克雷翁灯塔于1916年首次点亮，高53米。</p></body></html>"
HISTORY = (
    "<html><head><title>灯塔史</title></head><body><p>这个页面用国标编码写成，说的是灯塔的历史。</p></body></html>"
)
PATHS = ("/kereon", "/%E7%81%AF%E5%A1%94", "/gb", "/moved")
QUESTION = "克雷翁灯塔何时点亮？ When was Kereon lit?"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with Site() as running:
        hits = [{"title": path, "url": running.url(path), "content": "灯塔 lit"} for path in PATHS]
        running.page("/kereon", KEREON)
        running.page("/%E7%81%AF%E5%A1%94", LIT)
        running.pages["/gb"] = Reply(HISTORY.encode("gb18030"), headers={"Content-Type": "text/html; charset=gb18030"})
        running.pages["/moved"] = Reply(status=302, headers={"Location": "/now"})
        running.page(
            "/now", "<html><head><title>Moved</title></head><body><p>Ar Men was lit in 1881.</p></body></html>"
        )
        running.pages["/search"] = Reply(json.dumps({"results": hits}).encode())
        monkeypatch.setenv("VENUS_SEARXNG_URL", running.url("/"))
        monkeypatch.setenv("VENUS_SEARCH", "searxng")
        monkeypatch.setenv("VENUS_ALLOW_HOSTS", "127.0.0.1")
        yield running


def call(name: str, **arguments: Any) -> str:
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<think>\nI look.\n</think>\n\n<tool_call>\n{written}\n</tool_call><|im_end|>"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def asked(urls: list[str], *more: object) -> Result:
    """A run whose model searches, reads these pages and answers."""
    answer = "<think>\nIt is said.\n</think>\n\n<answer>In 1916</answer><|im_end|>"
    replies = [call("search", query=["灯塔 点亮", "lit 1881"]), call("visit", url=urls, goal="点亮 lit year"), answer]
    with serving(FakeModel([spelled(reply) for reply in replies], n_ctx=32_768, vllm=True)) as engine:
        return run("run", QUESTION, "--model", demo.MODEL, "--engine", engine, *more)


def readings(session: Path) -> list[tuple[str, str, str]]:
    """Address, title and what was read of every page of a run."""
    records = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
    results = [record["result"] for record in records if record.get("event") == "ToolReturned"]
    return [
        (reading["url"], reading["page"]["title"], reading["outcome"]["evidence"])
        for result in results
        for reading in result["readings"]
    ]


def newest() -> Path:
    return max(Directories.from_environment().sessions.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


def test_the_same_pages_are_read_by_the_same_addresses_without_a_network(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [site.url(path) for path in PATHS]
    online = asked(urls)
    assert (online.exit_code, online.stdout.strip()) == (0, "In 1916"), online.output
    first = newest()
    read = readings(first)
    assert [url for url, _, _ in read] == urls
    packed = run("cache", "pack", first.stem, "--name", "lights")
    assert (packed.exit_code, packed.stderr) == (0, "4 pages: 4 new, 0 as before\n")
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "another"))
    site.asked.clear()
    offline = asked(urls, "--corpus", "lights", "--offline")
    assert (offline.exit_code, offline.stdout.strip()) == (0, "In 1916"), offline.output
    assert (readings(newest()), site.asked) == (read, [])
    assert "Connections: none; 0 bytes left this machine (127.0.0.1 is this machine: " in offline.stderr
    assert run("corpus", "show", "lights", site.url("/now")).stdout.startswith("Moved\n")  # where it had moved to
    found = run("corpus", "search", "lights", "lighthouse keeper")
    assert found.stdout.splitlines()[:2] == ["Kereon", f"  {site.url('/kereon')}"]


def test_of_a_page_that_several_runs_read_the_newest_text_is_there_and_all_of_it(site: Site) -> None:
    urls = [site.url("/kereon")]
    asked(urls)
    first = newest()
    beside = "</article><table><tr><td>Height of the tower</td><td>41 m</td></tr></table>"
    site.page("/kereon", KEREON.replace("1916", "1917").replace("</article>", beside))
    assert run("cache", "clear", "--yes").exit_code == 0
    asked(urls)
    second = newest()
    assert run("cache", "pack", first.stem, "--name", "lights").stderr == "1 page: 1 new, 0 as before\n"
    assert run("cache", "pack", second.stem, "--name", "lights").stderr == "1 page: 0 new, 1 as before\n"
    assert run("cache", "pack", first, second, "--name", "lights").stderr == "1 page: 0 new, 1 as before\n"
    shown = run("corpus", "show", "lights", urls[0]).stdout
    assert ("1917" in shown, "1916" in shown, "41 m" in shown) == (True, False, True)


def test_a_run_that_read_nothing_is_no_corpus(site: Site) -> None:
    asked([site.url("/none")])
    packed = run("cache", "pack", newest(), "--name", "lights")
    assert (packed.exit_code, packed.stderr) == (
        2,
        f"Error: no page was read in {newest().stem}: there is nothing to pack\n",
    )
    assert run("corpus", "list").stdout == ""
