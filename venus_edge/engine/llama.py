"""llama.cpp THROUGH ITS C API: an Engine on a GGUF file (the only llama_cpp import of the package).

In: a model file and options. Out: an Engine. The library is loaded when the first model is; its log goes to the logger
`venus_edge.llama`, and its first complaint into our errors. Nothing here decides what ends a turn: the loop is
`generation`, the order of samplers `sampling`, the safety of text `tokens`.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from venus_edge.engine import Request, Sampling, Stats, modelfile, options
from venus_edge.engine.generation import LocalGeneration, Stopped
from venus_edge.engine.interrupt import Interrupts
from venus_edge.engine.kv import Cached
from venus_edge.engine.machine import available_memory, cores
from venus_edge.engine.options import KV_TYPES, EngineOptions
from venus_edge.engine.sampling import Presence, steps
from venus_edge.engine.tokens import Specials, Tokenizer
from venus_edge.errors import ContextFull, EngineError
from venus_edge.protocol import Piece

_log = logging.getLogger("venus_edge.llama")
_OUTPUTS = 16  # tokens of a batch whose logits are wanted; for all of them the work buffer would be 290 MiB larger
_MINUS_INFINITY = float("-inf")

# -- the library ------------------------------------------------------------------------------------------------------


class _Complaints:
    """llama.cpp's log: into `logging`, and its errors kept for our own messages."""

    ERROR = 4  # GGML_LOG_LEVEL_ERROR

    def __init__(self) -> None:
        self._lines: list[str] = []

    def hear(self, level: int, text: bytes, _: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        if line.strip("."):  # else progress
            _log.debug("%s", line)
            if level == self.ERROR:
                self._lines.append(line)

    def forget(self) -> None:
        self._lines.clear()

    @property
    def first(self) -> str:
        """The first since `forget`, without the function that made it: the later ones only pass it on."""
        line = self._lines[0] if self._lines else ""
        head, colon, rest = line.partition(": ")
        line = rest if colon and " " not in head else line
        return line.removeprefix("error loading model: ")


_complaints = _Complaints()


@cache
def _library() -> Any:
    """The C API. The casts between it and typed code are all in this module.

    OpenMP's threads spin while they wait, which is fast on an idle machine and ruinous beside a busy process; a short
    spin keeps both (measured: 16.3 of 17.2 tokens/s idle, 7.8 instead of 5.3 beside one). It is read when the library
    loads, so it is set before, and never over what the person chose.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        import llama_cpp.llama_cpp as lib
    except (ImportError, RuntimeError, OSError) as error:
        raise EngineError(
            f"llama.cpp cannot be loaded ({error}): pip install --force-reinstall llama-cpp-python"
        ) from error
    log = lib.llama_log_callback(_complaints.hear)
    lib.llama_log_set(log, None)
    lib.venus_edge_log = log  # must live as long as the library
    lib.llama_backend_init()
    return lib


def _text_of(read: Any) -> bytes:
    """What llama.cpp writes into a buffer: `read(buffer, size)` gives its length, negative if there is no room."""
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = int(read(buffer, size))
        if 0 <= length < size:
            return buffer.raw[:length]
        size = max(2 * size, abs(length) + 1)


# -- model and vocabulary ---------------------------------------------------------------------------------------------


class _Model:
    """A loaded file. Raises ModelError if llama.cpp will not have it."""

    def __init__(self, path: Path, gpu_layers: int, vocab_only: bool, interrupts: Interrupts) -> None:
        self.lib = _library()
        _complaints.forget()
        params = self.lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.vocab_only = vocab_only
        going_on = self.lib.llama_progress_callback(lambda done, _: not interrupts.wanted)
        params.progress_callback = going_on
        with interrupts.held():
            self.pointer = self.lib.llama_model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise modelfile.failed(path, _complaints.first)

    @property
    def metadata(self) -> dict[str, str]:
        lib, pointer = self.lib, self.pointer

        def read(what: Any, index: int) -> str:
            return _text_of(lambda buffer, size: what(pointer, index, buffer, size)).decode("utf-8", "replace")

        return {
            read(lib.llama_model_meta_key_by_index, i): read(lib.llama_model_meta_val_str_by_index, i)
            for i in range(lib.llama_model_meta_count(pointer))
        }

    @property
    def description(self) -> str:
        return _text_of(lambda buffer, size: self.lib.llama_model_desc(self.pointer, buffer, size)).decode()

    @property
    def chat_template(self) -> str:
        template = self.lib.llama_model_chat_template(self.pointer, None)
        return template.decode("utf-8", "replace") if template else ""

    def close(self) -> None:
        if self.pointer:
            self.lib.llama_model_free(self.pointer)
            self.pointer = None


class Vocabulary:
    """The token side of a model: ids of text, bytes of ids."""

    def __init__(self, model: _Model) -> None:
        self._lib = model.lib
        self.handle = self._lib.llama_model_get_vocab(model.pointer)
        self._pieces: dict[int, bytes] = {}
        self.size = int(self._lib.llama_vocab_n_tokens(self.handle))
        self.specials = self._specials()
        self._tokenizer = Tokenizer(self.specials, self.encode)

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._tokenizer.ids(pieces)

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        """llama.cpp's own tokenization of one string; with `parse_special` every special string in it is a token."""
        data = text.encode()
        room = len(data) + 8
        while True:
            ids = (self._lib.llama_token * room)()
            count = int(self._lib.llama_tokenize(self.handle, data, len(data), ids, room, False, parse_special))
            if count >= 0:
                return list(ids[:count])
            room = -count

    def piece(self, token: int) -> bytes:
        """The bytes of one token, those of special ones too."""
        known = self._pieces.get(token)
        if known is None:
            call = self._lib.llama_token_to_piece
            known = _text_of(lambda buffer, size: call(self.handle, token, buffer, size, 0, True))
            self._pieces[token] = known
        return known

    def ends(self, token: int) -> bool:
        """Whether the token ends a turn (<|im_end|>, <|endoftext|>)."""
        lib, vocab = self._lib, self.handle
        return bool(lib.llama_vocab_is_eog(vocab, token)) and not self._ordinary(lib.llama_vocab_get_attr(vocab, token))

    def _ordinary(self, attributes: int) -> bool:
        """llama.cpp takes some tokens for control tokens by their text alone, as Qwen's ordinary `</s>` (128247): it
        adds the attribute, and the file's own stays beside it."""
        return bool(attributes & self._lib.LLAMA_TOKEN_ATTR_NORMAL)

    def _specials(self) -> Specials:
        lib, vocab = self._lib, self.handle
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
    return Vocabulary(_Model(path, 0, True, Interrupts()))


# -- context ----------------------------------------------------------------------------------------------------------


class _Context:
    """A context with its KV cache: what `generation` needs of llama.cpp."""

    def __init__(self, model: _Model, vocabulary: Vocabulary, opts: EngineOptions, interrupts: Interrupts) -> None:
        self.lib = model.lib
        self._vocabulary = vocabulary
        self._interrupts = interrupts
        self.sequences = 2 if opts.n_ctx_reading else 1
        self.pointer = self._made(model, opts)
        self._memory = self.lib.llama_get_memory(self.pointer)
        self._abort = self.lib.ggml_abort_callback(lambda _: interrupts.wanted)
        self._never = self.lib.ggml_abort_callback()
        self.batch = int(self.lib.llama_n_batch(self.pointer))
        self._make_batch(self.batch)

    def _made(self, model: _Model, opts: EngineOptions) -> Any:
        params = self.lib.llama_context_default_params()
        params.n_ctx = opts.n_ctx + opts.n_ctx_reading
        params.n_batch = opts.n_batch
        params.n_ubatch = min(opts.n_ubatch, opts.n_batch)
        params.n_seq_max = self.sequences
        params.n_outputs_max = _OUTPUTS
        params.kv_unified = True  # any sequence may take any cell: the windows are ours to keep
        params.n_threads = opts.n_threads or cores()
        params.n_threads_batch = opts.n_threads_batch or params.n_threads
        params.type_k, params.type_v = KV_TYPES[opts.type_k][0], KV_TYPES[opts.values_type][0]
        params.flash_attn_type = opts.flash
        _complaints.forget()
        with self._interrupts.held():
            pointer = self.lib.llama_init_from_model(model.pointer, params)
        if not pointer:
            need = options.kv_bytes(opts, model.metadata)
            raise EngineError(
                options.memory_line(opts, need, f"and llama.cpp refuses ({_complaints.first or 'no reason'})")
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

    def evaluate(self, sequence: int, start: int, tokens: Sequence[int]) -> None:
        count = len(tokens)
        self._tokens[:count] = tokens
        self._positions[:count] = range(start, start + count)
        self._outputs[:count] = [0] * (count - 1) + [1]
        batch = self.lib.llama_batch(
            count, self._tokens, None, self._positions, self._counts, self._owners[sequence], self._outputs
        )
        # Asked after every node of the graph, from Python: free in a long batch, a percent of a single token.
        self.lib.llama_set_abort_callback(self.pointer, self._abort if count > 1 else self._never, None)
        _complaints.forget()
        result = self.lib.llama_decode(self.pointer, batch)
        if result == 2:
            raise Stopped
        if result:
            raise EngineError(
                f"llama.cpp could not evaluate {count} tokens at {start} (code {result}: "
                f"{_complaints.first or 'no reason given'}): try a smaller --context or fewer --gpu-layers"
            )

    def logits(self) -> Any:
        """The logits of the last token evaluated, as a float array that may be written to."""
        import numpy as np

        return np.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.pointer, -1), (self._vocabulary.size,))

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


