"""THE ENGINE ON llama.cpp: a GGUF file opened, its cache kept, generations started.

In: a model file and options. Out: an Engine. What it joins: `offload` (what goes to a GPU), `weights` and `vocabulary`
(the file), `context` (cache and forward pass), `chain` (the next token), `generation` (the loop).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from venus_edge.engine import Request, Stats, devices, library, modelfile, offload, options, snapshot
from venus_edge.engine.chain import Chain
from venus_edge.engine.context import Context
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.interrupt import Interrupts
from venus_edge.engine.kv import Cached
from venus_edge.engine.machine import available_memory
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.pace import Pace
from venus_edge.engine.vocabulary import Vocabulary
from venus_edge.engine.weights import Weights
from venus_edge.errors import ContextFull, EngineError, ModelError
from venus_edge.protocol import Piece


class LlamaEngine:
    """An Engine on a GGUF file. `notes` are lines for the person: what was asked for and could not be had; `placement`
    is where llama.cpp says that everything went.

    Raises ModelError for a file that is no model, UsageError for options that cannot be meant, EngineError if the
    context does not fit. One generation at a time: a new one ends the one before.
    """

    def __init__(self, path: str | Path, engine_options: EngineOptions = EngineOptions()) -> None:  # noqa: B008 (frozen)
        self.options = engine_options
        self.stats = Stats()
        self._running: LocalGeneration | None = None
        self._told: tuple[str, ...] = ()
        self._interrupts = Interrupts()
        self._path = Path(path)
        options.check(engine_options)
        modelfile.check(self._path)  # before the library is loaded for nothing
        decision = offload.decide(engine_options, devices.build(), devices.sign(), sys.platform)
        self.notes = decision.notes
        self.options = replace(
            engine_options,
            n_gpu_layers=decision.gpu_layers,
            main_gpu=decision.main_gpu,
            tensor_split=decision.tensor_split,
            type_k=decision.kv.k,
            type_v=decision.kv.v,
        )
        self._open_where_it_fits()
        self._cached = [Cached() for _ in range(self._context.sequences)]
        drafts = self.options.drafts and self._weights.rolls_back
        self._paces = [Pace() if drafts else None for _ in self._cached]
        self._windows = (engine_options.n_ctx, engine_options.n_ctx_reading)

    def _open_where_it_fits(self) -> None:
        """Opens the model, with fewer layers on the GPU where that has no room for those that were decided."""
        first, reason = 0, ""
        remaining: Iterator[int] | None = None
        while True:
            try:
                self._open()
                break
            except (EngineError, ModelError):
                if not self.options.n_gpu_layers or not offload.short_of_memory(library.complaints.lines):
                    raise
                if remaining is None:
                    said = offload.placement((*self._told, *library.complaints.told))
                    first, reason = said.offloaded or self.options.n_gpu_layers, library.complaints.first
                    remaining = iter(offload.fewer(first) or (0,))
                self.options = replace(self.options, n_gpu_layers=next(remaining))
        if remaining is not None:
            self.notes = (*self.notes, offload.less(first, self.options.n_gpu_layers or 0, reason))

    def _open(self) -> None:
        """Weights and context as the options say; what was opened is closed again where the rest fails."""
        opts, self._told = self.options, ()
        layers = opts.n_gpu_layers or 0
        weights = Weights(self._path, layers, False, self._interrupts, opts.main_gpu, opts.tensor_split)
        self._weights, self._told = weights, weights.told
        try:
            self.metadata = weights.metadata
            options.check_window(opts, weights.n_ctx_train)
            if not layers:
                options.check_memory(opts, self.metadata, self.weights_bytes, available_memory())
            self.vocabulary = Vocabulary(weights)
            self._context = Context(weights, self.vocabulary, opts, self._interrupts)
        except BaseException:
            weights.close()
            raise
        self.placement = offload.placement((*weights.told, *self._context.told))

    @property
    def n_ctx(self) -> int:
        return self.options.n_ctx

    @property
    def n_ctx_reading(self) -> int:
        return self.options.n_ctx_reading

    @property
    def chat_template(self) -> str:
        return self._weights.chat_template

    @property
    def description(self) -> str:
        """What llama.cpp calls the model: architecture, size, quantization."""
        return self._weights.description

    @property
    def weights_bytes(self) -> int:
        return self._weights.size

    @property
    def kv_bytes(self) -> int:
        return options.kv_bytes(self.options, self.metadata)

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self.vocabulary.tokenize(pieces)

    def cached(self, sequence: int = 0) -> tuple[int, ...]:
        """The token ids that the sequence's cache holds."""
        return self._cached[sequence].ids

    def generate(self, request: Request) -> LocalGeneration:
        if self._running is not None:
            self._running.close()
        window = self._room(request)
        self._interrupts.clear()
        chain = Chain(self._context, self.vocabulary, request)
        cached, pace = self._cached[request.sequence], self._paces[request.sequence]
        self._running = LocalGeneration(
            self._context, cached, request, chain, self.stats, window, self._context.batch, pace
        )
        return self._running

    def _room(self, request: Request) -> int:
        """The window of the request's sequence. Raises ContextFull if the prompt leaves less than a reply needs."""
        self._opened()
        if not 0 <= request.sequence < self._context.sequences:
            raise EngineError(f"sequence {request.sequence} was not planned for: open the model with n_ctx_reading")
        if not request.prompt:
            raise EngineError("there is nothing to go on from: the prompt is empty")
        window = self._windows[request.sequence]
        least = min(self.options.room, window // 16 + 1) if request.sequence else self.options.room
        left = window - len(request.prompt)
        if left < max(1, min(least, request.sampling.max_tokens)):
            raise ContextFull(
                f"the prompt takes {len(request.prompt):,} of the window's {window:,} tokens, which leaves no room to "
                "think and answer: shorten the question, or open a larger window with --context"
            )
        return window

    def save(self, path: Path, most: int = 8 * options.GIB) -> int:
        """Keeps the conversation's cache on disk: the bytes written, 0 if there is none or it takes more than `most`.
        Raises StorageError; a file that was there stays then."""
        with self._resting():
            return snapshot.save(self._context, self._cached[0], path, self._fingerprint, most)

    def restore(self, path: Path) -> int:
        """Fills the conversation's cache from a file that `save` wrote under the same model and options: its tokens.
        0 if it is not there, of something else, or damaged; then the next prompt is evaluated as if it had not been."""
        with self._resting():
            return snapshot.restore(self._context, self._cached[0], path, self._fingerprint)

    @cached_property
    def _fingerprint(self) -> bytes:
        return snapshot.fingerprint(self._path, self.options, library.version())

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """Nothing is generated, and Ctrl-C waits."""
        if self._running is not None:
            self._running.close()
        self._opened()
        with self._interrupts.held():
            yield

    def _opened(self) -> None:
        if not self._context.pointer:
            raise EngineError("the model is closed")

    def cancel(self) -> None:
        self._interrupts.cancel()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        with self._interrupts.held():
            self._context.close()
            self._weights.close()
