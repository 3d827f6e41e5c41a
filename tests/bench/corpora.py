"""What making a corpus takes, and what it survives: `python -m tests.bench.corpora [documents] [kills]`.

100,000 documents of JSON lines (Zipfian words of a seeded generator) through the command line: seconds, documents a
second, peak memory. Then the same file is built under `kill -9` at random moments until it is whole: after each kill
the corpus must be sound, and in the end hold every document once.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from venus_edge.corpus import store
from venus_edge.corpus.index import Corpus

WORDS = [
    f"{a}{b}{c}" for a in ("ba", "ke", "lo", "mi", "tu", "sa") for b in "bdgklmnprst" for c in ("an", "er", "is", "o")
]


def lines(file: Path, documents: int) -> None:
    """Documents of 20 to 200 words, each with a word of its own."""
    drawn = random.Random(7)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    with file.open("w", encoding="utf-8") as out:
        for number in range(documents):
            text = " ".join(drawn.choices(WORDS, weights, k=drawn.randint(20, 200)))
            row = {"id": str(number), "title": f"Document {number}", "text": f"{text} 灯塔 own{number}"}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def build(home: Path, source: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "venus_edge", "corpus", "create", "bench", str(source)]
    return subprocess.Popen(command, env={**os.environ, "VENUS_DATA_DIR": str(home)}, stderr=subprocess.DEVNULL)


def whole(home: Path, documents: int) -> None:
    """Fails unless every document is there once."""
    with Corpus(home / "corpora" / "bench.sqlite") as corpus:
        assert corpus.info().documents == documents, corpus.info()
        for number in (0, documents // 2, documents - 1):
            assert [hit.title for hit in corpus.search(f"own{number}").hits] == [f"Document {number}"]


def killed(home: Path, source: Path, seconds: float, kills: int) -> int:
    """Kills builds after random parts of a second more than a start takes; how many kills there were."""
    drawn = random.Random(11)
    done = 0
    while done < kills:
        child = build(home, source)
        try:
            child.wait(drawn.uniform(0.3, max(1.0, seconds / 3)))
            (home / "corpora" / "bench.sqlite").unlink()  # whole before the kill: from the start again
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            done += 1
            path = home / "corpora" / "bench.sqlite"
            if path.exists() and path.stat().st_size > 8_192:  # less: ended before its tables were made
                store.check(path)
    return done


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    with tempfile.TemporaryDirectory() as folder:
        home, source = Path(folder), Path(folder) / "bench.jsonl"
        lines(source, documents)
        begun = time.monotonic()
        assert build(home / "one", source).wait() == 0
        seconds = time.monotonic() - begun
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        whole(home / "one", documents)
        size = (home / "one" / "corpora" / "bench.sqlite").stat().st_size / 1e6
        say(f"{documents:,} documents, {source.stat().st_size / 1e6:.0f} MB of JSON lines: {seconds:.1f} s,")
        say(f"{documents / seconds:,.0f} documents/s, peak {peak:.0f} MB resident, file {size:.0f} MB")
        done = killed(home / "two", source, seconds, kills)
        assert build(home / "two", source).wait() == 0
        whole(home / "two", documents)
        say(f"{done} kills at random moments: sound after each, every document once in the end")


if __name__ == "__main__":
    main()
