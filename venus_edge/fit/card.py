"""A HEADER -> what a person should know of a model file, and its entry in their own models.toml.

In: a Header, the known models. Out: a Card (name, dialect by guess, lines), text of models.toml. The guess goes by the
name that the file gives itself and by its own; a wrong one costs wording, and `--dialect` overrides it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from venus_edge.engine import modelfile
from venus_edge.errors import StorageError, UsageError
from venus_edge.fit.header import Header
from venus_edge.fit.sizes import QWEN3_4B
from venus_edge.registry import ModelSpec

FILE = "models.toml"
_NATIVE_THETA, _OLD_THETA = 5_000_000, 1_000_000  # Qwen3-4B-Thinking-2507, and Qwen3-4B before it (PROTOCOL section 1)
_TAGS = ("<tool_call>", "<think>", "<tool_response>")


@dataclass(frozen=True, slots=True)
class Card:
    """A file as a model: what goes into models.toml, and what is said of it."""

    name: str
    dialect: str
    path: Path
    window: int
    trained: int
    quant: str
    lines: tuple[str, ...]


def of(header: Header, name: str | None, dialect: str | None, specs: Mapping[str, ModelSpec]) -> Card:
    """The card of a file. Raises UsageError for a name that is taken or cannot be one, ModelError for a file that
    llama.cpp could not use."""
    if header.text("tokenizer.ggml.model") in ("", "no_vocab"):
        raise modelfile.without_tokenizer(header.path)
    name = name or re.sub(r"[^\w.-]+", "-", header.path.stem.lower()).strip("-._")
    if not re.fullmatch(r"[^\W_][\w.-]*", name):
        raise UsageError(f"{name!r} is no name for a model: letters, digits, dots and hyphens; give one with --name")
    if name in specs:
        raise UsageError(f"there is a model {name} already; give another --name, or: venus-edge models rm {name}")
    trained = header.number("context_length")
    guess = dialect or guessed(header)
    told = (
        *lines(header),
        f"dialect {guess}" + ("" if dialect else " (a guess by its name; --dialect says otherwise)"),
    )
    return Card(name, guess, header.path.absolute(), min(trained, 131_072), trained, header.quant, told)


def guessed(header: Header) -> str:
    """The dialect by the file's names: `sft` where one says so, else `rl`."""
    named = f"{header.text('general.name')} {header.text('general.finetune')} {header.path.stem}".lower()
    return "sft" if re.search(r"(?<![a-z])sft(?![a-z])", named) else "rl"


def lines(header: Header) -> tuple[str, ...]:
    """What a file says of itself, and what of it will not do."""
    trained = header.number("context_length")
    return (
        f"{header.architecture or 'no architecture'}, {header.quant}, {header.size / 1e9:.2f} GB, "
        f"window {trained:,} tokens, RoPE theta {header.number('rope.freq_base'):,}",
        *warnings(header),
    )


def warnings(header: Header) -> tuple[str, ...]:
    """What is wrong with the file for this program, each with what follows from it."""
    template, theta = header.text("tokenizer.chat_template"), header.number("rope.freq_base")
    found = []
    if header.architecture != "qwen3":
        found.append(
            f"warning: the architecture is {header.architecture!r}, not qwen3: it was not trained for this work; "
            "venus-edge models list names those that were"
        )
    if not template:
        found.append("warning: it carries no chat template; that of DR-Venus is used")
    elif missing := [tag for tag in _TAGS[:2] if tag not in template]:
        found.append(
            f"warning: its chat template knows no {' and no '.join(missing)}: tool calls may fail; use a DR-Venus file"
        )
    if _is_4b(header) and theta not in (_NATIVE_THETA, _OLD_THETA):
        found.append(
            f"warning: RoPE theta {theta:,} is neither {_NATIVE_THETA:,} nor {_OLD_THETA:,}, so it writes nonsense "
            "after a page: convert it again (venus-edge convert)"
        )
    if theta == _OLD_THETA and header.number("context_length") > 40_960 and not header.text("qwen3.rope.scaling.type"):
        found.append("warning: a window beyond 40,960 tokens needs YaRN at this RoPE theta, and none is in the file")
    return tuple(found)


def _is_4b(header: Header) -> bool:
    """Whether it is built as DR-Venus is; smaller ones of that architecture have a RoPE of their own."""
    return (header.architecture, header.number("block_count"), header.number("embedding_length")) == (
        "qwen3",
        QWEN3_4B.layers,
        QWEN3_4B.width,
    )


# -- a person's own models.toml ---------------------------------------------------------------------------------------


def entry(card: Card, sha256: str) -> str:
    """The table of a card, as TOML."""
    values: dict[str, str | int] = {
        "title": card.path.name,
        "file": str(card.path),
        "dialect": card.dialect,
        "reader": "model",
        "n_ctx": card.window,
        "n_ctx_train": card.trained,
        "quant": card.quant,
        "sha256": sha256,
    }
    body = "\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return f'["{card.name}"]\n{body}\n'


def register(config: Path, card: Card, sha256: str) -> None:
    """Adds the card's table to models.toml in the configuration directory. Raises StorageError."""
    path = config / FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    gap = "\n" if before and not before.endswith("\n\n") else ""
    _write(path, f"{before}{gap}{entry(card, sha256)}")


def forget(config: Path, name: str) -> bool:
    """Takes a model's table out of models.toml; False if it is not there."""
    path = config / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    table = re.compile(rf'^\["?{re.escape(name)}"?\][^\n]*\n(?:(?!\[)[^\n]*(?:\n|\Z))*', re.MULTILINE)
    left, count = table.subn("", text, count=1)
    if count:
        _write(path, left)
    return bool(count)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f"{path.name}.new")
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
