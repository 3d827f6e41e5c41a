"""Tokenizer files -> a Vocabulary: tokens, types, merges, stop ids and the chat template.

In: tokenizer.json (merges as strings or as pairs), or vocab.json + merges.txt; tokenizer_config.json,
generation_config.json, config.json and chat_template.jinja as far as they are there. Out: what llama.cpp needs to give
the same ids. Raises ConversionError where an id or the end of a turn would have to be guessed. That llama.cpp really
gives those ids is checked on the finished file, by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venus_convert.checkpoint import read_json, read_text
from venus_convert.values import Checkpoint, Vocabulary
from venus_edge.errors import ConversionError

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
END_OF_TURN, END_OF_TEXT = "<|im_end|>", "<|endoftext|>"
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Added:
    """A token beside the merges: its text as it stands, and whether it is marked special."""

    id: int
    text: str
    special: bool


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The tokenizer's own files, in one form."""

    base: Mapping[str, int]
    merges: tuple[str, ...]
    added: tuple[Added, ...]


def vocabulary(checkpoint: Checkpoint, rows: int, template: str | None = None) -> Vocabulary:
    """The vocabulary for an embedding of `rows` rows. `template` is used where the checkpoint has none."""
    folder = checkpoint.folder
    settings = read_json(folder / "tokenizer_config.json") or {}
    tokenizer, notes = read_tokenizer(folder, settings)
    tokens, types = _table(tokenizer, rows)
    ids = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
    eos, stops = _stops(checkpoint, settings, ids, types)
    main, named, more = read_template(folder, settings, template)
    return Vocabulary(
        tokens=tokens,
        types=types,
        merges=tokenizer.merges,
        eos=eos,
        stops=stops,
        pad=_pad(checkpoint, settings, ids),
        bos=_first_id(checkpoint, settings, ids, "bos"),
        template=main,
        named_templates=named,
        notes=(*notes, *more),
    )


# --- the tokenizer's files


def read_tokenizer(folder: Path, settings: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...]]:
    """tokenizer.json, else vocab.json with merges.txt, with the added tokens that tokenizer_config.json knows."""
    whole = read_json(folder / "tokenizer.json")
    base, merges, added = _from_whole(folder, whole) if whole else _from_parts(folder)
    both, notes = _with_configured(added, settings)
    _check_merges(base, merges)
    return Tokenizer(base, merges, both), notes


def _from_whole(folder: Path, whole: Mapping[str, Any]) -> tuple[dict[str, int], tuple[str, ...], list[Added]]:
    model = whole.get("model")
    if not isinstance(model, Mapping) or model.get("type", "BPE") != "BPE" or not isinstance(model.get("vocab"), dict):
        kind = model.get("type") if isinstance(model, Mapping) else None
        raise ConversionError(f"{folder / 'tokenizer.json'}: a Qwen tokenizer is byte-level BPE, this one is {kind!r}")
    if model.get("byte_fallback"):
        raise ConversionError(f"{folder / 'tokenizer.json'}: byte fallback, which a Qwen tokenizer does not have")
    merges = tuple(_merge(merge) for merge in model.get("merges") or ())
    added = [_added(entry.get("id"), entry) for entry in whole.get("added_tokens") or ()]
    _check_pre_tokenizer(whole.get("pre_tokenizer"), folder)
    return model["vocab"], merges, added


def _merge(merge: Any) -> str:
    """A merge as GGUF has it, two tokens and a space, from either form of tokenizer.json.

    >>> _merge(["Ġ", "t"]), _merge("Ġ t")
    ('Ġ t', 'Ġ t')
    """
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(half, str) for half in merge):
        return " ".join(merge)
    raise ConversionError(f"tokenizer.json: {merge!r} is not a merge of two tokens")


