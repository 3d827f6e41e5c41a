"""Threads chosen by what tokens take: machines of many kinds, simulated, and loads that come and go."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.engine.crew import Crew, ladder

Machine = Callable[[int], float]  # threads -> seconds of a token


def cores(most: int, busy: int = 0, wait: float = 2.5) -> Machine:
    """A machine whose other processes keep `busy` cores: a thread that shares its core holds up all the others."""

    def seconds(threads: int) -> float:
        alone = 0.02 + 0.08 * 2 / threads
        return alone * wait if threads > most - busy and busy else alone

    return seconds


def narrow(threads: int) -> float:
    """A machine whose memory is busy with four threads: more are slower."""
    return 0.1 / min(threads, 4) + 0.002 * max(0, threads - 4)


def run(crew: Crew, machine: Machine, tokens: int, noise: float = 0.0, seed: int = 1) -> list[int]:
    """The counts of so many tokens."""
    source, counts = random.Random(seed), []
    for _ in range(tokens):
        counts.append(crew.count)
        crew.took(machine(crew.count) * (1 + noise * source.random()))
    return counts


def share(machine: Machine, counts: list[int], most: int) -> float:
    """The speed over these tokens, as a share of the best count's."""
    return min(machine(count) for count in range(1, most + 1)) * len(counts) / sum(map(machine, counts))


def test_the_counts_that_are_tried_are_few_and_begin_and_end_at_the_extremes() -> None:
    assert [ladder(most) for most in (1, 2, 3, 4, 8, 16)] == [
        (1,), (2, 1), (3, 2, 1), (4, 3, 2, 1), (8, 7, 6, 4, 2, 1), (16, 15, 14, 12, 8, 4, 1),
    ]  # fmt: skip


@given(st.integers(1, 512))
def test_any_machine_has_counts_to_try(most: int) -> None:
    counts = ladder(most)
    assert (counts[0], counts[-1]) == (most, 1)
    assert len(counts) <= 7
    assert list(counts) == sorted(set(counts), reverse=True)


def test_a_machine_of_one_core_has_nothing_to_choose() -> None:
    assert set(run(Crew(1), cores(1), 300, noise=2.0)) == {1}


def test_one_that_was_chosen_stays() -> None:
    crew = Crew(8, still=True)
    assert set(run(crew, cores(8, 1), 300, noise=2.0)) == {8}
    for load in (1.0, 1.0, 0.0, 0.0):
        crew.hear(load)
    assert set(run(crew, cores(8), 100)) == {8}


@pytest.mark.parametrize("most", [2, 3, 4, 6, 8, 16, 64])
def test_on_an_idle_machine_all_cores_work_and_looking_costs_under_five_percent(most: int) -> None:
    counts = run(Crew(most), cores(most), 300)
    assert counts[-1] == most
    assert share(cores(most), counts, most) > 0.95
    assert share(cores(most), counts[50:], most) > 0.97


@pytest.mark.parametrize("most", [2, 3, 4, 6, 8, 16])
def test_beside_a_busy_process_from_the_start_one_core_is_left_to_it(most: int) -> None:
    counts = run(Crew(most), cores(most, 1), 300)
    assert counts[:4] == [most, most, most, most - 1]
    assert counts.count(most - 1) > 250
    assert share(cores(most, 1), counts, most) > 0.9


@pytest.mark.parametrize(("most", "busy"), [(8, 2), (8, 4), (16, 4), (16, 8)])
def test_beside_many_busy_processes_the_trials_go_on_past_counts_that_are_no_better(most: int, busy: int) -> None:
    counts = run(Crew(most), cores(most, busy), 200)
    assert counts[-1] == most - busy
    assert share(cores(most, busy), counts[20:], most) > 0.9


def test_more_threads_than_the_memory_feeds_are_given_up() -> None:
    crew = Crew(16)
    counts = run(crew, narrow, 300)
    assert crew.settled == 4
    assert share(narrow, counts[30:], 16) > 0.9


@pytest.mark.parametrize("most", [2, 4, 8])
def test_a_load_that_comes_is_met_within_eight_tokens(most: int) -> None:
    crew = Crew(most)
    run(crew, cores(most), 200)
    counts = run(crew, cores(most, 1), 200)
    assert counts.index(most - 1) < 8
    assert share(cores(most, 1), counts[8:], most) > 0.9


@pytest.mark.parametrize("most", [2, 4, 8])
def test_a_load_that_goes_is_noticed_at_the_next_trial_and_sooner_where_the_system_tells(most: int) -> None:
    crew = Crew(most)
    run(crew, cores(most, 1), 400)
    counts = run(crew, cores(most), 200)
    assert counts.index(most) <= 66
    assert crew.settled == most

    crew = Crew(most)
    run(crew, cores(most, 1), 400)
    for load in (1.0, 1.0, 0.1, 0.1):
        crew.hear(load)
    counts = run(crew, cores(most), 200)
    assert counts.index(most) <= 4
    assert share(cores(most), counts[8:], most) > 0.95


def test_what_the_system_tells_decides_nothing_by_itself() -> None:
    crew = Crew(2)
    for load in (0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0):
        crew.hear(load)
        assert run(crew, cores(2), 40)[-1] == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_noisy_machine_costs_little(seed: int) -> None:
    crew = Crew(2)
    counts = run(crew, cores(2), 400, noise=0.4, seed=seed)
    assert share(cores(2), counts, 2) > 0.93
    counts = run(crew, cores(2, 1), 400, noise=0.4, seed=seed)
    assert share(cores(2, 1), counts, 2) > 0.85


def test_a_pause_of_the_machine_changes_nothing_for_long() -> None:
    crew = Crew(2)
    run(crew, cores(2), 100)
    crew.took(3.0)
    assert run(crew, cores(2), 60).count(1) <= 3


def test_a_context_that_grows_is_no_other_load() -> None:
    crew = Crew(2)
    run(crew, cores(2), 100)
    others = 0
    for token in range(4_000):
        others += crew.count != 2
        crew.took(cores(2)(crew.count) * (1 + token / 2_000))
    assert others <= 4_000 / 64 + 1


@given(st.integers(1, 16), st.lists(st.floats(1e-6, 10.0), max_size=400), st.lists(st.floats(0, 64), max_size=20))
def test_whatever_it_sees_it_gives_one_of_its_counts(most: int, taken: list[float], loads: list[float]) -> None:
    crew, heard = Crew(most), iter(loads)
    for number, seconds in enumerate(taken):
        assert {crew.count, crew.settled} <= set(ladder(most))
        crew.took(seconds)
        if number % 20 == 0 and (load := next(heard, None)) is not None:
            crew.hear(load)