# -- choosing a token -------------------------------------------------------------------------------------------------


def _samplers(lib: Any, settings: Sampling) -> Any:
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for name, arguments in steps(settings):
        lib.llama_sampler_chain_add(chain, getattr(lib, f"llama_sampler_init_{name}")(*arguments))
    return chain


def _apply(lib: Any, sampler: Any, candidates: Any) -> tuple[int, int]:
    """Runs a sampler over candidates, in place: how many are left in front, and which it selected (-1: none)."""
    data = candidates.ctypes.data_as(lib.llama_token_data_p)
    array = lib.llama_token_data_array(data, len(candidates), -1, False)
    lib.llama_sampler_apply(sampler, ctypes.byref(array))
    return int(array.size), int(array.selected)


def _candidates(logits: Any, ids: Any) -> Any:
    """llama.cpp's `llama_token_data` of some ids, as a numpy array."""
    import numpy as np

    found = np.zeros(len(ids), np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)]))
    found["id"], found["logit"] = ids, logits[ids]
    return found


def distribution(settings: Sampling, logits: Sequence[float], generated: Sequence[int] = ()) -> list[float]:
    """What a token would be drawn from: the probability of each, given its logits and what the turn has generated."""
    import numpy as np

    lib, row = _library(), np.array(logits, np.float32)
    presence = Presence(settings.presence_penalty)
    for token in generated:
        presence.accept(token)
    presence.apply(row)
    candidates = _candidates(row, np.arange(len(row)))
    chain = _samplers(lib, settings)
    left, selected = _apply(lib, chain, candidates)
    lib.llama_sampler_free(chain)
    if settings.temperature <= 0:
        candidates["p"][:left] = np.arange(left) == selected
    result = np.zeros(len(row))
    result[candidates["id"][:left]] = candidates["p"][:left]
    return [float(p) for p in result]


