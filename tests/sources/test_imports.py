"""Importing is free: what is heavy comes with the first page or query that needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = {"lxml", "readability", "chardet", "ddgs", "primp", "lxml_html_clean", "idna"}


def test_the_heavy_libraries_wait_until_they_are_needed() -> None:
    code = (
        "import sys, venus_edge.sources.web, venus_edge.sources.extract, venus_edge.sources.cache;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) <= {"idna"}  # httpx2 brings idna
    code = code.replace("venus_edge.sources.web", "venus_edge.sources.ddgs")
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) <= {"idna"}
