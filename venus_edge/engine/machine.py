"""WHAT THIS MACHINE HAS for a model: cores that compute, memory that is free. 0 where the system does not tell."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> int:
    """Physical cores that this process may use: two threads on one core slow llama.cpp down."""
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # macOS, Windows
        return max(1, os.cpu_count() or 1)
    siblings = (Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in usable)
    try:
        return max(1, len({path.read_text() for path in siblings}))
    except OSError:
        return max(1, len(usable))


def available_memory() -> int:
    """Bytes that a program can take without pushing others out."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