class _Chain:
    """The penalty in place, llama.cpp's samplers for the rest, and a grammar that is asked about the token chosen."""

    def __init__(self, context: _Context, vocabulary: Vocabulary, settings: Sampling, grammar: str | None) -> None:
        self._lib = context.lib
        self._context = context
        self._vocabulary = vocabulary
        self._presence = Presence(settings.presence_penalty)
        self._grammar = _Grammar(context.lib, vocabulary, grammar, settings) if grammar is not None else None
        self._chain = _samplers(self._lib, settings)

    def next(self) -> int:
        if self._presence.active:
            self._presence.apply(self._context.logits())
        token = int(self._lib.llama_sampler_sample(self._chain, self._context.pointer, -1))
        if self._grammar is not None and not self._grammar.allows(token):
            token = self._grammar.choose(self._context.logits(), self._chain)
        if self._vocabulary.ends(token):
            return token
        self._presence.accept(token)
        if self._grammar is not None:
            self._grammar.accept(token)
        return token

    def close(self) -> None:
        if self._chain:
            self._lib.llama_sampler_free(self._chain)
            self._chain = None
        if self._grammar is not None:
            self._grammar.close()


class _Grammar:
    """A GBNF grammar from the start of a reply. Asked about one token it costs nothing; over a whole vocabulary 18 ms,
    so the few best tokens are tried before that."""

    BEST = 256

    def __init__(self, lib: Any, vocabulary: Vocabulary, text: str, settings: Sampling) -> None:
        import numpy as np

        self._lib = lib
        self._zero = np.zeros(1, np.float32)
        self._needed = 1 if settings.temperature <= 0 else settings.top_k  # allowed ones, for the choice to be exact
        _complaints.forget()
        self._sampler = lib.llama_sampler_init_grammar(vocabulary.handle, text.encode(), b"root")
        if not self._sampler:
            raise EngineError(f"llama.cpp does not understand the grammar ({_complaints.first or 'no reason given'})")

    def allows(self, token: int) -> bool:
        one = _candidates(self._zero, (0,))
        one["id"] = token
        _apply(self._lib, self._sampler, one)
        return bool(one["logit"][0] > _MINUS_INFINITY)

    def accept(self, token: int) -> None:
        self._lib.llama_sampler_accept(self._sampler, token)

    def choose(self, logits: Any, chain: Any) -> int:
        """The chain's choice among the allowed tokens. Raises EngineError if there is none."""
        import numpy as np

        if 0 < self._needed <= self.BEST < len(logits):
            some = self._allowed(logits, np.argpartition(logits, -self.BEST)[-self.BEST :])
            if len(some) >= self._needed:
                return self._chosen(some, chain)
        every = self._allowed(logits, np.arange(len(logits)))
        if not len(every):
            raise EngineError("the grammar allows no token of this vocabulary to follow")
        return self._chosen(every, chain)

    def _allowed(self, logits: Any, ids: Any) -> Any:
        found = _candidates(logits, ids)
        _apply(self._lib, self._sampler, found)
        return found[found["logit"] > _MINUS_INFINITY]

    def _chosen(self, candidates: Any, chain: Any) -> int:
        _, selected = _apply(self._lib, chain, candidates)
        return int(candidates["id"][selected])

    def close(self) -> None:
        if self._sampler:
            self._lib.llama_sampler_free(self._sampler)
            self._sampler = None


