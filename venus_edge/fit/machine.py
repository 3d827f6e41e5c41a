"""THIS MACHINE -> what it has for a model: memory that is free, cores, devices as llama.cpp sees them, disk.

In: the system's own files and calls, and llama.cpp's device list; nothing is started. Out: the planner's Machine.
Limits of a container count. What cannot be told is 0.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venus_edge.engine import cgroup, devices, library, machine, offload
from venus_edge.engine.offload import Card
from venus_edge.fit.planner import Gpu, Machine
from venus_edge.fit.sizes import GIB, MIB
from venus_edge.values import KV_NAMES, KvTypes


@dataclass(frozen=True, slots=True)
class Build:
    """The llama.cpp that is installed: version of its package, CPU features it was built with, whether it offloads."""

    version: str
    features: tuple[str, ...]
    offload: bool


def probe() -> Machine:
    """The machine as it is now. Raises EngineError if llama.cpp cannot be loaded."""
    made, reached = build(), devices.build()
    total, free = memory()
    return Machine(
        ram_total=total,
        ram_free=max(0, free - max(512 * MIB, total // 32)),  # room for what other programs do meanwhile
        cores=machine.cores(),
        gpus=tuple(gpu(card) for card in reached.cards),
        repacks=repacks(made.features),
        offload=made.offload,
        unmixable=frozenset(_unmixable(reached)),
    )


def build() -> Build:
    """What the installed llama.cpp can do. Raises EngineError if it cannot be loaded."""
    from importlib.metadata import version

    lib = library.load()
    said = lib.llama_print_system_info().decode("utf-8", "replace").replace("CPU :", "")
    features = tuple(part.split("=")[0].strip() for part in said.split("|") if part.strip().endswith("= 1"))
    return Build(version("llama-cpp-python"), features, bool(lib.llama_supports_gpu_offload()))


def repacks(features: tuple[str, ...]) -> frozenset[str]:
    """The types that llama.cpp copies into a layout of its own on a CPU of these features (ggml-cpu/repack.cpp). None
    with AMX, where the engine keeps it from that (engine/weights.py)."""
    if "REPACK" not in features or "AMX_INT8" in features:
        return frozenset()
    found: set[str] = set()
    if "AVX2" in features:
        found |= {"Q4_0", "Q4_K", "IQ4_NL"}
    if "AVX512" in features:
        found.add("Q2_K")
    if "NEON" in features and "DOTPROD" in features:
        found |= {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL"}
    return frozenset(found)


def disk_free(path: Path) -> int:
    """Free bytes where a path is or would be made."""
    place = next((parent for parent in (path, *path.parents) if parent.exists()), Path.cwd())
    return shutil.disk_usage(place).free


# -- memory -----------------------------------------------------------------------------------------------------------


def memory() -> tuple[int, int]:
    """Bytes in all and bytes that a program may take, both within the limit of a container."""
    total, free = _system()
    limit, used = cgroup.memory()
    if limit and (not total or limit < total):
        return limit, max(0, min(free, limit - used))
    return total, free


def _system() -> tuple[int, int]:
    if sys.platform == "win32":
        return _windows()
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0, 0
    free = machine.available_memory()
    if sys.platform == "darwin":  # it does not tell what could be freed: as a described machine, see the planner
        free = total - max(3 * GIB, total // 5)
    return total, min(free, total)


def _windows() -> tuple[int, int]:
    names = ("total", "free", "page", "page_free", "virtual", "virtual_free", "extended")
    fields = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong), *((name, ctypes.c_ulonglong) for name in names)]
    status: Any = type("Status", (ctypes.Structure,), {"_fields_": fields})()
    status.length = ctypes.sizeof(status)
    kernel: Any = getattr(ctypes, "windll").kernel32  # noqa: B009  (not there elsewhere)
    return (int(status.total), int(status.free)) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else (0, 0)


# -- devices ----------------------------------------------------------------------------------------------------------


def gpu(card: Card) -> Gpu:
    """A card of llama.cpp's as the planner takes it: a part stays with the system and the driver."""
    unified = card.integrated or sys.platform == "darwin"
    spare = max(256 * MIB, card.total // 20)
    return Gpu(card.description, card.total, max(0, card.free - spare), unified)


def _unmixable(reached: offload.Build) -> Iterator[str]:
    """The pairs of KV types that the cards do not compute with as they are."""
    for kv in (KvTypes(k, v) for k in KV_NAMES for v in KV_NAMES):
        if not offload.mixes(reached.cards, reached.info, kv, None):
            yield str(kv)
