"""A folder -> a Checkpoint: which tensors it has and where their bytes lie. No tensor is read here.

In: a Hugging Face checkpoint folder (one safetensors file, or shards with or without an index). Out: a Checkpoint whose
every TensorRef lies inside its file. Everything that can be wrong with a download (a missing or cut shard, a Git LFS
pointer, a web page saved as weights) is a ConversionError here, within a second: only headers are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from venus_convert.values import Checkpoint, TensorRef
from venus_edge.errors import ConversionError

SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
HEADER_LIMIT = 100_000_000  # the safetensors library's own
AGAIN = "download it again"


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read configuration and shard headers. Raises ConversionError, one line, for whatever is missing or damaged."""
    if folder.is_file():
        raise ConversionError(
            f"{folder} is a file; a checkpoint is the folder that holds config.json and *.safetensors"
        )
    if not folder.is_dir():
        raise ConversionError(f"{folder} is not there; name a folder that holds config.json and *.safetensors")
    config = read_json(folder / "config.json")
    if config is None:
        raise ConversionError(_no_config(folder))
    shards, notes = _shards(folder)
    tensors, more = _tensors(folder, shards)
    generation = read_json(folder / "generation_config.json") or {}
    beside = ("warning: a PEFT adapter lies beside the weights; it is not merged into them",)
    adapter = beside if (folder / "adapter_config.json").is_file() else ()
    return Checkpoint(folder, config, generation, tensors, (*notes, *more, *adapter))


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, None where the file is not there. Raises ConversionError naming what was found instead."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConversionError(f"{path} is a link to a file that is gone; {AGAIN}") from None
        return None
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{path} is {_what_instead(data) or f'not JSON ({error})'}") from error
    if not isinstance(value, dict):
        raise ConversionError(f"{path} should hold a JSON object")
    return value


def read_text(path: Path) -> str:
    """A text file of the checkpoint without its byte-order mark. Raises ConversionError for what is not one."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConversionError(f"{path} is not UTF-8 text; {AGAIN}") from error
    what = _what_instead(data)
    if what:
        raise ConversionError(f"{path} is {what}")
    return text


def _no_config(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return f"{folder} is a PEFT adapter, not a model: merge it into its base (merge_and_unload) and convert that"
    if list(folder.glob("*.gguf")):
        return f"{folder} has no config.json but GGUF files: these need no conversion"
    return f"{folder / 'config.json'} is not there: it is no checkpoint folder, or the download is incomplete"


# --- which files


def _shards(folder: Path) -> tuple[dict[Path, set[str]], tuple[str, ...]]:
    """Shard -> the names its index puts there (empty without an index), and notes."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists() or single.is_symlink():
        notes = (f"{index.name} is ignored: {single.name} is there",) if index.exists() else ()
        return {single: set()}, notes
    table = read_json(index)
    if table is not None:
        return _indexed(folder, index, table), ()
    return _by_name(folder)


def _indexed(folder: Path, index: Path, table: Mapping[str, Any]) -> dict[Path, set[str]]:
    where = table.get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()) or not where:
        raise ConversionError(f"{index} has no weight_map of tensor name to file; {AGAIN}")
    shards: dict[Path, set[str]] = {}
    for tensor, name in where.items():
        if Path(name).name != name:
            raise ConversionError(f"{index} names {name!r}, which is not a file of this folder")
        shards.setdefault(folder / name, set()).add(tensor)
    _refuse_missing(folder, [path.name for path in shards])
    return dict(sorted(shards.items()))


def _by_name(folder: Path) -> tuple[dict[Path, set[str]], tuple[str, ...]]:
    found = sorted(path for path in folder.glob("*.safetensors") if not path.name.startswith("adapter_"))
    numbered = [
        (path, match) for path in found if (match := re.fullmatch(r"(.*)-\d+-of-(\d+)\.safetensors", path.name))
    ]
    families = {match.groups() for _, match in numbered}
    if len(families) > 1:
        names = ", ".join(f"{stem}-*-of-{count}" for stem, count in sorted(families))
        raise ConversionError(f"{folder} holds shards of several sets and no index: {names}; keep one, or {AGAIN}")
    if families:
        stem, count = families.pop()
        expected = [f"{stem}-{i:0{len(count)}d}-of-{count}.safetensors" for i in range(1, int(count) + 1)]
        _refuse_missing(folder, expected)
        return {folder / name: set() for name in expected}, ("no model.safetensors.index.json: shards found by name",)
    if len(found) == 1:
        return {found[0]: set()}, (f"the weights are taken from {found[0].name}",)
    raise ConversionError(_no_weights(folder, found))


def _no_weights(folder: Path, found: list[Path]) -> str:
    if found:
        return f"{folder} has no model.safetensors and no index, but {', '.join(p.name for p in found)}: which is it?"
    if list(folder.rglob("*.distcp")) or list(folder.glob("global_step*")) or (folder / "zero_to_fp32.py").exists():
        return f"{folder} is a sharded training checkpoint (FSDP or DeepSpeed); consolidate it to safetensors first"
    if list(folder.glob("*.bin")) or list(folder.glob("*.pt*")):
        return f"{folder} holds pickled weights only; save them as safetensors (save_pretrained does)"
    if list(folder.glob("adapter_*")):
        return f"{folder} is a PEFT adapter, not a model: merge it into its base (merge_and_unload) and convert that"
    return f"{folder} holds no *.safetensors: the download is incomplete; {AGAIN}"


