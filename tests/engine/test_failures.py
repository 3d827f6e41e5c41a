"""Every way in which a model does not open is one line that says what to do."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest

from tests.engine.conftest import TEMPLATE
from tests.engine.vocabulary import write_model
from venus_edge.engine import Request, Sampling, options
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import EngineError, ModelError, UsageError, VenusError

FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("web page", b"\n<!DOCTYPE html><html>Sign in</html>", "is a web page"),
    ("LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2\n", "git lfs pull"),
    ("before GGUF", b"tjgg" + bytes(600), "before GGUF"),
    ("other byte order", b"FUGG" + bytes(600), "byte order"),
    ("safetensors", (300).to_bytes(8, "little") + b'{"a": 1}' + bytes(600), "safetensors"),
    ("error in JSON", b'{"error": "gated"}', "is JSON"),
    ("PyTorch", b"PK\x03\x04" + bytes(600), "PyTorch"),
    ("anything", b"hello " * 200, "is not a GGUF"),
    ("four bytes", b"GGUF", "cut off after 4 bytes"),
    ("header only", b"GGUF" + (3).to_bytes(4, "little") + (9).to_bytes(8, "little") * 2, "cut off or damaged"),
    ("a version of the future", b"GGUF" + (99).to_bytes(4, "little") + bytes(600), "too new"),
]


def complaint(path: Path, chosen: EngineOptions = EngineOptions(n_ctx=512, n_ctx_reading=0)) -> VenusError:  # noqa: B008 (frozen)
    with pytest.raises(VenusError) as caught:
        LlamaEngine(path, chosen)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("data", "words"), [(data, words) for _, data, words in FILES], ids=[f[0] for f in FILES])
def test_a_file_that_is_no_model_is_named_for_what_it_is(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    error = complaint(path)
    assert isinstance(error, ModelError)
    assert str(error).startswith(f"{path} ")
    assert words in str(error)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "is not there: give --model" in str(complaint(tmp_path / "none.gguf"))
    assert "is a folder" in str(complaint(tmp_path))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_cut_file_is_cut(tmp_path: Path, model_file: Path, share: float) -> None:
    data = model_file.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    error = complaint(path)
    assert isinstance(error, ModelError)
    assert "is cut off or damaged" in str(error)


def test_another_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "quantumbrain")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "of the kind quantumbrain" in str(complaint(path))


def test_a_model_without_a_tokenizer_is_refused_where_llama_cpp_would_end_the_process(tmp_path: Path) -> None:
    error = complaint(write_model(tmp_path / "mute.gguf", TEMPLATE, count=0))
    assert isinstance(error, ModelError)
    assert "carries no tokenizer" in str(error)


def test_a_part_of_a_split_model_names_the_first(tmp_path: Path, model_file: Path) -> None:
    path = tmp_path / "big-00002-of-00003.gguf"
    path.write_bytes(model_file.read_bytes())
    assert "name its first part, big-00001-of-00003.gguf" in str(complaint(path))


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (EngineOptions(n_ctx=0), "--context"),
        (EngineOptions(n_ctx=-5), "--context"),
        (EngineOptions(n_ctx=1 << 27), "give --context 8192 or less"),
        (EngineOptions(n_ctx=512, type_k="q5"), "unknown KV type 'q5'; known: f16, q8_0, q4_0"),
        (EngineOptions(n_ctx=512, type_v="int8"), "unknown KV type 'int8'"),
        (EngineOptions(n_ctx=512, type_k="q8_0", flash_attention=False), "flash attention"),
    ],
)
def test_options_that_cannot_be_meant(model_file: Path, chosen: EngineOptions, words: str) -> None:
    error = complaint(model_file, chosen)
    assert isinstance(error, UsageError)
    assert words in str(error)


FOUR_B = {
    "general.architecture": "qwen3",
    "qwen3.block_count": "36",
    "qwen3.embedding_length": "2560",
    "qwen3.attention.head_count": "32",
    "qwen3.attention.head_count_kv": "8",
    "qwen3.attention.key_length": "128",
    "qwen3.attention.value_length": "128",
}


@pytest.mark.parametrize(
    ("kind", "n_ctx", "mib"),
    [("f16", 32_768, 4_608), ("q8_0", 32_768, 2_448), ("q4_0", 32_768, 1_296), ("f16", 131_072, 18_432),
     ("q8_0", 131_072, 9_792), ("q4_0", 131_072, 5_184)],
)  # fmt: skip
def test_the_size_of_the_cache_is_the_measured_one(kind: str, n_ctx: int, mib: int) -> None:
    chosen = EngineOptions(n_ctx=n_ctx, n_ctx_reading=0, type_k=kind)
    assert options.kv_bytes(chosen, FOUR_B) == mib * 1024**2


def test_a_window_that_does_not_fit_into_memory_is_refused_before_it_is_made() -> None:
    chosen, weights = EngineOptions(n_ctx=131_072, n_ctx_reading=0), 2_497_280_256
    options.check_memory(chosen, FOUR_B, weights, 24 * options.GIB)
    with pytest.raises(EngineError) as caught:
        options.check_memory(chosen, FOUR_B, weights, 16 * options.GIB)
    assert str(caught.value) == (
        "a window of 131,072 tokens takes 18.0 GiB of memory with f16 KV, "
        "with 2.3 GiB of weights beside it, of 16.0 GiB that are free: "
        "give a smaller --context, or --kv-type q8_0 or q4_0"
    )


def test_llama_cpps_log_goes_to_the_debug_log(
    model_file: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, "venus_edge.llama"):
        LlamaEngine(model_file, EngineOptions(n_ctx=512, n_ctx_reading=0)).close()
    assert any("n_ctx" in record.message for record in caplog.records)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert capfd.readouterr().err == ""


# -- the library itself, in a process of its own ----------------------------------------------------------------------

INSTALL = "pip install --upgrade 'llama-cpp-python>=0.3.36'"


def command_line(folder: Path, files: dict[str, str]) -> tuple[int, str]:
    """`venus-edge run --demo` where these files come first on Python's path: its exit code and stderr."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "venus_edge", "run", "--demo"]
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def metadata(version: str) -> dict[str, str]:
    head = "Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: "
    return {f"llama_cpp_python-{version}.dist-info/METADATA": f"{head}{version}\n"}


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {**metadata("0.2.90"), "llama_cpp/__init__.py": "", "llama_cpp/llama_cpp.py": "llama_eval = 1\n"},
            f"llama-cpp-python 0.2.90 is too old: {INSTALL}",
        ),
        (
            {**metadata("0.3.99"), "llama_cpp/__init__.py": "", "llama_cpp/llama_cpp.py": "llama_decode = 1\n"},
            "llama-cpp-python 0.3.99 has no llama_sampler_init_grammar_lazy_patterns, which is used here: "
            f"{INSTALL} --force-reinstall",
        ),
        (
            {"llama_cpp/__init__.py": "raise ModuleNotFoundError(\"No module named 'llama_cpp'\", name='llama_cpp')\n"},
            f"llama-cpp-python is not installed: {INSTALL}",
        ),
        (
            {"llama_cpp/__init__.py": "raise OSError('libllama.so: cannot open shared object file')\n"},
            "llama.cpp cannot be loaded (libllama.so: cannot open shared object file): "
            "pip install --force-reinstall llama-cpp-python",
        ),
    ],
    ids=["too old", "lacks a function", "not installed", "does not load"],
)
def test_a_library_that_will_not_do_is_one_line(tmp_path: Path, files: dict[str, str], line: str) -> None:
    code, said = command_line(tmp_path, files)
    assert code == 1
    assert said.splitlines()[-1] == f"Error: {line}"
    assert "Traceback" not in said


