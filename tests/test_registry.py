"""models.toml -> ModelSpec."""

from __future__ import annotations

from pathlib import Path

import pytest

from venus_edge import registry
from venus_edge.engine import Sampling
from venus_edge.errors import UsageError
from venus_edge.fit import sizes


def test_every_shipped_entry_is_whole() -> None:
    specs = registry.load()
    assert list(specs) == ["dr-venus-4b-rl", "dr-venus-4b-sft", "venus-tiny"]
    for spec in specs.values():
        assert spec.title
        assert spec.n_ctx <= spec.n_ctx_train
        assert bool(spec.file) != bool(spec.repo and spec.gguf_repo)


def test_the_real_models_say_what_a_right_file_has_and_their_quants_are_ones_the_planner_knows() -> None:
    for name in ("dr-venus-4b-rl", "dr-venus-4b-sft"):
        spec = registry.load()[name]
        assert (spec.rope_theta, spec.n_ctx_train, spec.template) == (5e6, 262_144, "qwen3-thinking-2507")
        weights = sizes.known(name, quants=spec.quants.split()).weights
        assert list(weights) == spec.quants.split()
        assert spec.size_gb == round(weights[spec.quant].total / 1e9, 1)


def test_the_real_models_have_a_window_of_at_least_128k_and_the_published_sampling() -> None:
    for name in ("dr-venus-4b-rl", "dr-venus-4b-sft"):
        spec = registry.load()[name]
        assert spec.n_ctx >= 131_072
        assert spec.sampling == Sampling(1.0, 0.95, 20, 0.0, 1.1, 15_000)


def test_a_persons_own_table_is_laid_over_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        '[dr-venus-4b-rl]\nn_ctx = 32768\n[mine]\ntitle = "Mine"\ndialect = "sft"\n'
        'reader = "extractive"\nn_ctx = 8192\nn_ctx_train = 8192\nfile = "/m.gguf"\n'
    )
    specs = registry.load(tmp_path)
    assert (specs["dr-venus-4b-rl"].n_ctx, specs["dr-venus-4b-rl"].dialect) == (32_768, "rl")
    assert specs["mine"].file == "/m.gguf"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x]\ncontext = 3\n", "unknown key context"),
        ('[x]\ntitle = "X"\n', "missing dialect, n_ctx, n_ctx_train, reader"),
        ('[venus-tiny]\ndialect = "odd"\n', "dialect 'odd' is none of rl, sft, official"),
        ('[venus-tiny]\nreader = "odd"\n', "reader 'odd' is none of extractive, model"),
        ("[venus-tiny]\nsampling = { heat = 1 }\n", "unknown key heat"),
        ('[venus-tiny]\nn_ctx = "big"\n', "n_ctx should be of the kind int, not 'big'"),
        ("[venus-tiny]\nsampling = { top_k = true }\n", "top_k should be of the kind int, not True"),
        ("nonsense", "cannot be read as TOML"),
        ("x = 1\n", "should be a table"),
    ],
)
def test_a_wrong_table_is_one_line_that_names_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "models.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        registry.load(tmp_path)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown model 'x'; known: dr-venus-4b-rl, dr-venus-4b-sft, venus-tiny"):
        registry.find("x", registry.load())


@pytest.mark.parametrize("repo", ["inclusionAI/DR-Venus-4B-SFT", "inclusionAI/DR-Venus-4B-SFT-GGUF"])
def test_a_model_can_be_named_by_its_repository(repo: str) -> None:
    assert registry.find(repo, registry.load()).name == "dr-venus-4b-sft"


@pytest.mark.parametrize(
    ("file", "dialect"),
    [("DR-Venus-4B-SFT.Q4_K_M.gguf", "sft"), ("dr_venus_4b_rl-q8.gguf", "rl"), ("other.gguf", "rl")],
)
def test_a_file_of_ones_own_takes_the_dialect_that_its_name_says(file: str, dialect: str) -> None:
    spec = registry.for_file(Path("/models") / file, registry.load())
    assert (spec.dialect, spec.file) == (dialect, f"/models/{file}")
