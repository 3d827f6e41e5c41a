"""Side by side, in order, and never longer than the deadline."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from venus_edge.abreast import abreast


def test_the_work_is_done_at_once_and_the_results_keep_their_order() -> None:
    together = threading.Barrier(3)

    def meet(item: str) -> str:
        together.wait(10)  # breaks unless all three are here at once
        return item.upper()

    assert abreast(meet, ["a", "b", "灯塔"]) == ["A", "B", "灯塔"]
    assert abreast(meet, []) == []


def test_what_hangs_is_left_behind_at_the_deadline() -> None:
    over = threading.Event()

    def work(item: int) -> int:
        return item if item else int(over.wait(30))

    began = time.monotonic()
    assert abreast(work, [1, 0, 2], began + 0.3) == [1, None, 2]
    assert time.monotonic() - began < 5
    over.set()


def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        abreast(lambda n: 1 // n, [1, 0])


PROCESS = """
import threading, time
from venus_edge.sources.provider import Reply
from venus_edge.sources.search import Search
from venus_edge.tools.search import search
from venus_edge.values import Hit, SearchCall

class Hanging:
    name, whole_web, pause = "hanging", True, 0.0
    def ask(self, query, limit, deadline):
        if query == "there":
            return Reply((Hit("灯塔", "https://example.org/", "s"),))
        threading.Event().wait(600)

began = time.monotonic()
result = search(SearchCall(("hangs", "there", "hangs too")), Search((Hanging(),), seconds=1.0), "rl")
assert time.monotonic() - began < 4
print([found.failure.trouble.name if found.failure else len(found.hits) for found in result.found])
"""


def test_a_service_that_hangs_costs_its_own_query_and_the_process_can_exit() -> None:
    done = subprocess.run([sys.executable, "-c", PROCESS], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("['TIMEOUT', 1, 'TIMEOUT']\n", 0), done.stderr
