"""TEXTS -> VECTORS by an embedding model of llama.cpp: passages and queries, compared by their dot product.

In: a GGUF file that pools its tokens (BERT and its kind), texts. Out: float32 rows of length 1, or of zeros for what is
in a script that the model does not know. A text longer than the model's window is read in pieces, and their mean is its
row. What the vectors are kept for is `corpus.dense`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_edge.engine import library, modelfile
from venus_edge.engine.interrupt import Interrupts
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.threads import Threads
from venus_edge.engine.weights import Weights
from venus_edge.errors import EngineError, ModelError

_LONGEST = 2_048  # tokens that are read together of one text
_TOGETHER = 512  # tokens of several texts: each is compared with all (12 passages a second where 2,048 made 9)
_TEXTS = 32
_UNKNOWN = 0.2  # of a text's tokens: more, and its row would say nothing (all-MiniLM-L6-v2 has a third of Chinese)

Vectors = npt.NDArray[np.float32]


class LlamaEmbedder:
    """An embedding model, opened; `name` tells its vectors from those of others. One thread at a time.

    Raises ModelError for a file that is no embedding model.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        modelfile.check(path)
        self._interrupts = Interrupts()
        self._weights = Weights(path, 0, False, self._interrupts)
        self.lib = self._weights.lib
        self._vocabulary = self.lib.llama_model_get_vocab(self._weights.pointer)
        self.width = int(self.lib.llama_model_n_embd_out(self._weights.pointer))
        self._unknown = int(self._weights.metadata.get("tokenizer.ggml.unknown_token_id", -1))
        self.window = min(self._weights.n_ctx_train, _LONGEST)
        self.name = f"{self._weights.metadata.get('general.name', path.stem)} {self._weights.size} {self.width}"
        self._threads = Threads(EngineOptions(n_threads=threads), self._tell)
        try:
            self._pointer = self._context(path)
        except BaseException:
            self._weights.close()
            raise

    def _context(self, path: Path) -> Any:
        params = self.lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = max(
            self.window, _TOGETHER
        )  # a text is seen whole: in one piece
        params.n_seq_max = _TEXTS
        params.kv_unified = True
        params.embeddings = True
        params.n_threads, params.n_threads_batch = self._threads.first, self._threads.first_reading
        library.listen()
        pointer = self.lib.llama_init_from_model(self._weights.pointer, params)
        if not pointer:
            raise EngineError(f"{path} cannot be used ({library.complaints.first}): use another embedding model")
        if self.lib.llama_pooling_type(pointer) not in (1, 2, 3):  # mean, first, last; not none, not a ranker's
            self.lib.llama_free(pointer)
            raise ModelError(f"{path} is no embedding model: use one that pools its tokens, like all-MiniLM-L6-v2")
        return pointer

    def _tell(self, generating: int, reading: int) -> None:
        self.lib.llama_set_n_threads(self._pointer, generating, reading)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row a text, in their order."""
        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        with self._interrupts.held():
            for group in self._groups(texts):
                for (place, ids), row in zip(group, self._evaluated([ids for _, ids in group]), strict=True):
                    rows[place] += len(ids) * row
                if self._interrupts.wanted:
                    break
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows

    def _groups(self, texts: Sequence[str]) -> Iterator[list[tuple[int, list[int]]]]:
        """The pieces of texts, by the places of these, as many together as a batch holds."""
        group: list[tuple[int, list[int]]] = []
        size = 0
        for place, text in enumerate(texts):
            for ids in self._pieces(text):
                if group and (len(group) == _TEXTS or size + len(ids) > _TOGETHER):
                    yield group
                    group, size = [], 0
                group.append((place, ids))
                size += len(ids)
        if group:
            yield group

    def _pieces(self, text: str) -> list[list[int]]:
        """The tokens of a text in pieces that fit the window, each between those that begin and end a text; none if it
        cannot be read."""
        ids = self._ids(text)
        if ids.count(self._unknown) > _UNKNOWN * len(ids):
            return []
        if len(ids) <= self.window:
            return [ids]
        inner, room = ids[1:-1], self.window - 2
        return [[ids[0], *inner[n : n + room], ids[-1]] for n in range(0, len(inner), room)]

    def _ids(self, text: str) -> list[int]:
        """No special token is made out of the text."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        ids = (self.lib.llama_token * room)()
        count = int(self.lib.llama_tokenize(self._vocabulary, data, len(data), ids, room, True, False))
        if count < 0:
            raise EngineError(f"llama.cpp could not part a text of {len(data)} bytes into tokens")
        return list(ids[:count])

    def _evaluated(self, group: Sequence[Sequence[int]]) -> Iterator[Vectors]:
        count = sum(map(len, group))
        batch = self.lib.llama_batch_init(count, 0, 1)
        try:
            places = ((number, at, token) for number, ids in enumerate(group) for at, token in enumerate(ids))
            for n, (number, at, token) in enumerate(places):
                batch.token[n], batch.pos[n], batch.logits[n] = token, at, True
                batch.n_seq_id[n], batch.seq_id[n][0] = 1, number
            batch.n_tokens = count
            self._threads.before(count)
            memory = self.lib.llama_get_memory(self._pointer)
            if memory:  # of a model that generates, too: every text starts afresh
                self.lib.llama_memory_clear(memory, True)
            if result := self.lib.llama_decode(self._pointer, batch):
                raise EngineError(f"llama.cpp could not embed {count} tokens (code {result})")
            self._threads.after(count)
        finally:
            self.lib.llama_batch_free(batch)
        for number in range(len(group)):
            row = self.lib.llama_get_embeddings_seq(self._pointer, number)
            yield np.ctypeslib.as_array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float)), (self.width,))

    def close(self) -> None:
        with self._interrupts.held():
            if self._pointer:
                self.lib.llama_free(self._pointer)
                self._pointer = None
            self._weights.close()
