"""WHAT A SEARCH SERVICE IS to the chain that asks it (`search`): the Protocol, and the `Reply` that it gives.

Refused, empty, out of reach and offline are told apart here, once, for every service. A detail never holds a key, an
address with a key in it, or what an exception said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from venus_edge.values import Failure, Hit, Trouble

Again = Literal["soon", "later", "never"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service said to one query: `hits`, or the `failure` that says why there are none.

    `again` says when it is worth asking again: "soon" after a pause (it had enough of us for now), "later" with another
    query (this one it cannot answer), "never" in this run (a wrong key). `wait` is the pause it asked for, in seconds.
    """

    hits: tuple[Hit, ...] = ()
    failure: Failure | None = None
    again: Again = "later"
    wait: float = 0.0


class Provider(Protocol):
    """A search service. `whole_web` is False for one that searches a part of it: that it found nothing proves nothing.
    `pause` is the least time between two queries, in seconds."""

    @property
    def name(self) -> str: ...
    @property
    def whole_web(self) -> bool: ...
    @property
    def pause(self) -> float: ...

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        """Over at `deadline` (of time.monotonic). Never raises for what the service does."""
        ...


EMPTY = Failure(Trouble.EMPTY, "nothing found")
OFFLINE = Failure(Trouble.OFFLINE, "offline: the web is not searched")
REFUSED = Failure(
    Trouble.REFUSED, "search service refused (rate limit or check page): this does not mean there is nothing"
)
TIMED_OUT = Failure(Trouble.TIMEOUT, "search timed out: the search service did not answer")
UNREACHABLE = Failure(Trouble.TIMEOUT, "search service timed out or is unreachable")


def refused(why: str, again: Again = "later", wait: float = 0.0) -> Reply:
    return Reply(failure=Failure(Trouble.REFUSED, f"search service refused: {why}"), again=again, wait=wait)


def _page(url: str) -> str:
    """An address without the place in the page; what some sites call their pages by (#/, #!) stays."""
    page, _, place = url.partition("#")
    return url if place.startswith(("/", "!")) else page


def found(hits: Iterable[Hit], limit: int) -> Reply:
    """Results, each page once; what has no web address is no result. Without any, nothing was found."""
    by_url: dict[str, Hit] = {}
    for hit in hits:
        if hit.url.startswith(("http://", "https://")):
            by_url.setdefault(_page(hit.url), hit)
    return Reply(tuple(by_url.values())[:limit]) if by_url else Reply(failure=EMPTY)