def test_a_pickle_of_today_is_a_pytorch_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(pickle.dumps({"weights": [1] * 200}, protocol=4))
    assert str(complaint(path)) == (
        f"{path} is an archive or a PyTorch checkpoint, not a GGUF: unpack or convert it first"
    )


@pytest.mark.parametrize("code", [1, -1, -3])
def test_a_batch_that_llama_cpp_will_not_evaluate_is_one_line(model_file: Path, code: int) -> None:
    class Refusing:
        """llama.cpp, save that nothing is evaluated."""

        def __init__(self, lib: Any) -> None:
            self._lib = lib

        def __getattr__(self, name: str) -> Any:
            return getattr(self._lib, name) if name != "llama_decode" else lambda *_: code

    engine = LlamaEngine(model_file, EngineOptions(n_ctx=512, n_ctx_reading=0))
    true, engine._context.lib = engine._context.lib, Refusing(engine._context.lib)
    with pytest.raises(EngineError) as caught:
        list(engine.generate(Request([5, 6, 7], Sampling(max_tokens=2))))
    assert str(caught.value) == (
        f"llama.cpp could not evaluate 3 tokens at 0 (code {code}: no reason given): "
        "try a smaller --context or fewer --gpu-layers"
    )
    assert engine.cached() == ()
    engine._context.lib = true
    assert list(engine.generate(Request([5, 6, 7], Sampling(max_tokens=2)))) is not None
    engine.close()
