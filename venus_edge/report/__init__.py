"""SESSION -> REPORT: one file that stands alone, as HTML, Markdown or JSON.

In: the records of a session (`sessions.read`). Out: a text. Nothing of a page is live in it: texts of others are
escaped, addresses are links only where they are http, there is no script and no request. `session.report` makes the
`Report` of the records; `page.html`, `plain.markdown` and `plain.json_text` write it.
"""

from __future__ import annotations

from dataclasses import dataclass

from venus_edge.citations import Citations, Text


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: what the model thought and did, what came back, what was dropped before, and what it took."""

    number: int
    thought: str
    action: str
    returned: str
    notes: tuple[str, ...] = ()
    generated_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a session comes to. `state` is the termination, or `unfinished`; `texts` are everything that the run read,
    which the quotes of `citations` count into; `counts` and `settings` are for people, label and value."""

    question: str
    answer: str
    state: str
    created: str
    model: str
    citations: Citations
    texts: tuple[Text, ...]
    turns: tuple[Turn, ...]
    counts: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    is_cut: bool = False
    failure: str = ""