def _refuse_missing(folder: Path, names: list[str]) -> None:
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConversionError(f"{folder / missing[0]} is missing{more} ({len(names)} shards expected); {AGAIN}")


# --- what is in them


def _tensors(folder: Path, shards: Mapping[Path, set[str]]) -> tuple[dict[str, TensorRef], tuple[str, ...]]:
    tensors: dict[str, TensorRef] = {}
    for path in shards:
        for ref in read_header(path):
            other = tensors.setdefault(ref.name, ref)
            if other is not ref and ref.name in shards[path] and ref.name not in shards[other.path]:
                tensors[ref.name] = ref
            elif other is not ref and ref.name not in shards[other.path]:
                raise ConversionError(f"{ref.name} is in both {other.path.name} and {path.name} of {folder}; keep one")
    return tensors, tuple(_index_notes(folder, shards, tensors))


def _index_notes(folder: Path, shards: Mapping[Path, set[str]], tensors: Mapping[str, TensorRef]) -> Iterable[str]:
    promised = set().union(*shards.values())
    if not promised:
        return
    absent = sorted(promised - tensors.keys())
    if absent:
        shard = next(path for path, names in shards.items() if absent[0] in names)
        raise ConversionError(f"{shard} lacks {absent[0]}, which the index puts there; {AGAIN}")
    for name in sorted(tensors.keys() - promised):
        yield f"{name} is not in {folder.name}'s index; taken from {tensors[name].path.name}"
    for name in sorted(name for path, names in shards.items() for name in names if tensors[name].path != path):
        yield f"{name} is not where the index says; taken from {tensors[name].path.name}"


def read_header(path: Path) -> list[TensorRef]:
    """The tensors of one safetensors file. Raises ConversionError for a file that is not whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length < 2 or length > min(HEADER_LIMIT, size - 8):
                raise ConversionError(_not_safetensors(path, size, head + file.read(504), length))
            table = _header(path, file.read(length))
    except FileNotFoundError as error:
        raise ConversionError(f"{path} is a link to a file that is gone; {AGAIN}") from error
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error
    refs = [_ref(path, 8 + length, name, entry) for name, entry in table.items() if name != "__metadata__"]
    _check_extents(path, size, 8 + length, refs)
    return refs


def _header(path: Path, data: bytes) -> dict[str, Any]:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = _what_instead(data) or "damaged: its header is not JSON"
        raise ConversionError(f"{path} is {what}; {AGAIN}") from error
    if not isinstance(table, dict):
        raise ConversionError(f"{path} is damaged: its header is not a table; {AGAIN}")
    return table


def _ref(path: Path, start: int, name: str, entry: Any) -> TensorRef:
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
        begin, end = (int(n) for n in entry["data_offsets"])
    except (TypeError, KeyError, ValueError) as error:
        raise ConversionError(f"{path} is damaged: its header does not describe {name}; {AGAIN}") from error
    if min((*shape, begin)) < 0 or (dtype in SIZES and end - begin != prod(shape) * SIZES[dtype]):
        raise ConversionError(f"{path} is damaged: {name} has {end - begin} bytes for {dtype} {list(shape)}; {AGAIN}")
    return TensorRef(name, dtype, shape, path, start + begin, end - begin)


def _check_extents(path: Path, size: int, start: int, refs: list[TensorRef]) -> None:
    """Tensors lie one after the other from the header to the end of the file, as the format demands."""
    at = start
    for ref in sorted(refs, key=lambda ref: (ref.offset, ref.nbytes)):
        if ref.offset + ref.nbytes > size:
            raise ConversionError(f"{path} is cut: {size:,} bytes, {_end(refs):,} expected; {AGAIN}")
        if ref.offset != at:
            raise ConversionError(
                f"{path} is damaged: {ref.name} does not begin where the tensor before it ends; {AGAIN}"
            )
        at += ref.nbytes
    if not refs:
        raise ConversionError(f"{path} holds no tensors; {AGAIN}")
    if at != size:
        raise ConversionError(f"{path} is damaged: {size - at:,} bytes after its last tensor; {AGAIN}")


def _end(refs: list[TensorRef]) -> int:
    return max(ref.offset + ref.nbytes for ref in refs)


def _not_safetensors(path: Path, size: int, head: bytes, length: int) -> str:
    if size == 0:
        return f"{path} is empty; {AGAIN}"
    what = _what_instead(head)
    if what:
        return f"{path} is {what}"
    if not head.strip(b"\0"):
        return f"{path} begins with zeros: the download is incomplete; {AGAIN}"
    if 2 <= length <= HEADER_LIMIT:
        return f"{path} is cut inside its header ({size:,} bytes); {AGAIN}"
    return f"{path} is not a safetensors file: its first 8 bytes claim a header of {length:,} bytes; {AGAIN}"


def _what_instead(data: bytes) -> str | None:
    """What a file that should be weights or JSON is, if it shows: told by its first bytes."""
    head = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself: run `git lfs pull` in that folder"
    if head.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "a web page saved under that name (a gated page or an error); log in to the hub and download it again"
    if head.startswith(
        (b'{"error', b"entry not found", b"not found", b"access to", b"invalid username", b"unauthorized")
    ):
        return "the hub's error message saved under that name; log in to the hub and download it again"
    if head.startswith(b"pk\x03\x04") or head.startswith(b"\x80\x02"):
        return "a pickle (torch.save); save the model as safetensors (save_pretrained does)"
    if head.startswith(b"gguf"):
        return "a GGUF file; it needs no conversion"
    return None
