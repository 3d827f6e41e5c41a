"""A READER THAT REMEMBERS: the same page, goal and reader are answered from what was read before.

In: a reader and a place to keep readings. Out: the same Evidence, without the model where it was read already. A page
is known by its text, so a page that has not changed is not read again, whatever its address and whenever it was
fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from venus_edge.tools import Reader
from venus_edge.values import Evidence, Page


class Readings(Protocol):
    """Where readings are kept; None is a miss."""

    def reading(self, key: str) -> Evidence | None: ...
    def keep_reading(self, key: str, page: str, evidence: Evidence) -> None: ...


class Named(Reader, Protocol):
    """A reader with a name for all that its readings depend on, beside page and goal; `broken_off` says that the last
    one is not worth keeping."""

    @property
    def name(self) -> str: ...
    @property
    def broken_off(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class KeptReader:
    """Asks `reader` only for what is not in `kept`."""

    reader: Named
    kept: Readings

    def read(self, page: Page, goal: str) -> Evidence:
        text = page.sha256 or sha256(page.full.encode("utf-8", "replace")).hexdigest()
        about = json.dumps([self.reader.name, text, page.title, " ".join(goal.split())])
        key = sha256(about.encode()).hexdigest()
        evidence = self.kept.reading(key)
        if evidence is None:
            evidence = self.reader.read(page, goal)
            if not self.reader.broken_off:
                self.kept.keep_reading(key, text, evidence)
        return evidence
