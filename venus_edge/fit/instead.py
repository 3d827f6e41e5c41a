"""A WHOLE GGUF FILE THAT CANNOT ANSWER -> what it is instead. In: a header. Out: a ModelError of one line, or nothing.

`engine.modelfile` knows what is no GGUF at all; here are those that are one and hold something else than a language
model: half of one, an addition to one, a model of another use.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge.errors import ModelError

if TYPE_CHECKING:
    from venus_edge.fit.header import Header

_GIVE = "name the file of the language model itself"
_USE = "give a DR-Venus model: venus-edge models list"
_TYPES = {  # general.type -> what such a file is, what to do
    "adapter": ("a LoRA adapter, which changes a model and is none", f"merge it into its model, or {_GIVE}"),
    "mmproj": ("the part of a model that sees images (mmproj)", _GIVE),
    "imatrix": ("an importance matrix for quantizing", _GIVE),
    "vocab": ("a vocabulary without weights", _GIVE),
}
_ARCHITECTURES = {
    "clip": _TYPES["mmproj"],
    "controlvector": ("a control vector, which changes a model and is none", _GIVE),
    "wavtokenizer-dec": ("the part of a model that speaks", _GIVE),
}
_ENCODERS = (
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
    "gemma-embedding", "llama-embed", "t5encoder",
)  # fmt: skip


def check(header: Header) -> None:
    """Raises ModelError for a file that holds no language model."""
    found = _instead(header)
    if found:
        what, remedy = found
        raise ModelError(f"{header.path} is {what}: {remedy}")


def _instead(header: Header) -> tuple[str, str] | None:
    kind, architecture = header.text("general.type"), header.architecture
    if found := _TYPES.get(kind) or _ARCHITECTURES.get(architecture):
        return found
    pooling = header.number("pooling_type")
    if architecture in _ENCODERS or pooling:
        return ("a ranking model" if pooling == 4 else "an embedding model") + ", which writes no text", _USE
    if not header.tensors:
        return _TYPES["vocab"]
    return None


def folder(path: Path) -> ModelError:
    """The error for a folder: which file in it is meant, or how it becomes one."""
    files = sorted(file.name for file in path.glob("*.gguf"))
    if files:
        return ModelError(f"{path} is a folder: name the file in it, {' or '.join(files[:3])}")
    if any(path.glob("*.safetensors")):
        return ModelError(f"{path} is a checkpoint: turn it into a model file with: venus-edge convert {path}")
    return ModelError(f"{path} is a folder without a .gguf file: name the model's file")


def version(path: Path, number: int) -> ModelError:
    """The error for a version of GGUF that is not read: of the other byte order it seems to be millions."""
    if number & 0xFFFF == 0 and number >> 24 < 100:
        return ModelError(f"{path} is a GGUF of the other byte order (big-endian): convert it on this machine")
    if number == 1:
        return ModelError(f"{path} is GGUF version 1 (of 2023), which llama.cpp no longer reads: fetch a newer file")
    return ModelError(f"{path} is GGUF version {number}, newer than what is known: pip install --upgrade venus-edge")
