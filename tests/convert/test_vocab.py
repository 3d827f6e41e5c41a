"""The tokenizer's files, in every form, give one vocabulary; the end of a turn and the template are never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from venus_convert.checkpoint import open_checkpoint
from venus_convert.values import Vocabulary
from venus_convert.vocab import CONTROL, NORMAL, UNUSED, USER_DEFINED, vocabulary

from tests.convert.checkpoints import CONTROL as CONTROL_TOKENS
from tests.convert.checkpoints import (
    END_OF_TEXT,
    END_OF_TURN,
    FIRST_ADDED,
    MERGES,
    ORDINARY,
    ROWS,
    TEMPLATE,
    added_tokens,
    base_vocab,
    checkpoint,
    refusal,
    tokenizer,
    tokenizer_config,
)

MARKED = TEMPLATE.replace("{{ m.role }}", "{{ m.role }}{# the file's #}")
EXPECTED = Vocabulary(
    tokens=(*base_vocab(), *CONTROL_TOKENS, *ORDINARY, *(f"[PAD{i}]" for i in range(FIRST_ADDED + 10, ROWS))),
    types=(
        *[NORMAL] * FIRST_ADDED, *[CONTROL] * 3, *[CONTROL if "|" in text else USER_DEFINED for text in ORDINARY],
        *[UNUSED] * (ROWS - FIRST_ADDED - 10),
    ),
    merges=MERGES,
    eos=END_OF_TURN,
    stops=(END_OF_TURN, END_OF_TEXT),
    pad=END_OF_TEXT,
    bos=END_OF_TEXT,
    template=TEMPLATE,
)  # fmt: skip


def read(folder: Path, fallback: str | None = None) -> Vocabulary:
    return vocabulary(open_checkpoint(folder), ROWS, fallback)


def tok(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"tokenizer.json": tokenizer() | changes}


def model(**changes: Any) -> dict[str, dict[str, Any]]:
    return tok(model=tokenizer()["model"] | changes)


def settings(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"tokenizer_config.json": tokenizer_config() | changes}


MERGES_TXT = "#version: 0.2\n" + "\n".join(MERGES) + "\n"
PARTS: dict[str, Any] = {"vocab.json": base_vocab(), "merges.txt": MERGES_TXT}
DECODER = {str(token["id"]): token for token in added_tokens()}
LOOSE: dict[str, Any] = {
    "added_tokens.json": {token["content"]: token["id"] for token in added_tokens()},
    "special_tokens_map.json": {
        "eos_token": {"content": "<|im_end|>"}, "additional_special_tokens": ["<|im_start|>", "<|endoftext|>"]
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="merges as strings"),
        pytest.param(model(merges=[merge.split(" ") for merge in MERGES]), id="merges as pairs"),
        pytest.param(tok(added_tokens=[]) | settings(added_tokens_decoder=DECODER), id="added in the configuration"),
        pytest.param(settings(added_tokens_decoder=DECODER), id="added in both"),
        pytest.param(
            model(vocab=base_vocab() | {token["content"]: token["id"] for token in added_tokens()}),
            id="added in the base",
        ),
        pytest.param({"tokenizer.json": "\ufeff" + json.dumps(tokenizer())}, id="a byte-order mark"),
    ],
)
def test_every_form_of_tokenizer_json_gives_the_same_vocabulary(files: dict[str, Any], tmp_path: Path) -> None:
    assert read(checkpoint(tmp_path, files=files)) == EXPECTED


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(PARTS | settings(added_tokens_decoder=DECODER), id="configuration"),
        pytest.param(PARTS | LOOSE, id="added_tokens.json"),
        pytest.param(PARTS | LOOSE | {"merges.txt": MERGES_TXT.replace("\n", "\r\n")}, id="crlf"),
        pytest.param(PARTS | LOOSE | {"merges.txt": "\n".join(MERGES)}, id="no version line"),
    ],
)
def test_vocab_json_with_merges_txt_gives_the_same_vocabulary(files: dict[str, Any], tmp_path: Path) -> None:
    assert read(checkpoint(tmp_path, files=files, without=("tokenizer.json",))) == EXPECTED


def test_a_merge_of_hash_signs_is_not_taken_for_a_comment(tmp_path: Path) -> None:
    vocab = base_vocab() | {"##": FIRST_ADDED}
    added = [token | {"id": token["id"] + 1} for token in added_tokens()]
    files: dict[str, Any] = {"vocab.json": vocab, "merges.txt": "# #\n" + "\n".join(MERGES)}
    table = settings(added_tokens_decoder={str(token["id"]): token for token in added})
    folder = checkpoint(tmp_path, files=files | table, without=("tokenizer.json",))
    (folder / "generation_config.json").unlink()
    assert read(folder).merges == ("# #", *MERGES)


def test_an_added_token_that_only_the_configuration_knows_is_said(tmp_path: Path) -> None:
    extra = {str(FIRST_ADDED + 10): {"content": "<extra>", "special": False}}
    found = read(checkpoint(tmp_path, files=settings(added_tokens_decoder=extra)))
    assert (found.tokens[FIRST_ADDED + 10], found.types[FIRST_ADDED + 10]) == ("<extra>", USER_DEFINED)
    assert found.notes == ("added tokens from tokenizer_config.json: <extra>",)


@pytest.mark.parametrize(
    ("files", "without", "reason"),
    [
        pytest.param({}, ("tokenizer.json",), "vocab.json with merges.txt) is not there", id="nothing"),
        pytest.param({"vocab.json": base_vocab()}, ("tokenizer.json",), "merges.txt is not there", id="no merges"),
        pytest.param(model(type="Unigram"), (), "byte-level BPE, this one is 'Unigram'", id="unigram"),
        pytest.param(model(byte_fallback=True), (), "byte fallback", id="byte fallback"),
        pytest.param(tok(model=None), (), "byte-level BPE, this one is None", id="no model"),
        pytest.param(model(merges=["Ġ q"]), (), "the merge 'Ġ q' is not of tokens", id="a merge of nothing"),
        pytest.param(model(merges=[["a", "b", "c"]]), (), "is not a merge of two tokens", id="a merge of three"),
        pytest.param(model(vocab=base_vocab() | {"x y": ROWS}), (), f"has id {ROWS}, but the embedding", id="too many"),
        pytest.param(model(vocab=base_vocab() | {"x y": 5}), (), "have the same id 5", id="two for one"),
        pytest.param(model(vocab=base_vocab() | {"x y": "5"}), (), "has id '5'", id="an id as text"),
        pytest.param(
            settings(added_tokens_decoder={str(END_OF_TURN): {"content": "<end>"}}), (),
            f"token {END_OF_TURN} is '<|im_end|>' in the tokenizer and '<end>'", id="two texts for one id",
        ),
        pytest.param(
            tok(pre_tokenizer={"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}}, {"type": "ByteLevel"}]}),
            (), "its pre-tokenizer is not Qwen's", id="another pattern",
        ),
        pytest.param(tok(pre_tokenizer={"type": "Metaspace"}), (), "its pre-tokenizer is not Qwen's", id="metaspace"),
        pytest.param(tok(pre_tokenizer=None), (), "its pre-tokenizer is not Qwen's", id="no pre-tokenizer"),
        pytest.param(
            tok(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}), (), "is not Qwen's", id="spaced"
        ),
        pytest.param({"chat_template.jinja": b"\xff\xfe"}, (), "is not UTF-8 text", id="a template of bytes"),
        pytest.param({"chat_template.jinja": "<html>"}, (), "a web page saved", id="a template that is a page"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_would_give_other_ids_is_refused(
    files: dict[str, Any], without: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(lambda: read(checkpoint(tmp_path, files=files, without=without)))


# --- the end of a turn


@pytest.mark.parametrize(
    ("changes", "files", "without"),
    [
        pytest.param({"eos_token_id": [END_OF_TURN, END_OF_TEXT]}, settings(eos_token=None), (), id="a list"),
        pytest.param({"eos_token_id": [END_OF_TEXT, END_OF_TURN]}, {}, (), id="a list the other way"),
        pytest.param({"eos_token_id": END_OF_TEXT}, settings(eos_token="<|endoftext|>"), (), id="the base model's"),
        pytest.param({}, settings(eos_token={"content": "<|im_end|>", "special": True}), (), id="a table"),
        pytest.param({}, {}, ("generation_config.json",), id="no generation defaults"),
        pytest.param({"eos_token_id": None}, {}, ("tokenizer_config.json",), id="no configuration"),
        pytest.param(
            {"eos_token_id": None}, {"generation_config.json": {}} | settings(eos_token=None), (), id="nowhere stated"
        ),
    ],
)  # fmt: skip
def test_a_turn_ends_at_im_end_and_generation_at_both(
    changes: dict[str, Any], files: dict[str, Any], without: tuple[str, ...], tmp_path: Path
) -> None:
    found = read(checkpoint(tmp_path, files=files, without=without, **changes))
    assert (found.eos, found.stops, found.pad) == (END_OF_TURN, (END_OF_TURN, END_OF_TEXT), END_OF_TEXT)


def test_every_stated_stop_is_kept(tmp_path: Path) -> None:
    files = {"generation_config.json": {"eos_token_id": [FIRST_ADDED + 9, END_OF_TURN]}}
    assert read(checkpoint(tmp_path, files=files)).stops == (END_OF_TURN, END_OF_TEXT, FIRST_ADDED + 9)


def test_a_stop_beyond_the_vocabulary_is_refused(tmp_path: Path) -> None:
    assert f"eos_token_id {ROWS} is beyond" in refusal(lambda: read(checkpoint(tmp_path, eos_token_id=ROWS)))


def test_nothing_that_ends_a_turn_is_refused(tmp_path: Path) -> None:
    files = tok(added_tokens=[]) | {"generation_config.json": {}} | settings(eos_token=None)
    folder = checkpoint(tmp_path, files=files, eos_token_id=None)
    assert refusal(lambda: read(folder)).startswith("nothing ends a turn")


# --- the chat template


@pytest.mark.parametrize(
    ("files", "without", "expected"),
    [
        pytest.param({}, (), TEMPLATE, id="in the configuration"),
        pytest.param({"chat_template.jinja": MARKED}, (), MARKED, id="both"),
        pytest.param(settings(chat_template=None) | {"chat_template.jinja": MARKED}, (), MARKED, id="null and a file"),
        pytest.param({"chat_template.jinja": MARKED}, ("tokenizer_config.json",), MARKED, id="a file alone"),
        pytest.param({"chat_template.jinja": "\ufeff" + MARKED.replace("\n", "\r\n")}, (), MARKED, id="bom and crlf"),
        pytest.param(settings(chat_template="\ufeff" + TEMPLATE), (), TEMPLATE, id="a bom in the configuration"),
        pytest.param(
            settings(chat_template=[{"name": "tool_use", "template": "T"}, {"name": "default", "template": TEMPLATE}]),
            (), TEMPLATE, id="a list",
        ),
        pytest.param(settings(chat_template={"default": TEMPLATE, "tool_use": "T"}), (), TEMPLATE, id="a table"),
        pytest.param(
            settings(chat_template=None) | {"chat_template.json": {"chat_template": TEMPLATE}}, (), TEMPLATE, id="json"
        ),
    ],
)  # fmt: skip
def test_the_template_is_the_files_then_the_configurations(
    files: dict[str, Any], without: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    found = read(checkpoint(tmp_path, files=files, without=without), fallback="the registry's")
    assert (found.template, found.notes) == (expected, ())


@pytest.mark.parametrize("stated", [None, "", [], [{"name": "tool_use", "template": "T"}]])
def test_without_a_template_the_registrys_is_taken_or_none_and_it_is_said(stated: Any, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, files=settings(chat_template=stated))
    mine, none = read(folder, "the registry's"), read(folder)
    assert (mine.template, mine.notes) == (
        "the registry's", ("the checkpoint has no chat template: the registry's is written",)
    )  # fmt: skip
    assert (none.template, none.notes) == (
        None, ("warning: the checkpoint has no chat template; the runtime will use its own protocol's",)
    )  # fmt: skip
