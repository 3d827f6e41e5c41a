"""WHAT GOES TO A GPU: decided before a model is loaded, and read back afterwards. Pure: nothing is probed here.

In: what was asked for, the build and the cards that llama.cpp tells of; later the lines that llama.cpp wrote. Out:
layers, cards and KV types, with a line for each thing that comes otherwise than asked; then the place of weights, KV
cache and work buffers as llama.cpp reports it. How many layers find room is the planner's to say (`fit.planner`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from venus_edge.engine.options import EngineOptions, check_cards
from venus_edge.errors import UsageError
from venus_edge.values import KvTypes

MIB = 1024**2
_CUDA = ("CUDA", "ROCm", "MUSA")  # what is built of ggml-cuda, by the name of its backend
_NO_CARDS = ("CPU", "BLAS", "RPC")  # backends that are there without a card of this machine
_WHEELS = {"CUDA": "cu124", "METAL": "metal", "VULKAN": "vulkan"}  # indexes of llama-cpp-python's ready wheels
_WHEEL_INDEX = "https://abetlen.github.io/llama-cpp-python/whl"
_ABLE = {  # build option -> the backends that can use such a GPU; Vulkan reaches those of all makers but Apple's
    "CUDA": {"CUDA", "Vulkan"},
    "VULKAN": {"Vulkan", "ROCm", "SYCL"},
    "METAL": {"MTL"},
}
_INSTALL = "pip install --force-reinstall --no-cache-dir llama-cpp-python"


@dataclass(frozen=True, slots=True)
class Card:
    """A device that llama.cpp would give layers to. `name` and `backend` are llama.cpp's (CUDA0, CUDA)."""

    name: str
    backend: str
    description: str
    total: int = 0
    free: int = 0
    integrated: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """What the installed llama.cpp can reach: names of its backends, its cards in the order of their numbers, and what
    it says of itself (llama_print_system_info)."""

    backends: tuple[str, ...]
    cards: tuple[Card, ...] = ()
    info: str = ""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that a machine has a GPU: its maker, and the option of llama.cpp's build that would use it."""

    maker: str
    option: str


@dataclass(frozen=True, slots=True)
class Decision:
    """How the model is opened. `gpu_layers` -1: all. `notes` are lines for the person."""

    gpu_layers: int
    main_gpu: int | None
    tensor_split: tuple[float, ...]
    kv: KvTypes
    notes: tuple[str, ...] = ()


# -- before -----------------------------------------------------------------------------------------------------------


def decide(asked: EngineOptions, build: Build, sign: Sign | None, system: str) -> Decision:
    """What of the wishes this build and its cards can do. Raises UsageError for a card that is not there.

    Without a word all layers go to the cards; without cards the CPU computes, and whoever asked for one is told why.
    """
    check_cards(asked.n_gpu_layers, asked.main_gpu, asked.tensor_split)
    kv = KvTypes(asked.type_k, asked.values_type)
    wanted = bool(asked.n_gpu_layers) or asked.main_gpu is not None or bool(asked.tensor_split)
    if not build.cards:
        return Decision(0, None, (), kv, (lacking(build, sign, system),) if wanted else ())
    check_present(asked.main_gpu, asked.tensor_split, [card.description for card in build.cards])
    if asked.n_gpu_layers == 0:
        return Decision(0, None, (), kv, tuple(_idle(asked)))
    layers = -1 if asked.n_gpu_layers is None else asked.n_gpu_layers
    used = chosen_cards(build.cards, asked.main_gpu, asked.tensor_split)
    if mixes(used, build.info, kv, asked.flash_attention):
        return Decision(layers, asked.main_gpu, asked.tensor_split, kv)
    return Decision(layers, asked.main_gpu, asked.tensor_split, kv.equal, (unmixed(kv),))


def check_present(main_gpu: int | None, tensor_split: Sequence[float], cards: Sequence[str]) -> None:
    """Raises UsageError for a card beyond those that there are. No cards at all are a matter of the build."""
    if not cards:
        return
    there = ", ".join(f"{number}: {name}" for number, name in enumerate(cards))
    if main_gpu is not None and main_gpu >= len(cards):
        raise UsageError(f"--main-gpu {main_gpu} is not there; llama.cpp finds {there}")
    if len(tensor_split) > len(cards):
        raise UsageError(f"--tensor-split names {len(tensor_split)} cards; llama.cpp finds {there}")


