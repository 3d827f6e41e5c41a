"""REPORT -> ONE HTML FILE that stands alone: no script, no request, nothing of a page live.

The policy in its head allows the one style sheet, by its hash, and nothing else. A mark in the answer leads to its
passage, and that into the source's text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from venus_edge.citations import Citation, Quote, Text
from venus_edge.report import Report, Turn
from venus_edge.report.markup import answer, escaped, language, link, mark_class, sign

_LONG = 160  # characters of a question that is set as text, not as a title
_REASONS = 4  # said of a sentence at most
_ORIGINS = {"page": "page", "evidence": "quoted from a page that was not kept", "snippet": "search result"}
_UNREAD = {True: "a search result named it, and it was not opened", False: "nothing that the run read is from there"}


def html(report: Report) -> str:
    """The whole file."""
    title = escaped(report.question[:80] or "venus-edge report")
    body = "\n".join(part for part in _body(report) if part)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="venus-edge">\n'
        f"<title>{title}</title>\n<style>{_style()}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


@cache
def _style() -> str:
    return (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _body(report: Report) -> Iterator[str]:
    marked = _marks_of_texts(report)
    yield _head(report)
    yield _answer(report)
    yield _section("Sentence by sentence", _quotes(report, marked))
    yield _section("Addresses that were not read", _unread(report))
    yield _section("Sources", "\n".join(_sources(report, marked)))
    yield _section("Turns", "\n".join(_turn(turn) for turn in report.turns))
    yield _section("Counts", _pairs(report.counts))
    yield _section("Settings", _pairs((("model", report.model), *report.settings)))


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>" if body else ""


# -- question and answer ----------------------------------------------------------------------------------------------


def _head(report: Report) -> str:
    counts = dict(report.counts)
    facts = [report.state.replace("_", " "), f"{counts.get('turns', '0')} turns", counts.get("time", ""), report.model]
    line = " · ".join(escaped(fact) for fact in (*facts, report.created[:16].replace("T", " ")) if fact)
    size = ' class="long"' if len(report.question) > _LONG else ""
    failure = f'<p class="alert">{escaped(report.failure)}</p>' if report.failure else ""
    return (
        f'<header>\n<p class="small brand">venus-edge · research report</p>\n'
        f"<h1{size}{language(report.question)}>{escaped(report.question)}</h1>\n"
        f'<p class="small">{line}</p>{failure}\n</header>'
    )


def _answer(report: Report) -> str:
    if not report.answer:
        return _section("Answer", '<p class="alert">The run has no answer.</p>')
    cut = '<p class="alert">The output limit cut this answer.</p>' if report.is_cut else ""
    body = answer(report.answer, report.citations.sentences)
    return _section("Answer", f'{cut}<div class="answer"{language(report.answer)}>{body}</div>\n{_legend(report)}')


def _legend(report: Report) -> str:
    counts = Counter(citation.mark for citation in report.citations.sentences)
    kinds = {mark_class(c): c for c in reversed(report.citations.sentences)}
    tags = [
        f'<span class="tag {kind}">{sign(kinds[kind])} {counts[kinds[kind].mark]} {kinds[kind].mark}</span>'
        for kind in ("yes", "part", "no")
        if kind in kinds
    ]
    note = "Matched by words, numbers and names against what the run read; no model judged it."
    return f'<p class="legend">{"".join(tags)}</p>\n<p class="small">{note}</p>' if tags else ""


# -- the passages -----------------------------------------------------------------------------------------------------

_Marked = dict[int, list[tuple[int, int]]]  # text -> the spans that are quoted of it, in order, none over another


def _marks_of_texts(report: Report) -> _Marked:
    """Where the texts are quoted; of two quotes that overlap, the first."""
    spans = sorted({(q.source, q.start, q.end) for c in report.citations.sentences for q in c.quotes})
    found: _Marked = {}
    for source, start, end in spans:
        of_text = found.setdefault(source, [])
        if not of_text or of_text[-1][1] <= start:
            of_text.append((start, end))
    return found


def _quotes(report: Report, marked: _Marked) -> str:
    items = [_quoted(number, citation, report, marked) for number, citation in enumerate(report.citations.sentences, 1)]
    return f'<ol class="quotes">\n{"".join(items)}</ol>' if items else ""


def _quoted(number: int, citation: Citation, report: Report, marked: _Marked) -> str:
    claim = _unmarked(report.answer[citation.start : citation.end])
    quotes = "".join(_quote(quote, marked) for quote in citation.quotes)
    reasons = escaped("; ".join(citation.reasons[:_REASONS]))
    why = f'<p class="small">{reasons}</p>' if reasons else ""
    return (
        f'<li id="q{number}" class="{mark_class(citation)}"><span class="tag {mark_class(citation)}">{number} '
        f"{sign(citation)} {citation.mark}</span> <span{language(claim)}>{escaped(claim)}</span> "
        f'<a class="small noprint" href="#c{number}" aria-label="back to the sentence">↑</a>\n'
        f"{quotes}{why}</li>\n"
    )


def _unmarked(claim: str) -> str:
    """A sentence without its emphasis and the addresses behind its links; a table row with dots between its cells."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", claim)
    text = re.sub(r"[*`]+|^\s*(?:[-+•>]|\|)\s*|\s*\|\s*$", "", text)
    return " ".join(re.sub(r"\s*\|\s*", " · ", text).split())


