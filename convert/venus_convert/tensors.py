"""A Checkpoint -> the tensors of the GGUF file: names, shapes and types. Pure but for the tied head's comparison.

In: names in any of the wrappings that training leaves (FSDP, DDP, PEFT, VL exports). Out: PlannedTensors in llama.cpp's
order (embedding, blocks, final norm, head), each with its source. Raises ConversionError for a name it does not know, a
tensor that is missing and a shape that is not the configuration's. It converts no values (`write` does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from venus_convert.values import Checkpoint, Geometry, PlannedTensor, TensorRef, TensorType
from venus_edge.errors import ConversionError

ARCHITECTURE = "Qwen3ForCausalLM"
EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WRAPPED = re.compile(r"(?:^|(?<=\.))(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod|_forward_module)\.")
PREFIXES = ("module.", "base_model.model.", "pretrained_model.", "language_model.", "model.language_model.",
            "actor_module.", "actor.", "policy.")  # fmt: skip
SCALES = ("weight_scale_inv", "weight_scale")
DROPPED = (
    (r".*rotary_emb\.(inv_freq|original_inv_freq|cos_cached|sin_cached)$", "rotary buffers"),
    (r"(v_head|value_head|critic_head)\.", "a value head left by training"),
)
LOW_BIT = "convert the BF16 checkpoint that it was made from"
REFUSED = (
    (r".*\.(lora_|dora_|hada_|oft_|boft_|vera_|ia3_)", "an unmerged PEFT adapter: merge_and_unload it, then convert"),
    (r".*\.(base_layer|modules_to_save|original_module)\.", "still wrapped by PEFT: merge_and_unload it, then convert"),
    (r".*\.(qweight|qzeros|g_idx|scales)$", f"GPTQ or AWQ weights: {LOW_BIT}"),
    (r".*\.(absmax|quant_map|SCB|weight_format|nested_.*)$|.*\.quant_state\.", f"bitsandbytes weights: {LOW_BIT}"),
    (r".*\.weight_(packed|shape|scale_2|zero_point)$", f"packed low-bit weights: {LOW_BIT}"),
    (r"(.*\.)?(visual|vision_tower|vision_model|multi_modal_projector|audio_tower)\.",
     "a vision or audio part, which a text GGUF cannot hold: export the language model alone"),
    (r".*\.experts\.", "a mixture of experts; only dense Qwen3 is converted"),
    (r"(score|classifier)\.", "a reward or classification head: this is not a language model"),
    (r".*\.bias$", "a bias, which Qwen3 does not have in llama.cpp"),
)  # fmt: skip


def geometry(checkpoint: Checkpoint, named: Mapping[str, TensorRef]) -> Geometry:
    """The model's shape. head_dim and the vocabulary's rows follow the tensors, for configurations leave them out."""
    config = checkpoint.config
    _refuse_other_models(config)
    hidden, heads = _count(config, "hidden_size"), _count(config, "num_attention_heads")
    return Geometry(
        layers=_count(config, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", heads),
        head_dim=_head_dim(config, named, heads),
        ffn=_count(config, "intermediate_size"),
        vocab=_rows(named, EMBEDDING),
        rms_eps=_epsilon(config),
    )


def canonical(checkpoint: Checkpoint) -> tuple[dict[str, TensorRef], tuple[str, ...]]:
    """The tensors under the names that transformers gives a Qwen3, and one note a kind of thing stripped or dropped."""
    named: dict[str, TensorRef] = {}
    notes: dict[str, None] = {}
    _refuse_quantized(checkpoint.config)
    for original, ref in checkpoint.tensors.items():
        name, wrapper = unwrap(original)
        if wrapper:
            notes[f"wrapper {wrapper!r} stripped from tensor names"] = None
        elif name != original:
            notes["tensor names lack 'model.': added"] = None
        reason = _first(DROPPED, name)
        if reason:
            notes[f"{reason} dropped ({original})"] = None
            continue
        reason = _first(REFUSED, name)
        if reason:
            raise ConversionError(f"{original} in {ref.path.name}: {reason}")
        if name in named:
            raise ConversionError(f"{named[name].name} and {original} are both {name}; keep one of them")
        named[name] = ref
    return named, _once_a_kind(notes)


def unwrap(name: str) -> tuple[str, str]:
    """The name without what training wrapped around it, and the wrapper.

    >>> unwrap("_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.mlp.up_proj.weight")
    ('model.layers.0.mlp.up_proj.weight', '_fsdp_wrapped_module.')
    """
    bare = WRAPPED.sub("", name)
    while True:
        prefix = next((prefix for prefix in PREFIXES if bare.startswith(prefix)), None)
        if prefix is None and re.match(r"model\.(model|lm_head|language_model)\.", bare):
            prefix = "model."
        if prefix is None:
            break
        bare = bare.removeprefix(prefix)
    if re.match(r"(embed_tokens|norm|layers)\.", bare):
        bare = f"model.{bare}"
    if bare == name:
        return name, ""
    found = WRAPPED.search(name)
    kept = bare if name.endswith(f".{bare}") else bare.removeprefix("model.")
    return bare, found.group() if found else name.removesuffix(kept)


def plan(
    checkpoint: Checkpoint, outtype: TensorType | None, same: Callable[[TensorRef, TensorRef], bool]
) -> tuple[Geometry, list[PlannedTensor], tuple[str, ...]]:
    """What to write: the shape, the tensors in order, and notes.

    `outtype` None keeps the checkpoint's own type. `same(a, b)` says whether two tensors hold equal values; it is
    asked only for a head that the configuration calls tied. Raises ConversionError as the module says.
    """
    named, notes = canonical(checkpoint)
    shape = geometry(checkpoint, named)
    scales = _take_scales(named)
    head, more = _head(checkpoint.config, named, same)
    wanted = dict(_expected(shape, head))
    _refuse_differences(wanted, named, shape)
    kind = outtype or _own_type(named[EMBEDDING if EMBEDDING in named else next(iter(wanted))])
    planned = [
        PlannedTensor(target, _type(dims, target, kind), named[name], scales.get(name))
        for name, (target, dims) in wanted.items()
    ]
    _refuse_unscaled(planned)
    return shape, planned, (*notes, *more, *_rows_note(checkpoint.config, shape))


def _rows_note(config: Mapping[str, Any], shape: Geometry) -> tuple[str, ...]:
    stated = config.get("vocab_size")
    if stated in (None, shape.vocab):
        return ()
    return (f"config.json says vocab_size {stated}, the embedding has {shape.vocab} rows: the rows count",)


# --- what the configuration says


def _refuse_other_models(config: Mapping[str, Any]) -> None:
    kinds = config.get("architectures") or []
    kind = kinds[0] if isinstance(kinds, list) and kinds else None
    if (
        kind not in (ARCHITECTURE, None)
        or config.get("model_type", "qwen3") != "qwen3"
        or (kind, config.get("model_type")) == (None, None)
    ):
        what = kind or config.get("model_type") or "not named in config.json"
        raise ConversionError(f"the architecture is {what}; this converts dense Qwen3 ({ARCHITECTURE}) only")
    if config.get("hidden_act", "silu") != "silu":
        raise ConversionError(f"config.json: hidden_act {config['hidden_act']!r}; Qwen3 in llama.cpp has silu only")
    sliding = config.get("use_sliding_window") and config.get("sliding_window") is not None
    layers = config.get("layer_types") or []
    if "sliding_attention" in layers or (sliding and not layers):
        raise ConversionError("config.json: sliding-window attention, which Qwen3 in llama.cpp does not have")


def _refuse_quantized(config: Mapping[str, Any]) -> None:
    """Only FP8 with its scales can be undone; every other method is refused by its name."""
    table = config.get("quantization_config") or config.get("compression_config")
    if not table:
        return
    method = str(table.get("quant_method", "unknown")) if isinstance(table, Mapping) else str(table)
    if method not in ("fp8", "fbgemm_fp8", "compressed-tensors", "modelopt"):
        raise ConversionError(f"a checkpoint quantized with {method}: convert the BF16 checkpoint it was made from")


def _count(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConversionError(f"config.json: {name} should be a positive whole number, it is {value!r}")
    return value


def _epsilon(config: Mapping[str, Any]) -> float:
    value = config.get("rms_norm_eps")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ConversionError(f"config.json: rms_norm_eps should be a small positive number, it is {value!r}")
    return float(value)


def _rows(named: Mapping[str, TensorRef], name: str) -> int:
    ref = named.get(name)
    if ref is None:
        raise ConversionError(f"{name} is missing: the download is incomplete, or this is no Qwen3; download it again")
    if len(ref.shape) != 2:
        raise ConversionError(f"{ref.name} has shape {list(ref.shape)}; a matrix was expected")
    return ref.shape[0]


def _head_dim(config: Mapping[str, Any], named: Mapping[str, TensorRef], heads: int) -> int:
    """From the configuration, else from q_proj's rows: never hidden / heads, which is 80 for Qwen3-4B's 128."""
    if config.get("head_dim") is not None:
        return _count(config, "head_dim")
    rows = _rows(named, "model.layers.0.self_attn.q_proj.weight")
    if rows % heads:
        raise ConversionError(f"q_proj has {rows} rows, which {heads} heads do not divide")
    return rows // heads


# --- which tensors there should be


def _expected(shape: Geometry, head: bool) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """transformers' name -> llama.cpp's and the dimensions, in llama.cpp's order."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    dims: dict[str, tuple[int, ...]] = {
        "input_layernorm": (shape.hidden,),
        "self_attn.q_proj": (q, shape.hidden),
        "self_attn.k_proj": (kv, shape.hidden),
        "self_attn.v_proj": (kv, shape.hidden),
        "self_attn.o_proj": (shape.hidden, q),
        "self_attn.q_norm": (shape.head_dim,),
        "self_attn.k_norm": (shape.head_dim,),
        "post_attention_layernorm": (shape.hidden,),
        "mlp.gate_proj": (shape.ffn, shape.hidden),
        "mlp.up_proj": (shape.ffn, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.ffn),
    }
    yield EMBEDDING, ("token_embd.weight", (shape.vocab, shape.hidden))
    for layer in range(shape.layers):
        for part, target in BLOCK.items():
            yield f"model.layers.{layer}.{part}.weight", (f"blk.{layer}.{target}.weight", dims[part])
    yield FINAL_NORM, ("output_norm.weight", (shape.hidden,))
    if head:
        yield HEAD, ("output.weight", (shape.vocab, shape.hidden))


