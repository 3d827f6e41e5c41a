"""The rules written out give what Hugging Face's tokenizer gives: they are what llama.cpp's ids are checked against."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from venus_convert.bpe import Bpe, pieces
from venus_convert.probes import PROBES

from tests.convert.checkpoints import MERGES, base_vocab, tokenizer

THEIRS = Tokenizer.from_str(json.dumps(tokenizer() | {"normalizer": None, "added_tokens": []}))
OURS = Bpe.of(tuple(base_vocab()), MERGES)


def test_the_probes_have_the_same_ids() -> None:
    assert {name: OURS.encode(text) for name, text in PROBES.items()} == {
        name: THEIRS.encode(text).ids for name, text in PROBES.items()
    }


@given(st.text(st.sampled_from(" \t\r\n\u00a0\u3000thein'sdrLVEX15²Ⅷ٣é漢का.,!<|_\x1c🙂\u200d"), max_size=40))
def test_any_text_has_the_same_ids(text: str) -> None:
    assert OURS.encode(text) == THEIRS.encode(text).ids


@given(st.text(max_size=60))
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