def _quote(quote: Quote, marked: _Marked) -> str:
    inside = (quote.start, quote.end) in marked.get(quote.source, ())
    where = f' · <a class="noprint" href="#t{quote.source}-{quote.start}">in the text</a>' if inside else ""
    return (
        f"<blockquote{language(quote.text)}>{escaped(quote.text)}</blockquote>\n"
        f'<p class="small">{link(quote.url, quote.title)} · {_ORIGINS[quote.origin]}, characters '
        f"{quote.start:,}-{quote.end:,}{where}</p>"
    )


def _unread(report: Report) -> str:
    items = "".join(f"<li>{escaped(found.url)} · {_UNREAD[found.listed]}</li>\n" for found in report.citations.unread)
    return f"<ul>\n{items}</ul>" if items else ""


# -- sources, turns, counts -------------------------------------------------------------------------------------------


def _sources(report: Report, marked: _Marked) -> Iterator[str]:
    """The pages that were read, and the search results that are quoted."""
    for number, text in enumerate(report.texts):
        if text.origin != "snippet" or number in marked:
            name = escaped(text.title or text.url)
            body = _marked_text(number, text, marked.get(number, ()))
            yield (
                f'<details id="s{number}"><summary>{name} <span class="small">{_ORIGINS[text.origin]}, '
                f"{len(text.text):,} characters</span></summary>\n"
                f'<p class="small">{link(text.url)}</p>\n<div class="text"{language(text.text)}>{body}</div></details>'
            )


def _marked_text(number: int, text: Text, spans: Sequence[tuple[int, int]]) -> str:
    found, at = [], 0
    for start, end in spans:
        found.append(escaped(text.text[at:start]))
        found.append(f'<mark id="t{number}-{start}">{escaped(text.text[start:end])}</mark>')
        at = end
    return "".join([*found, escaped(text.text[at:])])


def _turn(turn: Turn) -> str:
    notes = "".join(f'<p class="small">{escaped(note)}</p>\n' for note in turn.notes)
    thought = f'<div class="text"{language(turn.thought)}>{escaped(turn.thought)}</div>\n' if turn.thought else ""
    reply = f"<pre{language(turn.returned)}>{escaped(turn.returned)}</pre>\n" if turn.returned else ""
    cost = f"{turn.generated_tokens:,} tokens, {turn.seconds:.1f} s"
    return (
        f"<details><summary>{turn.number} · {escaped(turn.action or 'no reply')} "
        f'<span class="small">{cost}</span></summary>\n{notes}{thought}{reply}</details>'
    )


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>\n" for name, value in pairs if value)
    return f"<dl>\n{rows}</dl>" if rows else ""
