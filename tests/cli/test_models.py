"""`venus-edge models` and `plan`, against a hub on loopback and files of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.convert.checkpoints import checkpoint
from tests.engine.vocabulary import write_model
from tests.support.loopback_hub import LoopbackHub, serving
from venus_edge import registry
from venus_edge.cli.app import cli
from venus_edge.cli.models import meter_line, offer_line
from venus_edge.engine import devices
from venus_edge.engine.offload import Build, Sign
from venus_edge.fit import header, machine, planner, sizes
from venus_edge.hub import Progress

SPEC = registry.load()["dr-venus-4b-rl"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<think><tool_call>"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    return write_model(tmp_path / "My SFT model-F32.gguf", "<think> <tool_call>")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: Path) -> Iterator[LoopbackHub]:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "probe", lambda: planner.described(16 * sizes.GIB))  # the same choice everywhere
    data = model_file.read_bytes()
    repos = {SPEC.gguf_repo: {"DR-Venus-4B-RL.Q4_K_M.gguf": data, "DR-Venus-4B-RL.Q8_0.gguf": data + b"8"}}
    with serving(LoopbackHub(repos)) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


def test_a_fresh_home_pulls_the_planned_quantization_and_finds_verifies_and_removes_it(served: LoopbackHub) -> None:
    assert "not here: venus-edge models pull dr-venus-4b-rl" in invoke("models", "list").output
    pulled = invoke("models", "pull", "dr-venus-4b-rl")
    path = pulled.stdout.strip()
    assert (pulled.exit_code, Path(path).name) == (0, "DR-Venus-4B-RL.Q4_K_M.gguf")
    assert "100%" in pulled.stderr
    assert invoke("models", "path", "dr-venus-4b-rl").stdout.strip() == path
    assert invoke("models", "verify", "dr-venus-4b-rl").stdout.splitlines()[1].startswith("sha256  ok: ")
    assert path in invoke("models", "show", "dr-venus-4b-rl").stdout
    assert invoke("models", "rm", "dr-venus-4b-rl", "--yes").exit_code == 0
    assert invoke("models", "path", "dr-venus-4b-rl").exit_code == 1


def test_a_pull_ends_with_what_left_the_machine(served: LoopbackHub) -> None:
    lines = [line for line in invoke("models", "pull", "dr-venus-4b-rl").stderr.splitlines() if "Connections" in line]
    assert [line.partition(": ")[2].partition(" bytes up")[0].rpartition(",")[0] for line in lines] == [
        "127.0.0.1 (list of files): 1 connection",
        "127.0.0.1 (model file): 1 connection",
        "localhost (model file): 1 connection",
    ]


def test_what_a_script_wants_is_one_json_object(
    served: LoopbackHub, tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path / "config"))
    pulled = json.loads(invoke("models", "pull", "dr-venus-4b-rl", "--json").stdout)
    assert (pulled["bytes"], pulled["sha256"]) == (model_file.stat().st_size, Path(pulled["path"]).resolve().name)
    checked = json.loads(invoke("models", "verify", "dr-venus-4b-rl", "--json").stdout)
    assert (checked["path"], checked["sha256"], checked["checked"]) == (pulled["path"], pulled["sha256"], True)
    shown = json.loads(invoke("models", "show", "dr-venus-4b-rl", "--json").stdout)
    assert (shown["gguf_repo"], shown["files"][0]["path"]) == (SPEC.gguf_repo, pulled["path"])
    added = json.loads(invoke("models", "add", str(model_file), "--name", "mine", "--json").stdout)
    assert (added["name"], added["dialect"], added["path"]) == ("mine", "sft", str(model_file))


def test_where_there_is_no_such_repository_the_line_that_converts_is_told(served: LoopbackHub) -> None:
    for status in (401, 404):
        served.refuse = {"^/api/": (status, {"X-Error-Code": "RepoNotFound"})}
        said = invoke("models", "pull", "dr-venus-4b-sft").stderr.splitlines()[-1]
        assert f"(HTTP {status})" in said
        assert said.endswith("; venus-edge models pull dr-venus-4b-sft --convert makes it of its checkpoint")
    served.refuse = {"^/api/": (403, {})}
    assert "--convert" not in invoke("models", "pull", "dr-venus-4b-sft").output


def test_a_quantization_can_be_named(served: LoopbackHub) -> None:
    assert invoke("models", "pull", "dr-venus-4b-rl", "--quant", "Q8_0").stdout.strip().endswith("Q8_0.gguf")


def test_a_damaged_file_is_found_by_its_hash(served: LoopbackHub) -> None:
    path = Path(invoke("models", "pull", "dr-venus-4b-rl").stdout.strip()).resolve()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = invoke("models", "verify", "dr-venus-4b-rl")
    assert result.exit_code == 1
    assert "is damaged: sha256" in result.output


def test_a_repository_without_gguf_is_fetched_as_a_checkpoint_and_converted(
    served: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_DATA_DIR", str(tmp_path / "data"))
    source = checkpoint(tmp_path / "source")
    served.repos[SPEC.gguf_repo] = {"README.md": b"soon"}
    served.repos[SPEC.repo] = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    result = invoke("models", "pull", "dr-venus-4b-rl", "--quant", "Q8_0")
    assert result.exit_code == 0, result.output
    made = tmp_path / "data" / "models" / "dr-venus-4b-rl-Q8_0.gguf"
    assert result.stdout.splitlines()[-1] == str(made)
    assert header.read(made).architecture == "qwen3"
    assert invoke("models", "path", "dr-venus-4b-rl").stdout.strip() == str(made)


def test_by_wish_the_checkpoint_is_converted_where_a_gguf_is_too(
    served: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_DATA_DIR", str(tmp_path / "data"))
    source = checkpoint(tmp_path / "source")
    served.repos[SPEC.repo] = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    result = invoke("models", "pull", "dr-venus-4b-rl", "--convert", "--quant", "Q8_0")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "data" / "models" / "dr-venus-4b-rl-Q8_0.gguf")
    assert not any(SPEC.gguf_repo in request.path for request in served.requests)


def test_convert_takes_a_name_of_the_hub(served: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = checkpoint(tmp_path / "source")
    served.repos["someone/Qwen3-Mine"] = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    result = invoke("convert", "someone/Qwen3-Mine", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    (made,) = (tmp_path / "out").glob("*.gguf")
    assert made.name == "Qwen3-Mine-BF16.gguf"
    assert header.read(made).architecture == "qwen3"
    nothing = invoke("convert", "someone/nothing", "--out", str(tmp_path / "out"))
    assert (nothing.exit_code, [line.split(":")[0] for line in nothing.stderr.splitlines()]) == (
        1,
        ["Connections", "Error"],
    )
    monkeypatch.setenv("VENUS_OFFLINE", "true")
    assert (
        "offline, so someone/Qwen3-Mine cannot be fetched"
        in invoke("convert", "someone/Qwen3-Mine", "--out", "x").stderr
    )


def test_offline_a_pull_gives_what_is_here(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    path = invoke("models", "pull", "dr-venus-4b-rl").stdout.strip()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    served.requests.clear()
    assert invoke("models", "pull", "dr-venus-4b-rl").stdout.strip() == path
    assert served.requests == []


def test_offline_by_setting_nothing_is_asked_either(served: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_OFFLINE", "true")
    result = invoke("models", "pull", "dr-venus-4b-rl")
    assert (result.exit_code, "offline, and dr-venus-4b-rl is not here: copy its .gguf" in result.output) == (1, True)
    assert served.requests == []


def test_a_shipped_model_needs_no_fetching() -> None:
    assert "needs no fetching" in invoke("models", "pull", "venus-tiny").output


def test_a_file_of_ones_own_is_added_checked_and_forgotten(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path / "config"))
    added = invoke("models", "add", str(model_file), "--name", "mine")
    assert added.exit_code == 0, added.output
    assert "qwen3, F32" in added.stdout
    assert "dialect sft (a guess by its name" in added.stdout
    spec = registry.load(tmp_path / "config")["mine"]
    assert (spec.file, spec.dialect, spec.n_ctx_train) == (str(model_file), "sft", 8_192)
    assert "sha256  ok" in invoke("models", "verify", "mine").output
    assert "there is a model mine already" in invoke("models", "add", str(model_file), "--name", "mine").output
    moved = model_file.rename(tmp_path / "moved.gguf")
    assert f"missing: {model_file}; to forget it: venus-edge models rm mine" in invoke("models", "list").output
    assert "put it back, or forget it: venus-edge models rm mine" in invoke("models", "verify", "mine").output
    moved.rename(model_file)
    assert "its file stays" in invoke("models", "rm", "mine").output
    assert "mine" not in registry.load(tmp_path / "config")
    assert f"{model_file} was not added: remove the file itself" in invoke("models", "rm", str(model_file)).output
    assert model_file.is_file()


def test_a_file_with_a_chinese_name_is_added_under_it(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path / "config"))
    path = model_file.rename(tmp_path / "我的 模型.gguf")
    assert invoke("models", "add", str(path)).exit_code == 0
    assert invoke("models", "path", "我的-模型").stdout.strip() == str(path)
    assert invoke("models", "rm", "我的-模型").exit_code == 0
    for name in ("", "../x", "-x", "a b", "a]b", "。"):
        assert "is no name for a model" in invoke("models", "add", str(path), f"--name={name}").output or not name


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "is a web page, not a model"),
        (b"PK\x03\x04" + bytes(600), "is an archive or a PyTorch checkpoint"),
        (b'{"a": 1}', "is JSON or a safetensors checkpoint"),
        (b"GGUF\x03\x00\x00\x00" + b"\xff" * 16, "is cut off or damaged in its header"),
    ],
)
def test_every_wrong_file_is_named_for_what_it_is(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x.gguf").write_bytes(data)
    result = invoke("models", "add", str(tmp_path / "x.gguf"))
    assert result.exit_code == 1
    assert said in result.output


def test_the_meter_tells_share_rate_and_time_left() -> None:
    line = meter_line(Progress("f", 600_000_000, 1_000_000_000, resumed=200_000_000, seconds=4.0))
    assert line == " 60%  600 MB  100.0 MB/s  0:04 left  (went on at 200 MB)  "


def test_a_first_run_in_a_script_prints_the_one_line_that_gets_the_model() -> None:
    result = invoke("run", "a question")
    assert result.exit_code == 1
    assert "get it with: venus-edge models pull dr-venus-4b-rl" in result.output


def test_a_first_run_on_a_terminal_offers_size_and_time() -> None:
    assert offer_line(SPEC, 2.5) == (
        "DR-Venus 4B (RL) is not on this machine. Fetch it now: 2.5 GB, about 7 minutes at 50 Mbit/s?"
    )


def test_the_speed_of_a_model_is_measured_once_and_told_ever_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path))
    assert invoke("plan", "--model", "venus-tiny").output.endswith("Time      not measured: venus-edge plan --time\n")
    assert json.loads(invoke("plan", "--model", "venus-tiny", "--json").output)["speed"] is None
    last = invoke("plan", "--model", "venus-tiny", "--time").output.splitlines()[-1]
    assert last.startswith("Time      reads ")  # its runs are three turns: no minutes are foretold
    again = json.loads(invoke("plan", "--model", "venus-tiny", "--json").output)
    assert (again["speed"]["prefill"] > 0, again["estimate"]) == (True, None)
    assert (tmp_path / "speed.json").is_file()


def test_a_model_made_for_research_is_told_its_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: Path
) -> None:
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path))
    assert invoke("models", "add", str(model_file), "--name", "mine", "--dialect", "rl").exit_code == 0
    own = tmp_path / "models.toml"
    own.write_text(own.read_text().replace("n_ctx_train = 8192", "n_ctx_train = 262144"))
    last = invoke("plan", "--model", "mine", "--time").output.splitlines()[-1]
    assert last.startswith("Time      a run takes about ")
    record = json.loads(invoke("plan", "--model", "mine", "--json").output)
    assert 0 < record["estimate"]["least"] <= record["estimate"]["usual"] <= record["estimate"]["most"]
    described = invoke("plan", "--model", "mine", "--memory", "8G").output
    assert "Time" not in described  # nothing was measured there


def test_a_run_tells_its_time_at_the_start_and_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"VENUS_{name}_DIR", str(tmp_path))
    model_file = write_model(tmp_path / "m.gguf", TEMPLATE)
    assert invoke("models", "add", str(model_file), "--name", "mine", "--dialect", "sft").exit_code == 0
    own = tmp_path / "models.toml"
    own.write_text(own.read_text().replace("n_ctx_train = 8192", "n_ctx_train = 262144"))
    (tmp_path / "notes").mkdir()
    asked = ["run", "?", "--model", "mine", "--corpus", str(tmp_path / "notes"), "--offline", "--max-turns", "1"]
    asked += ["--max-minutes", "0.01", "--seed", "1", "--json"]
    first = invoke(*asked)
    assert "Time:" not in first.stderr
    assert invoke("plan", "--model", "mine", "--time").exit_code == 0
    second = invoke(*asked)
    (line,) = [line for line in second.stderr.splitlines() if line.startswith("Time: about ")]
    told = json.loads(second.stdout)["estimate"]
    assert set(told) == {"usual", "least", "most"}
    assert line == "Time: about 1 minute"  # it may not take longer
    assert told["most"] <= 0.6


def test_a_window_beyond_the_models_own_is_refused() -> None:
    result = invoke("plan", "--model", "venus-tiny", "--context", "5000")
    assert (result.exit_code, "is beyond the 4,096 that this model was made for" in result.output) == (2, True)


def test_a_plan_for_a_described_machine_is_a_table_or_json() -> None:
    assert "Window    24,576 tokens" in invoke("plan", "--memory", "8G").output
    record = json.loads(invoke("plan", "--memory", "16G", "--gpu-memory", "8G", "--json").output)
    assert (record["n_ctx"], record["gpu_layers"], record["fits"]) == (49_152, 37, True)


def test_a_plan_is_for_the_quantization_that_was_named_or_says_which_are_known(model_file: Path) -> None:
    described = ("plan", "--memory", "32G", "--gpu-memory", "24G")
    assert "dr-venus-4b-rl, BF16" in invoke(*described, "--model", "dr-venus-4b-rl", "--quant", "BF16").output
    assert "known: Q3_K_S, Q4_K_S, Q4_K_M," in invoke(*described, "--quant", "Q9").output
    assert "is F32, not Q8_0: leave --quant out" in invoke("plan", "-m", str(model_file), "--quant", "Q8_0").output


def test_a_machine_that_is_described_cannot_be_measured() -> None:
    result = invoke("plan", "--memory", "8G", "--time")
    assert (result.exit_code, "give --time alone" in result.output) == (2, True)


def test_layers_without_a_gpu_are_told_with_the_command_that_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "build", lambda: Build(("CPU",)))
    monkeypatch.setattr(devices, "sign", lambda: Sign("NVIDIA", "CUDA"))
    for flags in ((), ("--gpu-layers", "all")):
        (line,) = (line for line in invoke("plan", "-m", "venus-tiny", *flags).output.splitlines() if "Note" in line)
        assert 'cannot use the NVIDIA GPU, so the CPU computes; for one that can: CMAKE_ARGS="-DGGML_CUDA=on"' in line
    assert "Note" not in invoke("plan", "-m", "venus-tiny", "--gpu-layers", "0").output


def test_an_apple_is_described_by_its_memory_alone() -> None:
    record = json.loads(invoke("plan", "--apple", "--json").output)
    assert (record["n_ctx"], record["gpu_layers"], record["free"]["gpu"]) == (98_304, 37, 16 * sizes.GIB * 2 // 3)
    refused = invoke("plan", "--apple", "--gpu-memory", "8G")
    assert (refused.exit_code, "--memory alone" in refused.output) == (2, True)


def test_a_plan_that_fits_nowhere_is_exit_1_and_a_size_that_is_none_exit_2() -> None:
    result = invoke("plan", "--memory", "8G", "--context", "131072", "--kv-type", "f16")
    assert result.exit_code == 1
    assert "Does not fit: a window of 131,072 tokens takes" in result.output
    assert invoke("plan", "--memory", "much").exit_code == 2


def test_the_plan_of_a_file_goes_by_its_header(model_file: Path) -> None:
    record = json.loads(invoke("plan", "--model", str(model_file), "--memory", "8G", "--json").output)
    assert (record["n_ctx"], record["quant"]) == (8_192, "F32")


def test_config_shows_where_a_value_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("VENUS_THREADS", "3")
    (tmp_path / "config.toml").write_text("context = 16384\n")
    shown = json.loads(invoke("config", "show", "--json").output)
    assert shown["threads"] == {"value": 3, "from": "VENUS_THREADS"}
    assert shown["context"] == {"value": 16_384, "from": str(tmp_path / "config.toml")}
    assert shown["seed"]["from"] == "default"


def test_an_unknown_key_of_config_toml_is_exit_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("contxt = 1\n")
    result = invoke("config", "show")
    assert result.exit_code == 2
    assert "unknown key contxt; known: model" in result.output
