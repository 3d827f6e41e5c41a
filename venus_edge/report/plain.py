"""REPORT -> MARKDOWN OR JSON. In Markdown the texts of others stand in fences that they cannot close."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict

from venus_edge.citations import Citation, Quote
from venus_edge.report import Report, Turn
from venus_edge.report.markup import is_http, shown, sign


def json_text(report: Report) -> str:
    """One object: the fields of `Report` as they are."""
    record = asdict(report)
    record["counts"], record["settings"] = dict(report.counts), dict(report.settings)
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def markdown(report: Report) -> str:
    """The report for a text editor: the marks are footnotes."""
    return "\n".join(shown(line) for line in _lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield from (f"# {_inline(report.question)}", "", f"{report.state}, {_inline(report.model)}, {report.created}", "")
    if report.failure:
        yield from (f"**{_inline(report.failure)}**", "")
    yield from ("## Answer", "", _footnoted(report) or "The run has no answer.", "")
    yield from (_footnote(i, citation) for i, citation in enumerate(report.citations.sentences, 1))
    yield from (f"\n- not read: <{unread.url}>" for unread in report.citations.unread)
    yield from ("", "## Sources", "")
    for text in report.texts:
        if text.origin != "snippet":
            yield from (f"### {_inline(text.title or text.url)}", "", _link(text.url), "", _fenced(text.text), "")
    yield from ("## Turns", "")
    for turn in report.turns:
        yield from _turn(turn)
    yield from ("## Counts and settings", "")
    yield from (f"- {name}: {_inline(value)}" for name, value in (*report.counts, *report.settings))


def _footnoted(report: Report) -> str:
    """The answer, a footnote after each sentence."""
    found, at = [], 0
    for number, citation in enumerate(report.citations.sentences, 1):
        end = citation.end
        if report.answer[at:end].rstrip().endswith("|"):  # within the row, not after it
            end = report.answer.rindex("|", at, end)
        found.append(f"{report.answer[at:end]}[^{number}]")
        at = end
    return "".join([*found, report.answer[at:]])


def _footnote(number: int, citation: Citation) -> str:
    quotes = "; ".join(_quote(quote) for quote in citation.quotes)
    reasons = f" ({_inline('; '.join(citation.reasons))})" if citation.reasons else ""
    return f"[^{number}]: {sign(citation)} {citation.mark}{reasons}{f': {quotes}' if quotes else ''}"


def _quote(quote: Quote) -> str:
    return f"“{_inline(quote.text)}” {_link(quote.url)}, {quote.origin}, characters {quote.start}-{quote.end}"


def _turn(turn: Turn) -> Iterator[str]:
    yield from (f"### {turn.number}: {_inline(turn.action)}", "")
    yield from (f"*{_inline(note)}*\n" for note in turn.notes)
    yield from (_fenced(text) + "\n" for text in (turn.thought, turn.returned) if text)


def _inline(text: str) -> str:
    """A text of others within a line: its markup is shown."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", " ".join(text.split()))


def _link(url: str) -> str:
    return f"<{url}>" if is_http(url) else _inline(url)


def _fenced(text: str) -> str:
    """A text in a fence longer than any of its own."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
