"""`venus-edge cache`: a person sees, removes and carries away what is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from venus_edge.cli.app import cli
from venus_edge.sources.cache import FILE, Cache
from venus_edge.sources.extract import Extracted
from venus_edge.sources.http import Response
from venus_edge.values import Hit

URL = "https://example.org/kereon"
Run = Callable[..., Result]
NOW = 1_800_000_000.0  # 2027-01-15


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "cache"))
    with Cache(tmp_path / "cache") as cache:
        cache.put(URL, Response(URL, 200, (), b"<p>raw</p>"), Extracted("灯塔", "The lamp was lit."), 1, NOW)
        cache.keep_results("q", (Hit("a", URL, ""),), NOW)
    return lambda *words: CliRunner().invoke(cli, ["cache", *words])


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_pages_are_listed_shown_and_removed(run: Run, tmp_path: Path) -> None:
    listed = done(run("ls", "kereon"))
    assert listed.startswith("2027-01-15 ")
    assert listed.endswith(f" {URL}  灯塔\n")
    assert done(run("ls", "nowhere")) == ""
    assert done(run("show", f"<{URL}#top>.")) == "The lamp was lit.\n"
    assert done(run("show", "--raw", URL)) == "<p>raw</p>"
    assert done(run("stats")) == "1 page, 0.0 MB, 1 search, 0 readings\n"
    assert done(run("path")).strip() == str(tmp_path / "cache")
    assert done(run("rm", URL)) == ""
    assert run("rm", URL).exit_code == 2
    assert run("show", URL).exit_code == 2
    assert done(run("clear", "--yes")) == ""
    assert done(run("stats")).startswith("0 pages")


def test_the_cache_is_carried_to_another_machine(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pages.sqlite"
    done(run("export", str(file)))
    assert run("export", str(file)).exit_code == 2
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "other"))
    assert run("import", str(file)).stderr == "2 pages and searches added\n"
    assert done(run("show", URL)) == "The lamp was lit.\n"
    (tmp_path / "text").write_text("no cache")
    failed = run("import", str(tmp_path / "text"))
    assert (failed.exit_code, "is not an export" in failed.output) == (1, True)


def test_a_disk_that_does_not_serve_is_said(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "cache" / FILE))
    failed = run("ls")
    assert (failed.exit_code, "cannot be read" in failed.output) == (1, True)
