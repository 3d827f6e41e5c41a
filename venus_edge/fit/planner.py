"""MODEL + MACHINE + WISHES -> PLAN. Pure arithmetic: nothing is opened, probed or measured here.

In: what a model file weighs and how it is built, what a machine has free, what a person asked for. Out: the window, KV
type, GPU layers, batches and threads to open it with, the bytes of each part, and what was given up for what reason.
The sizes follow llama.cpp as of llama-cpp-python 0.3.36; `make bench-plan` compares them with its own report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate

from venus_edge.values import KvTypes

GIB = 1024**3
MIB = 1024**2

KV_BYTES = {"f16": 64, "q8_0": 34, "q4_0": 18}  # of a block of 32 values
WINDOWS = (131_072, 98_304, 65_536, 49_152, 32_768, 24_576, 16_384)  # tried in turn
LEAST_WINDOW = 16_384  # the shortest released run took 19,674 tokens (PROTOCOL section 6)
SMALL_WINDOWS = (8_192, 4_096)  # when nothing else fits, and said
OUTPUTS = 16  # tokens of a batch whose logits are wanted: what the engine asks for
PROCESS = 300 * MIB  # Python, the page parser and an open index beside the model
BATCH = 512

# Prefill of 1,024 tokens and decode after it, tokens/s on a 2-core CPU, against f16 (ENGINE.md).
KV_SPEED = {"f16": (1.0, 1.0), "q8_0": (0.65, 0.90), "q4_0": (0.65, 0.90)}

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
class Gpu:
    """A device as llama.cpp sees it. `unified`: its memory is the machine's own."""

    name: str
    total: int
    free: int
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has: bytes that a program may take without pushing others out, physical cores, devices.

    `gpus` are in the order in which llama.cpp counts them. `repacks` are the tensor types that its CPU
    rewrites;
    `offload` whether the build of llama.cpp can use a device; `unmixable` the pairs of KV types that its devices do not
    compute with.
    """

    ram_total: int
    ram_free: int
    cores: int
    gpus: tuple[Gpu, ...] = ()
    repacks: frozenset[str] = frozenset()
    offload: bool = True
    unmixable: frozenset[str] = frozenset()

    @property
    def gpu(self) -> Gpu | None:
        """The device with the most free memory, None where the build cannot use one."""
        return max(self.gpus, key=lambda gpu: gpu.free) if self.gpus and self.offload else None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for; None: what is best. `n_ctx_most` is the window to begin from, `reading` the second one;
    `kv_type` as values.KvTypes reads it; `main_gpu` the one card for all layers, `tensor_split` the share of each."""

    n_ctx: int | None = None
    n_ctx_most: int = WINDOWS[0]
    reading: int = 8_192
    kv_type: str | None = None
    quant: str | None = None
    gpu_layers: int | None = None
    main_gpu: int | None = None
    tensor_split: tuple[float, ...] = ()
    flash: bool = True
    threads: int | None = None
    quant_usual: str = "Q4_K_M"


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


@dataclass(frozen=True, slots=True)
class Plan:
    """How to open the model, and what that takes. `given_up` is told to the person; `fits` is False for no way.

    `gpu` is what all cards hold, `cards` what each does; `main_gpu` and `tensor_split` say which of several get layers.
    """

    model: str
    quant: str
    n_ctx: int
    n_ctx_reading: int
    kv_type: str
    gpu_layers: int
    layers: int
    threads: int
    ram: Memory
    gpu: Memory
    fits: bool = True
    given_up: tuple[str, ...] = ()
    n_batch: int = BATCH
    n_ubatch: int = BATCH
    main_gpu: int | None = None
    tensor_split: tuple[float, ...] = ()
    cards: tuple[Memory, ...] = ()

    @property
    def snapshot(self) -> int:
        """Disk for the saved cache of a full conversation."""
        return (self.ram.kv + self.gpu.kv) * self.n_ctx // (self.n_ctx + self.n_ctx_reading)


# -- the bytes of each part -------------------------------------------------------------------------------------------


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
    machine: Machine,
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
    layouts of weights are not made.
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
    repacked = sum(size for kind, size in weights.repacked.items() if kind in machine.repacks)
    repacked += weights.embedding if weights.tied_type in machine.repacks else 0
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


# -- the choice -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """One way to open the model; `layers` on the devices, -1 for as many as they take, `shares` of them for each."""

    quant: str
    window: int
    kv: str
    layers: int
    shares: tuple[float, ...] = ()


