"""Quantized weights take other kernels than the random models of the other tests: AMX, repacked rows."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge.engine import Request, Sampling, library
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_a_batch_goes_through_quantized_weights(model_file: Path, tmp_path: Path, kind: str) -> None:
    lib, path = library.load(), tmp_path / f"{kind}.gguf"
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{kind}"), 1
    assert lib.llama_model_quantize(os.fsencode(model_file), os.fsencode(path), params) == 0
    with closing(LlamaEngine(path, EngineOptions(n_ctx=512, n_ctx_reading=0, n_threads=1))) as engine:
        generation = engine.generate(Request([100 + i for i in range(200)], Sampling(max_tokens=20)))
        assert "".join(generation)
    assert generation.usage.evaluated_tokens == 200 + generation.usage.generated_tokens - 1
