"""One thing broken at a time: which finding `venus-edge doctor` makes of it, its remedy, its exit code."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.engine.vocabulary import write_model
from venus_edge import demo
from venus_edge.cli.app import cli
from venus_edge.engine import devices
from venus_edge.engine.offload import Build, Sign
from venus_edge.fit import doctor, machine, sizes
from venus_edge.fit.planner import Gpu, Machine
from venus_edge.fit.sizes import GIB
from venus_edge.sources.cache import FILE as CACHE_FILE

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<think><tool_call>"
SECRET = "s3cr3t"


@dataclass
class Home:
    """A person's home, in which one thing is broken: files, variables, flags, and the machine around it."""

    path: Path
    patch: pytest.MonkeyPatch
    environment: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=lambda: ["--model", demo.MODEL, "--offline", "--quick"])

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def model(self, path: Path) -> None:
        self.flags = ["--model", str(path), "--offline", "--quick"]

    def has(self, **parts: Any) -> None:
        """The machine has these parts."""
        whole = {"ram_total": 16 * GIB, "ram_free": 12 * GIB, "cores": 2, **parts}
        self.patch.setattr(machine, "probe", lambda: Machine(**whole))

    def examined(self) -> tuple[int, list[dict[str, str]]]:
        places = {f"VENUS_{name}_DIR": str(self.path / name.lower()) for name in ("CONFIG", "DATA", "CACHE")}
        secrets = {"HF_TOKEN": f"hf_{SECRET}", "HTTPS_PROXY": f"http://me:{SECRET}@127.0.0.1:9"}
        given = {**places, **secrets, **self.environment}
        result = CliRunner(env=given).invoke(cli, ["doctor", *self.flags, "--json"])
        told = CliRunner(env=given).invoke(cli, ["doctor", *self.flags])
        assert SECRET not in result.output + told.output
        assert told.exit_code == result.exit_code
        return result.exit_code, json.loads(result.stdout)


def wrong_key(home: Home) -> None:
    home.write("config/config.toml", "contxt = 1\n")


def wrong_table(home: Home) -> None:
    home.write("config/models.toml", "[mine]\ntitle = 3\n")


def wrong_variable(home: Home) -> None:
    home.environment["VENUS_CONTEXTS"] = "1"


def data_is_a_file(home: Home) -> None:
    home.write("data", "")


def full_disk(home: Home) -> None:
    home.patch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5_000_000}))


def wrong_clock(home: Home) -> None:
    early = doctor.Patient
    home.patch.setattr(doctor, "Patient", lambda *args, **more: early(*args, **{**more, "today": date(1970, 1, 1)}))


def unused_gpu(home: Home) -> None:
    home.has(offload=False)
    home.patch.setattr(devices, "sign", lambda: Sign("NVIDIA", "CUDA"))
    home.patch.setattr(devices, "build", lambda: Build(("CPU",)))


def gpu_without_driver(home: Home) -> None:
    home.has()
    home.patch.setattr(devices, "sign", lambda: Sign("NVIDIA", "CUDA"))
    home.patch.setattr(devices, "build", lambda: Build(("CUDA", "CPU")))


def gpu_switched_off(home: Home) -> None:
    home.has(gpus=(Gpu("card", 8 * GIB, 7 * GIB),))
    home.environment["VENUS_GPU_LAYERS"] = "0"


def layers_without_gpu(home: Home) -> None:
    home.has(offload=False)
    home.patch.setattr(devices, "sign", lambda: None)
    home.patch.setattr(devices, "build", lambda: Build(("CPU",)))
    home.environment["VENUS_GPU_LAYERS"] = "all"


def layers_that_are_none(home: Home) -> None:
    home.environment["VENUS_GPU_LAYERS"] = "many"


def no_date(home: Home) -> None:
    home.environment["VENUS_DATE"] = "昨天"


def no_proxy_of_ones_own(home: Home) -> None:
    home.environment["VENUS_PROXY"] = f"gopher://me:{SECRET}@x"


