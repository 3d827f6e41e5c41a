"""MODEL -> BYTES: what its weights, its KV cache and llama.cpp's work buffers take, in RAM and on each device. Pure.

In: a model's shape and weights, cells of the cache, layers on devices. Out: bytes of each part. The sizes follow
llama.cpp as of llama-cpp-python 0.3.36; `make bench-plan` compares them with its own report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate

GIB = 1024**3
MIB = 1024**2

KV_BYTES = {"f16": 64, "q8_0": 34, "q4_0": 18}  # of a block of 32 values
OUTPUTS = 16  # tokens of a batch whose logits are wanted: what the engine asks for
PROCESS = 300 * MIB  # Python, the page parser and an open index beside the model
BATCH = 512

_BITS = {  # a quantization -> its type for the most, for the better half of attn_v and ffn_down, for the embedding
    "Q3_K_S": ("Q3_K", "Q3_K", "Q6_K"),
    "Q4_K_S": ("Q4_K", "Q4_K", "Q6_K"),
    "Q4_K_M": ("Q4_K", "Q6_K", "Q6_K"),
    "Q5_K_M": ("Q5_K", "Q6_K", "Q6_K"),
    "Q6_K": ("Q6_K", "Q6_K", "Q6_K"),
    "Q8_0": ("Q8_0", "Q8_0", "Q8_0"),
    "BF16": ("BF16", "BF16", "BF16"),
}
KNOWN_QUANTS = tuple(_BITS)
QUANTS = ("Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0")  # those worth having
_TYPE_BITS = {"Q3_K": 3.4375, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625, "Q8_0": 8.5, "BF16": 16.0}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a model is built: what its KV cache and work buffers follow from."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_k: int
    head_v: int
    ffn: int
    vocab: int
    n_ctx_train: int


QWEN3_4B = Shape(36, 2560, 32, 8, 128, 128, 9728, 151_936, 262_144)  # PROTOCOL section 1


@dataclass(frozen=True, slots=True)
class Weights:
    """The bytes of a model's tensors: the embedding, the output (the embedding again where tied), and the layers.

    `repacked` maps a type that some CPUs rewrite into a layout of their own to the bytes of it, embedding left out;
    `tied_type` is that of an embedding which is the output too.
    """

    embedding: int
    output: int
    tied: bool
    layers: tuple[int, ...]
    repacked: Mapping[str, int] = field(default_factory=dict)
    tied_type: str = ""

    @property
    def total(self) -> int:
        return self.embedding + sum(self.layers) + (0 if self.tied else self.output)


@dataclass(frozen=True, slots=True)
class Model:
    """What can be opened: a shape, and the weights by quantization (one for a file, several for a hub's list)."""

    name: str
    shape: Shape
    weights: Mapping[str, Weights]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in one place. `repacked` is a second copy of weights that the system may drop the first of."""

    weights: int = 0
    kv: int = 0
    compute: int = 0
    output: int = 0
    process: int = 0
    repacked: int = 0

    @property
    def needed(self) -> int:
        """What must be free."""
        return self.weights + self.kv + self.compute + self.output + self.process

    @property
    def allocated(self) -> int:
        """What llama.cpp reports: the weights as mapped and as repacked, KV and its buffers."""
        return self.weights + self.repacked + self.kv + self.compute + self.output

    def __add__(self, other: Memory) -> Memory:
        return Memory(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


def kv_bytes(shape: Shape, cells: int, type_k: str, type_v: str, layers: int | None = None) -> int:
    """The KV cache of so many cells, all layers or some. Exact."""
    cell = shape.kv_heads * (shape.head_k * KV_BYTES[type_k] + shape.head_v * KV_BYTES[type_v]) // 32
    return (shape.layers if layers is None else layers) * cell * cells


def compute_bytes(shape: Shape, cells: int, ubatch: int, type_k: str, type_v: str, flash: bool = True) -> int:
    """llama.cpp's work buffer: a row of the mask, the widest stage of a layer for each token of the batch.

    Fitted to what llama.cpp's allocator reports for 11 geometries (the sums are exact for most of them); without flash
    attention the scores of all heads are held too, which is what makes long windows dear.
    """
    ubatch = min(ubatch, cells)
    query, pair = shape.heads * shape.head_k, shape.kv_heads * (shape.head_k + shape.head_v)
    if flash:
        row, floats = 2 * cells, _flash_floats(shape, query, type_k, type_v)
    else:
        row, floats = 4 * cells * (shape.heads + 1), 3 * shape.width + 2 * query + pair
    logits = 4 * min(OUTPUTS, ubatch) * shape.vocab + 4 * ubatch * (shape.width + query)
    return max(ubatch * (row + 4 * floats), logits)


def _flash_floats(shape: Shape, query: int, type_k: str, type_v: str) -> int:
    wide = query > shape.width
    if type_v != "f16":
        return 3 * shape.ffn + (3 if wide else 2) * shape.width + query
    if type_k != "f16":
        return 3 * shape.ffn + 3 * shape.width + (0 if wide else query)
    return 3 * shape.ffn + 3 * shape.width + query


def memory(
    model: Model,
    quant: str,
    repacks: frozenset[str],
    cells: int,
    kv: tuple[str, str] = ("f16", "f16"),
    gpu_layers: int = 0,
    sequences: int = 1,
    ubatch: int = BATCH,
    flash: bool = True,
    cards: int = 1,
) -> tuple[Memory, Memory]:
    """The bytes in RAM and on a device. llama.cpp puts the output first on a device, then layers from the last.

    Where a device has a layer, it computes the large batches of the others too: their work is there, and the CPU's own
    layouts of weights are not made. `repacks` are the tensor types that this CPU rewrites.
    """
    shape, weights = model.shape, model.weights[quant]
    here = shape.layers - min(max(0, gpu_layers - 1), shape.layers)
    compute = compute_bytes(shape, cells, ubatch, *kv, flash=flash)
    output = 4 * shape.vocab * sequences
    (there,) = on_cards(model, quant, cells, kv, gpu_layers, (1.0,), ubatch, flash)
    beside = weights.total - sum(weights.layers[here:]) - (0 if weights.tied or not gpu_layers else weights.output)
    kept = kv_bytes(shape, cells, *kv, here)
    if gpu_layers:
        host = _inputs(shape, cells, ubatch) * (4 if cards > 1 and not here else 1) + 4 * shape.width * ubatch
        return Memory(beside, kept, host, output, PROCESS), there
    repacked = sum(size for kind, size in weights.repacked.items() if kind in repacks)
    repacked += weights.embedding if weights.tied_type in repacks else 0
    return Memory(beside, kept, compute, output, PROCESS, repacked), there


def _inputs(shape: Shape, cells: int, ubatch: int) -> int:
    """The mask and the embedded tokens of a batch; llama.cpp keeps four of them where several cards work in turn."""
    return 2 * cells * min(ubatch, cells) + 4 * shape.width * ubatch


def on_cards(
    model: Model,
    quant: str,
    cells: int,
    kv: tuple[str, str],
    gpu_layers: int,
    shares: tuple[float, ...],
    ubatch: int = BATCH,
    flash: bool = True,
) -> tuple[Memory, ...]:
    """The bytes on each card. Each that has a layer has a work buffer of its own; fitted to what llama.cpp reports of a
    Vulkan device and of two."""
    shape, weights = model.shape, model.weights[quant]
    pieces = (*weights.layers, weights.output)  # of these, the last ones go to the cards
    held: list[Memory] = [Memory()] * len(shares)
    compute = compute_bytes(shape, cells, ubatch, *kv, flash=flash)
    there = split(shape.layers, gpu_layers, shares)
    if len(there) == len(pieces):
        several = len(set(there)) > 1
        compute += 3 * _inputs(shape, cells, ubatch) if several else -4 * shape.width * ubatch
    for piece, card in zip(range(len(pieces) - len(there), len(pieces)), there, strict=True):
        cache = kv_bytes(shape, cells, *kv, 1) if piece < shape.layers else 0
        held[card] += Memory(pieces[piece], cache, 0 if held[card].compute else compute)
    return tuple(held)


def split(layers: int, gpu_layers: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The card of each offloaded layer, the output as the last: llama.cpp's rule for shares of several cards."""
    count = min(max(0, gpu_layers), layers + 1)
    bounds = [share / sum(shares) for share in accumulate(shares)] if any(shares) else []
    return tuple(next(card for card, bound in enumerate(bounds) if bound > place / count) for place in range(count))


def weights_of(shape: Shape, quant: str) -> Weights:
    """The weights of a Qwen3 of this shape at a quantization, by llama.cpp's rule for its tensor types."""
    usual, better, embedding = (_TYPE_BITS[kind] / 8 for kind in _BITS[quant])
    query, pair = shape.heads * shape.head_k, shape.kv_heads * (shape.head_k + shape.head_v)
    mixed = shape.kv_heads * shape.head_v * shape.width + shape.ffn * shape.width
    plain = shape.width * (2 * query + pair + 3 * shape.ffn) - mixed
    norms = 4 * (2 * shape.width + shape.head_k + shape.head_v)
    layers = tuple(
        int(plain * usual + mixed * (better if _more_bits(i, shape.layers) else usual)) + norms
        for i in range(shape.layers)
    )
    table = int(shape.vocab * shape.width * embedding)
    plain_bytes = int(plain * usual) * shape.layers
    rest = sum(int(mixed * usual) for i in range(shape.layers) if not _more_bits(i, shape.layers))
    return Weights(table, table, True, layers, {_BITS[quant][0]: plain_bytes + rest}, _BITS[quant][2])


def _more_bits(layer: int, layers: int) -> bool:
    """llama.cpp's use_more_bits: the first and the last eighth, and every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def known(name: str, shape: Shape = QWEN3_4B, quants: Sequence[str] = QUANTS) -> Model:
    """A model that is not on the disk yet, with the weights that its quantizations would have."""
    return Model(name, shape, {quant: weights_of(shape, quant) for quant in quants if quant in _BITS})
