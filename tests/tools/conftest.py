"""The web site on loopback of the tests of `sources`."""

from __future__ import annotations

from tests.sources.conftest import site

__all__ = ["site"]
