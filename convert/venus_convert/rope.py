"""config.json + the context wanted -> window, theta and scaling of the GGUF. Pure.

In: the configuration as read, in the spelling of transformers 4 (`rope_theta`, `rope_scaling`) or 5
(`rope_parameters`), and what the person asked for. Out: a Rope. Raises ConversionError where a value would have to be
guessed. It does not decide how large a window a run opens; that is the runtime's `n_ctx`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from venus_convert.values import Rope, Scaling
from venus_edge.errors import ConversionError

# Qwen3's model cards: 40,960 positions are 32,768 trained ones and 8,192 set aside for the prompt; YaRN is over 32,768.
TRAINED = {40960: 32768}
UNSCALED = ("default", "none", "")


def rope(config: Mapping[str, Any], context: int | None = None, yarn_factor: float | None = None) -> Rope:
    """The positions to write. `context`: the window wanted, else the checkpoint's own; `yarn_factor`: asked by hand."""
    native = _positive_int(config, "max_position_embeddings")
    params = _parameters(config)
    theta = _theta(config, params)
    own, notes = _own_scaling(params, native)
    window = max(native, int(own.factor * own.original)) if own else native
    wanted = context or native
    if wanted > window or yarn_factor is not None:
        trained = own.original if own else TRAINED.get(native, native)
        return Rope(max(wanted, native), theta, _stretch(wanted, window, trained, yarn_factor), notes)
    return Rope(max(wanted, native), theta, own, notes)


def _stretch(wanted: int, window: int, trained: int, asked: float | None) -> Scaling:
    """YaRN from the trained length to the wanted one. Refused where the window reaches it."""
    if wanted <= window:
        raise ConversionError(
            f"YaRN is not needed: the checkpoint's window of {window:,} tokens covers {wanted:,}, and YaRN hurts short "
            f"texts; leave it out, or ask for a --context beyond {window}"
        )
    needed = wanted / trained
    factor = needed if asked is None else asked
    if not math.isfinite(factor) or factor < needed:
        raise ConversionError(
            f"YaRN factor {factor:g} over {trained:,} tokens does not reach {wanted:,}: it takes {needed:g}"
        )
    return Scaling("yarn", float(factor), trained)


def _parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """`rope_scaling` (v4) and `rope_parameters` (v5) as one table. A null one says nothing; two must agree."""
    merged: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        table = config.get(key)
        if table is None:
            continue
        if not isinstance(table, Mapping):
            raise ConversionError(f"config.json: {key} should be a table or null, it is {table!r}")
        for name, value in _normal(table).items():
            if merged.setdefault(name, value) != value:
                raise ConversionError(
                    f"config.json: rope_scaling and rope_parameters disagree on {name}: {merged[name]!r} and {value!r}"
                )
    return merged


def _normal(table: Mapping[str, Any]) -> dict[str, Any]:
    """One spelling: `rope_type` for `type`, no nulls, and of a table a layer kind the one of full attention."""
    inner = table.get("full_attention", table)
    values = {key: value for key, value in inner.items() if value is not None}
    kind = values.pop("type", None)
    if kind is not None and values.setdefault("rope_type", kind) != kind:
        raise ConversionError(f"config.json: rope type is both {kind!r} and {values['rope_type']!r}")
    return values


def _theta(config: Mapping[str, Any], params: Mapping[str, Any]) -> float:
    found = [value for value in (config.get("rope_theta"), params.get("rope_theta")) if value is not None]
    if not found:
        raise ConversionError(
            "config.json: neither rope_theta nor rope_parameters.rope_theta is there, and theta is never guessed; "
            "take the value from the model card (Qwen3-4B-Thinking-2507: 5000000)"
        )
    values = [_number("rope_theta", value) for value in found]
    if values[0] != values[-1]:
        raise ConversionError(f"config.json: rope_theta is both {values[0]:g} and {values[-1]:g}")
    return values[0]


def _own_scaling(params: Mapping[str, Any], native: int) -> tuple[Scaling | None, tuple[str, ...]]:
    kind = params.get("rope_type", "default")
    if kind in UNSCALED:
        return None, ()
    if kind not in ("yarn", "linear"):
        raise ConversionError(
            f"config.json: rope type {kind!r} is not one that llama.cpp has for Qwen3; known: default, linear, yarn"
        )
    if "factor" not in params:
        raise ConversionError(f"config.json: rope type {kind!r} without a factor")
    factor = _number("factor", params["factor"])
    if factor < 1:
        raise ConversionError(f"config.json: rope factor {factor:g} is below 1")
    if factor == 1:
        return None, (f"rope: {kind} with factor 1 scales nothing and is left out",)
    if kind == "linear":
        return Scaling("linear", factor, native), ()
    return _own_yarn(params, factor, native)


def _own_yarn(params: Mapping[str, Any], factor: float, native: int) -> tuple[Scaling, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if "original_max_position_embeddings" in params:
        original = _positive_int(params, "original_max_position_embeddings")
    else:
        original = native  # as transformers reads it
        notes = (f"rope: YaRN without original_max_position_embeddings; max_position_embeddings ({native:,}) is it",)
    options = {
        name: _number(key, params[key])
        for name, key in (("beta_fast", "beta_fast"), ("beta_slow", "beta_slow"))
        if key in params
    }
    if "extrapolation_factor" in params:
        options["extrapolation"] = _number("extrapolation_factor", params["extrapolation_factor"])
    attention = params.get("attention_factor", params.get("attn_factor"))
    if attention is not None:
        # transformers replaces its 0.1 ln(factor) + 1 by this; llama.cpp multiplies, so the ratio is what it needs.
        options["attention"] = _number("attention_factor", attention) / (0.1 * math.log(factor) + 1)
    return Scaling("yarn", factor, original, **options), notes


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ConversionError(f"config.json: {name} should be a positive number, it is {value!r}")
    return float(value)


def _positive_int(table: Mapping[str, Any], name: str) -> int:
    value = table.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConversionError(f"config.json: {name} should be a positive whole number, it is {value!r}")
    return value