def _refuse_differences(
    wanted: Mapping[str, tuple[str, tuple[int, ...]]], named: Mapping[str, TensorRef], shape: Geometry
) -> None:
    missing = [name for name in wanted if name not in named]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConversionError(f"{missing[0]} is missing from the checkpoint{more}; download it again")
    for name, ref in named.items():
        if name not in wanted:
            layer = re.match(r"model\.layers\.(\d+)\.", name)
            if layer and int(layer[1]) >= shape.layers:
                raise ConversionError(f"{ref.name} is beyond the {shape.layers} layers that config.json names")
            raise ConversionError(f"{ref.name} in {ref.path.name} is not a tensor of a dense Qwen3")
        if ref.shape != wanted[name][1]:
            raise ConversionError(f"{ref.name} has shape {list(ref.shape)}; config.json says {list(wanted[name][1])}")


def _head(
    config: Mapping[str, Any], named: dict[str, TensorRef], same: Callable[[TensorRef, TensorRef], bool]
) -> tuple[bool, tuple[str, ...]]:
    """Whether output.weight is written. A tied copy is dropped from `named`, a trained head never is."""
    tied, head = config.get("tie_word_embeddings"), named.get(HEAD)
    if head is None:
        if not tied:
            said = "says that the head is not tied" if tied is False else "does not say tie_word_embeddings"
            raise ConversionError(f"{HEAD} is missing, and config.json {said}; download it again")
        return False, ()
    if not tied:
        return True, ()
    if EMBEDDING in named and same(head, named[EMBEDDING]):
        del named[HEAD]
        return False, (f"{HEAD} is a copy of the embedding, as config.json says: dropped",)
    return True, (f"warning: config.json calls the head tied, but {HEAD} differs from the embedding: kept",)