def plan(model: Model, machine: Machine, wishes: Wishes = Wishes()) -> Plan:
    """The first way that fits, in the order of what is given up last: place, window, KV type."""
    tried: Plan | None = None
    for choice in _placed(_choices(model, machine, wishes), machine, wishes):
        tried = _laid_out(model, machine, wishes, choice)
        if tried is not None and _fits(tried, machine):
            return replace(tried, given_up=_given_up(tried, machine, wishes, model.shape))
    if tried is None:
        tried = _laid_out(model, replace(machine, gpus=()), wishes, _smallest(model, wishes))
        assert tried is not None
    return replace(tried, fits=False, given_up=(_too_much(tried, machine),))


def _choices(model: Model, machine: Machine, wishes: Wishes) -> Iterator[_Choice]:
    ways, most = list(_windows(wishes, model.shape)), _most(wishes, model.shape)
    usual = _usual(model, wishes)
    everything = model.shape.layers + 1
    if machine.gpu and wishes.gpu_layers != 0:
        if wishes.gpu_layers in (None, -1) or (wishes.gpu_layers or 0) > model.shape.layers:
            for quant in _best_first(model, wishes):
                yield from (_Choice(quant, window, kv, everything) for window, kv in ways if window == most)
            yield from (_Choice(usual, window, kv, everything) for window, kv in ways if window >= 32_768)
        if wishes.gpu_layers != -1:
            asked = -1 if wishes.gpu_layers is None else wishes.gpu_layers
            yield from (_Choice(usual, window, kv, asked) for window, kv in ways)
        if wishes.gpu_layers is not None:
            return
    for quant in dict.fromkeys([usual, min(model.weights, key=lambda name: model.weights[name].total)]):
        yield from (_Choice(quant, window, kv, 0) for window, kv in ways)


def _placed(choices: Iterator[_Choice], machine: Machine, wishes: Wishes) -> Iterator[_Choice]:
    """The same with the cards that get layers: the best one alone before all of them, if it takes what is wanted."""
    ways = _ways(machine, wishes)
    for choice in choices:
        if choice.layers == 0:
            yield choice
            continue
        mixed = wishes.flash and choice.kv in machine.unmixable
        kv = str(KvTypes.of(choice.kv).equal) if mixed else choice.kv
        for shares in ways[-1:] if choice.layers < 0 else ways:
            yield replace(choice, kv=kv, shares=shares)


