"""How a model is opened, and what that takes of memory. Pure arithmetic and checks; nothing is opened here.

In: options, a GGUF's metadata. Out: bytes, or the one line that says why it will not do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from venus_edge.errors import EngineError, UsageError
from venus_edge.values import KvTypes

# name -> (ggml's number, bytes for a block of 32 values)
KV_TYPES: dict[str, tuple[int, int]] = {"f16": (1, 64), "q8_0": (8, 34), "q4_0": (2, 18)}

GIB = 1024**3
_COMPUTE = 128 * 1024**2  # llama.cpp's work buffers for the 4B geometry at 512 tokens a batch


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is opened. None: chosen here.

    n_ctx           window of the conversation, in tokens
    n_ctx_reading   cells beside it for a second sequence that reads pages (0: none)
    n_batch         most tokens of one call of llama.cpp; n_ubatch: of one pass through the model
    n_threads       threads that generate, n_threads_batch: that read the prompt. None: chosen, again and again, by what
                    a token takes; all cores
    steady          the same threads from first to last where their number changes the logits, so that a seed gives the
                    same run (flash attention over f16 sums by thread: see `keeps_threads`)
    n_gpu_layers    layers on the GPU, -1 all; None: all if the build can
    main_gpu        the one card that they go to, by its place in llama.cpp's list; None: all cards
    tensor_split    shares of the layers, a card each; (): by their free memory
    type_k, type_v  KV types by name (`KV_TYPES`); V as K if None
    flash_attention None: as llama.cpp finds best; always on where V is quantized, which needs it
    speculate       drafts by look-up where they pay. None: where a batch gives the logits that single tokens give, so
                    that a seed gives the same run with and without (llama.cpp's flash attention sums an f16 V in f16
                    for single tokens only: logits 0.03 apart; with a quantized V, 1e-6)
    reserve         tokens that must be free for a reply, or the prompt is refused; None: a tenth of the window, but
                    2,000 or an eighth of a small one. The agent asks for its answer before.
    """

    n_ctx: int = 32_768
    n_ctx_reading: int = 4_096
    n_batch: int = 512
    n_ubatch: int = 512
    n_threads: int | None = None
    n_threads_batch: int | None = None
    steady: bool = True
    n_gpu_layers: int | None = None
    main_gpu: int | None = None
    tensor_split: tuple[float, ...] = ()
    type_k: str = "f16"
    type_v: str | None = None
    flash_attention: bool | None = None
    speculate: bool | None = None
    reserve: int | None = None

    @property
    def values_type(self) -> str:
        return self.type_k if self.type_v is None else self.type_v

    @property
    def flash(self) -> int:
        """llama.cpp's number: -1 auto, 0 off, 1 on."""
        if self.values_type != "f16":
            return 1
        return -1 if self.flash_attention is None else int(self.flash_attention)

    @property
    def drafts(self) -> bool:
        """Whether tokens are drafted where it pays."""
        return self.values_type != "f16" if self.speculate is None else self.speculate

    @property
    def keeps_threads(self) -> bool:
        """Whether the number of threads must not change: llama.cpp's flash attention shares out an unquantized cache of
        512 cells or more by threads for a single token, and rounds accordingly."""
        return self.steady and self.type_k == self.values_type == "f16" and self.flash != 0

    @property
    def room(self) -> int:
        """The least tokens that a reply must have."""
        usual = max(self.n_ctx // 10, min(2_000, self.n_ctx // 8))  # as `guards.reserve`
        return usual if self.reserve is None else self.reserve


def check(options: EngineOptions) -> None:
    """Raises UsageError for options that cannot be meant."""
    for name in (options.type_k, options.values_type):
        if name not in KV_TYPES:
            raise UsageError(f"unknown KV type {name!r}; known: {', '.join(KV_TYPES)}")
    if options.flash_attention is False and options.values_type != "f16":
        raise UsageError(
            f"V at {options.values_type} needs flash attention, which is off: give --flash-attention auto, or "
            f"--kv-type {'f16' if options.type_k == 'f16' else f'{options.type_k},f16'}"
        )
    check_cards(options.n_gpu_layers, options.main_gpu, options.tensor_split)
    if options.n_ctx < 256:
        raise UsageError(f"a window of {options.n_ctx} tokens holds no conversation: give --context at least 2048")
    if options.n_ctx_reading < 0 or options.n_batch < 1 or options.n_ubatch < 1:
        raise UsageError("n_ctx_reading must be 0 or more, n_batch and n_ubatch at least 1")


def check_cards(layers: int | None, main_gpu: int | None, tensor_split: tuple[float, ...]) -> None:
    """Raises UsageError for layers and cards that can be meant on no machine."""
    if layers is not None and layers < -1:
        raise UsageError(f"--gpu-layers is auto, all or a number from 0 on, not {layers}")
    if main_gpu is not None and main_gpu < 0:
        raise UsageError(f"--main-gpu counts cards from 0, it cannot be {main_gpu}")
    if main_gpu is not None and tensor_split:
        raise UsageError("--main-gpu puts all layers on one card, --tensor-split shares them out: give one of the two")
    if tensor_split and not (all(math.isfinite(share) and share >= 0 for share in tensor_split) and any(tensor_split)):
        written = ",".join(f"{share:g}" for share in tensor_split)
        raise UsageError(f"--tensor-split is a share for each card, like 3,1, not {written}")


def check_window(options: EngineOptions, n_ctx_train: int) -> None:
    """Raises UsageError for a window beyond what the model was trained for, where it writes nonsense."""
    if 0 < n_ctx_train < options.n_ctx:
        raise UsageError(
            f"a window of {options.n_ctx:,} tokens is beyond the {n_ctx_train:,} that this model was made for: "
            f"give --context {n_ctx_train} or less"
        )


def kv_bytes(options: EngineOptions, metadata: Mapping[str, str]) -> int:
    """The size of the KV cache, both sequences; 0 if the metadata does not tell the geometry."""
    arch = metadata.get("general.architecture", "")

    def number(key: str) -> int:
        text = metadata.get(f"{arch}.{key}", "")
        return int(text) if text.isdigit() else 0

    heads, width = number("attention.head_count"), number("embedding_length")
    size = width // heads if heads else 0
    keys = number("attention.key_length") or size
    values = number("attention.value_length") or size
    kv_heads = number("attention.head_count_kv") or heads
    per_token = kv_heads * (keys * KV_TYPES[options.type_k][1] + values * KV_TYPES[options.values_type][1]) // 32
    return number("block_count") * per_token * (options.n_ctx + options.n_ctx_reading)


def check_memory(options: EngineOptions, metadata: Mapping[str, str], weights: int, available: int) -> None:
    """Raises EngineError if the KV cache does not fit into `available` bytes beside the weights (which are mapped, but
    slow when they do not stay in memory): the system would swap, or kill us in the middle."""
    need = kv_bytes(options, metadata)
    if available and need + weights + min(need, _COMPUTE) > available:
        beside = f"with {weights / GIB:.1f} GiB of weights beside it, of {available / GIB:.1f} GiB that are free"
        raise EngineError(memory_line(options, need, beside))


def memory_line(options: EngineOptions, need: int, why: str) -> str:
    """The one line for a context that does not fit: the window, what it takes, and both remedies."""
    kinds = KvTypes(options.type_k, options.values_type)
    return (
        f"a window of {options.n_ctx:,} tokens takes {need / GIB:.1f} GiB of memory with {kinds} KV, {why}: "
        "give a smaller --context" + ("" if options.values_type == "q4_0" else ", or --kv-type q8_0 or q4_0")
    )
