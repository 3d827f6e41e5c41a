"""SETTINGS -> THE MODEL, OPEN: its entry in the registry, how this machine opens its file, or the server that has it.

In: Settings. Out: the entry with the settings laid over it, a Plan, EngineOptions, an engine. What cannot be meant, or
is not on this machine, is refused before anything is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, cast

from venus_edge import registry
from venus_edge.engine import Engine
from venus_edge.errors import EngineError, ModelError, UsageError
from venus_edge.fit import planner, speed
from venus_edge.fit.planner import Machine, Plan, Wishes
from venus_edge.fit.speed import Estimate, Speed
from venus_edge.protocol import prompt, rendering
from venus_edge.registry import ModelSpec
from venus_edge.settings import Settings
from venus_edge.values import KV_NAMES, DialectName, KvTypes

if TYPE_CHECKING:
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.engine.options import EngineOptions
    from venus_edge.engine.remote import RemoteEngine
    from venus_edge.sources.gate import Gate

Note = Callable[[str], None]

DEFAULT = "dr-venus-4b-rl"
FLASH = {"auto": None, "on": True, "off": False}
READING_WINDOW = 8_192  # tokens of the second sequence, in which the model reads pages,
READING_REST = 2_000  # and those of them that are for the prompt and the reply


def spec_of(settings: Settings) -> ModelSpec:
    """The model's entry, with what the settings say laid over it."""
    specs, name = registry.load(settings.directories.config), settings.model or DEFAULT
    spec = registry.named(name, specs)
    sampling = spec.sampling
    if settings.temperature is not None:
        sampling = replace(sampling, temperature=settings.temperature)
    return replace(
        spec,
        dialect=cast(DialectName, settings.dialect or spec.dialect),
        reader=settings.reader or spec.reader,
        results=settings.results or spec.results,
        sampling=sampling,
    )


def check_engine(spec: ModelSpec, settings: Settings) -> None:
    """Raises UsageError for layers, cards, KV types and flash attention that can be meant together on no machine."""
    from venus_edge.engine.options import EngineOptions
    from venus_edge.engine.options import check as check_options

    kv = _kv_types(spec, settings) or KvTypes("f16", "f16")
    check_options(
        EngineOptions(
            n_gpu_layers=gpu_layers(settings.gpu_layers),
            main_gpu=settings.main_gpu,
            tensor_split=settings.tensor_split,
            type_k=kv.k,
            type_v=kv.v,
            flash_attention=FLASH[settings.flash_attention],
        )
    )


def check_cards(settings: Settings, machine: Machine) -> None:
    """Raises UsageError for a card that was named and is not there."""
    from venus_edge.engine.offload import check_present

    names = [gpu.name for gpu in machine.gpus] if machine.offload else []
    check_present(settings.main_gpu, settings.tensor_split, names)


def check_template(spec: ModelSpec, engine: Engine, today: date) -> None:
    """Raises ModelError if the model's own chat template cannot hold a conversation."""
    try:
        rendering.render(prompt.opening("?", today), engine.chat_template)
    except rendering.TemplateUnusable as error:
        raise ModelError(
            f"{spec.title}: {error}; give a file whose template is that of Qwen3, or convert it again"
        ) from error


def wishes(spec: ModelSpec, settings: Settings, most: int | None = None) -> Wishes:
    """What the settings and the model's entry ask of a plan."""
    return Wishes(
        n_ctx=settings.n_ctx,
        n_ctx_most=most or spec.n_ctx,
        reading=_reading_window(settings) if spec.reader == "model" else 0,
        kv_type=settings.kv_type or spec.kv_type or None,
        gpu_layers=gpu_layers(settings.gpu_layers),
        main_gpu=settings.main_gpu,
        tensor_split=settings.tensor_split,
        flash=FLASH[settings.flash_attention] is not False,
        threads=settings.threads,
        quant_usual=spec.quant,
    )


def plan(path: Path, spec: ModelSpec, settings: Settings, most: int | None = None) -> tuple[Plan, Machine]:
    """How this machine would open a model file now, with a window of at most `most`. Raises ModelError, EngineError."""
    from venus_edge.engine.options import EngineOptions, check_window
    from venus_edge.fit import header, machine

    model, probed = header.model(header.read(path)), machine.probe()
    if settings.n_ctx:
        check_window(EngineOptions(n_ctx=settings.n_ctx), model.shape.n_ctx_train)
    check_cards(settings, probed)
    return planner.plan(model, probed, wishes(spec, settings, most)), probed


def options(chosen: Plan, settings: Settings) -> EngineOptions:
    """A plan as the engine takes it. Layers that were asked for stay asked for: without a device the engine says so."""
    from venus_edge.engine.options import EngineOptions

    asked, kv = gpu_layers(settings.gpu_layers), KvTypes.of(chosen.kv_type)
    return EngineOptions(
        n_ctx=chosen.n_ctx,
        n_ctx_reading=chosen.n_ctx_reading,
        n_batch=chosen.n_batch,
        n_ubatch=chosen.n_ubatch,
        n_threads=settings.threads,
        n_threads_batch=settings.threads,
        steady=settings.seed is not None,
        n_gpu_layers=chosen.gpu_layers if asked is None else asked,
        main_gpu=settings.main_gpu if chosen.main_gpu is None else chosen.main_gpu,
        tensor_split=chosen.tensor_split or settings.tensor_split,
        type_k=kv.k,
        type_v=kv.v,
        flash_attention=FLASH[settings.flash_attention],
    )


