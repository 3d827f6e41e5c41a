"""Tokens a second -> minutes, measured once."""

from __future__ import annotations

from pathlib import Path

import pytest

from venus_edge import demo, model, registry
from venus_edge.engine import Stats
from venus_edge.engine.scripted import ScriptedEngine
from venus_edge.fit import speed
from venus_edge.fit.speed import Estimate, Forecast, Speed
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
    late = speed.corrected(before, 1.5, 900.0)  # beyond the usual run: it is not over yet
    assert (late.usual, late.least, late.most) == (900.0, 900.0, 1_200.0)


def test_a_window_ends_the_runs_that_it_does_not_hold() -> None:
    laptop = Speed(prefill=60.0, decode=10.0)
    whole, cut = speed.estimate(laptop, "rl", True), speed.estimate(laptop, "rl", True, 65_536)
    assert cut.least == whole.least
    assert cut.usual == pytest.approx(whole.usual * 65_536 / 79_907, rel=0.03)  # whole pages
    assert cut.most == pytest.approx(whole.most * 65_536 / 130_235, rel=0.03)


# -- while it runs ----------------------------------------------------------------------------------------------------


def forecast(stats: Stats, time: list[float], **more: object) -> Forecast:
    given: dict[str, object] = {"dialect": "sft", "reads": False, "n_ctx": 131_072, "limit": 18_000.0, **more}
    return Forecast(stats, clock=lambda: time[0], **given)  # type: ignore[arg-type]  # the fields' own types


def test_a_known_speed_tells_the_time_at_the_start_and_the_run_corrects_it() -> None:
    stats, time = Stats(), [0.0]
    found = forecast(stats, time, known=Speed(60.0, 10.0))
    assert (str(found.first), found.line()) == ("about 20 minutes, 12 to 27", "0 of about 20 min (12-27)")
    # a quarter of the work, in twice the time
    stats.prefill_tokens, stats.generated_tokens, time[0] = 23_011 // 4, 7_900 // 4, 2 * 1_174 / 4
    later = found.now()
    assert later is not None
    assert later.usual == pytest.approx(1_174 * 1.25, rel=0.01)
    assert found.line() == "9 of about 24 min (15-34)"


def test_without_a_known_speed_the_first_turns_tell_it_and_it_is_worth_keeping() -> None:
    stats, time = Stats(generated_tokens=5_000, prefill_tokens=9_000, prefill_seconds=1.0, decode_seconds=1.0), [0.0]
    found = forecast(stats, time)  # what the engine did before this run says nothing
    assert (found.first, found.line(), found.learned()) == (None, "", None)
    stats.prefill_tokens, stats.prefill_seconds = 9_300, 1.0 + 300 / 60
    assert found.now() is None
    stats.generated_tokens, stats.decode_seconds, time[0] = 5_040, 1.0 + 4.0, 9.0
    assert found.line() == "0 of about 20 min (12-27)"
    assert found.learned() is None
    stats.prefill_tokens, stats.prefill_seconds = 9_000 + 1_200, 1.0 + 30.0
    stats.generated_tokens, stats.decode_seconds = 5_000 + 200, 1.0 + 20.0
    assert found.learned() == Speed(40.0, 10.0)


def test_no_run_is_foretold_longer_than_its_limit_or_of_a_model_of_another_kind() -> None:
    known = Speed(30.0, 5.0)
    assert str(forecast(Stats(), [0.0], known=known, limit=2_700.0).first) == "about 39 minutes, 24 to 45"
    assert forecast(Stats(), [0.0], known=known, usual=False).first is None


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
    spec = model.spec_of(settings)
    path = registry.PACKAGE / spec.file
    planned, _ = model.plan(path, spec, settings)
    first = speed.of_model(path, planned, model.options(planned, settings), tmp_path)
    assert first.prefill > 0
    assert first.decode > 0
    assert speed.of_model(path, planned, model.options(planned, settings), tmp_path) == first


def test_an_engine_that_writes_nothing_is_no_division_by_zero() -> None:
    found = speed.measure(ScriptedEngine([""]), clock=lambda: 0.0)
    assert found.decode > 0


def test_what_takes_many_hours_is_told_in_hours() -> None:
    assert str(speed.Estimate(3.0 * 3600, 1.5 * 3600, 9.25 * 3600)) == "about 3.0 hours, 1.5 to 9.2"
    assert str(speed.Estimate(179 * 60, 30 * 60, 400 * 60)) == "about 179 minutes, 30 to 400"