def cache_nowhere(home: Home) -> None:
    home.patch.setattr("tempfile.TemporaryFile", _read_only)


def _read_only(dir: Path) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def old_cpu_build(home: Home) -> None:
    home.patch.setattr(machine, "build", lambda: machine.Build("0.3.36", ("SSE3",), False))
    home.patch.setattr("platform.machine", lambda: "x86_64")


def no_model(home: Home) -> None:
    home.flags = ["--offline", "--quick"]


def unknown_model(home: Home) -> None:
    home.flags = ["--model", "dr-venus", "--offline", "--quick"]


def pointer(home: Home) -> None:
    home.model(home.write("m.gguf", "version https://git-lfs.github.com/spec/v1\n"))


def web_page(home: Home) -> None:
    home.model(home.write("m.gguf", "<!DOCTYPE html>"))


def cut_model(home: Home) -> None:
    home.model(home.write("cut.gguf", write_model(home.path / "whole.gguf", TEMPLATE).read_bytes()[:-5_000]))


def no_template(home: Home) -> None:
    home.model(write_model(home.path / "bare.gguf", ""))


def little_memory(home: Home) -> None:
    home.has(ram_total=4 * GIB, ram_free=100 * sizes.MIB)


def long_window(home: Home) -> None:
    home.environment["VENUS_CONTEXT"] = "200000"


def no_corpus(home: Home) -> None:
    home.flags += ["--corpus", str(home.path / "gone")]


def unindexed(home: Home) -> None:
    home.flags += ["--corpus", str(home.write("notes/a.md", "# A\n").parent)]


def damaged_corpus(home: Home) -> None:
    home.flags += ["--corpus", str(home.write("x.sqlite", "no database"))]


def damaged_cache(home: Home) -> None:
    home.write(f"cache/{CACHE_FILE}", "no database")


def no_key(home: Home) -> None:
    home.environment["VENUS_SEARCH"] = "brave"


def online(home: Home) -> None:
    """A loopback hub that is not there, behind nothing."""
    home.flags = ["--model", demo.MODEL, "--quick"]
    home.environment |= {"VENUS_SEARCH": "searxng", "VENUS_SEARXNG_URL": "http://127.0.0.1:1"}
    home.environment |= {"HF_ENDPOINT": f"http://me:{SECRET}@127.0.0.1:1"}
    home.patch.setattr(doctor, "PAGE", "http://127.0.0.1:1/")


def hub_gone(home: Home) -> None:
    online(home)


def search_gone(home: Home) -> None:
    online(home)


def proxy_gone(home: Home) -> None:
    online(home)
    home.environment["HF_ENDPOINT"] = "https://192.0.2.1"  # an address that leads nowhere (RFC 5737)


def no_proxy_at_all(home: Home) -> None:
    online(home)
    home.environment |= {"HF_ENDPOINT": "https://192.0.2.1", "HTTPS_PROXY": f"gopher://me:{SECRET}@x"}


def server_gone(home: Home) -> None:
    home.environment["VENUS_ENGINE"] = "http://127.0.0.1:1"


def missing_package(home: Home) -> None:
    home.patch.setattr(doctor, "PACKAGES", ("click", "no-such-package-here"))