# -- the engine -------------------------------------------------------------------------------------------------------


class LlamaEngine:
    """An Engine on a GGUF file. `notes` are lines for the person: what was asked for and could not be had.

    Raises ModelError for a file that is no model, UsageError for options that cannot be meant, EngineError if the
    context does not fit. One generation at a time: a new one ends the one before.
    """

    def __init__(self, path: str | Path, engine_options: EngineOptions = EngineOptions()) -> None:  # noqa: B008 (frozen)
        self.options = engine_options
        self.stats = Stats()
        self._running: LocalGeneration | None = None
        self._interrupts = Interrupts()
        options.check(engine_options)
        modelfile.check(Path(path))  # before the library is loaded for nothing
        gpu_layers, self.notes = _offload(engine_options.n_gpu_layers)
        self._model = _Model(Path(path), gpu_layers, False, self._interrupts)
        try:
            self.metadata = self._model.metadata
            options.check_window(engine_options, int(_library().llama_model_n_ctx_train(self._model.pointer)))
            if not gpu_layers:
                options.check_memory(engine_options, self.metadata, self.weights_bytes, available_memory())
            self.vocabulary = Vocabulary(self._model)
            self._context = _Context(self._model, self.vocabulary, engine_options, self._interrupts)
        except BaseException:
            self._model.close()
            raise
        self._cached = [Cached() for _ in range(self._context.sequences)]
        self._windows = (engine_options.n_ctx, engine_options.n_ctx_reading)

    @property
    def n_ctx(self) -> int:
        return self.options.n_ctx

    @property
    def chat_template(self) -> str:
        return self._model.chat_template

    @property
    def description(self) -> str:
        """What llama.cpp calls the model: architecture, size, quantization."""
        return self._model.description

    @property
    def weights_bytes(self) -> int:
        return int(self._model.lib.llama_model_size(self._model.pointer))

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
        chain = _Chain(self._context, self.vocabulary, request.sampling, request.grammar)
        cached = self._cached[request.sequence]
        self._running = LocalGeneration(self._context, cached, request, chain, self.stats, window, self._context.batch)
        return self._running

    def _room(self, request: Request) -> int:
        """The window of the request's sequence. Raises ContextFull if the prompt leaves less than a reply needs."""
        if not self._context.pointer:
            raise EngineError("the model is closed")
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

    def cancel(self) -> None:
        self._interrupts.cancel()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        with self._interrupts.held():
            self._context.close()
            self._model.close()


def _offload(asked: int | None) -> tuple[int, tuple[str, ...]]:
    """The layers that go to a GPU, and the line for a person who asked for more than this build can."""
    if _library().llama_supports_gpu_offload():
        return (-1 if asked is None else asked), ()
    if not asked:
        return 0, ()
    return 0, (
        "this build of llama-cpp-python has no GPU support, so the CPU computes; for a GPU: "
        'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-cache-dir llama-cpp-python '
        "(Apple: -DGGML_METAL=on, others: -DGGML_VULKAN=on)",
    )