def _idle(asked: EngineOptions) -> Iterator[str]:
    if asked.main_gpu is not None or asked.tensor_split:
        flag = "--tensor-split" if asked.tensor_split else "--main-gpu"
        yield f"{flag} changes nothing: no layer goes to a GPU"


def chosen_cards(cards: Sequence[Card], main_gpu: int | None, tensor_split: Sequence[float]) -> tuple[Card, ...]:
    """The cards that get layers."""
    if main_gpu is not None:
        return (cards[main_gpu],)
    if tensor_split:
        return tuple(card for card, share in zip(cards, tensor_split, strict=False) if share)
    return tuple(cards)


def mixes(cards: Sequence[Card], info: str, kv: KvTypes, flash: bool | None) -> bool:
    """Whether these cards compute with these types of K and V as they are.

    Metal's flash attention refuses two types. That of CUDA has kernels for the pairs it was built with (FA_QUANTS,
    equal ones by default) and turns all others to f16 in each step. Vulkan takes any. Without flash attention all do.
    """
    if kv.k == kv.v or flash is False:
        return True
    backends = {card.backend for card in cards}
    if "MTL" in backends:
        return False
    return not backends.intersection(_CUDA) or bool({"all", f"{kv.k}-{kv.v}"} & _pairs(info))


def _pairs(info: str) -> set[str]:
    """The pairs of KV types that llama.cpp says its CUDA kernels were built for; {"all"} for every one."""
    if "FA_ALL_QUANTS = 1" in info:  # its older name
        return {"all"}
    found = re.search(r"FA_QUANTS = ([^|]*)", info)
    return set(re.findall(r"[\w-]+", found[1].lower())) if found else set()


def unmixed(kv: KvTypes) -> str:
    """The line for two types that a card does not take together."""
    return f"KV at {kv.equal} for both, not {kv}: the GPU has no fast way to compute with K and V of different types"


def lacking(build: Build, sign: Sign | None, system: str) -> str:
    """The line for a GPU that was asked for and cannot be had, with the command that gets it."""
    able = [name for name in build.backends if name not in _NO_CARDS]
    if sign is not None and not can_use(build, sign):
        return (
            f"this build of llama-cpp-python cannot use the {sign.maker} GPU, so the CPU computes; for one that can: "
            f"{install(sign.option, system)}"
        )
    if able:
        return f"llama.cpp finds no GPU for {' or '.join(able)}, so the CPU computes: check its driver"
    other = "" if system == "darwin" else "; for an AMD or Intel card -DGGML_VULKAN=on in its place"
    return (
        "this build of llama-cpp-python has no GPU support, so the CPU computes; for a GPU: "
        f"{install('METAL' if system == 'darwin' else 'CUDA', system)}{other}"
    )


def unused(build: Build, sign: Sign | None, system: str) -> str:
    """The line for a GPU of which there is a sign and that nobody spoke of: "" where this build could use it."""
    return lacking(build, sign, system) if sign is not None and not can_use(build, sign) else ""


def can_use(build: Build, sign: Sign) -> bool:
    """Whether the build has a backend for such a GPU."""
    return not _ABLE[sign.option].isdisjoint(build.backends)


def install(option: str, system: str) -> str:
    """The exact command that gets a build with GPU support, from source, and from the index of ready wheels. `system`
    is Python's sys.platform."""
    flag = f"-DGGML_{option}=on"
    source = f'$env:CMAKE_ARGS="{flag}"; {_INSTALL}' if system == "win32" else f'CMAKE_ARGS="{flag}" {_INSTALL}'
    return f"{source} (or a ready wheel: {_INSTALL} --extra-index-url {_WHEEL_INDEX}/{_WHEELS[option]})"


# -- where it does not fit --------------------------------------------------------------------------------------------


def short_of_memory(complaints: Sequence[str]) -> bool:
    """Whether llama.cpp failed for want of memory, and not for a file or an option."""
    return any(re.search(r"allocat|out ?of ?(device|host)? ?memory", line, re.IGNORECASE) for line in complaints)


