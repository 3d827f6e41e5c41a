"""WHAT THIS MACHINE HAS for a model: cores that compute, memory that is free. 0 where the system does not tell."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from venus_edge.engine import cgroup


def cores() -> int:
    """Physical cores that this process may use: two threads on one core slow llama.cpp down."""
    return max(1, min(_physical(), cgroup.cores() or 1_024))


def _physical() -> int:
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
    siblings = {_read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in usable}
    return len(usable) if "" in siblings else len(siblings)


def asked_threads(environment: Mapping[str, str]) -> int | None:
    """The count that the person set for OpenMP, which llama.cpp itself passes over; None for none."""
    said = (environment.get(name, "").split(",")[0].strip() for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"))
    return min((int(text) for text in said if text.isdigit() and int(text)), default=None)


class Others:
    """How much of the machine other processes use, looked at once a second."""

    EVERY = 1.0  # seconds; a shorter time is told in too few ticks

    def __init__(self) -> None:
        self._before = (time.monotonic(), *_ticks())

    def busy(self) -> float | None:
        """Cores that others kept busy since the last answer; None if that is too short ago or cannot be told."""
        now = time.monotonic()
        if now - self._before[0] < self.EVERY:
            return None
        before, self._before = self._before, (now, *_ticks())
        return share_of_others(before, self._before)


def share_of_others(before: tuple[float, float, float], now: tuple[float, float, float]) -> float | None:
    """Of two readings of (seconds of the clock, of all processes, of this one): the cores between them that others
    kept busy."""
    if not before[1] or not now[1] or now[0] <= before[0]:
        return None
    return max(0.0, (now[1] - before[1]) - (now[2] - before[2])) / (now[0] - before[0])


def _ticks() -> tuple[float, float]:
    """Processor seconds of all processes since the start (0 where the system does not tell), and of this one."""
    mine = os.times()
    return busy_seconds(_read("/proc/stat")), mine.user + mine.system


def busy_seconds(stat: str) -> float:
    """The first line of /proc/stat, without idle, waiting for disks, and what is counted twice (guests)."""
    name, _, rest = stat.partition("\n")[0].partition(" ")
    fields = rest.split()
    if name != "cpu" or len(fields) < 7 or not all(field.isdigit() for field in fields):
        return 0.0
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def available_memory() -> int:
    """Bytes that a program can take without pushing others out."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
