"""WHAT THIS MACHINE HAS for a model: cores that compute, memory that is free. 0 where the system does not tell."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> int:
    """Physical cores that this process may use: two threads on one core slow llama.cpp down."""
    return max(1, min(_physical(), _quota(_read("/sys/fs/cgroup/cpu.max")) or 1_024))


def _physical() -> int:
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
    siblings = {_read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in usable}
    return len(usable) if "" in siblings else len(siblings)


def _quota(cpu_max: str) -> int:
    """Whole cores of a container's share ("200000 100000" is two); 0 for no limit."""
    share, _, period = cpu_max.partition(" ")
    return max(1, int(share) // int(period)) if share.isdigit() and period.strip().isdigit() else 0


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
