"""What every test may use. Nothing here reaches a network; folders of the person are replaced by empty ones."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

for ending in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):  # ignored in all that a background job or nohup starts
    known = getattr(signal, ending, None)
    if known is not None and signal.getsignal(known) is signal.SIG_IGN:
        signal.signal(known, signal.default_int_handler if ending == "SIGINT" else signal.SIG_DFL)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _empty_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("VENUS_CONFIG_DIR", "VENUS_DATA_DIR", "VENUS_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The material beside the project (released runs, cases); a test that asks for it skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    return SHARED
