"""One thing broken at a time: the doctor finds it, says what to do, and gives away no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.engine.vocabulary import write_model
from tests.support.loopback_hub import LoopbackHub, serving
from venus_edge import demo
from venus_edge.cli.app import cli
from venus_edge.engine import devices, offload
from venus_edge.engine.offload import Sign
from venus_edge.fit import doctor, machine, planner, sizes
from venus_edge.fit.doctor import Finding, Patient
from venus_edge.fit.planner import Machine
from venus_edge.settings import Directories, Settings
from venus_edge.sources.cache import FILE as CACHE_FILE
from venus_edge.values import Answer, Malformed, Reply, SearchCall

TODAY = date(2026, 6, 1)
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<think><tool_call>"


def examined(home: Path, flags: Mapping[str, object] | None = None, **more: object) -> dict[str, Finding]:
    """The last finding of each check, for venus-tiny offline unless something else is said."""
    variables = {f"VENUS_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "CACHE")}
    variables.update(more.pop("environment", {}))  # type: ignore[call-overload]  # a mapping of texts
    given = {"model": demo.MODEL, "offline": True, **(flags or {})}
    patient = Patient(given, **{"quick": True, "today": TODAY, **more}, environment=variables)  # type: ignore[arg-type]
    return {finding.name: finding for finding in doctor.examine(patient)}


def test_nothing_broken_nothing_found(tmp_path: Path) -> None:
    states = {finding.name: finding.state for finding in examined(tmp_path).values()}
    assert {name for name, state in states.items() if state == "fail"} == set()
    assert list(states) == [
        "python", "packages", "settings", "directories", "disk", "clock", "llama.cpp", "gpu", "model", "memory", "turn",
        "corpus", "page cache", "hub", "search",
    ]  # fmt: skip


def test_a_turn_of_the_shipped_model_is_tried(tmp_path: Path) -> None:
    found = examined(tmp_path, quick=False)
    assert (found["tokens"].state, found["turn"].state) == ("ok", "ok")
    assert found["turn"].detail == "thinks, then a well-formed SearchCall"
    assert found["placed"].state == "ok"
    assert "weights" in found["placed"].detail


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_broken_config_toml(tmp_path: Path) -> None:
    write(tmp_path / "config" / "config.toml", "contxt = 1\n")
    found = examined(tmp_path)
    assert found["settings"].state == "fail"
    assert "unknown key contxt" in found["settings"].detail
    assert list(found)[-1] == "settings"


def test_broken_models_toml(tmp_path: Path) -> None:
    write(tmp_path / "config" / "models.toml", "[mine]\ntitle = 3\n")
    assert examined(tmp_path)["settings"].state == "fail"


def test_broken_variable(tmp_path: Path) -> None:
    found = examined(tmp_path, environment={"VENUS_CONTEXTS": "1"})["settings"]
    assert (found.state, found.detail) == ("warn", "not known: VENUS_CONTEXTS")


def test_missing_model(tmp_path: Path) -> None:
    found = examined(tmp_path, {"model": "dr-venus-4b-rl"})["model"]
    assert found.state == "fail"
    assert "venus-edge models pull dr-venus-4b-rl" in found.detail


def test_unknown_model(tmp_path: Path) -> None:
    assert "unknown model 'x'; known: dr-venus-4b-rl" in examined(tmp_path, {"model": "x"})["model"].detail


def test_damaged_model(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "whole.gguf", TEMPLATE).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-5_000])
    found = examined(tmp_path, {"model": str(tmp_path / "cut.gguf")})["model"]
    assert (found.state, "is cut off" in found.detail) == ("fail", True)


def test_model_without_a_template(tmp_path: Path) -> None:
    path = write_model(tmp_path / "bare.gguf", "")
    found = examined(tmp_path, {"model": str(path)})["model"]
    assert (found.state, "carries no chat template" in found.detail) == ("warn", True)


def test_window_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "probe", lambda: Machine(4 * sizes.GIB, 100 * sizes.MIB, 2))
    found = examined(tmp_path)
    assert (found["memory"].state, found["turn"].state) == ("fail", "skip")
    assert "0.1 are free: give a smaller --context" in found["memory"].detail


def test_window_beyond_the_models_own(tmp_path: Path) -> None:
    found = examined(tmp_path, environment={"VENUS_CONTEXT": "200000"})["memory"]
    assert (found.state, "is beyond the" in found.detail) == ("fail", True)


def test_gpu_that_this_build_cannot_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "probe", lambda: Machine(16 * sizes.GIB, 12 * sizes.GIB, 2, offload=False))
    monkeypatch.setattr(devices, "sign", lambda: Sign("NVIDIA", "CUDA"))
    found = examined(tmp_path)["gpu"]
    assert (found.state, found.detail) == ("warn", "NVIDIA GPU, which this build cannot use")
    assert found.remedy.startswith('CMAKE_ARGS="-DGGML_CUDA=on" pip install')


def test_gpu_that_is_there_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = planner.Gpu("card", 8 * sizes.GIB, 7 * sizes.GIB)
    monkeypatch.setattr(machine, "probe", lambda: Machine(16 * sizes.GIB, 12 * sizes.GIB, 2, (card,)))
    found = examined(tmp_path, environment={"VENUS_GPU_LAYERS": "0"})["gpu"]
    assert (found.state, found.remedy) == ("warn", "set gpu-layers to auto")
    assert found.detail == "card 0: card, 7.0 of 8.0 GiB free, not used: gpu-layers is 0"


def test_what_went_elsewhere_than_planned(tmp_path: Path) -> None:
    small = offload.Placement(5, (("CUDA0", 3),), (offload.Buffer("CUDA0", "KV", 3 * sizes.MIB),))
    assert doctor.placed(small, (), 5) == Finding(
        "placed",
        "warn",
        "3 of 5 layers on CUDA0: KV 3.0 MiB; in memory: nothing",
        "5 layers were planned: close what else uses the GPU",
    )
    assert doctor.placed(small, (), 3).state == "ok"
    assert doctor.placed(small, ("a note",), 3).state == "warn"


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "disk_free", lambda _: 5_000_000)
    assert examined(tmp_path)["disk"].state == "fail"


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    write(tmp_path / "data", "")
    found = examined(tmp_path)["directories"]
    assert (found.state, found.remedy) == ("fail", "correct its rights, or set VENUS_DATA_DIR")


@pytest.mark.parametrize("today", [date(1970, 1, 1), date(2099, 1, 1)])
def test_wrong_clock(tmp_path: Path, today: date) -> None:
    assert examined(tmp_path, today=today)["clock"].state == "fail"


def test_missing_and_unindexed_and_damaged_corpus(tmp_path: Path) -> None:
    notes = write(tmp_path / "notes" / "a.md", "# A\n").parent
    damaged = write(tmp_path / "x.sqlite", "no database")
    states = {
        name: examined(tmp_path, {"corpus": (path,)})["corpus"].state
        for name, path in {"missing": tmp_path / "none", "unindexed": notes, "damaged": damaged}.items()
    }
    assert states == {"missing": "fail", "unindexed": "warn", "damaged": "fail"}


def refused(_: str, __: Settings, ___: str) -> str:
    return "refused by http://me:secret@proxy:3128"


def test_unreachable_network(tmp_path: Path) -> None:
    found = examined(tmp_path, {"offline": None}, reach=refused, reach_hub=lambda: "refused by http://me:secret@proxy")
    states = {name: finding.state for name, finding in found.items() if name.startswith(("search", "pages", "hub"))}
    assert states == {"hub": "warn", "search ddgs": "fail", "search wikipedia": "fail", "pages": "warn"}
    assert "secret" not in str(found)


def test_the_services_and_hosts_that_a_person_has_set_are_what_is_tried(tmp_path: Path) -> None:
    asked: dict[str, str] = {}

    def reached(address: str, _: Settings, own: str) -> str:
        asked[address] = own
        return "" if "wiki" in address else "no answer"

    flags = {"offline": None, "search": "searxng,wikipedia", "allow_hosts": ("wiki.lan", "10.0.0.0/8")}
    environment = {"VENUS_SEARXNG_URL": "http://searx.lan:8888"}
    found = examined(tmp_path, flags, reach=reached, reach_hub=lambda: "", environment=environment)
    assert asked == {
        "http://searx.lan:8888": "searx.lan:8888",
        "https://en.wikipedia.org/w/api.php": "",
        "https://example.org/": "",
        "http://wiki.lan/": "wiki.lan",
    }
    assert (found["search searxng"].state, found["search wikipedia"].state) == ("warn", "ok")


def test_a_search_service_that_is_not_configured(tmp_path: Path) -> None:
    found = examined(tmp_path, {"search": "brave"})["search"]
    assert (found.state, "not configured: set VENUS_BRAVE_KEY" in found.detail) == ("fail", True)


def test_a_host_of_ones_own_is_reached_through_the_gate_and_a_private_one_is_not(tmp_path: Path) -> None:
    settings = Settings(Directories(tmp_path, tmp_path, tmp_path))
    with serving(LoopbackHub()) as running:
        own = f"127.0.0.1:{running.port}"
        assert doctor.reach(f"http://{own}/", settings, own) == ""  # 404 is an answer too
        assert "address not allowed" in doctor.reach(f"http://{own}/", settings, "")
        assert len(running.requests) == 1
    assert "unreachable" in doctor.reach(f"http://{own}/", settings, own)


def test_what_a_run_would_reach_through_a_proxy_is_tried_through_it(tmp_path: Path) -> None:
    settings = Settings(Directories(tmp_path, tmp_path, tmp_path), proxy="http://me:s3cr3t@127.0.0.1:1")
    said = doctor.reach("http://example.org/", settings, "")
    assert said.startswith("through the proxy 127.0.0.1: unreachable: example.org")
    assert "s3cr3t" not in said


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    found = examined(tmp_path, {"engine": "http://127.0.0.1:1"})["model"]
    assert (found.state, "start it, or check the address" in found.detail) == ("fail", True)


def test_damaged_page_cache(tmp_path: Path) -> None:
    path = write(tmp_path / "cache" / "pages.sqlite", "no database")
    path.rename(path.with_name(CACHE_FILE))
    found = examined(tmp_path)["page cache"]
    assert (found.state, found.remedy) == ("warn", f"remove {path.with_name(CACHE_FILE)}")
    assert path.with_name(CACHE_FILE).read_text() == "no database"


def test_offline_the_network_is_not_tried(tmp_path: Path) -> None:
    def never(*_: object) -> str:
        raise AssertionError("the network was tried")

    found = examined(tmp_path, reach=never, reach_hub=never)
    assert (found["search"].state, found["hub"].state) == ("skip", "skip")


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("click", "no-such-package-here"))
    found = examined(tmp_path)["packages"]
    assert (found.state, found.remedy) == ("fail", "pip install no-such-package-here")


def test_no_secret_is_printed(tmp_path: Path) -> None:
    secrets = {
        "HF_TOKEN": "hf_s3cr3t", "HF_ENDPOINT": "https://me:s3cr3t@hub.lan", "VENUS_BRAVE_KEY": "s3cr3t",
        "HTTPS_PROXY": "http://me:s3cr3t@proxy",
    }  # fmt: skip
    found = examined(tmp_path, environment=secrets)
    assert "s3cr3t" not in str(found)
    assert found["hub"].detail.startswith("https://***@hub.lan, HF_TOKEN is set")


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (Reply("I search.", SearchCall(("x",)), ""), "ok"),
        (Reply("", SearchCall(("x",)), ""), "warn"),
        (Reply("I know.", Answer("1807"), ""), "ok"),
        (Reply("Hm.", Malformed("no call"), ""), "warn"),
    ],
)
def test_a_turn_is_judged_by_its_thinking_and_its_form(reply: Reply, state: str) -> None:
    assert doctor.judged(reply).state == state


def test_the_command_is_json_and_exit_1_on_a_failure() -> None:
    well = CliRunner().invoke(cli, ["doctor", "--model", demo.MODEL, "--offline", "--quick", "--json"])
    ill = CliRunner().invoke(cli, ["doctor", "--offline", "--quick"])
    assert (well.exit_code, ill.exit_code) == (0, 1)
    assert {finding["state"] for finding in json.loads(well.output)} <= {"ok", "warn", "skip"}
    assert "FAIL  model" in ill.output
