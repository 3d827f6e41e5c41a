"""THE THREADS OF A CONTEXT: how many generate, how many read, told to llama.cpp in time.

In: options, each batch before and after llama.cpp evaluates it. Out: counts set in the context. Those that the person
chose stay; what generates is otherwise a `crew`'s count, learned from single tokens, and what reads is all cores.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from venus_edge.engine import machine
from venus_edge.engine.crew import Crew
from venus_edge.engine.options import EngineOptions

DRAFTED = 16  # tokens of a batch that may be a draft: it takes the threads that generate


class Threads:
    """`tell(generating, reading)` is llama.cpp's setter. llama.cpp takes the second for every batch of more than one
    token, for a draft too."""

    def __init__(self, opts: EngineOptions, tell: Callable[[int, int], None]) -> None:
        asked = opts.n_threads or machine.asked_threads(os.environ)
        self.first = asked or machine.cores()
        self.reading = opts.n_threads_batch or self.first
        self._crew = None if asked or opts.keeps_threads else Crew(self.first)
        self._others = machine.Others()
        self._tell = tell
        self._told = (self.first, self.reading)
        self._began = 0.0

    @property
    def generating(self) -> int:
        """The count that is kept to at present."""
        return self._crew.settled if self._crew else self.first

    def before(self, tokens: int) -> None:
        """A batch is about to be evaluated."""
        now = self._crew.count if self._crew and tokens == 1 else self.generating
        wanted = (now, now if tokens <= DRAFTED else self.reading)
        if wanted != self._told:  # llama.cpp writes a line into its log each time
            self._told = wanted
            self._tell(*wanted)
        self._began = time.perf_counter()

    def after(self, tokens: int) -> None:
        """It was evaluated. What more than one token takes tells nothing of the count."""
        if self._crew is None or tokens != 1:
            return
        self._crew.took(time.perf_counter() - self._began)
        if (others := self._others.busy()) is not None:
            self._crew.hear(others)
