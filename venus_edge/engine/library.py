"""llama.cpp's C API, loaded when it is first asked for (the only llama_cpp import of the engine).

Out: the ctypes module, and what llama.cpp complained of. Its log goes to the logger `venus_edge.llama`. The casts
between it and typed code are in its users: weights, vocabulary, context, chain, grammar.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import os
import re
from functools import cache
from typing import Any

from venus_edge.engine import offload
from venus_edge.errors import EngineError

_log = logging.getLogger("venus_edge.llama")

WANTED = (0, 3, 36)  # of llama-cpp-python, as in pyproject.toml
_INSTALL = f"pip install --upgrade 'llama-cpp-python>={'.'.join(map(str, WANTED))}'"
_LATEST = ("llama_sampler_init_grammar_lazy_patterns", "llama_state_seq_save_file", "llama_memory_seq_rm")


class Complaints:
    """llama.cpp's log: into `logging`, its errors kept for our own messages, and in `told` what it said of places."""

    ERROR = 4  # GGML_LOG_LEVEL_ERROR

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.told: list[str] = []

    def hear(self, level: int, text: bytes, _: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        if line.strip("."):  # else progress
            _log.debug("%s", line)
            if level == self.ERROR:
                self._lines.append(line)
            elif offload.tells(line):
                self.told.append(line)

    def forget(self) -> None:
        self._lines.clear()
        self.told.clear()

    @property
    def lines(self) -> tuple[str, ...]:
        """All errors since `forget`."""
        return tuple(self._lines)

    @property
    def first(self) -> str:
        """The first since `forget`, without the function that made it: the later ones only pass it on."""
        line = self._lines[0] if self._lines else ""
        head, colon, rest = line.partition(": ")
        line = rest if colon and " " not in head else line
        return line.removeprefix("error loading model: ")


complaints = Complaints()


@cache
def load() -> Any:
    """The C API. Raises EngineError if llama.cpp cannot be loaded.

    OpenMP's threads spin while they wait. Its default is ruinous beside a busy process; 10,000 rounds are the fastest
    on an idle machine, and beside a busy one `crew` chooses fewer threads. (4B geometry, 2 cores, tokens/s idle and
    beside one: the default 5.8 and 2.7, 1,000 rounds 6.7 and 3.6, 4,000 6.9 and 3.4, 10,000 7.1 and 3.2, one thread
    3.9 and 3.9.) It is read when the library loads, so it is set before, and never over what the person chose.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        import llama_cpp.llama_cpp as lib
    except (ImportError, RuntimeError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "llama_cpp":
            raise EngineError(f"llama-cpp-python is not installed: {_INSTALL}") from error
        raise EngineError(
            f"llama.cpp cannot be loaded ({error}): pip install --force-reinstall llama-cpp-python"
        ) from error
    _check(lib)
    lib.venus_edge_log = lib.llama_log_callback(complaints.hear)  # must live as long as the library
    lib.llama_log_set(lib.venus_edge_log, None)
    lib.llama_backend_init()
    return lib


def _check(lib: Any) -> None:
    """Raises EngineError for a library from before what is used of it here, by its version or by what it lacks."""
    found = version()
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    lacks = next((name for name in _LATEST if not hasattr(lib, name)), None)
    if numbers < WANTED or lacks:
        raise EngineError(
            f"llama-cpp-python {found} is too old: {_INSTALL}"
            if numbers < WANTED
            else f"llama-cpp-python {found} has no {lacks}, which is used here: {_INSTALL} --force-reinstall"
        )


def listen() -> None:
    """Complaints are heard from here on, also where somebody else in this process took llama.cpp's log."""
    lib = load()
    lib.llama_log_set(lib.venus_edge_log, None)
    complaints.forget()


def version() -> str:
    """Of llama-cpp-python, and so of the llama.cpp it brings; read without loading it."""
    return importlib.metadata.version("llama-cpp-python")


def text_of(read: Any) -> bytes:
    """What llama.cpp writes into a buffer: `read(buffer, size)` gives its length, negative if there is no room."""
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = int(read(buffer, size))
        if 0 <= length < size:
            return buffer.raw[:length]
        size = max(2 * size, abs(length) + 1)
