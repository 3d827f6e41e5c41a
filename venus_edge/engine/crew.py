"""HOW MANY THREADS WORK: learned from what a token takes, again whenever the machine's load changes.

In: seconds of tokens that cost alike (single ones, or those of large batches), now and then the cores that other
processes keep busy. Out: a count for the next token. Pure: the clock and the system's figures are the caller's.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable

_TRIAL = 3  # tokens that judge a count
_HOPELESS = 1.5  # a token so much slower than usual ends a trial
_WORSE = 1.2  # a count so much slower: those beyond it are not tried
_BETTER = 0.95  # of the usual seconds: worth a change
_DRIFT = 1.25  # the usual seconds changed by so much are another load; a growing context changes them slowly
_SOON, _LATE = 8, 64  # tokens between two trials: twice as many after each that brought nothing
_CORE = 0.5  # cores more or fewer that others keep busy: worth a look


def ladder(most: int) -> tuple[int, ...]:
    """The counts that are tried: near the top each, where a core or two are taken by others, then fewer and fewer."""
    steps = {most, most - 1, most - 2, most - most // 4, most // 2, most // 4, 1}
    return tuple(sorted((count for count in steps if 0 < count <= most), reverse=True))


class Crew:
    """Keeps to a count and tries others: all of them at first and when the load has changed, else the next one, ever
    more seldom. A trial is a few tokens, or one where that is clearly slower. `still`: it stays with the first."""

    def __init__(self, most: int, still: bool = False) -> None:
        self._counts = (most,) if still else ladder(most)
        self._at = 0  # the place of the count that is kept to
        self._recent: deque[float] = deque(maxlen=5)  # seconds of the last tokens at it
        self._usual = 0.0  # their middle, followed slowly; 0: not known
        self._queue = [*range(1, len(self._counts))]  # places to be tried
        self._trial: list[float] = []
        self._wait = self._gap = _SOON
        self._rounds = 0
        self._heard = self._others = 0.0  # cores that others keep busy: last time, the last two times at most

    @property
    def count(self) -> int:
        """Threads for the next token."""
        return self._counts[self._queue[0] if self._trying else self._at]

    @property
    def settled(self) -> int:
        """The count that is kept to."""
        return self._counts[self._at]

    @property
    def _trying(self) -> bool:
        """Not before it is known what the count that is kept to takes."""
        return bool(self._queue) and len(self._recent) >= _TRIAL

    def hear(self, others: float) -> None:
        """Other processes keep so many cores busy, as the system tells. Cores that came free, and are so the next time,
        are tried; that cores are taken shows by itself, in what a token takes."""
        held, self._heard = max(others, self._heard), others
        if held < self._others - _CORE and self._at:
            self._look(range(self._at - 1, -1, -1))
        self._others = held

    def took(self, seconds: float) -> None:
        """A token at `count` took so long."""
        if self._trying:
            self._judge(seconds)
            return
        self._recent.append(seconds)
        if not self._queue and len(self._recent) >= _TRIAL and len(self._counts) > 1:
            self._watch(statistics.median(list(self._recent)[-_TRIAL:]))

    def _watch(self, now: float) -> None:
        """Whether it is time for a trial: something has changed, or the last one is long ago."""
        self._usual = 0.95 * self._usual + 0.05 * now if self._usual else now
        self._wait -= 1
        if not 1 / _DRIFT <= now / self._usual <= _DRIFT:
            self._look([*range(self._at + 1, len(self._counts)), *range(self._at - 1, -1, -1)])
        elif self._wait <= 0:
            self._rounds += 1
            last = len(self._counts) - 1
            fewer = self._at == 0 or (self._at < last and self._rounds % 4 == 0)  # a core that is free again shows in
            self._queue = [self._at + 1 if fewer else self._at - 1]  # no other way; one that is taken slows us down
            self._gap = min(_LATE, 2 * self._gap)
            self._wait = self._gap

    def _look(self, places: Iterable[int]) -> None:
        """These are tried, as soon as it is known what the present count takes now."""
        self._queue = [*places]
        self._recent.clear()
        self._trial = []
        self._afresh()

    def _afresh(self) -> None:
        self._usual = 0.0
        self._wait = self._gap = _SOON

    def _judge(self, seconds: float) -> None:
        """Of the count that is tried: as soon as it can be told, kept to or put off."""
        place, usual = self._queue[0], statistics.median(self._recent)
        self._trial.append(seconds)
        hopeless = seconds > _HOPELESS * usual
        if len(self._trial) < _TRIAL and not hopeless:
            return
        found = seconds if hopeless else statistics.median(self._trial)
        if found < _BETTER * usual:
            self._keep_to(place)
        elif found > _WORSE * usual:
            self._queue = [other for other in self._queue if (other < self._at) != (place < self._at)]
        else:
            self._queue.pop(0)
        self._trial = []

    def _keep_to(self, place: int) -> None:
        """The count is better; what is left to be tried lies beyond it."""
        self._queue = [other for other in self._queue if (other - place) * (place - self._at) > 0]
        self._recent.clear()
        self._recent.extend(self._trial)
        self._at = place
        self._afresh()
