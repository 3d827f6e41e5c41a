"""Every released run played again without a model: tokens evaluated for each token of the final conversation.

python -m tests.bench.replay ../shared
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.engine.replay import replay
from tests.engine.vocabulary import write_vocabulary
from tests.protocol.runs import released
from venus_edge.engine.vocabulary import open_vocabulary


def main(shared: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = open_vocabulary(write_vocabulary(Path(folder) / "vocabulary.gguf"))
        sys.stdout.write("run      turns  retries  evaluated  conversation  ratio\n")
        for run in released(shared):
            engine, result = replay(vocabulary, run.messages)
            evaluated, held = engine.stats.evaluated_tokens, result.final_token_count
            retries = result.dedup_count + result.parse_error_count
            name = run.name.partition(".")[0]
            counts = f"{result.turns:5}  {retries:7}  {evaluated:9,}  {held:12,}  {evaluated / held:5.3f}"
            sys.stdout.write(f"{name:9}{counts}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
