"""Geometry, rope, vocabulary and provenance -> the key-value pairs of the file. Pure but for the model card.

In: what the other steps found. Out: the pairs that llama.cpp's own converter writes, with the same values, and
venus-edge's own under `venus.`: what the runtime compares with its registry before it trusts a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from venus_convert.values import Checkpoint, Geometry, KeyType, KeyValue, Rope, TensorType, Vocabulary

ARCH = "qwen3"
QUANTIZATION_VERSION = 2  # ggml's
# llama.cpp knows these ends of generation by their text; any other needs a key.
KNOWN_STOPS = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "</s>", "<EOT>", "<|end_of_text|>"}


@dataclass(frozen=True, slots=True)
class Provenance:
    """What only the person or the registry knows. Empty strings are left out of the file."""

    name: str = ""
    dialect: str = ""
    repo: str = ""
    revision: str = ""
    system_prompt: str | None = None


def pairs(
    checkpoint: Checkpoint, shape: Geometry, positions: Rope, vocabulary: Vocabulary, kind: TensorType,
    parameters: int, known: Provenance,
) -> list[KeyValue]:  # fmt: skip
    """All pairs, in the order that llama.cpp's converter writes them."""
    return [
        *_general(checkpoint, parameters, known),
        *_shape(shape),
        *_rope(positions),
        KeyValue("general.file_type", KeyType.UINT32, kind.ftype),
        KeyValue("general.quantization_version", KeyType.UINT32, QUANTIZATION_VERSION),
        *_tokenizer(vocabulary),
        *_venus(vocabulary, known),
    ]


def _general(checkpoint: Checkpoint, parameters: int, known: Provenance) -> Iterator[KeyValue]:
    """From model card, generation defaults and the folder's name, by the gguf package's own rules."""
    from gguf import GGUFWriter, Metadata, size_label

    meta = Metadata.load(None, checkpoint.folder, known.name or None, parameters)
    meta.name = known.name or meta.name or checkpoint.folder.resolve().name
    meta.size_label = meta.size_label or size_label(parameters, parameters, 0, 0)
    if known.repo:
        meta.source_repo_url = f"https://huggingface.co/{known.repo}"
    writer = GGUFWriter(None, ARCH)
    writer.add_type("model")
    meta.set_gguf_meta_model(writer)
    for key, value in writer.kv_data[0].items():
        kind = KeyType.STRINGS if isinstance(value.value, (list, tuple)) else KeyType(int(value.type))
        yield KeyValue(key, kind, value.value)


def _shape(shape: Geometry) -> Iterator[KeyValue]:
    counts = {
        "block_count": shape.layers,
        "embedding_length": shape.hidden,
        "feed_forward_length": shape.ffn,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
    }
    for key, value in counts.items():
        yield KeyValue(f"{ARCH}.{key}", KeyType.UINT32, value)
    yield KeyValue(f"{ARCH}.attention.layer_norm_rms_epsilon", KeyType.FLOAT32, shape.rms_eps)


def _rope(positions: Rope) -> Iterator[KeyValue]:
    yield KeyValue(f"{ARCH}.context_length", KeyType.UINT32, positions.context)
    yield KeyValue(f"{ARCH}.rope.freq_base", KeyType.FLOAT32, positions.theta)
    scaling = positions.scaling
    if scaling is None:
        return
    yield KeyValue(f"{ARCH}.rope.scaling.type", KeyType.STRING, scaling.kind)
    yield KeyValue(f"{ARCH}.rope.scaling.factor", KeyType.FLOAT32, scaling.factor)
    if scaling.kind == "yarn":
        yield KeyValue(f"{ARCH}.rope.scaling.original_context_length", KeyType.UINT32, scaling.original)
    optional = {
        "attn_factor": scaling.attention,
        "yarn_ext_factor": scaling.extrapolation,
        "yarn_beta_fast": scaling.beta_fast,
        "yarn_beta_slow": scaling.beta_slow,
    }
    for key, value in optional.items():
        if value is not None:
            yield KeyValue(f"{ARCH}.rope.scaling.{key}", KeyType.FLOAT32, value)


def _tokenizer(vocabulary: Vocabulary) -> Iterator[KeyValue]:
    yield KeyValue("tokenizer.ggml.model", KeyType.STRING, "gpt2")
    yield KeyValue("tokenizer.ggml.pre", KeyType.STRING, "qwen2")
    yield KeyValue("tokenizer.ggml.tokens", KeyType.STRINGS, vocabulary.tokens)
    yield KeyValue("tokenizer.ggml.token_type", KeyType.INT32S, vocabulary.types)
    yield KeyValue("tokenizer.ggml.merges", KeyType.STRINGS, vocabulary.merges)
    other = [stop for stop in vocabulary.stops[1:] if vocabulary.tokens[stop] not in KNOWN_STOPS]
    ids = {
        "eos_token_id": vocabulary.eos,
        "eot_token_id": next(iter(other), None),
        "padding_token_id": vocabulary.pad,
        "bos_token_id": vocabulary.bos,
    }
    for key, value in ids.items():
        if value is not None:
            yield KeyValue(f"tokenizer.ggml.{key}", KeyType.UINT32, value)
    yield KeyValue("tokenizer.ggml.add_bos_token", KeyType.BOOL, False)
    yield KeyValue("tokenizer.ggml.add_eos_token", KeyType.BOOL, False)
    yield from _templates(vocabulary)


def _templates(vocabulary: Vocabulary) -> Iterator[KeyValue]:
    if vocabulary.named_templates:
        yield KeyValue("tokenizer.chat_templates", KeyType.STRINGS, tuple(sorted(vocabulary.named_templates)))
    for name, text in sorted(vocabulary.named_templates.items()):
        yield KeyValue(f"tokenizer.chat_template.{_key(name)}", KeyType.STRING, text)
    if vocabulary.template is not None:
        yield KeyValue("tokenizer.chat_template", KeyType.STRING, vocabulary.template)


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def _venus(vocabulary: Vocabulary, known: Provenance) -> Iterator[KeyValue]:
    yield KeyValue("venus.stop_token_ids", KeyType.INT32S, vocabulary.stops)
    texts = {
        "venus.dialect": known.dialect,
        "venus.chat_template.sha256": sha256(vocabulary.template) if vocabulary.template is not None else "",
        "venus.system_prompt.sha256": sha256(known.system_prompt) if known.system_prompt is not None else "",
        "venus.source.repo": known.repo,
        "venus.source.revision": known.revision,
        "venus.converter": f"venus-edge {_version()}",
    }
    for key, value in texts.items():
        if value:
            yield KeyValue(key, KeyType.STRING, value)


def sha256(text: str) -> str:
    """Hex digest of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def revision(folder: Path) -> str:
    """The hub's commit that a folder was downloaded at, as far as its place or its bookkeeping says; else empty."""
    parts = folder.resolve().parts
    if len(parts) > 1 and parts[-2] == "snapshots" and re.fullmatch(r"[0-9a-f]{40}", parts[-1]):
        return parts[-1]
    record = folder / ".cache" / "huggingface" / "download" / "config.json.metadata"
    if record.is_file():
        first = record.read_text(encoding="utf-8").split("\n", 1)[0].strip()
        return first if re.fullmatch(r"[0-9a-f]{40}", first) else ""
    return ""


def _version() -> str:
    return version("venus-edge")
