"""A GGUF file -> a table of checks, each passed or not, with a figure.

In: the file, and where they are given the checkpoint it came from and a reference GGUF. Out: Checks. What needs no
llama.cpp is in `checks`; here are the loaded model's: tokenizer, forward pass, KL divergence. Nothing is written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_convert.bpe import Bpe
from venus_convert.checks import Check, check_checkpoint, check_header, check_metadata
from venus_convert.probes import PASSAGE, PROBES
from venus_convert.read import GgufFile, read_gguf
from venus_convert.vocab import CONTROL, UNUSED, USER_DEFINED
from venus_edge.errors import ModelError

BATCH, MOST = 64, 512  # tokens a decode, and tokens of a text that are compared
MAX_KL = 0.2  # nats a token; Q4_K_M of a 4B model is near 0.02, Q2_K near 0.2


def verify(
    path: Path, against: Path | None = None, reference: Path | None = None, text: str = "", max_kl: float = MAX_KL
) -> Iterator[Check]:
    """Check a file, from the cheap to the dear; a file that is no Qwen3 is not checked further.

    Raises ModelError only where nothing can be read at all.
    """
    file = read_gguf(path)
    yield check_header(file)
    basics = list(check_metadata(file))
    yield from basics
    if not basics[0].ok:
        return
    if against is not None:
        yield from check_checkpoint(file, against)
    yield check_tokenizer(file)
    yield check_forward(file, text)
    if reference is not None:
        yield from check_reference(path, reference, text or PASSAGE, max_kl)


def check_tokenizer(file: GgufFile) -> Check:
    """llama.cpp's ids of the probes against the rules written out, back to text, and every added token as one id."""
    tokens, kinds = file.pairs["tokenizer.ggml.tokens"], file.pairs["tokenizer.ggml.token_type"]
    rules = Bpe.of(tokens, file.pairs["tokenizer.ggml.merges"])
    wrong = []
    with _model(file.path, vocab_only=True) as (llama, model):
        vocab = llama.llama_model_get_vocab(model)
        for name, probe in PROBES.items():
            ids = _ids(llama, vocab, probe)
            if ids != rules.encode(probe):
                wrong.append(f"{name}: other ids")
            elif _text(llama, vocab, ids) != probe:
                wrong.append(f"{name}: other text")
        added = [i for i, kind in enumerate(kinds) if kind in (CONTROL, USER_DEFINED)]
        wrong += [f"{tokens[i]} is not one id" for i in added if _ids(llama, vocab, tokens[i]) != [i]]
        if llama.llama_vocab_get_add_bos(vocab):
            wrong.append("a BOS is put in front")
    unused = sum(kind == UNUSED for kind in kinds)
    fine = f"{len(PROBES)} texts and {len(added)} added tokens there and back; {unused} rows unused"
    return Check("tokenizer", not wrong, "; ".join(wrong[:4]) or fine)


def check_forward(file: GgufFile, text: str = "") -> Check:
    """One pass of the model: every logit finite, and not all the same."""
    with _model(file.path) as (llama, model):
        logits = np.concatenate(list(_logits(llama, model, _ids_of(llama, model, text or PASSAGE)[:BATCH])))
    finite = bool(np.isfinite(logits).all())
    spread = float(logits.std()) if finite else 0.0
    detail = f"{logits.shape[0]} positions x {logits.shape[1]:,} logits, spread {spread:.3g}"
    return Check("forward pass", finite and spread > 0, detail if finite else "logits that are not finite")


def check_reference(path: Path, reference: Path, text: str, max_kl: float) -> Iterator[Check]:
    """KL divergence from the reference's next-token distributions, and how often both choose the same token."""
    with _model(reference) as (llama, first), _model(path) as (_, second):
        ids = _ids_of(llama, first, text)[:MOST]
        if ids != _ids_of(llama, second, text)[:MOST]:
            yield Check("reference", False, "the reference has another tokenizer")
            return
        pairs = zip(_logits(llama, first, ids), _logits(llama, second, ids), strict=True)
        rows = [compared for a, b in pairs for compared in _compare(a, b)]
    kl, same = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    yield Check(
        "KL to the reference", bool(kl.mean() <= max_kl), f"mean {kl.mean():.5f} nats, 99% {np.quantile(kl, 0.99):.4f}"
    )
    yield Check("top-1 as the reference", bool(np.isfinite(kl).all()), f"{same.mean():.1%} of {same.size} positions")


