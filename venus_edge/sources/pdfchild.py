"""PDF ON STDIN -> JSON ON STDOUT. Run as a file of its own by `documents`: what crashes here crashes alone.

Out: {"pages": [text, ...], "pictures": [is there one, ...], "title": ...} or {"trouble": "missing" | "locked" |
"damaged"}. Imports nothing of the package. pypdfium2 reads; pypdf, slower, where only that is installed.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

MOST_PAGES = 2_000
MOST_TEXT = 20_000_000  # characters
LITTLE = 200  # characters: a page with more is not asked for its pictures
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
    pages = (document[n] for n in range(min(len(document), MOST_PAGES)))
    image = [pdfium.raw.FPDF_PAGEOBJ_IMAGE]

    def shows_picture(page: Any) -> bool:
        return any(True for _ in page.get_objects(filter=image))

    found = _some((page.get_textpage().get_text_range(), partial(shows_picture, page)) for page in pages)
    return {**found, "title": document.get_metadata_dict().get("Title", "")}


def _by_pypdf(body: bytes) -> dict[str, Any]:
    pypdf: Any = importlib.import_module("pypdf")
    document = pypdf.PdfReader(io.BytesIO(body))
    pages = (document.pages[n] for n in range(min(len(document.pages), MOST_PAGES)))
    found = _some((page.extract_text(), partial(_has_image, page)) for page in pages)
    return {**found, "title": str((document.metadata or {}).get("/Title") or "")}


def _has_image(page: Any) -> bool:
    return len(page.images) > 0


def _some(pages: Iterator[tuple[str, Callable[[], bool]]]) -> dict[str, Any]:
    """The text of each page, and of those with next to none whether there is a picture."""
    texts: list[str] = []
    pictures: list[bool] = []
    left = MOST_TEXT
    for text, has_picture in pages:
        texts.append(text[:left])
        pictures.append(len(text) < LITTLE and has_picture())
        left -= len(text)
        if left <= 0:
            break
    return {"pages": texts, "pictures": pictures}


if __name__ == "__main__":
    main()
