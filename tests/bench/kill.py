"""A run of the demo's model killed -9 at random moments and resumed until it is done: what is lost, what is done twice.

python -m tests.bench.kill --kills 200 --seed 1
Each run is a process of its own, forked from this one, which has the modules loaded and nothing else. Exit code 1 where
a completed turn was lost or done twice, or an answer is not the one of the run that was not killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venus_edge import demo
from venus_edge.cli.app import cli
from venus_edge.sessions.summary import summaries

Record = dict[str, Any]
MOST_KILLS = 8  # of one run: then it may finish


@dataclass
class Tally:
    """What was seen. `wrong` are sentences, one for each thing that must not be."""

    runs: int = 0
    resumed: int = 0
    fell: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.fell.total()


def preload() -> None:
    """Everything that a run imports, so that a process costs a fork."""
    import llama_cpp  # noqa: F401  (loaded once here, for every fork)
    import rich.live  # noqa: F401  (as above)

    import venus_edge.cli.keys
    import venus_edge.cli.resume
    import venus_edge.cli.run
    import venus_edge.corpus.index
    import venus_edge.engine.llama
    import venus_edge.runtime
    import venus_edge.sources.extract  # noqa: F401  (as above)


def child(arguments: list[str]) -> int:
    """The program in a process of its own, its output in nobody's way: the process's id."""
    pid = os.fork()
    if pid:
        return pid
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    code = 1
    try:
        cli.main(arguments, standalone_mode=False)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def killed(pid: int, after: float) -> bool:
    """Kills the process after so many seconds; False if it was done before."""
    until = time.monotonic() + after
    while (left := until - time.monotonic()) > 0:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(min(left, 0.005))
    os.kill(pid, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def whole_lines(path: Path) -> bytes:
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def events(data: bytes) -> list[Record]:
    return [record for line in data.splitlines() if "event" in (record := json.loads(line))]


class Bench:
    """Runs in one home, killed by one source of chance."""

    def __init__(self, home: Path, seed: int) -> None:
        os.environ |= {f"VENUS_{name}_DIR": str(home / name.lower()) for name in ("DATA", "CACHE", "CONFIG")}
        self.sessions = home / "data" / "sessions"
        self.tally = Tally()
        self._chance = random.Random(seed)
        self._seconds = 0.0
        self._whole: dict[str, Record] = {}

    def unkilled(self, question: str) -> Record:
        """The end of a run of the question that nobody kills, played once."""
        if question not in self._whole:
            began, before = time.monotonic(), set(self.sessions.glob("*.jsonl"))
            os.waitpid(child(["run", "--demo", "-q", question]), 0)
            self._seconds = time.monotonic() - began
            (path,) = set(self.sessions.glob("*.jsonl")) - before
            self._whole[question] = events(path.read_bytes())[-1]["result"]
            path.unlink()
        return self._whole[question]

    def run(self, question: str, kills: int) -> None:
        """One run, killed at most so often, then let be."""
        expected, before, kept = self.unkilled(question), set(self.sessions.glob("*.jsonl")), b""
        arguments, path = ["run", "--demo", "-q", question], None
        self.tally.runs += 1
        for _ in range(kills):
            alive = killed(child(arguments), self._chance.uniform(0, 1.1 * self._seconds))
            path = next(iter(set(self.sessions.glob("*.jsonl")) - before), None)
            if not alive:
                break
            kept = self._look(path, kept) if path else kept
            if path and events(kept):
                arguments = ["sessions", "resume", path.stem, "-q"]
            elif path:
                path.unlink()  # it had not begun: there is nothing to go on from, and the question is asked again
            else:
                self.tally.fell["before the session"] += 1
        if path is None or not path.exists() or not self._is_done(path):
            self.tally.resumed += arguments[0] == "sessions"
            os.waitpid(child(arguments), 0)
        (path,) = set(self.sessions.glob("*.jsonl")) - before
        self._check(question, path, kept, expected)
        path.unlink()

    @staticmethod
    def _is_done(path: Path) -> bool:
        last = events(whole_lines(path))
        return bool(last) and last[-1]["event"] == "Finished"

    def _look(self, path: Path, kept: bytes) -> bytes:
        """What is on the disk after a kill; notes where it fell."""
        now = whole_lines(path)
        found = events(now)
        last = found[-1] if found else {"event": "the head"}
        self.tally.fell[f"turn {last.get('turn', '-')}, after {last['event']}"] += 1
        if not now.startswith(kept):
            self.tally.wrong.append(f"{path.stem}: what was written before the kill is not there any more")
        return now if found else b""

    def _check(self, question: str, path: Path, kept: bytes, expected: Record) -> None:
        data = path.read_bytes()
        found = events(data)
        wrong = self.tally.wrong
        if not data.startswith(kept):
            wrong.append(f"{question}: lines of before a kill are lost")
        for name, wanted in (("Replied", expected["turns"]), ("ToolReturned", expected["tool_call_count"])):
            turns = [record["turn"] for record in found if record["event"] == name]
            if turns != list(range(1, wanted + 1)):
                wrong.append(f"{question}: {name} of turns {turns}, {wanted} expected")
        result = found[-1].get("result", {})
        for name in (
            "prediction",
            "termination",
            "messages",
            "turns",
            "tool_call_count",
            "final_token_count",
            "sources",
        ):
            if result.get(name) != expected[name]:
                wrong.append(f"{question}: {name} is {result.get(name)!r}, was {expected[name]!r}"[:300])


def main() -> int:
    """Prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    preload()
    chance = random.Random(given.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home), given.seed)
        while bench.tally.kills < given.kills:
            question = chance.choice(demo.questions()).text
            bench.run(question, min(chance.randint(1, MOST_KILLS), given.kills - bench.tally.kills))
        left = summaries(bench.sessions)
    tally = bench.tally
    print(f"{tally.kills} kills of {tally.runs} runs in {time.monotonic() - began:.0f} s")  # noqa: T201  (a bench prints)
    for place, count in sorted(tally.fell.items()):
        print(f"  {count:4}  {place}")  # noqa: T201  (a bench prints)
    print(f"wrong: {len(tally.wrong)}; sessions left over: {len(left)}")  # noqa: T201  (a bench prints)
    print("\n".join(tally.wrong[:20]))  # noqa: T201  (a bench prints)
    return 1 if tally.wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
