"""THE INDEXES OF A ZIM ARCHIVE, asked in a process of their own: damage in them ends that one, a circle in it too.

In: words. Out: paths as the index has them, with how many entries have all of the words; IndexDamagedError where it
cannot be read. The process is started by the first question and ends with the object; a new one takes its place after
damage. What is asked, and what is made of it, is `zimrank`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

_CHILD = Path(__file__).with_name("zimchild.py")
_SECONDS = 60.0  # for an answer


class IndexDamagedError(Exception):
    """An index of the archive cannot be read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """For each question to the full text how many entries match, and the best paths; paths for each to the titles."""

    text: tuple[tuple[int, list[str]], ...]
    titles: tuple[list[str], ...]


class Indexes:
    """Not for several threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: weakref.finalize[..., Indexes] | None = None

    def ask(self, text: Sequence[str] = (), titles: Sequence[str] = (), limit: int = 100) -> Answer:
        """All words of each question must match. Raises IndexDamagedError."""
        if not text and not titles:
            return Answer((), ())
        said = self._said({"text": list(text), "titles": list(titles), "limit": limit})
        if "trouble" in said:
            raise IndexDamagedError(said["trouble"])
        return Answer(tuple((count, paths) for count, paths in said["text"]), tuple(said["titles"]))

    def close(self) -> None:
        """Ends the process; a further question starts one again."""
        if self._ending is not None:
            self._ending()
        self._process = self._ending = None

    def _said(self, asked: dict[str, Any]) -> dict[str, Any]:
        process = self._process if self._process and self._process.poll() is None else self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline()))
        except (OSError, ValueError) as error:  # it has ended
            self.close()
            raise IndexDamagedError("it could not be read") from error
        except BaseException:  # the answer is still to come, and would be taken for that of the next question
            self.close()
            raise
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        self.close()
        process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD), str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libzim tells there of damage, in words of its own
        )
        self._process, self._ending = process, weakref.finalize(self, _end, process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # what it was to be told, it did not hear
                stream.close()
