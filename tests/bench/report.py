"""A session of 200 turns and 130,000 tokens, exported: seconds and bytes of each format.

python -m tests.bench.report
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from venus_edge.report import page, plain
from venus_edge.report.session import report

TURNS, CHARACTERS = 200, 130_000 * 4  # of the conversation; about four characters of English a token
_WORDS = """
harbour lighthouse tower bridge survey granite keeper lamp tide island record engineer opened built measured north south
report archive village council ferry storm winter summer coast map chart depth stone copper glass garden museum
"""


def records(turns: int = TURNS, characters: int = CHARACTERS) -> Iterator[dict[str, Any]]:
    """The journal of a long run: three searches, then a page, again and again, and an answer of 5,000 characters."""
    source = random.Random(7)
    each = characters // turns
    pages = [_page(number, each, source) for number in range(1, turns)]
    yield {"venus_edge": "0.1.0", "schema": 1, "created": "2026-03-01T12:00:00+00:00"}
    yield {
        "event": "RunStarted",
        "question": "Which towers?",
        "model": "bench",
        "dialect": "rl",
        "n_ctx": 131_072,
        "seed": 1,
    }
    for number, body in enumerate(pages, 1):
        usage = {"prompt_tokens": number * 650, "generated_tokens": 120, "evaluated_tokens": 650, "seconds": 9.0}
        action: dict[str, Any] = {"queries": ["tower"]} if number % 4 else {"urls": [body["url"]], "goal": "the tower"}
        yield {
            "event": "Replied",
            "turn": number,
            "reply": {"thought": body["text"][:400], "action": action},
            "usage": usage,
        }
        yield {"event": "ToolReturned", "turn": number, "result": _result(number, body), "seconds": 0.5}
    answer = "\n".join(f"- {sentence}." for body in pages[3::4] for sentence in body["text"].split(". ")[:1])[:5000]
    result = {"prediction": answer, "termination": "answered", "turns": turns, "elapsed_seconds": 2000.0}
    yield {"event": "Finished", "result": result}


def _page(number: int, size: int, source: random.Random) -> dict[str, str]:
    words = _WORDS.split()
    sentences, length = [f"Tower {number} of Ravik is {20 + number} metres tall and was built in {1700 + number}"], 0
    while length < size:
        sentences.append(" ".join(source.choices(words, k=14)).capitalize() + f" {source.randrange(1500, 2000)}")
        length += len(sentences[-1])
    return {"url": f"https://bench.example/{number}", "title": f"Tower {number}", "text": ". ".join(sentences) + "."}


def _result(number: int, body: dict[str, str]) -> dict[str, Any]:
    if number % 4:
        hit = {"title": body["title"], "url": body["url"], "snippet": body["text"][:300]}
        return {"text": body["text"], "found": [{"query": "tower", "hits": [hit] * 10}], "readings": []}
    outcome = {"evidence": body["text"], "summary": body["text"][:100]}
    return {"text": body["text"], "found": [], "readings": [{"url": body["url"], "outcome": outcome, "page": body}]}


def main() -> None:
    """Prints the table."""
    kept = list(records())
    began = time.perf_counter()
    made = report(kept)
    print(f"session -> report  {time.perf_counter() - began:6.2f} s  {len(made.citations.sentences)} sentences")  # noqa: T201  (a bench prints)
    for name, write in (("html", page.html), ("md", plain.markdown), ("json", plain.json_text)):
        began = time.perf_counter()
        text = write(made)
        print(f"report -> {name:<9} {time.perf_counter() - began:6.2f} s  {len(text.encode()):,} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
