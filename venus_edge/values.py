"""The values that cross boundaries: what is asked, called, found, read and answered.

Frozen and plain. Nothing here reads files, opens sockets or knows how a value is worded for the model
(that is `protocol.dialects`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Self

Role = Literal["system", "user", "assistant"]
DialectName = Literal["rl", "sft", "official"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation, as the record keeps it (PROTOCOL: system, user, assistant, user, ...)."""

    role: Role
    content: str


# -- what the model does in a turn ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchCall:
    """`search`: the queries in the model's order, stripped, without repeats; empty if the model gave none."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VisitCall:
    """`visit`: the URLs as the model wrote them and what it wants from them; `goal` is "" if it gave none."""

    urls: tuple[str, ...]
    goal: str


ToolCall = SearchCall | VisitCall


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer's text, stripped. `cut` says that the output limit ended it."""

    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply that is neither call nor answer. `cut` says that the output limit ended it in the middle."""

    reason: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished assistant turn: its thinking, what it does, and the text that goes into the conversation.

    `text` has exactly one opening and one closing think tag, so that rendering it gives the turn back.
    """

    thought: str
    action: ToolCall | Answer | Malformed
    text: str


# -- what the world says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. `date` is the provider's own wording, "" if it gave none."""

    title: str
    url: str
    snippet: str
    date: str = ""


class Trouble(Enum):
    """Why there is no result: four different things to the model and to the person (DESIGN: a failed search
    is not an empty search)."""

    EMPTY = "nothing found"
    REFUSED = "refused"
    TIMEOUT = "timed out or unreachable"
    OFFLINE = "offline"
    UNREADABLE = "unreadable"
    UNKNOWN = "not in the corpus"
    BAD_ADDRESS = "address not allowed"
    BAD_QUERY = "not a query"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Failure:
    """A search or a page that came to nothing: the kind, and one sentence that model and person can use.

    `nearest` holds pages that may be meant instead (a corpus offers them for an unknown address).
    """

    trouble: Trouble
    detail: str
    nearest: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one query: `hits`, best first, or none and the `failure` that says why."""

    query: str
    hits: tuple[Hit, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page as text. `url` is the address it is known by, `text` Markdown-like, `sha256` of its UTF-8 bytes.

    `note` is for the model and the person ("incomplete: the connection was cut", "copy of 2026-11-02"). `rest` is what
    stands around the main text and counts less: sidebars, menus, tables beside the article; `full` is both.
    """

    url: str
    title: str
    text: str
    sha256: str
    date: str = ""
    note: str = ""
    rest: str = ""

    @property
    def full(self) -> str:
        """All of the page, the main text first."""
        return f"{self.text}\n\n{self.rest}" if self.rest else self.text


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a page says about a goal: `evidence` quoted from the page, `summary` in short."""

    evidence: str
    summary: str


@dataclass(frozen=True, slots=True)
class PageReading:
    """One URL of a `visit`: what was read there, or the failure. `page` is kept for sources and citations."""

    url: str
    outcome: Evidence | Failure
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A page that the run read: what the answer may rest on."""

    url: str
    title: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came to: `text` for the model (without the tool_response tags), the rest for the person."""

    text: str
    found: tuple[Found, ...] = ()
    readings: tuple[PageReading, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """The pages that were read, in the order of the call's URLs."""
        pages = (r.page for r in self.readings if isinstance(r.outcome, Evidence))
        return tuple(Source(p.url, p.title, p.sha256) for p in pages if p is not None)


@dataclass(frozen=True, slots=True)
class Fold:
    """A tool reply that gave way to one line: which message it was, the call it answered, the tokens it had, and the
    `text` that stands in its place (without the tool_response tags), of which `left` tokens are left."""

    message: int
    call: ToolCall
    tokens: int
    text: str
    left: int = 0


# -- what a run comes to ----------------------------------------------------------------------------------------------

Termination = Literal[
    "answered",
    "answered_token_limit",
    "token_limit_no_answer",
    "answered_max_steps",
    "max_steps",
    "answered_on_request",
    "no_answer_on_request",
    "timeout",
    "llm_error",
    "interrupted",
]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The record of a run (PROTOCOL section 4.8), plus what a person wants to see of it: how often the window was
    folded, how many replies gave way, and the tokens that had to be evaluated again for it."""

    question: str
    messages: tuple[Message, ...]
    prediction: str
    termination: Termination
    turns: int
    parse_error_count: int
    tool_call_count: int
    dedup_count: int
    final_token_count: int
    elapsed_seconds: float
    sources: tuple[Source, ...] = field(default=())
    answer_cut: bool = False
    fold_count: int = 0
    folded_reply_count: int = 0
    refilled_token_count: int = 0


# -- how the model's memory of a conversation is kept -----------------------------------------------------------------

KV_NAMES = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True, slots=True)
class KvTypes:
    """The types of the KV cache, of K and of V apart; written `q8_0` for both, or `q8_0,f16`."""

    k: str
    v: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads what was written. Raises ValueError for anything else than one or two known names."""
        names = [name.strip() for name in text.split(",")]
        if len(names) > 2 or not set(names) <= set(KV_NAMES):
            raise ValueError(text)
        return cls(names[0], names[-1])

    @property
    def equal(self) -> Self:
        """The same for both, for devices that compute with nothing else: q8_0, which keeps tool calls right and takes
        less than any pair with f16."""
        return self if self.k == self.v else type(self)("q8_0", "q8_0")

    def __str__(self) -> str:
        return self.k if self.k == self.v else f"{self.k},{self.v}"