def _check_pre_tokenizer(table: Any, folder: Path) -> None:
    """Qwen's pattern, or plain byte level; with any other llama.cpp's ids would differ."""
    steps = table.get("pretokenizers", [table]) if isinstance(table, Mapping) else []
    splits = [step.get("pattern", {}).get("Regex", "") for step in steps if step.get("type") == "Split"]
    levels = [step for step in steps if step.get("type") == "ByteLevel" and not step.get("add_prefix_space")]
    if not levels or len(steps) != len(splits) + len(levels) or splits not in ([], [QWEN2_PATTERN]):
        raise ConversionError(
            f"{folder / 'tokenizer.json'}: its pre-tokenizer is not Qwen's; llama.cpp's would split text differently"
        )


def _from_parts(folder: Path) -> tuple[dict[str, int], tuple[str, ...], list[Added]]:
    base = read_json(folder / "vocab.json")
    merges = folder / "merges.txt"
    if base is None or not merges.is_file():
        missing = merges.name if base is not None else "tokenizer.json (or vocab.json with merges.txt)"
        raise ConversionError(
            f"{folder}: {missing} is not there; the tokenizer is part of a checkpoint, download it again"
        )
    special = set(_texts(read_json(folder / "special_tokens_map.json") or {}))
    loose = read_json(folder / "added_tokens.json") or {}
    added = [
        _added(number, {"content": text, "special": text in special or _looks_special(text)})
        for text, number in loose.items()
    ]
    return base, _merge_lines(merges), added


def _merge_lines(path: Path) -> tuple[str, ...]:
    lines = read_text(path).split("\n")
    body = lines[1:] if lines[0].startswith("#version") else lines
    return tuple(line.rstrip("\r") for line in body if line.strip())


def _texts(table: Mapping[str, Any]) -> Iterator[str]:
    """The token texts of a special_tokens_map, whose values are texts, tables with one, or lists of either."""
    for value in table.values():
        for entry in value if isinstance(value, list) else [value]:
            text = _text(entry)
            if text:
                yield text


def _text(entry: Any) -> str | None:
    """A token's text from either of the forms that configurations use: the text, or a table with its content."""
    text = entry.get("content") if isinstance(entry, Mapping) else entry
    return text if isinstance(text, str) else None


def _added(number: Any, entry: Mapping[str, Any]) -> Added:
    text = _text(entry)
    try:
        return Added(int(number), text or "", bool(entry.get("special")))
    except (TypeError, ValueError):
        raise ConversionError(f"the added token {text!r} has no id: {number!r}") from None


def _with_configured(added: list[Added], settings: Mapping[str, Any]) -> tuple[tuple[Added, ...], tuple[str, ...]]:
    """Added tokens of tokenizer_config.json that the tokenizer's own file lacks; two texts for one id are refused."""
    known = {token.id: token for token in added}
    extra = []
    for number, entry in (settings.get("added_tokens_decoder") or {}).items():
        token = _added(number, entry)
        other = known.setdefault(token.id, token)
        if other.text != token.text:
            raise ConversionError(
                f"token {token.id} is {other.text!r} in the tokenizer and {token.text!r} in tokenizer_config.json"
            )
        if other is token:
            extra.append(token.text)
    notes = (f"added tokens from tokenizer_config.json: {', '.join(extra)}",) if extra and added else ()
    return tuple(sorted(known.values(), key=lambda token: token.id)), notes


def _check_merges(base: Mapping[str, int], merges: Iterable[str]) -> None:
    for merge in merges:
        left, _, right = merge.partition(" ")
        if left not in base or right not in base or left + right not in base:
            raise ConversionError(
                f"the merge {merge!r} is not of tokens of the vocabulary: the tokenizer's files do not fit together"
            )


# --- ids


