"""THE CACHE AND THE FORWARD PASS: a llama.cpp context behind what `generation` needs of a model.

In: loaded weights, options. Out: tokens evaluated at positions of a sequence, and their logits. Which tokens the cache
holds is recorded in `kv`; whose windows they are is the engine's to keep.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from venus_edge.engine import library, options
from venus_edge.engine.generation import Stopped
from venus_edge.engine.interrupt import Interrupts
from venus_edge.engine.options import KV_TYPES, EngineOptions
from venus_edge.engine.threads import Threads
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.engine.weights import Weights
from venus_edge.errors import EngineError

OUTPUTS = 16  # tokens of a batch whose logits may be wanted; for all of them the work buffer would be 290 MiB larger


class Context:
    """A context with its KV cache. Raises EngineError if llama.cpp will not make it."""

    def __init__(self, weights: Weights, vocabulary: Vocabulary, opts: EngineOptions, interrupts: Interrupts) -> None:
        self.lib = weights.lib
        self._vocabulary = vocabulary
        self._interrupts = interrupts
        self.sequences = 2 if opts.n_ctx_reading else 1
        self.threads = Threads(opts, lambda *counts: self.lib.llama_set_n_threads(self.pointer, *counts))
        self.pointer = self._made(weights, opts)
        self.told = tuple(library.complaints.told)  # of where its buffers are
        self._memory = self.lib.llama_get_memory(self.pointer)
        self._abort = self.lib.ggml_abort_callback(lambda _: interrupts.wanted)
        self._never = self.lib.ggml_abort_callback()
        self._asks = False
        self._rows: dict[int | None, Any] = {}
        self.batch = int(self.lib.llama_n_batch(self.pointer))
        self._make_batch(self.batch)

    def _made(self, weights: Weights, opts: EngineOptions) -> Any:
        params = self.lib.llama_context_default_params()
        params.n_ctx = opts.n_ctx + opts.n_ctx_reading
        params.n_batch = opts.n_batch
        params.n_ubatch = min(opts.n_ubatch, opts.n_batch)
        params.n_seq_max = self.sequences
        params.n_outputs_max = OUTPUTS
        params.kv_unified = True  # any sequence may take any cell: the windows are ours to keep
        params.n_threads, params.n_threads_batch = self.threads.first, self.threads.first_reading
        params.type_k, params.type_v = KV_TYPES[opts.type_k][0], KV_TYPES[opts.values_type][0]
        params.flash_attn_type = opts.flash
        library.listen()
        with self._interrupts.held():
            pointer = self.lib.llama_init_from_model(weights.pointer, params)
        if not pointer:
            need = options.kv_bytes(opts, weights.metadata)
            raise EngineError(
                options.memory_line(opts, need, f"and llama.cpp refuses ({library.complaints.first or 'no reason'})")
            )
        return pointer

    def _make_batch(self, size: int) -> None:
        """The arrays of a batch, made once: llama.cpp reads them during the call, so they must outlive it."""
        lib = self.lib
        self._tokens = (lib.llama_token * size)()
        self._positions = (lib.llama_pos * size)()
        self._counts = (ctypes.c_int32 * size)(*[1] * size)
        self._names = [(lib.llama_seq_id * 1)(number) for number in range(self.sequences)]
        pointer = ctypes.POINTER(lib.llama_seq_id)
        self._owners = [(pointer * size)(*[ctypes.cast(name, pointer)] * size) for name in self._names]
        self._outputs: Any = (ctypes.c_int8 * size)()

    def keep(self, sequence: int, length: int) -> int:
        if self.lib.llama_memory_seq_rm(self._memory, sequence, length, -1):
            return length
        self.lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)  # a memory that cannot go back in part
        return 0

    def held(self, sequence: int) -> int:
        return int(self.lib.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def state_bytes(self, sequence: int) -> int:
        return int(self.lib.llama_state_seq_get_size(self.pointer, sequence))

    def save(self, sequence: int, path: Path, words: Sequence[int]) -> bool:
        ids = (self.lib.llama_token * len(words))(*words)
        return bool(self.lib.llama_state_seq_save_file(self.pointer, os.fsencode(path), sequence, ids, len(words)))

    def load(self, sequence: int, path: Path, words: int) -> bool:
        ids, count = (self.lib.llama_token * words)(), ctypes.c_size_t()
        read = self.lib.llama_state_seq_load_file(
            self.pointer, os.fsencode(path), sequence, ids, words, ctypes.byref(count)
        )
        return bool(read) and self.held(sequence) > 0

    def evaluate(self, sequence: int, start: int, tokens: Sequence[int], outputs: int = 1) -> None:
        count = len(tokens)
        self._tokens[:count] = tokens
        self._positions[:count] = range(start, start + count)
        self._outputs[:count] = [0] * (count - outputs) + [1] * outputs
        batch = self.lib.llama_batch(
            count, self._tokens, None, self._positions, self._counts, self._owners[sequence], self._outputs
        )
        self._interruptible(count > OUTPUTS)
        self.threads.before(count)
        library.listen()
        result = self.lib.llama_decode(self.pointer, batch)
        if result == 2:
            raise Stopped
        if result:
            raise EngineError(
                f"llama.cpp could not evaluate {count} tokens at {start} (code {result}: "
                f"{library.complaints.first or 'no reason given'}): try a smaller --context or fewer --gpu-layers"
            )
        self.threads.after(count)

    def _interruptible(self, wanted: bool) -> None:
        """Whether llama.cpp asks, from Python after every node of the graph, if it should stop: free in a long batch, a
        percent of a short one. Told only when it changes: llama.cpp writes a line into its log each time."""
        if wanted is not self._asks:
            self._asks = wanted
            self.lib.llama_set_abort_callback(self.pointer, self._abort if wanted else self._never, None)

    def logits(self, output: int = -1) -> Any:
        """The logits of one of the outputs evaluated last, as a float array that may be written to."""
        import numpy as np

        row = self.lib.llama_get_logits_ith(self.pointer, output)
        address = ctypes.cast(row, ctypes.c_void_p).value
        if address not in self._rows:  # a row lies where it lay before: an array is only a view of the place
            self._rows[address] = np.ctypeslib.as_array(row, (self._vocabulary.size,))
        return self._rows[address]

    def piece(self, token: int) -> bytes:
        return self._vocabulary.piece(token)

    def ends(self, token: int) -> bool:
        return self._vocabulary.ends(token)

    def stopping(self) -> bool:
        return self._interrupts.wanted

    def shielded(self) -> AbstractContextManager[None]:
        return self._interrupts.held()

    def close(self) -> None:
        if self.pointer:
            self.lib.llama_free(self.pointer)
            self.pointer = None