def opened(path: Path, spec: ModelSpec, settings: Settings, note: Note) -> tuple[LlamaEngine, str]:
    """The model, opened as planned; where llama.cpp finds less memory than the plan, with the next smaller window. And
    what its speed is kept under."""
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.fit import card, header

    for line in card.warnings(header.read(path)):
        note(line)

    def planned(most: int) -> Plan:
        return plan(path, spec, settings, most)[0]

    def tried(chosen: Plan) -> LlamaEngine:
        return LlamaEngine(path, options(chosen, settings))

    chosen, engine = _first_that_opens(planned, tried, spec.n_ctx, settings.n_ctx is not None)
    unused = unused_gpu(settings, chosen)
    for line in (
        *chosen.given_up,
        *([unused] if unused and unused not in engine.notes else ()),
        *engine.notes,
        *(engine.placement.lines() if engine.placement.layers else ()),
    ):
        note(line)
    return engine, speed.key(path, chosen)


def _first_that_opens(
    planned: Callable[[int], Plan], opened: Callable[[Plan], LlamaEngine], most: int, asked: bool
) -> tuple[Plan, LlamaEngine]:
    """The first plan that opens. Raises EngineError if none does, or where a window was asked for and does not fit."""
    while True:
        chosen = planned(most)
        if not chosen.fits:
            raise EngineError(chosen.given_up[0])
        try:
            return chosen, opened(chosen)
        except EngineError:
            smaller = [window for window in planner.WINDOWS if window < chosen.n_ctx]
            if asked or not smaller:
                raise
            most = smaller[0]


def server(settings: Settings, gates: list[Gate], note: Note, once: bool = False) -> RemoteEngine:
    """The model on a server. The gate lets the engine reach that host and port and nothing else; offline, only a server
    on this machine. `once`: one that is not there is not asked again."""
    from venus_edge.engine.remote import RemoteEngine
    from venus_edge.engine.wire import Patience, host_of, place
    from venus_edge.sources.gate import Gate, Policy
    from venus_edge.sources.modelserver import ModelClient

    offline = settings.offline and place(settings.engine) != "this machine"
    gate = Gate(Policy(offline, (host_of(settings.engine),)))
    gates.append(gate)
    patience = Patience(pauses=()) if once else Patience()
    engine = RemoteEngine(settings.engine, ModelClient(gate), key=settings.engine_key, patience=patience)
    for line in engine.notes:
        note(line)
    return engine


def identity(spec: ModelSpec, settings: Settings, path: Path | None) -> str:
    """What tells one model from another: the file as it is, or the server and the name."""
    if path is None:
        return f"{settings.engine} {spec.name}"
    stat = path.stat()
    return f"{path.name} {stat.st_size} {stat.st_mtime_ns}"


def unused_gpu(settings: Settings, chosen: Plan) -> str:
    """The line for a GPU that the plan does not use and could with another build of llama.cpp, or that was asked for
    and is not there; "" for none."""
    from venus_edge.engine import devices, offload

    if chosen.gpu_layers or settings.gpu_layers == "0":
        return ""
    build, sign = devices.build(), devices.sign()
    if build.cards:
        return ""
    asked = settings.gpu_layers != "auto" or settings.main_gpu is not None or bool(settings.tensor_split)
    return (offload.lacking if asked else offload.unused)(build, sign, sys.platform)


def estimate(found: Speed, spec: ModelSpec, n_ctx: int) -> Estimate | None:
    """How long a run of the model takes at a speed; None where its runs are not of the kind of the released ones."""
    return speed.estimate(found, spec.dialect, spec.reader == "model", n_ctx) if runs_long(spec) else None


def runs_long(spec: ModelSpec) -> bool:
    return spec.n_ctx_train >= planner.LEAST_WINDOW


def gpu_layers(text: str) -> int | None:
    """None for auto, -1 for all."""
    named = {"auto": None, "all": -1}
    if text in named:
        return named[text]
    if text.isascii() and text.isdigit():
        return int(text)
    raise UsageError(f"gpu-layers is auto, all or a number, not {text!r}")


def _kv_types(spec: ModelSpec, settings: Settings) -> KvTypes | None:
    text = settings.kv_type or spec.kv_type
    try:
        return KvTypes.of(text) if text else None
    except ValueError:
        known = ", ".join(KV_NAMES)
        raise UsageError(f"KV type {text!r} is none of {known}, nor two of them for K and V as q8_0,f16") from None


def _reading_window(settings: Settings) -> int:
    """The tokens of the second sequence: so much of a page as was asked for, and room for the prompt and the reply."""
    return READING_WINDOW if settings.read_tokens is None else settings.read_tokens + READING_REST