BROKEN: list[tuple[Callable[[Home], None], str, str, int, str]] = [  # what, finding, state, exit code, in the lines
    (wrong_key, "settings", "fail", 1, "unknown key contxt; known: model"),
    (wrong_table, "settings", "fail", 1, "title should be of the kind str"),
    (wrong_variable, "settings", "warn", 0, "not known: VENUS_CONTEXTS -> venus-edge config keys"),
    (data_is_a_file, "directories", "fail", 1, "or set VENUS_DATA_DIR"),
    (full_disk, "disk", "fail", 1, "0.0 GB free for sessions, 0.0 GB for models -> make room"),
    (wrong_clock, "clock", "fail", 1, "the clock says 1970-01-01 -> set the system's date"),
    (unused_gpu, "gpu", "warn", 0, 'which this build cannot use -> CMAKE_ARGS="-DGGML_CUDA=on" pip install'),
    (gpu_without_driver, "gpu", "warn", 0, "this build could use one but finds none -> check its driver"),
    (gpu_switched_off, "gpu", "warn", 0, "not used: gpu-layers is 0 -> set gpu-layers to auto"),
    (layers_without_gpu, "gpu", "warn", 0, 'and there is none -> leave it at auto; this build of llama-cpp-python has'),
    (layers_that_are_none, "settings", "fail", 1, "gpu-layers is auto, all or a number, not 'many' -> correct it"),
    (no_date, "settings", "fail", 1, "date '昨天' is not YYYY-MM-DD -> correct it; venus-edge config keys"),
    (no_proxy_of_ones_own, "settings", "fail", 1, "proxy is not the address of a proxy"),
    (cache_nowhere, "directories", "fail", 1, "cannot be written -> correct its rights, or set VENUS_DATA_DIR"),
    (old_cpu_build, "llama.cpp", "warn", 0, "built without AVX2, so it is several times slower -> pip install"),
    (no_model, "model", "fail", 1, "without it: venus-edge run --demo -> venus-edge models pull dr-venus-4b-rl"),
    (unknown_model, "model", "fail", 1, "unknown model 'dr-venus'; known: dr-venus-4b-rl"),
    (pointer, "model", "fail", 1, "is a Git LFS pointer, not the model: run git lfs pull"),
    (web_page, "model", "fail", 1, "is a web page, not a model"),
    (cut_model, "model", "fail", 1, "is cut off: "),
    (no_template, "model", "warn", 0, "it carries no chat template; that of DR-Venus is used"),
    (little_memory, "memory", "fail", 1, "0.1 are free: give a smaller --context"),
    (long_window, "memory", "fail", 1, "is beyond the 4,096 that this model was made for"),
    (no_corpus, "corpus", "fail", 1, "gone is not there -> correct --corpus"),
    (unindexed, "corpus", "warn", 0, "is not indexed yet -> venus-edge corpus build"),
    (damaged_corpus, "corpus", "fail", 1, "x.sqlite"),
    (damaged_cache, "page cache", "warn", 0, "is damaged: what it holds is fetched again -> remove"),
    (no_key, "search", "fail", 1, "search service brave is not configured: set VENUS_BRAVE_KEY"),
    (hub_gone, "hub", "warn", 1, "http://***@127.0.0.1:1, HF_TOKEN is set, 3 models known: "),  # 1: search is gone too
    (search_gone, "search searxng", "fail", 1, "unreachable: 127.0.0.1"),
    (proxy_gone, "hub", "warn", 1, "the proxy 127.0.0.1: "),
    (no_proxy_at_all, "hub", "fail", 1, "HTTPS_PROXY is not the address of a proxy"),
    (server_gone, "model", "fail", 1, "start it, or check the address"),
    (missing_package, "packages", "fail", 1, "missing: no-such-package-here -> pip install no-such-package-here"),
]  # fmt: skip


@pytest.mark.parametrize("row", BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_what_is_broken_is_found_and_has_a_remedy(
    row: tuple[Callable[[Home], None], str, str, int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it, name, state, code, said = row
    for variable in ("HF_HUB_OFFLINE", "NO_PROXY", "no_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    home = Home(tmp_path, monkeypatch)
    break_it(home)
    exit_code, findings = home.examined()
    (found,) = [f for f in findings if f["name"] == name and f["state"] not in ("ok", "skip")]
    line = f"{found['detail']} -> {found['remedy']}" if found["remedy"] else found["detail"]
    assert (found["state"], exit_code) == (state, code)
    assert said in line
    others = {f["name"] for f in findings if f["state"] == "fail"} - {name}
    assert others <= {"search searxng", "search"}


def test_nothing_broken_is_exit_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, findings = Home(tmp_path, monkeypatch).examined()
    assert (code, {f["state"] for f in findings} & {"fail"}) == (0, set())
