"""THE LIMITS OF THIS PROCESS'S CONTAINERS: memory and cores, of cgroup version 2 and 1. 0 where there is no limit.

In: the mounted tree and the process's own place in it. A limit holds for all that is below it, so each group from the
process's own up to the root counts; inside a container the own place may not be visible, and the root is its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
_NO_LIMIT = 2**60  # version 1 writes its largest number for none


def own() -> str:
    """The process's place in each tree, as the kernel tells it."""
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def memory(root: Path = ROOT, place: str | None = None) -> tuple[int, int]:
    """The limit of the group that has the least left, and what that cannot give back, in bytes; (0, 0) for no limit."""
    found = [limits for group in _groups(root, place, "memory") if (limits := _memory(group))[0]]
    return min(found, key=lambda limits: limits[0] - limits[1], default=(0, 0))


def cores(root: Path = ROOT, place: str | None = None) -> int:
    """Whole cores of the smallest share ("200000 100000" is two), at least one; 0 for no limit."""
    return min((share for group in _groups(root, place, "cpu") if (share := _share(group))), default=0)


def _groups(root: Path, place: str | None, controller: str) -> Iterator[Path]:
    """The directories of a controller that count for this process, its own first."""
    for line in (own() if place is None else place).splitlines() or ["0::/"]:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            tops = [root, root / "unified"]
        elif controller in controllers.split(","):
            tops = [root / controller, root / controllers]
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for top in tops:
            yield from (group for part in (inside, *inside.parents) if (group := top / part).is_dir())
    yield root / controller


def _memory(group: Path) -> tuple[int, int]:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
    stat = dict(line.split(" ", 1) for line in _lines(group / "memory.stat") if " " in line)
    cached = stat.get("total_inactive_file", stat.get("inactive_file", ""))  # version 1 has both: of all below, its own
    used -= int(cached) if cached.isdigit() else 0  # the file cache goes first
    return (limit, max(0, used)) if 0 < limit < _NO_LIMIT else (0, 0)


def _share(group: Path) -> int:
    """Of version 2 "share period" in one file, of version 1 two files."""
    share, _, period = "".join(_lines(group / "cpu.max")).partition(" ")
    if not share:
        share = "".join(_lines(group / "cpu.cfs_quota_us"))
        period = "".join(_lines(group / "cpu.cfs_period_us"))
    return max(1, int(share) // int(period)) if share.isdigit() and period.isdigit() and int(period) else 0


def _number(path: Path) -> int:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
