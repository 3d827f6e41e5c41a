"""QUESTIONS ON STDIN -> ANSWERS ON STDOUT, of the indexes of the ZIM archive that is named. Run as a file of its own by
`zimindex`: libzim ends the process that comes upon damage while it reads results, and what crashes here crashes alone.

In, a line of JSON: {"text": [words, ...], "titles": [words, ...], "limit": most results}. Out, a line for it, either
{"text": [[matches, [path, ...]], ...], "titles": [[path, ...], ...]} or {"trouble": why}. Imports nothing of ours.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from functools import cached_property
from pathlib import Path
from typing import Any


class Indexes:
    """Those of an archive, opened when they are first asked."""

    def __init__(self, file: Path) -> None:
        self._archive = importlib.import_module("libzim.reader").Archive(file)

    @cached_property
    def _texts(self) -> Any:
        return importlib.import_module("libzim.search").Searcher(self._archive)

    @cached_property
    def _titles(self) -> Any:
        return importlib.import_module("libzim.suggestion").SuggestionSearcher(self._archive)

    def text(self, words: str, limit: int) -> tuple[int, list[str]]:
        """How many entries have all of the words, and the best of them."""
        query = importlib.import_module("libzim.search").Query().set_query(words)
        found = self._texts.search(query)
        return int(found.getEstimatedMatches()), list(found.getResults(0, limit))

    def titles(self, words: str, limit: int) -> list[str]:
        return list(self._titles.suggest(words).getResults(0, limit))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which may go on
    indexes = Indexes(Path(sys.argv[1]))
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            answer: dict[str, Any] = {
                "text": [indexes.text(words, asked["limit"]) for words in asked["text"]],
                "titles": [indexes.titles(words, asked["limit"]) for words in asked["titles"]],
            }
        except Exception as error:  # noqa: BLE001 - whatever libzim makes of damage, the index is not readable
            answer = {"trouble": str(error)}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
