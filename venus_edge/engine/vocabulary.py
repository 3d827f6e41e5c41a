"""THE TOKEN SIDE OF A MODEL: text -> ids, ids -> bytes, through llama.cpp.

In: loaded weights, or a file opened for its vocabulary alone. What may become a special token is decided in `tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from venus_edge.engine import library, modelfile
from venus_edge.engine.interrupt import Interrupts
from venus_edge.engine.prefixes import Prefixes
from venus_edge.engine.tokens import Specials, Tokenizer
from venus_edge.engine.weights import Weights
from venus_edge.protocol import Piece


class Vocabulary:
    """A model's tokens. `specials` are its structure: control tokens and tags."""

    def __init__(self, weights: Weights) -> None:
        self.lib = weights.lib
        self.handle = self.lib.llama_model_get_vocab(weights.pointer)
        self._pieces: dict[int, bytes] = {}
        self.size = int(self.lib.llama_vocab_n_tokens(self.handle))
        self.specials = self._specials()
        self._tokenizer = Tokenizer(self.specials, self.encode)

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._tokenizer.ids(pieces)

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        """llama.cpp's own tokenization of one string; with `parse_special` every special string in it is a token."""
        data = text.encode()
        room = len(data) + 8
        while True:
            ids = (self.lib.llama_token * room)()
            count = int(self.lib.llama_tokenize(self.handle, data, len(data), ids, room, False, parse_special))
            if count >= 0:
                return list(ids[:count])
            room = -count

    def piece(self, token: int) -> bytes:
        """The bytes of one token, those of special ones too."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def _read_piece(self, token: int) -> bytes:
        call = self.lib.llama_token_to_piece
        return library.text_of(lambda buffer, size: call(self.handle, token, buffer, size, 0, True))

    @cached_property
    def prefixes(self) -> Prefixes:
        """Made when first asked for, which takes a third of a second for 151,936 tokens. A token that ends a turn
        stands alone: a grammar allows it by its id, not by its text."""
        is_end = self.lib.llama_vocab_is_eog
        return Prefixes([b"" if is_end(self.handle, i) else self._read_piece(i) for i in range(self.size)])

    def ends(self, token: int) -> bool:
        """Whether the token ends a turn (<|im_end|>, <|endoftext|>)."""
        lib, vocab = self.lib, self.handle
        return bool(lib.llama_vocab_is_eog(vocab, token)) and not self._ordinary(lib.llama_vocab_get_attr(vocab, token))

    def _ordinary(self, attributes: int) -> bool:
        """llama.cpp takes some tokens for control tokens by their text alone, as Qwen's ordinary `</s>` (128247): it
        adds the attribute, and the file's own stays beside it."""
        return bool(attributes & self.lib.LLAMA_TOKEN_ATTR_NORMAL)

    def _specials(self) -> Specials:
        lib, vocab = self.lib, self.handle
        control = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_UNKNOWN
        wanted = control | lib.LLAMA_TOKEN_ATTR_USER_DEFINED
        every = ((i, lib.llama_vocab_get_attr(vocab, i)) for i in range(self.size))
        found = [(i, bits, self.piece(i).decode()) for i, bits in every if bits & wanted and not self._ordinary(bits)]
        return Specials(
            control={text: i for i, bits, text in found if text and bits & control},
            user={text: i for i, bits, text in found if text and not bits & control},
            lstrip=frozenset(i for i, bits, _ in found if bits & lib.LLAMA_TOKEN_ATTR_LSTRIP),
            rstrip=frozenset(i for i, bits, _ in found if bits & lib.LLAMA_TOKEN_ATTR_RSTRIP),
        )


def open_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a GGUF file alone, without its weights. It stays open as long as the process."""
    modelfile.check(path)
    return Vocabulary(Weights(path, 0, True, Interrupts()))
