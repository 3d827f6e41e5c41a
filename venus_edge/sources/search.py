"""QUERY -> HITS: the services in their order, under one deadline. `Search` is the Searcher of the web.

In: queries. Out: `Found` values, from the results kept on the disk while they are fresh, else from the first service
that has any. One that refuses is left alone for seconds, then for tens of them, then for minutes, the next is asked;
what was refused is never kept. That a service found nothing counts unless it searches only a part of the web.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from venus_edge.abreast import abreast
from venus_edge.sources.deadline import within
from venus_edge.sources.pace import Pace
from venus_edge.sources.provider import EMPTY, OFFLINE, TIMED_OUT, Provider, Reply
from venus_edge.values import Failure, Found, Hit, Trouble

SECONDS = 20.0
PAUSES = (2.0, 10.0, 600.0)  # seconds that a service is left alone after its first, second, further refusals in a row
_FOR_EVER = float("inf")
_GRACE = 0.5  # seconds for what comes in on time to be put together
_ORDER = (Trouble.REFUSED, Trouble.TIMEOUT, Trouble.BAD_ADDRESS, Trouble.OFFLINE)  # which failure stands for several


class Kept(Protocol):
    """Where results are kept; None is a miss, no hits "nothing found"."""

    def results(self, key: str, now: float, stale: bool) -> tuple[Hit, ...] | None: ...
    def keep_results(self, key: str, hits: tuple[Hit, ...], now: float) -> None: ...


@dataclass(slots=True)
class _Health:
    """How a service has behaved: refusals in a row, and until when it is left alone."""

    refusals: int = 0
    until: float = 0.0
    failure: Failure | None = None


@dataclass
class Search:
    """Asks `providers` in their order. `kept` may be None; `scope` names what makes results differ beside the query
    (the region); `clock` gives seconds since 1970."""

    providers: Sequence[Provider]
    kept: Kept | None = None
    offline: bool = False
    scope: str = ""
    seconds: float = SECONDS
    pauses: tuple[float, ...] = PAUSES
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = field(default=lambda: random.uniform(0.8, 1.2))  # many agents do not come at once
    _health: dict[str, _Health] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pace = Pace(sleep=self.sleep)

    def search(self, query: str, limit: int = 10) -> Found:
        """The results of `query`, sent as it is, or the failure that says why there are none."""
        return self.search_all([query], limit)[0]

    def search_all(self, queries: Sequence[str], limit: int = 10) -> tuple[Found, ...]:
        """The results of several queries, asked side by side under one deadline."""
        deadline = time.monotonic() + self.seconds
        found = abreast(lambda query: self._search(query, limit, deadline), queries, deadline + _GRACE)
        return tuple(item or Found(query, failure=TIMED_OUT) for query, item in zip(queries, found, strict=True))

    def _search(self, query: str, limit: int, deadline: float) -> Found:
        if not query.strip():
            return Found(query, failure=Failure(Trouble.BAD_QUERY, "the query is empty"))
        key = "\n".join((",".join(p.name for p in self.providers), self.scope, str(limit), " ".join(query.split())))
        hits = self.kept.results(key, self.clock(), self.offline) if self.kept is not None else None
        if hits is not None:
            return Found(query, hits, None if hits else EMPTY)
        if self.offline:
            return Found(query, failure=OFFLINE)
        found = self._asked(query, limit, deadline)
        if self.kept is not None and (found.hits or found.failure == EMPTY):
            self.kept.keep_results(key, found.hits, self.clock())
        return found

    def _asked(self, query: str, limit: int, deadline: float) -> Found:
        """One service after the other, and again those that had enough for a moment, while there is time."""
        waiting, said = list(self.providers), dict[str, Failure]()
        while waiting:
            provider = self._ready(waiting, deadline)
            if provider is None:
                break
            reply = self._ask(provider, query, limit, deadline, len(waiting))
            if reply.hits:
                return Found(query, reply.hits)
            if reply.failure is not None:
                said[provider.name] = reply.failure
            if reply.failure == EMPTY and provider.whole_web:
                break
            if reply.again != "soon":
                waiting.remove(provider)
        return Found(query, failure=self._summed(said))

    def _ready(self, waiting: list[Provider], deadline: float) -> Provider | None:
        """The first that may be asked now; else the one that may be next, after a wait that there is time for."""
        now, left = self.clock(), deadline - time.monotonic()
        ready = next((p for p in waiting if self._of(p).until <= now), None)
        if ready is not None:
            return ready if left > 0 else None
        soonest = min(waiting, key=lambda p: self._of(p).until)
        pause = self._of(soonest).until - now
        if pause >= left:
            return None
        self.sleep(pause)
        return soonest

    def _ask(self, provider: Provider, query: str, limit: int, deadline: float, waiting: int) -> Reply:
        """One try, with the share of the time that leaves the others theirs."""
        now = time.monotonic()
        until = now + (deadline - now) / max(1, waiting)
        try:
            with self._pace.turn(provider.name, until, provider.pause):
                reply = within(until, lambda: provider.ask(query, limit, until))
        except TimeoutError:
            reply = Reply(failure=TIMED_OUT)
        self._note(provider, reply)
        return reply

    def _of(self, provider: Provider) -> _Health:
        return self._health.setdefault(provider.name, _Health())

    def _note(self, provider: Provider, reply: Reply) -> None:
        """What a reply means for the next query to the same service."""
        with self._lock:
            health = self._of(provider)
            health.failure = reply.failure
            if reply.again == "never":
                health.until = _FOR_EVER
            elif reply.again == "soon" and health.until <= self.clock():  # several at once count as one
                pause = self.pauses[min(health.refusals, len(self.pauses) - 1)] * self.jitter()
                health.refusals += 1
                health.until = self.clock() + max(pause, reply.wait)
            elif reply.hits or reply.failure == EMPTY:
                health.refusals = 0

    def _summed(self, said: dict[str, Failure]) -> Failure:
        """One failure for those of several services."""
        if any(f == EMPTY and self._decides(name, said) for name, f in said.items()):
            return EMPTY
        failed = {name: f for name, f in said.items() if f != EMPTY}
        if not failed:  # all were left alone: what they said when they were asked last
            failed = {p.name: f for p in self.providers if (f := self._of(p).failure) is not None}
        if not failed:
            return TIMED_OUT
        trouble = next(t for t in (*_ORDER, *Trouble) if any(f.trouble is t for f in failed.values()))
        if len(failed) == 1:
            return next(iter(failed.values()))
        details = "; ".join(f"{name}: {f.detail.removeprefix('search service ')}" for name, f in failed.items())
        return Failure(trouble, f"no search service has results ({details})")

    def _decides(self, name: str, said: dict[str, Failure]) -> bool:
        """Whether that this service found nothing means that there is nothing."""
        whole = next((p.whole_web for p in self.providers if p.name == name), True)
        return whole or all(f == EMPTY for f in said.values())
