"""MODEL + MACHINE + WISHES -> PLAN. Pure arithmetic: nothing is opened, probed or measured here.

In: what a model file weighs and how it is built, what a machine has free, what a person asked for. Out: the window, KV
type, GPU layers, batches and threads to open it with, the bytes of each part (sizes.py), and what was given up for what
reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from venus_edge.fit.sizes import BATCH, GIB, MIB, Memory, Model, Shape, known, memory, on_cards
from venus_edge.values import KvTypes

WINDOWS = (131_072, 98_304, 65_536, 49_152, 32_768, 24_576, 16_384)  # tried in turn
LEAST_WINDOW = 16_384  # the shortest released run took 19,674 tokens (PROTOCOL section 6)
SMALL_WINDOWS = (8_192, 4_096)  # when nothing else fits, and said

# Prefill of 1,024 tokens and decode after it, tokens/s on a 2-core CPU, against f16 (ENGINE.md).
KV_SPEED = {"f16": (1.0, 1.0), "q8_0": (0.65, 0.90), "q4_0": (0.65, 0.90)}


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

    `gpus` are in the order in which llama.cpp counts them. `repacks` are the tensor types that its CPU rewrites;
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
    ram, _ = memory(
        model, choice.quant, machine.repacks, cells, pair, choice.layers, sequences, flash=flash, cards=cards
    )
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
