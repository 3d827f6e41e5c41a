"""Keys and passwords go where they belong and nowhere else: not into output, logs, sessions, caches or errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.loopback import Reply, Site
from venus_edge import demo

PLANTED = "pl4nt3d-k3y"
QUESTION = "Tell me the length of the Pilnike Garden."


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a home of its own, with a key or a password planted wherever one can be given."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    homes = {f"VENUS_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "CACHE")}
    command = [sys.executable, "-m", "venus_edge", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**kept, **homes, **variables}
    )


def written(home: Path) -> dict[str, bytes]:
    """Everything that lies in the home but the file that the person wrote the keys into."""
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "config.toml"}


@pytest.mark.parametrize("status", [200, 401, 429, 500])
def test_a_run_tells_no_key_whatever_the_services_answer(site: Site, tmp_path: Path, status: int) -> None:
    site.pages["/search"] = Reply(b'{"results": []}' if status == 200 else PLANTED[:3].encode(), status)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'serper_key = "{PLANTED}"\nproxy = "http://me:{PLANTED}@127.0.0.1:{site.port}"\n'
        f'searxng_url = "http://me:{PLANTED}@127.0.0.1:{site.port}"\nallow_hosts = ["127.0.0.1"]\n'
    )
    keys = {f"VENUS_{name}_KEY": PLANTED for name in ("BRAVE", "TAVILY", "ENGINE")}
    done = run(
        tmp_path, "-v", "run", QUESTION, "--model", demo.MODEL, "--max-turns", "2",
        "--search", "searxng,serper,brave,tavily", **keys,
    )  # fmt: skip
    shown = run(tmp_path, "config", "show", **keys)
    assert done.returncode in (0, 1), done.stderr
    assert any("authorization" in headers for headers in site.headers)  # the password went where it belongs
    assert {path.partition("?")[0] for path in site.asked} >= {"/search"}
    sessions = [name for name in written(tmp_path) if name.endswith(".jsonl")]
    assert len(sessions) == 1
    assert PLANTED not in done.stdout + done.stderr + shown.stdout + shown.stderr
    assert [name for name, content in written(tmp_path).items() if PLANTED.encode() in content] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f'proxy = "http://me:{PLANTED}@"', "proxy is not the address of a proxy"),
        (f'searxng_url = "ftp://me:{PLANTED}@searx"', "is not an address like"),
        (f'serper_key = ["{PLANTED}"]', "serper_key should be text in quotes"),
        (f'serper_kay = "{PLANTED}"', "unknown key serper_kay"),
        (f'serper_key = "{PLANTED}', "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_with_a_key_is_told_without_it(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(line + "\n")
    done = run(tmp_path, "run", QUESTION, "--model", demo.MODEL)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert PLANTED not in done.stderr