def fewer(layers: int) -> tuple[int, ...]:
    """How many layers are tried after so many did not fit: three quarters, half, a quarter, none."""
    return tuple(dict.fromkeys(layers * quarters // 4 for quarters in (3, 2, 1, 0))) if layers > 0 else ()


def less(tried: int, now: int, reason: str) -> str:
    """The line for layers that found no room."""
    left = f"{now} are on it and the CPU computes the others" if now else "the CPU computes"
    return f"the GPU has no room for {tried} layers ({reason or 'llama.cpp gives no reason'}), so {left}"


# -- afterwards -------------------------------------------------------------------------------------------------------

_BUFFER = re.compile(r"(\S+) +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")
_LAYER = re.compile(r"layer +(\d+) assigned to device (\S+?),")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_DEVICE = re.compile(r"using device (\S+) \((.*?)\) \([^()]*\) - ")
_FLASH = re.compile(r"flash_attn += (\w+)|Flash Attention (enabled|not supported)")
_KEPT = re.compile("|".join(pattern.pattern for pattern in (_BUFFER, _LAYER, _OFFLOADED, _DEVICE, _FLASH)))
_KINDS = {"model": "weights", "KV": "KV", "RS": "KV", "compute": "work", "output": "work"}


def tells(line: str) -> bool:
    """Whether a line of llama.cpp's log says where something went."""
    return _KEPT.search(line) is not None


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes in one place: `device` is a card's name or "" for the machine's memory; `kind` weights, KV or work."""

    device: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model really is. `layers` counts them, the output as one, by card; `flash` None: it was not said."""

    total_layers: int
    layers: tuple[tuple[str, int], ...] = ()
    buffers: tuple[Buffer, ...] = ()
    flash: bool | None = None
    cards: tuple[tuple[str, str], ...] = ()

    @property
    def offloaded(self) -> int:
        return sum(count for _, count in self.layers)

    def size(self, device: str, kind: str | None = None) -> int:
        """Bytes on a card ("" for memory), all or of one kind."""
        return sum(part.size for part in self.buffers if part.device == device and kind in (None, part.kind))

    def lines(self) -> tuple[str, ...]:
        """A line for each card and one for memory, as a person reads them."""
        told = dict(self.cards)
        return (
            *(
                f"{count} of {self.total_layers} layers on {name}{f' ({told[name]})' if told.get(name) else ''}: "
                f"{self._parts(name)}"
                for name, count in self.layers
            ),
            f"{'in memory' if self.layers else 'all layers on the CPU'}: {self._parts('')}",
        )

    def _parts(self, device: str) -> str:
        sizes = ((kind, self.size(device, kind)) for kind in ("weights", "KV", "work"))
        return ", ".join(f"{kind} {_written(size)}" for kind, size in sizes if size) or "nothing"


def _written(size: int) -> str:
    return f"{size / MIB / 1024:.2f} GiB" if size >= 1024 * MIB else f"{size / MIB:.1f} MiB"


def placement(lines: Sequence[str]) -> Placement:
    """What llama.cpp's lines say, from loading a model and making its context; a later word outweighs an earlier."""
    text = "\n".join(lines)
    assigned = {int(number): device for number, device in _LAYER.findall(text)}
    counts = Counter(device for device in assigned.values() if device != "CPU")
    if not assigned and (said := _OFFLOADED.search(text)):  # the lines of layers are llama.cpp's debug output
        counts, total = Counter({"GPU": int(said[1])}) if int(said[1]) else Counter(), int(said[2])
    else:
        total = len(assigned)
    devices = _DEVICE.findall(text)
    names = [name for name, _ in devices] or list(counts)
    buffers = (
        Buffer(_card(name, names), _KINDS[kind], round(float(size) * MIB)) for name, kind, size in _BUFFER.findall(text)
    )
    return Placement(total, tuple(counts.items()), tuple(buffers), _flash(text), tuple(devices))


def _card(buffer: str, cards: Sequence[str]) -> str:
    """The card of a buffer: Metal says MTL0_Private and MTL0_Mapped, a host's pinned memory is CUDA_Host."""
    return next((card for card in cards if buffer == card or buffer.startswith(f"{card}_")), "")


def _flash(text: str) -> bool | None:
    """Whether flash attention is on: what was set, and for auto what llama.cpp found."""
    said = [first or second for first, second in _FLASH.findall(text)]
    known = [word == "enabled" for word in said if word != "auto"]
    return known[-1] if known else None