def _ways(machine: Machine, wishes: Wishes) -> list[tuple[float, ...]]:
    """The shares of the cards, in the order in which they are tried."""
    gpus = machine.gpus
    if wishes.tensor_split:
        return [(*wishes.tensor_split, *[0.0] * len(gpus))[: len(gpus)]]
    if machine.gpu is None:
        return []
    first = gpus.index(machine.gpu) if wishes.main_gpu is None else wishes.main_gpu
    alone = tuple(float(number == first) for number in range(len(gpus)))
    if len(gpus) == 1 or wishes.main_gpu is not None or machine.gpu.unified:
        return [alone]
    return [alone, tuple(float(gpu.free // MIB) for gpu in gpus)]


def _windows(wishes: Wishes, shape: Shape) -> Iterator[tuple[int, str]]:
    """Windows and KV types in the order in which they are given up: f16 first, q4_0 and short windows last."""
    most = _most(wishes, shape)
    smaller, last = ("q8_0", "q4_0") if wishes.flash else ("q8_0,f16", "q4_0,f16")
    kinds = [str(KvTypes.of(wishes.kv_type))] if wishes.kv_type else ["f16", smaller]
    if wishes.n_ctx:
        yield from ((most, kind) for kind in (kinds if wishes.kv_type else [*kinds, last]))
        return
    yield from ((most, kind) for kind in kinds)
    yield from ((window, kinds[-1]) for window in WINDOWS if window < most)
    if not wishes.kv_type:
        yield (min(LEAST_WINDOW, most), last)
    for window in SMALL_WINDOWS:
        if window < most:
            yield (window, kinds[-1])
    if not wishes.kv_type:
        yield (min(SMALL_WINDOWS[-1], most), last)


def _most(wishes: Wishes, shape: Shape) -> int:
    """The window to begin from: the one asked for, else the usual one as far as the model was trained."""
    return wishes.n_ctx or min(wishes.n_ctx_most, shape.n_ctx_train or wishes.n_ctx_most)


def _usual(model: Model, wishes: Wishes) -> str:
    for quant in (wishes.quant, wishes.quant_usual):
        if quant in model.weights:
            return str(quant)
    return min(model.weights, key=lambda name: abs(model.weights[name].total - 2_500_000_000))


def _best_first(model: Model, wishes: Wishes) -> list[str]:
    """On a device, where reading weights costs little, the heavier quantizations first, down to the usual one."""
    usual = _usual(model, wishes)
    if wishes.quant:
        return [usual]
    heavier = [quant for quant in ("Q8_0", "Q6_K", "Q5_K_M") if quant in model.weights]
    return [*(quant for quant in heavier if model.weights[quant].total > model.weights[usual].total), usual]


def _smallest(model: Model, wishes: Wishes) -> _Choice:
    window, kv = list(_windows(wishes, model.shape))[-1]
    return _Choice(_usual(model, wishes), window, kv, 0)


def _reading(window: int, wishes: Wishes) -> int:
    """The page-reading window beside a conversation of this length: half where memory is short, at most a quarter."""
    return min(wishes.reading, 4_096 if window < 65_536 else wishes.reading, window // 4)


def _laid_out(model: Model, machine: Machine, wishes: Wishes, choice: _Choice) -> Plan | None:
    """The plan of a choice; None where not one layer finds room on the device."""
    reading = _reading(choice.window, wishes)
    if choice.layers < 0:
        choice = replace(choice, layers=_layers_that_fit(model, machine, choice, reading, wishes.flash))
        if not choice.layers:
            return None
    ram, cards = _memory(model, machine, choice, reading, wishes.flash)
    several, used = len(machine.gpus) > 1 and choice.layers > 0, [i for i, share in enumerate(choice.shares) if share]
    return Plan(
        model.name,
        choice.quant,
        choice.window,
        reading,
        choice.kv,
        choice.layers,
        model.shape.layers,
        wishes.threads or machine.cores,
        ram,
        sum(cards, Memory()),
        main_gpu=used[0] if several and len(used) == 1 else None,
        tensor_split=choice.shares if several and len(used) > 1 else (),
        cards=cards,
    )


def _memory(
    model: Model, machine: Machine, choice: _Choice, reading: int, flash: bool
) -> tuple[Memory, tuple[Memory, ...]]:
    cells, kv = choice.window + reading, KvTypes.of(choice.kv)
    pair, sequences = (kv.k, kv.v), 2 if reading else 1
    cards = sum(share > 0 for share in choice.shares)
    ram, _ = memory(model, choice.quant, machine, cells, pair, choice.layers, sequences, flash=flash, cards=cards)
    if not choice.layers:
        return ram, ()
    return ram, on_cards(model, choice.quant, cells, pair, choice.layers, choice.shares, flash=flash)


def _layers_that_fit(model: Model, machine: Machine, choice: _Choice, reading: int, flash: bool) -> int:
    for layers in range(model.shape.layers + 1, 1, -1):
        _, cards = _memory(model, machine, replace(choice, layers=layers), reading, flash)
        if _short(cards, machine) is None:
            return layers
    return 0


def _short(cards: Sequence[Memory], machine: Machine) -> int | None:
    """The first card that is to hold more than it has free."""
    pairs = enumerate(zip(cards, machine.gpus, strict=False))
    return next((number for number, (held, gpu) in pairs if held.needed > gpu.free), None)


def _fits(tried: Plan, machine: Machine) -> bool:
    gpu = machine.gpu
    if gpu is not None and gpu.unified and tried.gpu_layers:
        return tried.gpu.needed <= gpu.free and tried.gpu.needed + tried.ram.needed <= machine.ram_free + GIB // 2
    return tried.ram.needed <= machine.ram_free and _short(tried.cards, machine) is None


# -- what is said -----------------------------------------------------------------------------------------------------


def _given_up(chosen: Plan, machine: Machine, wishes: Wishes, shape: Shape) -> tuple[str, ...]:
    lines, wanted = [], _most(wishes, shape)
    if chosen.n_ctx < wanted:
        lines.append(f"window: {chosen.n_ctx:,} of {wanted:,} tokens, the largest that fits {_free(machine)}")
    if chosen.n_ctx < LEAST_WINDOW <= max(wanted, shape.n_ctx_train):  # said also to whoever asks for so little
        lines.append(
            f"under {LEAST_WINDOW:,} tokens most questions cannot be finished: published runs took 19,674 to 130,235"
        )
    lines += _kv_given_up(chosen, wishes)
    if 0 < chosen.gpu_layers <= chosen.layers and wishes.gpu_layers is None:
        lines.append(f"{chosen.gpu_layers} of {chosen.layers + 1} layers on the GPU; the CPU computes the others")
    if machine.gpu and not chosen.gpu_layers and wishes.gpu_layers is None:
        lines.append("the GPU: not one layer finds room on it")
    if 0 < chosen.n_ctx_reading < min(wishes.reading, wanted // 4):
        lines.append(f"pages are read in windows of {chosen.n_ctx_reading:,} tokens, not {wishes.reading:,}")
    return tuple(lines)


def _kv_given_up(chosen: Plan, wishes: Wishes) -> Iterator[str]:
    asked, kv = wishes.kv_type and KvTypes.of(wishes.kv_type), KvTypes.of(chosen.kv_type)
    if asked and asked != kv:
        yield f"KV at {kv} for both, not {asked}: the GPU has no fast way to compute with K and V of different types"
    if not asked and kv.k == "q8_0":
        slow = kv.v == "q8_0" and chosen.gpu_layers <= chosen.layers
        yield f"KV at {kv}, not f16" + (f": the CPU reads prompts {_slower('q8_0')}% slower" if slow else "")
    if "q4_0" in (kv.k, kv.v):
        yield f"KV at {kv}: tool calls come out wrong more often than at q8_0"


def _slower(kv: str) -> int:
    return round(100 * (1 - KV_SPEED[kv][0]))


def _free(machine: Machine) -> str:
    gpu = machine.gpu
    beside = f" and {gpu.free / GIB:.1f} GiB on {gpu.name}" if gpu else ""
    if gpu and len(machine.gpus) > 1 and not gpu.unified:
        beside = (
            f" and {' and '.join(f'{card.free / GIB:.1f}' for card in machine.gpus)} GiB on {len(machine.gpus)} cards"
        )
    return f"into {machine.ram_free / GIB:.1f} GiB of free memory{beside}"


def _too_much(tried: Plan, machine: Machine) -> str:
    """The one line for what does not fit: the window, what it takes, what is free, the remedies."""
    short = _short(tried.cards, machine)
    place, need, free = "memory", tried.ram, machine.ram_free
    if short is not None:
        place = "the GPU" if len(machine.gpus) == 1 else f"card {short}"
        need, free = tried.cards[short], machine.gpus[short].free
    remedies = ["a smaller --context"]
    if tried.kv_type == "f16":
        remedies.append("--kv-type q8_0")
    if short is not None:
        remedies.append("fewer --gpu-layers")
    return (
        f"a window of {tried.n_ctx:,} tokens takes {need.needed / GIB:.1f} GiB of {place} "
        f"({need.weights / GIB:.1f} weights, {need.kv / GIB:.1f} KV at {tried.kv_type}, "
        f"{(need.compute + need.output + need.process) / GIB:.1f} beside them), {free / GIB:.1f} are free: "
        f"give {' or '.join(remedies)}, or close other programs"
    )


# -- machines that are described --------------------------------------------------------------------------------------


def described(memory: int, *gpu_memory: int, cores: int = 4, unified: bool = False) -> Machine:
    """A machine by its total memory and that of its cards: 3 GiB or a fifth stay with the system and open programs,
    0.75 GiB or a twentieth of a card."""
    free = max(0, memory - max(3 * GIB, memory // 5))
    if unified:  # Metal may take two thirds, three quarters from 36 GiB on
        limit = memory * 3 // 4 if memory >= 36 * GIB else memory * 2 // 3
        gpus: tuple[Gpu, ...] = (Gpu("unified memory", limit, min(limit, free), True),)
    else:
        gpus = tuple(
            Gpu(f"a {size / GIB:.0f} GB card", size, max(0, size - max(3 * GIB // 4, size // 20)))
            for size in gpu_memory
            if size
        )
    return Machine(memory, free, cores, gpus)


LADDER: tuple[tuple[str, Machine], ...] = (
    ("8 GB laptop", described(8 * GIB)),
    ("16 GB laptop", described(16 * GIB)),
    ("24 GB laptop", described(24 * GIB)),
    ("32 GB laptop", described(32 * GIB)),
    ("16 GB Apple", described(16 * GIB, unified=True)),
    ("6 GB card", described(16 * GIB, 6 * GIB)),
    ("8 GB card", described(16 * GIB, 8 * GIB)),
    ("12 GB card", described(32 * GIB, 12 * GIB)),
    ("24 GB card", described(32 * GIB, 24 * GIB)),
)


def ladder(model: Model | None = None) -> str:
    """The table of what usual machines get, in Markdown, as README shows it."""
    rows = ["| machine | file | window | KV | on the GPU | RAM | GPU |", "|---|---|--:|---|--:|--:|--:|"]
    for name, machine in LADDER:
        chosen = plan(model or known("DR-Venus 4B"), machine)
        there = f"{chosen.gpu_layers} of {chosen.layers + 1}" if chosen.gpu_layers else "-"
        gpu = f"{chosen.gpu.needed / GIB:.1f}" if chosen.gpu_layers else "-"
        ram = f"{chosen.ram.needed / GIB:.1f}"
        rows.append(f"| {name} | {chosen.quant} | {chosen.n_ctx:,} | {chosen.kv_type} | {there} | {ram} | {gpu} |")
    return "\n".join(rows)
