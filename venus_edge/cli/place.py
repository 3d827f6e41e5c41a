"""A PLACE ON THE COMMAND LINE. In: what was typed: a folder, a file, or the name of a corpus. Out: a path, whole where
it was written as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from venus_edge.settings import path_or_name


class Place(click.Path):
    """A folder, a file, or the name of a corpus."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return value if isinstance(value, Path) else path_or_name(str(value))
