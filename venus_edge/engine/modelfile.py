"""A FILE THAT SHOULD BE A MODEL -> what it is instead. Looks at its first bytes before llama.cpp does, and reads
llama.cpp's complaint after it failed. Out: a ModelError of one line that says what to do.
"""

from __future__ import annotations

import re
from pathlib import Path

from venus_edge.errors import ModelError

_REMEDY = "fetch it again, or try: venus-edge run --demo"
_OLD = (b"lmgg", b"fmgg", b"tjgg", b"algg")  # ggml, ggmf, ggjt, ggla: before GGUF
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def check(path: Path) -> None:
    """Raises ModelError if the file is no GGUF, and says what it is."""
    if path.is_dir():
        raise ModelError(f"{path} is a folder: name the .gguf file in it")
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"{path} is a device or a pipe: name the .gguf file itself")
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise ModelError(
            f"{path} is not there: give --model the path of a .gguf file, or try: venus-edge run --demo"
        ) from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    if not head.startswith(b"GGUF"):
        raise ModelError(f"{path} {_is_instead(head)}")
    if len(head) < 24:
        raise ModelError(f"{path} is cut off after {len(head)} bytes: {_REMEDY}")
    part = _PART.search(path.name)
    if part and int(part[1]) != 1:
        first = path.name.replace(part[0], f"-00001-of-{part[2]}.gguf")
        raise ModelError(f"{path} is part {int(part[1])} of a split model: name its first part, {first}")


def _is_instead(head: bytes) -> str:
    start = head.lstrip()[:16].lower()
    if not head:
        return f"is empty: {_REMEDY}"
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the model: run git lfs pull where it came from"
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return f"is a web page, not a model (a download that needed a login, perhaps): {_REMEDY}"
    if head[:4] in _OLD:
        return "is a model of the time before GGUF, which llama.cpp no longer reads: fetch a GGUF of it"
    if head[:4] == b"FUGG":
        return "is a GGUF of the other byte order: convert it on this machine"
    if start.startswith(b"{") or start[8:9] == b"{":
        return "is JSON or a safetensors checkpoint, not a GGUF: convert it first"
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return "is an archive or a PyTorch checkpoint, not a GGUF: unpack or convert it first"
    return f"is not a GGUF model: {_REMEDY}"


def without_tokenizer(path: Path) -> ModelError:
    """The error for a file that llama.cpp loads, and whose tokens it then cannot name."""
    return ModelError(f"{path} carries no tokenizer: convert it again, with the tokenizer's files beside the weights")


def failed(path: Path, complaint: str) -> ModelError:
    """The error for a file that llama.cpp would not load, by its own last words."""
    unknown = re.search(r"unknown model architecture: '?([\w.-]+)", complaint)
    if unknown:
        return ModelError(
            f"{path} is a model of the kind {unknown[1]}, which the installed llama.cpp does not know: "
            "pip install --upgrade llama-cpp-python, or use a Qwen3 model"
        )
    if re.search(r"file bounds|corrupted|incomplete|failed to read|read error|unexpectedly reached end", complaint):
        return ModelError(f"{path} is cut off or damaged ({complaint}): {_REMEDY}")
    if re.search(r"unable to allocate|failed to allocate|out of memory|mmap failed", complaint, re.IGNORECASE):
        return ModelError(f"{path} does not fit into memory ({complaint}): use a smaller quantization")
    if re.search(r"unknown (pre-)?tokenizer|file is version|unsupported|newer", complaint, re.IGNORECASE):
        return ModelError(f"{path} is too new for llama.cpp ({complaint}): pip install --upgrade llama-cpp-python")
    return ModelError(f"{path} cannot be loaded ({complaint or 'llama.cpp gives no reason'}): {_REMEDY}")
