"""Settings -> a ready agent: what is refused before anything is loaded, and what is chosen where nothing was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from venus_edge import demo, model, registry, runtime, world
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.scripted import ScriptedEngine
from venus_edge.errors import EngineError, ModelError, StorageError, UsageError
from venus_edge.fit import planner, sizes
from venus_edge.fit.planner import Machine, Plan, Wishes
from venus_edge.fit.sizes import GIB
from venus_edge.settings import Directories, Settings
from venus_edge.values import Evidence, Failure, Page, SearchCall, Trouble, VisitCall


def settings(home: Path, **given: object) -> Settings:
    base = Settings(Directories(home / "config", home / "data", home / "cache"))
    return replace(base, **given)  # type: ignore[arg-type]  # the fields' own types


def plans(most: int) -> Plan:
    """The plan of a machine that has room for everything."""
    machine = Machine(64 * GIB, 64 * GIB, 4)
    return planner.plan(sizes.known("any"), machine, Wishes(n_ctx_most=most))


def opener(fits: int) -> tuple[list[int], Callable[[Plan], LlamaEngine]]:
    """An engine whose window may be at most `fits` tokens, whatever was planned, and the windows it was asked for."""
    asked: list[int] = []

    def opened(chosen: Plan) -> LlamaEngine:
        asked.append(chosen.n_ctx)
        if chosen.n_ctx > fits:
            raise EngineError("no memory")
        return cast(LlamaEngine, SimpleNamespace(n_ctx=chosen.n_ctx))

    return asked, opened


@pytest.mark.parametrize(("fits", "window"), [(200_000, 131_072), (70_000, 65_536), (16_384, 16_384)])
def test_where_llama_cpp_finds_less_memory_than_the_plan_the_next_smaller_window_is_opened(
    fits: int, window: int
) -> None:
    asked, opened = opener(fits)
    chosen, engine = model._first_that_opens(plans, opened, 131_072, asked=False)
    assert (chosen.n_ctx, engine.n_ctx) == (window, window)
    assert asked == sorted(asked, reverse=True)


def test_a_window_that_was_asked_for_is_opened_or_refused() -> None:
    asked, opened = opener(1000)
    with pytest.raises(EngineError, match="no memory"):
        model._first_that_opens(plans, opened, 131_072, asked=True)
    assert asked == [131_072]


def test_a_plan_that_fits_nowhere_is_refused_before_anything_is_loaded() -> None:
    asked, opened = opener(200_000)
    with pytest.raises(EngineError, match=r"a window of 4,096 tokens takes 2.9 GiB of memory .*1.0 are free"):
        model._first_that_opens(
            lambda _: planner.plan(sizes.known("any"), Machine(4 * GIB, GIB, 4)), opened, 131_072, asked=False
        )
    assert asked == []


def test_the_window_that_opens_is_the_planned_one(tmp_path: Path) -> None:
    chosen = settings(tmp_path, model=demo.MODEL, corpus=(demo.CORPUS,), offline=True, n_ctx=2_048, kv_type="q8_0")
    with runtime.prepare(chosen, lambda _: None) as ready:
        opened = cast(LlamaEngine, ready.engine)
        assert (opened.n_ctx, opened.options.type_k, opened.options.n_ctx_reading) == (2_048, "q8_0", 0)


def test_a_window_beyond_what_the_model_was_made_for_is_refused(tmp_path: Path) -> None:
    chosen = settings(tmp_path, model=demo.MODEL, corpus=(demo.CORPUS,), offline=True, n_ctx=1 << 27)
    with (
        pytest.raises(UsageError, match=r"134,217,728 tokens is beyond the 4,096 that this model was made for"),
        runtime.prepare(chosen, lambda _: None),
    ):
        pass


@pytest.mark.parametrize(("asked", "layers"), [("auto", 0), ("all", -1), ("7", 7)])
def test_layers_that_were_asked_for_are_passed_on_and_others_planned(tmp_path: Path, asked: str, layers: int) -> None:
    options = model.options(plans(32_768), settings(tmp_path, gpu_layers=asked))
    assert (options.n_gpu_layers, options.n_ctx, options.type_k) == (layers, 32_768, "f16")


@pytest.mark.parametrize(("text", "layers"), [("auto", None), ("all", -1), ("0", 0), ("20", 20)])
def test_gpu_layers_are_read(text: str, layers: int | None) -> None:
    assert model.gpu_layers(text) == layers


@pytest.mark.parametrize("text", ["", "-1", "many", "２"])
def test_gpu_layers_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="gpu-layers is auto, all or a number"):
        model.gpu_layers(text)


def test_a_missing_model_is_said_before_a_corpus_is_indexed(tmp_path: Path) -> None:
    with (
        pytest.raises(ModelError, match="venus-edge models pull dr-venus-4b-rl"),
        runtime.prepare(settings(tmp_path, corpus=(demo.CORPUS,)), lambda _: None),
    ):
        pass
    assert not (tmp_path / "data").exists()


def test_what_the_settings_say_is_laid_over_the_models_entry(tmp_path: Path) -> None:
    spec = model.spec_of(settings(tmp_path, dialect="sft", reader="extractive", results=4, temperature=0.0))
    assert (spec.name, spec.dialect, spec.reader, spec.results) == ("dr-venus-4b-rl", "sft", "extractive", 4)
    assert spec.sampling.temperature == 0.0


def test_a_gguf_of_ones_own_is_named_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "DR-Venus-4B-SFT-Q4_K_M.gguf"
    file.write_bytes(b"GGUF")
    spec = model.spec_of(settings(tmp_path, model=str(file)))
    assert (spec.dialect, spec.file, spec.reader) == ("sft", str(file), "model")


def test_a_corpus_answers_search_and_visit_in_the_models_dialect(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "灯塔.md").write_text(
        "---\nurl: https://example.org/kereon\n---\n# 克雷翁灯塔\n\n1916年首次点亮。\n"
    )
    notes: list[str] = []
    chosen = settings(tmp_path, model=demo.MODEL, corpus=(tmp_path / "notes",), offline=True)
    with runtime.prepare(chosen, notes.append) as ready:
        tools = ready.agent._tools
        found = tools.call(SearchCall(("灯塔 点亮",)), "?")
        read = tools.call(VisitCall(("http://www.example.org/kereon/",), "点亮年份"), "?")
        unknown = tools.call(VisitCall(("https://example.org/灯塔",), ""), "点亮年份")
    assert notes == ["corpus notes: 1 indexed (1 new, 0 changed)"]
    assert [hit.url for hit in found.found[0].hits] == ["https://example.org/kereon"]
    assert isinstance(read.readings[0].outcome, Evidence)
    assert "1916年首次点亮。" in read.text
    failure = unknown.readings[0].outcome
    assert isinstance(failure, Failure)
    assert (failure.trouble, [hit.url for hit in failure.nearest]) == (Trouble.UNKNOWN, ["https://example.org/kereon"])
    assert "https://example.org/kereon" in unknown.text


def test_several_corpora_are_ranked_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text(f"# Lighthouse {name}\n\nThe lighthouse {name} is tall.\n")
    chosen = settings(tmp_path, model=demo.MODEL, corpus=(tmp_path / "a", tmp_path / "b"), offline=True)
    with runtime.prepare(chosen, lambda _: None) as ready:
        result = ready.agent._tools.call(SearchCall(("lighthouse",)), "?")
        page = ready.agent._tools.call(VisitCall(("file:b/page.md",), "tall"), "?").readings[0].page
    assert {hit.url for hit in result.found[0].hits} == {"file:a/page.md", "file:b/page.md"}
    assert isinstance(page, Page)


def test_an_index_that_cannot_be_written_is_searched_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, notes = settings(tmp_path, model=demo.MODEL, corpus=(demo.CORPUS,), offline=True), list[str]()
    world.build_corpus(demo.CORPUS, chosen)

    def full(*_: object) -> object:
        raise StorageError("no space")

    monkeypatch.setattr(world, "build_corpus", full)
    with runtime.prepare(chosen, notes.append) as ready:
        assert len(ready.agent._tools.call(SearchCall(("lighthouse",)), "?").found[0].hits) == 3
    assert notes == ["corpus atlas is searched as it was indexed before: no space"]
    unmade, begun = (settings(tmp_path / name, model=demo.MODEL, corpus=(demo.CORPUS,)) for name in ("new", "begun"))
    index = world.index_path(demo.CORPUS, begun)
    index.parent.mkdir(parents=True)
    index.touch()  # what a full disk leaves of the first try
    for other in (unmade, begun):
        with pytest.raises(StorageError, match="no space"), runtime.prepare(other, notes.append):
            pass
    assert len(notes) == 1


def test_a_model_whose_template_fails_is_one_line_before_a_run_begins() -> None:
    engine = ScriptedEngine([], chat_template="{{ raise_exception('only for robots') }}")
    with pytest.raises(ModelError, match=r"venus-tiny.*: the chat template fails: only for robots; give a file"):
        model.check_template(registry.load()["venus-tiny"], engine, date(2026, 3, 1))
