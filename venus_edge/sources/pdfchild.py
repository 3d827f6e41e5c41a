"""PDF ON STDIN -> JSON ON STDOUT. Run as a file of its own by `documents`: what crashes here crashes alone.

Out: {"pages": [text, ...], "title": ...} or {"trouble": "missing" | "locked" | "damaged"}. Imports nothing of the
package. pypdfium2 reads; pypdf, slower, where only that is installed.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

MOST_PAGES = 2_000
MOST_TEXT = 20_000_000  # characters
MOST_MEMORY = 3 << 30  # bytes


def main() -> None:
    _limited()
    body = sys.stdin.buffer.read()
    try:
        answer = _read(body)
    except ImportError:
        answer = {"trouble": "missing"}
    except Exception as error:  # noqa: BLE001 - whatever these parsers raise, the page is not readable
        locked = "password" in str(error).lower() or "encrypt" in str(error).lower()
        answer = {"trouble": "locked" if locked else "damaged"}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _limited() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # not on this platform: the time limit remains


def _read(body: bytes) -> dict[str, Any]:
    try:
        pdfium: Any = importlib.import_module("pypdfium2")
    except ImportError:
        return _by_pypdf(body)
    document = pdfium.PdfDocument(body)
    pages = (document[n].get_textpage().get_text_range() for n in range(min(len(document), MOST_PAGES)))
    return {"pages": _some(pages), "title": document.get_metadata_dict().get("Title", "")}


def _by_pypdf(body: bytes) -> dict[str, Any]:
    pypdf: Any = importlib.import_module("pypdf")
    document = pypdf.PdfReader(io.BytesIO(body))
    pages = (document.pages[n].extract_text() for n in range(min(len(document.pages), MOST_PAGES)))
    return {"pages": _some(pages), "title": str((document.metadata or {}).get("/Title") or "")}


def _some(pages: Iterator[str]) -> list[str]:
    found: list[str] = []
    left = MOST_TEXT
    for text in pages:
        found.append(text[:left])
        left -= len(text)
        if left <= 0:
            break
    return found


if __name__ == "__main__":
    main()
