"""Tokens a second -> minutes, measured once."""

from __future__ import annotations

from pathlib import Path

import pytest

from venus_edge import demo, registry, runtime
from venus_edge.engine.scripted import ScriptedEngine
from venus_edge.fit import speed
from venus_edge.fit.speed import Estimate, Speed
from venus_edge.settings import Directories, Settings


def test_a_laptop_takes_the_minutes_that_its_speed_says() -> None:
    laptop = Speed(prefill=60.0, decode=10.0)
    assert str(speed.estimate(laptop, "sft", reads=False)) == "about 20 minutes, 12 to 27"
    assert str(speed.estimate(laptop, "rl", reads=True)) == "about 62 minutes, 40 to 104"


def test_twice_the_speed_is_half_the_time() -> None:
    slow, fast = (speed.estimate(Speed(30.0 * k, 5.0 * k), "rl", reads=True) for k in (1, 2))
    assert (fast.usual, fast.least, fast.most) == (slow.usual / 2, slow.least / 2, slow.most / 2)


def test_an_estimate_is_corrected_by_what_was_done() -> None:
    before = Estimate(600.0, 300.0, 1_200.0)
    assert speed.corrected(before, 0.0, 100.0) == before
    assert speed.corrected(before, 1.0, 900.0).usual == pytest.approx(900.0)
    half = speed.corrected(before, 0.5, 600.0).usual  # it goes half as fast
    assert before.usual < half < 1_200.0
    assert speed.corrected(before, 0.5, 2_000.0).least >= 2_000.0


def test_a_speed_is_kept_and_a_damaged_file_is_measured_again(tmp_path: Path) -> None:
    assert speed.kept(tmp_path, "a") is None
    speed.keep(tmp_path, "a", Speed(1.0, 2.0))
    speed.keep(tmp_path, "b", Speed(3.0, 4.0))
    assert (speed.kept(tmp_path, "a"), speed.kept(tmp_path, "b")) == (Speed(1.0, 2.0), Speed(3.0, 4.0))
    (tmp_path / speed.FILE).write_text("damaged")
    assert speed.kept(tmp_path, "a") is None
    speed.keep(tmp_path, "a", Speed(5.0, 6.0))
    assert speed.kept(tmp_path, "a") == Speed(5.0, 6.0)


def test_a_speed_is_measured_once_per_model_and_way_of_opening(tmp_path: Path) -> None:
    settings = Settings(Directories(tmp_path, tmp_path, tmp_path), model=demo.MODEL, n_ctx=1_024)
    spec = runtime.spec_of(settings)
    path = registry.PACKAGE / spec.file
    planned, _ = runtime.plan(path, spec, settings)
    first = speed.of_model(path, planned, runtime.options(planned, settings), tmp_path)
    assert first.prefill > 0
    assert first.decode > 0
    assert speed.of_model(path, planned, runtime.options(planned, settings), tmp_path) == first


def test_an_engine_that_writes_nothing_is_no_division_by_zero() -> None:
    found = speed.measure(ScriptedEngine([""]), clock=lambda: 0.0)
    assert found.decode > 0
