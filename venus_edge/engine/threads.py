"""THE THREADS OF A CONTEXT: how many generate, how many read, told to llama.cpp in time.

In: options, each batch before and after llama.cpp evaluates it. Out: counts set in the context. Those that the person
chose stay; the others are two `crew`s', one learns from single tokens, one from batches of a prompt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from venus_edge.engine import machine
from venus_edge.engine.crew import Crew
from venus_edge.engine.options import EngineOptions

READ = 256  # tokens of a batch that tells what reading takes: smaller ones cost more a token
DRAFTED = 16  # tokens of a batch that may be a draft: it takes the threads that generate


class Threads:
    """`tell(generating, reading)` is llama.cpp's setter. llama.cpp takes the second for every batch of more than one
    token, for a draft too."""

    def __init__(
        self, opts: EngineOptions, tell: Callable[[int, int], None], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        asked = opts.n_threads or machine.asked_threads(os.environ)
        self.first = asked or machine.cores()
        self.first_reading = opts.n_threads_batch or self.first
        self._generates = Crew(self.first, still=bool(asked) or opts.keeps_threads)
        self._reads = Crew(self.first_reading, still=bool(asked or opts.n_threads_batch))
        self._others = machine.Others()
        self._tell = tell
        self._clock = clock
        self._told = (self.first, self.first_reading)
        self._began = 0.0

    def before(self, tokens: int) -> None:
        """A batch is about to be evaluated."""
        generating = self._generates.count if tokens == 1 else self._generates.settled
        reading = self._reads.count if tokens >= READ else self._reads.settled
        wanted = (generating, generating if tokens <= DRAFTED else reading)
        if wanted != self._told:  # llama.cpp writes a line into its log each time
            self._told = wanted
            self._tell(*wanted)
        self._began = self._clock()

    def after(self, tokens: int) -> None:
        """It was evaluated. A draft, and the short end of a prompt, tell nothing of a count."""
        seconds = self._clock() - self._began
        if tokens == 1:
            self._generates.took(seconds)
        elif tokens >= READ:
            self._reads.took(seconds / tokens)
        if (others := self._others.busy()) is not None:
            self._generates.hear(others)
            self._reads.hear(others)
