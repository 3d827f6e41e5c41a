"""A CLOCK THAT ONLY A PAUSE MOVES: what a test gives where the time and sleeping are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clock:
    """Called, the seconds since 1970; `slept` are the pauses that were made of it, in seconds."""

    now: float = 1_800_000_000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
