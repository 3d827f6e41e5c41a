"""HOW MANY TOKENS TO DRAFT: by what a batch costs here and how many drafts came true.

In: seconds of evaluations, the fate of drafts. Out: a length, 0 where a draft would cost more than it brings. Pure: the
clock is the caller's.
"""

from __future__ import annotations

from venus_edge.engine.lookup import FAR

MOST = 8  # drafted tokens; a batch's outputs are bounded (context.OUTPUTS)
_WORTH = 1.03  # a gain below this is noise
_PROBE = 32  # of the chances that do not pay, one in so many is taken with a single token, to see whether they do now


class Pace:
    """Learns as it goes. It starts hopeful: a token more costs 0.3 of one (measured: 0.1 to 0.4), seven in ten drafted
    tokens come true; a handful of drafts corrects both."""

    def __init__(self) -> None:
        self._single = 0.0  # seconds of a batch of one
        self._slope = 0.3  # what each token more costs, in singles
        self._came_true = [2.1] * (FAR + 2)  # drafted tokens by how far the context agreed, old ones fading
        self._tried = [3.0] * (FAR + 2)
        self._passed = 0

    def length(self, agreed: int) -> int:
        """The draft that brings the most tokens a second, given the agreement of its context."""
        best = max(range(MOST + 1), key=lambda count: self._gain(agreed, count))
        if best and self._gain(agreed, best) >= _WORTH:
            return best
        self._passed += 1
        return int(self._passed % _PROBE == 0)

    def _gain(self, agreed: int, count: int) -> float:
        """Tokens a second with a draft of `count` as a multiple of those without."""
        p = self._came_true[agreed] / self._tried[agreed]
        return float(sum(p**i for i in range(count + 1))) / (1 + self._slope * count)

    def took(self, tokens: int, seconds: float) -> None:
        """A batch of `tokens` took so long. A pause of the machine counts as little as possible."""
        if tokens == 1:
            usual = self._single or seconds
            self._single = 0.9 * usual + 0.1 * min(seconds, 2 * usual)
        elif self._single:
            slope = (seconds / self._single - 1) / (tokens - 1)
            self._slope = 0.9 * self._slope + 0.1 * min(max(slope, 0.0), 2.0)

    def judged(self, agreed: int, came_true: int, failed: bool) -> None:
        """Of a draft so many tokens came true, and then one did not, or there was none left."""
        self._came_true[agreed] = 0.98 * self._came_true[agreed] + came_true
        self._tried[agreed] = 0.98 * self._tried[agreed] + came_true + failed