def _compare(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> Iterator[tuple[float, bool]]:
    for left, right in zip(a, b, strict=True):
        p, q = _log_softmax(left), _log_softmax(right)
        yield float(np.sum(np.exp(p) * (p - q))), bool(left.argmax() == right.argmax())


def _log_softmax(row: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = row.astype(np.float64) - row.max()
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


# --- llama.cpp


@contextmanager
def _model(path: Path, vocab_only: bool = False) -> Iterator[tuple[Any, Any]]:
    """The library and a loaded model, on the CPU; llama.cpp's own lines are kept for the error."""
    import llama_cpp

    lines: list[str] = []
    log = llama_cpp.llama_log_callback(lambda _level, text, _: lines.append(text.decode("utf-8", "replace")))
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only, params.n_gpu_layers = vocab_only, 0
    # gcc up to 12 miscompiles ggml's AMX kernels, which come with the other layouts (llama.cpp#20824)
    params.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    _quiet(llama_cpp)
    if not model:
        said = next((line.strip() for line in reversed(lines) if "error" in line.lower()), "no reason given")
        raise ModelError(f"llama.cpp cannot load {path}: {said}")
    try:
        yield llama_cpp, model
    finally:
        llama_cpp.llama_model_free(model)


def _quiet(llama_cpp: Any) -> None:
    """llama.cpp keeps the callback, so it must outlive this module's frames."""
    llama_cpp.llama_log_set(_silence(llama_cpp), ctypes.c_void_p(0))


_SILENCE: list[Any] = []


def _silence(llama_cpp: Any) -> Any:
    if not _SILENCE:
        _SILENCE.append(llama_cpp.llama_log_callback(lambda _level, _text, _: None))
    return _SILENCE[0]


def _ids_of(llama: Any, model: Any, text: str) -> list[int]:
    return _ids(llama, llama.llama_model_get_vocab(model), text)


def _ids(llama: Any, vocab: Any, text: str) -> list[int]:
    data = text.encode("utf-8")
    room = len(data) + 8
    ids = (ctypes.c_int32 * room)()
    count = llama.llama_tokenize(vocab, data, len(data), ids, room, False, True)
    return list(ids[:count])


def _text(llama: Any, vocab: Any, ids: Sequence[int]) -> str:
    array = (ctypes.c_int32 * len(ids))(*ids)
    room = 64 * len(ids) + 64
    buffer = ctypes.create_string_buffer(room)
    count = llama.llama_detokenize(vocab, array, len(ids), buffer, room, False, True)
    return buffer.raw[:count].decode("utf-8", "replace")


def _logits(llama: Any, model: Any, ids: Sequence[int]) -> Iterator[npt.NDArray[np.float32]]:
    """Next-token logits of every position, BATCH positions at a time."""
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = max(len(ids), 32), BATCH, BATCH
    context = llama.llama_init_from_model(model, params)
    if not context:
        raise ModelError("llama.cpp cannot make a context for this model")
    width = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    try:
        for start in range(0, len(ids), BATCH):
            piece = ids[start : start + BATCH]
            _decode(llama, context, piece, start)
            values = np.ctypeslib.as_array(llama.llama_get_logits(context), (len(piece) * width,))
            yield values.reshape(len(piece), width).copy()
    finally:
        llama.llama_free(context)


def _decode(llama: Any, context: Any, ids: Sequence[int], start: int) -> None:
    batch = llama.llama_batch_init(len(ids), 0, 1)
    try:
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, start + i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if llama.llama_decode(context, batch) != 0:
            raise ModelError("llama.cpp could not evaluate the probe text")
    finally:
        llama.llama_batch_free(batch)
