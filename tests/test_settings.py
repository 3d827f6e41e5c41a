"""Directories and switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from venus_edge.errors import UsageError
from venus_edge.settings import Directories, Settings, check


def test_the_environment_names_the_directories() -> None:
    given = {"VENUS_DATA_DIR": "/d", "VENUS_CACHE_DIR": "/k", "VENUS_CONFIG_DIR": "/c"}
    directories = Directories.from_environment(given)
    assert directories == Directories(Path("/c"), Path("/d"), Path("/k"))
    assert (directories.sessions, directories.models) == (Path("/d/sessions"), Path("/d/models"))


def test_without_it_they_are_the_platforms_own() -> None:
    directories = Directories.from_environment({})
    assert directories.data.name == "venus-edge"
    assert directories.data.is_relative_to(Path.home())


@pytest.mark.parametrize("name", ["n_ctx", "threads", "results", "max_turns", "max_tokens"])
def test_a_number_that_cannot_be_meant_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-').replace('n-ctx', 'context')} must be at least"):
        check(Settings(**{name: 0}))  # type: ignore[arg-type]  # each name is a number
    check(Settings(**{name: 512}))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("host", ["http://localhost:8888", "searx.lan/search", "10.0.0.0/99", "", " ", "a b"])
def test_an_allowed_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="is no host: give a name, an address or a network"):
        check(Settings(allow_hosts=("127.0.0.1", host)))


def test_an_allowed_host_is_a_name_an_address_or_a_network() -> None:
    check(
        Settings(
            allow_hosts=("searx.lan", "*.lan", "127.0.0.1:8888", "[::1]:80", "10.0.0.0/8:80", "fd00::/8", "内网.cn")
        )
    )