def _table(tokenizer: Tokenizer, rows: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Every row's token and type; rows without a token are padding, named as llama.cpp's converter names them."""
    tokens = [f"[PAD{i}]" for i in range(rows)]
    types = [UNUSED] * rows
    for text, number in tokenizer.base.items():
        _place(tokens, types, number, text, NORMAL)
    for token in tokenizer.added:
        kind = CONTROL if token.special or _looks_special(token.text) else USER_DEFINED
        if 0 <= token.id < rows and types[token.id] != UNUSED and tokens[token.id] == token.text:
            types[token.id] = UNUSED
        _place(tokens, types, token.id, token.text, kind)
    return tuple(tokens), tuple(types)


def _place(tokens: list[str], types: list[int], number: Any, text: str, kind: int) -> None:
    if not isinstance(number, int) or not 0 <= number < len(tokens):
        raise ConversionError(
            f"token {text!r} has id {number!r}, but the embedding has {len(tokens)} rows; another model's tokenizer"
        )
    if types[number] != UNUSED:
        raise ConversionError(f"tokens {tokens[number]!r} and {text!r} have the same id {number}")
    tokens[number], types[number] = text, kind


def _looks_special(text: str) -> bool:
    """llama.cpp's rule: Qwen marks <|fim_prefix|> and its kin ordinary, but text must not be able to write them."""
    return text.startswith("<|") and text.endswith("|>")


def _stops(
    checkpoint: Checkpoint, settings: Mapping[str, Any], ids: Mapping[str, int], types: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """The id that ends a turn, and every id that ends generation.

    `<|im_end|>` is the first wherever the vocabulary has it: a fine-tune often keeps the base model's eos in its
    configuration, and with that the agent would run past its turn.
    """
    stated = [
        *_ids(checkpoint.generation.get("eos_token_id")),
        *_ids(checkpoint.config.get("eos_token_id")),
        *_named(settings.get("eos_token"), ids),
    ]
    beyond = next((number for number in stated if not 0 <= number < len(types)), None)
    if beyond is not None:
        raise ConversionError(f"eos_token_id {beyond} is beyond the {len(types)} rows of the embedding")
    usual = [ids[text] for text in (END_OF_TURN, END_OF_TEXT) if text in ids and types[ids[text]] == CONTROL]
    stops = tuple(dict.fromkeys([*usual[:1], *stated, *usual[1:]]))
    if not stops:
        raise ConversionError(f"nothing ends a turn: no {END_OF_TURN} in the vocabulary and no eos_token_id anywhere")
    return stops[0], (stops[0], *sorted(stops[1:]))


def _ids(value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [number for number in values if isinstance(number, int) and not isinstance(number, bool)]


def _named(entry: Any, ids: Mapping[str, int]) -> list[int]:
    text = _text(entry)
    return [ids[text]] if text is not None and text in ids else []


def _first_id(checkpoint: Checkpoint, settings: Mapping[str, Any], ids: Mapping[str, int], what: str) -> int | None:
    stated = [
        *_named(settings.get(f"{what}_token"), ids),
        *_ids(checkpoint.config.get(f"{what}_token_id")),
        *_ids(checkpoint.generation.get(f"{what}_token_id")),
    ]
    return next(iter(stated), None)


def _pad(checkpoint: Checkpoint, settings: Mapping[str, Any], ids: Mapping[str, int]) -> int | None:
    stated = _first_id(checkpoint, settings, ids, "pad")
    return ids.get(END_OF_TEXT) if stated is None else stated


# --- the chat template


def read_template(
    folder: Path, settings: Mapping[str, Any], fallback: str | None
) -> tuple[str | None, dict[str, str], tuple[str, ...]]:
    """The template, its named companions, and notes. chat_template.jinja wins, as in transformers."""
    path = folder / "chat_template.jinja"
    value: Any = _lines(read_text(path)) if path.is_file() else settings.get("chat_template")
    if not value:
        value = (read_json(folder / "chat_template.json") or {}).get("chat_template")
    named = _by_name(value)
    main = named.pop("default", None) or fallback
    if main is None:
        return None, named, ("warning: the checkpoint has no chat template; the runtime will use its own protocol's",)
    if fallback is not None and main is fallback:
        return main, named, ("the checkpoint has no chat template: the registry's is written",)
    return main, named, ()


def _by_name(value: Any) -> dict[str, str]:
    """A template, a list of named ones or a table of them, as a table."""
    if isinstance(value, str):
        return {"default": value.removeprefix("\ufeff")}
    if isinstance(value, list):
        return {str(entry["name"]): str(entry["template"]) for entry in value if {"name", "template"} <= entry.keys()}
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    return {}


def _lines(text: str) -> str:
    """Line ends as jinja reads them, whichever system wrote the file."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
