"""config.toml, VENUS_* and flags -> settings, and where each came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from venus_edge import config
from venus_edge.errors import UsageError
from venus_edge.settings import Services, Settings


def resolved(home: Path, text: str = "", flags: dict[str, Any] | None = None, **variables: str) -> config.Resolved:
    if text:
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(text, encoding="utf-8")
    return config.resolve(flags or {}, {"VENUS_CONFIG_DIR": str(home), **variables})


def test_a_flag_outweighs_a_variable_and_a_variable_the_file(tmp_path: Path) -> None:
    text = 'context = 16384\nthreads = 2\nmodel = "dr-venus-4b-sft"\n'
    found = resolved(tmp_path, text, {"threads": 8}, VENUS_CONTEXT="32768", VENUS_THREADS="4")
    assert (found.settings.model, found.settings.n_ctx, found.settings.threads) == ("dr-venus-4b-sft", 32_768, 8)
    told = {name: origin for name, _, origin in found.rows() if origin != config.DEFAULT}
    assert told == {"model": str(tmp_path / "config.toml"), "context": "VENUS_CONTEXT", "threads": "flag"}


def test_without_any_of_them_everything_is_the_default(tmp_path: Path) -> None:
    found = resolved(tmp_path)
    assert found.settings == Settings(directories=found.settings.directories, services=found.settings.services)
    assert set(found.origins.values()) == {"default"}


def test_flags_that_were_not_given_weigh_nothing(tmp_path: Path) -> None:
    found = resolved(tmp_path, "offline = true\ncontext = 4096\n", {"offline": None, "n_ctx": None}).settings
    assert (found.offline, found.n_ctx) == (True, 4_096)


def test_a_seed_and_a_temperature_of_zero_are_given(tmp_path: Path) -> None:
    found = resolved(tmp_path, flags={"seed": 0, "temperature": 0.0})
    assert (found.settings.seed, found.settings.temperature) == (0, 0.0)
    assert (found.origins["seed"], found.origins["temperature"]) == ("flag", "flag")


def test_every_key_can_be_said_in_the_file_and_in_the_environment(tmp_path: Path) -> None:
    written = {
        "model": '"m"', "corpus": '["a", "/b"]', "dense": '"x.gguf"', "dialect": '"sft"',
        "context": "4096", "kv_type": '"q8_0"',
        "gpu_layers": "12", "main_gpu": "1", "tensor_split": '"3,1"', "flash_attention": '"on"',
        "threads": "3", "seed": "7", "temperature": "0.5", "reader": '"model"', "results": "5",
        "max_turns": "9", "max_minutes": "1.5", "max_tokens": "800", "context_policy": '"fold"', "grammar": "false",
        "read_tokens": "3000", "engine": '"http://x"', "engine_key": '"k0"',
        "offline": "true", "allow_hosts": '["x", "y"]', "search": '"ddgs"',
        "search_seconds": "9.5", "searxng_url": '"http://s"', "serper_key": '"k1"', "brave_key": '"k2"',
        "tavily_key": '"k3"', "region": '"de-de"', "language": '"zh-CN"', "proxy": '"none"', "robots": "true",
        "user_agent": '"me"', "cache_mb": "50",
        "date": '"2026-03-01"',
    }  # fmt: skip
    assert list(written) == [key.name for key in config.KEYS]
    by_file = resolved(tmp_path, "".join(f"{name} = {value}\n" for name, value in written.items())).settings
    plain = {name: value.strip('"') for name, value in written.items()}
    plain |= {"corpus": f"{tmp_path / 'a'}:/b", "allow_hosts": "x, y"}
    by_variable = config.resolve({}, {f"VENUS_{name.upper()}": value for name, value in plain.items()}).settings
    assert (by_file.corpus, by_file.max_seconds, by_file.gpu_layers) == ((tmp_path / "a", Path("/b")), 90.0, "12")
    for key in config.KEYS:
        assert key.of(by_file) == key.of(by_variable)
    assert by_file.services == Services("http://s", "k1", "k2", "k3")


def test_kv_types_and_shares_are_the_same_from_the_file_the_environment_and_a_flag(tmp_path: Path) -> None:
    by_file = resolved(tmp_path, 'kv_type = "q8_0, f16"\ntensor_split = [3, 1]\n').settings
    by_variable = resolved(tmp_path / "none", VENUS_KV_TYPE="q8_0,f16", VENUS_TENSOR_SPLIT="3,1").settings
    by_flag = resolved(tmp_path / "none", flags={"kv_type": "q8_0,f16", "tensor_split": "3,1"}).settings
    for found in (by_file, by_variable, by_flag):
        assert (found.kv_type, found.tensor_split) == ("q8_0,f16", (3.0, 1.0))
    assert resolved(tmp_path / "none", flags={"kv_type": "q4_0,q4_0"}).settings.kv_type == "q4_0"
    with pytest.raises(UsageError, match="--kv-type should be one of f16, q8_0, q4_0, or two of them"):
        resolved(tmp_path / "none", flags={"kv_type": "q5"})


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    rows = resolved(tmp_path, VENUS_ENGINE="http://me:s3cr3t@server:8080").rows()
    assert ("engine", "http://***@server:8080", "VENUS_ENGINE") in rows


def test_keys_are_shown_to_nobody(tmp_path: Path) -> None:
    text = 'serper_key = "s3cr3t"\nproxy = "http://me:s3cr3t@proxy:3128"\nsearxng_url = "http://me:s3cr3t@searx"\n'
    found = resolved(tmp_path, text, VENUS_TAVILY_KEY="s3cr3t", VENUS_ENGINE_KEY="s3cr3t")
    assert found.settings.services.serper == found.settings.services.tavily == found.settings.engine_key == "s3cr3t"
    assert "s3cr3t" not in repr(found) + str(found.rows())
    rows = {name: value for name, value, _ in found.rows()}
    assert [rows[name] for name in ("serper_key", "tavily_key", "brave_key")] == ["***", "***", ""]
    assert (rows["proxy"], rows["searxng_url"]) == ("http://***@proxy:3128", "http://***@searx")


def test_a_key_of_the_wrong_kind_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        resolved(tmp_path, "serper_key = 123456789\n")
    assert "123456789" not in str(raised.value)


def test_an_unknown_key_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"config.toml: unknown key n_ctx; known: model, corpus, dense, dialect, context"
    ):
        resolved(tmp_path, "n_ctx = 3\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('context = "many"\n', "config.toml: context should be a whole number, not 'many'"),
        ("context = true\n", "context should be a whole number, not True"),
        ("context = 1.5\n", "context should be a whole number, not 1.5"),
        ("model = 3\n", "model should be text in quotes, not 3"),
        (
            'kv_type = "q5"\n',
            "kv_type should be one of f16, q8_0, q4_0, or two of them for K and V as q8_0,f16, not 'q5'",
        ),
        ('kv_type = "f16,f16,f16"\n', "kv_type should be one of f16"),
        ('tensor_split = "3,much"\n', "tensor_split should be a number, not '3,much'"),
        ("tensor_split = 3\n", "tensor_split should be a share for each card, like 3,1, not 3"),
        ("main_gpu = true\n", "main_gpu should be a whole number, not True"),
        ('flash_attention = "yes"\n', "flash_attention should be one of auto, on, off, not 'yes'"),
        ("offline = 3\n", "offline should be true or false, not 3"),
        ("corpus = [3]\n", "corpus should be a list of texts, not [3]"),
        ("gpu_layers = []\n", "gpu_layers should be auto, all or a number, not []"),
        ('temperature = "warm"\n', "temperature should be a number, not 'warm'"),
        ("[nonsense", "cannot be read as TOML"),
    ],
)
def test_a_value_that_cannot_be_meant_is_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolved(tmp_path, text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(UsageError, match="VENUS_OFFLINE should be true or false, not 'perhaps'"):
        config.resolve({}, {"VENUS_OFFLINE": "perhaps"})


def test_variables_that_only_look_like_ours_are_told() -> None:
    names = {"VENUS_CONTEXTS": "1", "VENUS_CONTEXT": "1", "VENUS_DATA_DIR": "/d", "PATH": "/"}
    assert config.unknown_variables(names) == ["VENUS_CONTEXTS"]


def test_a_variable_that_is_empty_is_as_none(tmp_path: Path) -> None:
    found = resolved(
        tmp_path, 'kv_type = "q8_0"\noffline = true\n', VENUS_KV_TYPE="", VENUS_OFFLINE=" ", VENUS_CONTEXT=""
    )
    assert (found.settings.kv_type, found.settings.offline, found.settings.n_ctx) == ("q8_0", True, None)
    assert found.origins["kv_type"].endswith("config.toml")


def test_a_folder_in_the_place_of_config_toml_is_told(tmp_path: Path) -> None:
    (tmp_path / config.FILE).mkdir()
    with pytest.raises(UsageError, match=r"config.toml cannot be read"):
        config.from_file(tmp_path / config.FILE)