def _take_scales(named: dict[str, TensorRef]) -> dict[str, TensorRef]:
    """FP8 scales leave `named` and are returned by the name of their weight; unused activation scales are dropped."""
    scales = {}
    for name in list(named):
        stem, _, leaf = name.rpartition(".")
        if leaf in SCALES:
            scales[f"{stem}.weight"] = named.pop(name)
        elif leaf in ("input_scale", "activation_scale", "k_scale", "v_scale"):
            del named[name]
    return scales


def _refuse_unscaled(planned: list[PlannedTensor]) -> None:
    for tensor in planned:
        dtype, name = tensor.source.dtype, tensor.source.name
        if dtype not in ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"):
            raise ConversionError(f"{name} holds {dtype} values, not weights; convert the BF16 checkpoint")
        if dtype.startswith("F8") and tensor.scale is None:
            raise ConversionError(f"{name} is FP8 and its scale is missing: an FP8 checkpoint, use the BF16 one")
        if tensor.scale is not None and tensor.scale.dtype not in ("F32", "F16", "BF16"):
            raise ConversionError(f"{tensor.scale.name} is {tensor.scale.dtype}, not a scale; use the BF16 checkpoint")
        if not dtype.startswith("F8") and tensor.scale is not None:
            raise ConversionError(f"{name} is {dtype} and has a scale ({tensor.scale.name}); use the BF16 checkpoint")


def _own_type(ref: TensorRef) -> TensorType:
    return {"F16": TensorType.F16, "F32": TensorType.F32, "F64": TensorType.F32}.get(ref.dtype, TensorType.BF16)


def _type(dims: tuple[int, ...], name: str, kind: TensorType) -> TensorType:
    """Norms are f32, as llama.cpp's operators want them; Q8_0 takes rows of whole blocks, others are f16."""
    if len(dims) == 1 or name.endswith("_norm.weight"):
        return TensorType.F32
    if kind is TensorType.Q8_0 and dims[-1] % 32:
        return TensorType.F16
    return kind


def _first(patterns: tuple[tuple[str, str], ...], name: str) -> str | None:
    return next((reason for pattern, reason in patterns if re.match(pattern, name)), None)


def _once_a_kind(notes: Mapping[str, None]) -> tuple[str, ...]:
    """One note a kind: of those that differ only by the tensor in brackets, the first."""
    kinds: dict[str, str] = {}
    for note in notes:
        kinds.setdefault(note.split(" (")[0], note)
    return tuple(kinds.values())
