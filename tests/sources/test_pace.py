"""Requests wait for their turn: a pause at each host, and so many at once."""

from __future__ import annotations

import threading

import pytest

from tests.sources.loopback import Site, open_gate
from venus_edge.sources.address import Address, parse
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.pace import Pace
from venus_edge.values import Failure, Trouble


def test_two_requests_to_one_host_have_a_pause_between_them_and_to_two_hosts_none() -> None:
    slept: list[float] = []
    pace = Pace(2.0, clock=lambda: 100.0, sleep=slept.append)
    for host in ("a", "b", "a", "a"):
        with pace.turn(host, 200.0):
            pass
    assert slept == [2.0, 4.0]


def test_a_turn_that_would_come_too_late_is_not_waited_for() -> None:
    slept: list[float] = []
    pace = Pace(2.0, clock=lambda: 100.0, sleep=slept.append)
    with pace.turn("a", 101.0):
        pass
    with pytest.raises(TimeoutError), pace.turn("a", 101.0):
        pass
    with pace.turn("b", 101.0):
        pass
    assert slept == []


def test_no_more_at_once_than_there_may_be() -> None:
    pace, inside, most, lock = Pace(at_once=2), [0], [0], threading.Lock()
    step = threading.Event()

    def go() -> None:
        with pace.turn("a", float("1e9")):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            step.wait(0.02)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == [2]


def test_a_fetch_waits_for_its_turn(site: Site) -> None:
    slept: list[float] = []
    fetcher = Fetcher(open_gate(), Limits(seconds=20), pace=Pace(9.0, clock=lambda: 0.0, sleep=slept.append))
    address = parse(site.page("/", "x"))
    assert isinstance(address, Address)
    for _ in range(3):
        assert not isinstance(fetcher.fetch(address), Failure)
    assert slept == [9.0, 18.0]
    late = Fetcher(open_gate(), Limits(seconds=0.0), pace=Pace(at_once=1))
    failure = late.fetch(address)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.TIMEOUT
