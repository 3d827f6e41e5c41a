"""A MACHINE WITH A NETWORK -> A PACK -> ONE WITHOUT. Here: what a pack is for.

`make` writes one, `wheels` gets what pip installs from, `unpack` (a file of its own, carried in the pack) takes it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that a pack is for: Python as "3.12", pip's platform tags; none: one like this."""

    python: str = ""
    platforms: tuple[str, ...] = ()
    source: bool = False  # llama.cpp as source, to be compiled there


@dataclass(frozen=True, slots=True)
class Part:
    """A file that goes in: where it is, and its path in the pack."""

    path: Path
    name: str
