"""`venus-edge plan`: what this machine, or one that is described, gets."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from venus_edge.errors import ModelError, UsageError

if TYPE_CHECKING:
    from venus_edge.fit.planner import Machine, Plan
    from venus_edge.fit.sizes import Memory, Model
    from venus_edge.fit.speed import Estimate, Speed
    from venus_edge.registry import ModelSpec
    from venus_edge.settings import Settings


@click.command()
@click.option("-m", "--model", metavar="NAME|FILE", help="A name of `venus-edge models list`, or a .gguf file.")
@click.option("--context", "n_ctx", type=int, metavar="TOKENS", help="Context window wanted.")
@click.option("--kv-type", metavar="TYPE[,TYPE]", help="Type of the KV cache, or of K and of V: f16, q8_0, q4_0.")
@click.option("--gpu-layers", metavar="auto|all|N", help="Layers on the GPU.")
@click.option("--main-gpu", type=int, metavar="N", help="Put them on this card alone, counted from 0.")
@click.option("--tensor-split", metavar="A,B,...", help="Share them between the cards in these proportions.")
@click.option("--flash-attention", type=click.Choice(["auto", "on", "off"]), help="On wherever V is quantized.")
@click.option("--quant", metavar="Q4_K_M|...", help="Quantization, for a model that is not here yet.")
@click.option("--memory", metavar="8G", help="Plan for a machine with this much memory instead of this one.")
@click.option("--gpu-memory", metavar="6G[,6G]", help="... and with a card of this much, or several.")
@click.option("--apple", is_flag=True, help="... whose GPU shares the memory, as Apple's do.")
@click.option("--time", "timed", is_flag=True, help="Measure the speed here: how long does a run take?")
@click.option("--ladder", is_flag=True, help="Print what usual machines get, as a Markdown table.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def plan(
    quant: str | None,
    memory: str | None,
    gpu_memory: str | None,
    apple: bool,
    timed: bool,
    ladder: bool,
    as_json: bool,
    **given: object,
) -> None:
    """Say how a model would be opened: window, KV type, GPU layers, memory; and what is given up for it.

    \b
    venus-edge plan
    venus-edge plan --context 65536 --kv-type q8_0
    venus-edge plan --memory 16G --gpu-memory 8G
    """
    from venus_edge import model
    from venus_edge.config import settings as configured
    from venus_edge.fit import planner
    from venus_edge.settings import check

    if ladder:
        click.echo(planner.ladder())
        return
    here = memory is None and gpu_memory is None and not apple
    if timed and not here:
        raise UsageError("the speed of a machine that is described cannot be measured: give --time alone")
    settings = configured(given)
    check(settings)
    spec = model.spec_of(settings)
    model.check_engine(spec, settings)
    file = _model(spec, settings, quant)
    _check_window(settings.n_ctx, file.shape.n_ctx_train)
    machine = _machine(memory, gpu_memory, apple)
    model.check_cards(settings, machine)
    wishes = model.wishes(spec, settings)
    chosen = planner.plan(file, machine, replace(wishes, quant=quant))
    found = _speed(spec, settings, chosen, timed) if here and chosen.fits else None
    took = None if found is None else model.estimate(found, spec, chosen.n_ctx)
    if as_json:
        click.echo(json.dumps({**_record(chosen, machine), "speed": _fields(found), "estimate": _fields(took)}))
    else:
        unused = model.unused_gpu(settings, chosen) if here and chosen.fits else ""
        click.echo("\n".join((_table(chosen, machine, unused), *_time(found, took, here and chosen.fits))))
    if not chosen.fits:
        raise SystemExit(1)


def _speed(spec: ModelSpec, settings: Settings, chosen: Plan, measured: bool) -> Speed | None:
    """The model's speed here, opened as planned, as it was measured before; by wish it is measured where it never was.
    Raises ModelError for a measurement of a model that is not here."""
    from venus_edge import model, modelfiles
    from venus_edge.fit import speed

    try:
        path = modelfiles.locate(spec, settings.directories.models)
    except ModelError:
        if measured:
            raise
        return None
    if not measured:
        return speed.kept(settings.directories.cache, speed.key(path, chosen))
    small = replace(chosen, n_ctx=min(chosen.n_ctx, 2_048), n_ctx_reading=0)
    return speed.of_model(path, small, model.options(small, settings), settings.directories.cache)


def _time(found: Speed | None, took: Estimate | None, here: bool) -> list[str]:
    if found is None:
        return ["Time      not measured: venus-edge plan --time"] if here else []
    pace = f"reads {found.prefill:.0f} tokens/s, writes {found.decode:.1f}"
    return [f"Time      {pace}" if took is None else f"Time      a run takes {took} ({pace})"]


def _fields(value: Speed | Estimate | None) -> dict[str, float] | None:
    return None if value is None else asdict(value)


def _check_window(asked: int | None, trained: int) -> None:
    if asked and 0 < trained < asked:
        raise UsageError(
            f"a window of {asked:,} tokens is beyond the {trained:,} that this model was made for: give --context "
            f"{trained} or less"
        )


def _model(spec: ModelSpec, settings: Settings, quant: str | None) -> Model:
    """The model by its file's header, or by its geometry where it is not here yet."""
    from venus_edge import modelfiles
    from venus_edge.fit import header, sizes

    try:
        path = modelfiles.locate(spec, settings.directories.models, quant)
    except ModelError:
        if spec.file:
            raise
    else:
        read = header.read(path)
        if quant is None or quant in (read.quant, modelfiles.quant_of(path.name)):
            return header.model(read)
        if spec.file:
            raise UsageError(f"{path} is {read.quant}, not {quant}: leave --quant out, or plan for a --model by name")
    model = sizes.known(spec.name, quants=[quant] if quant else sizes.QUANTS)
    if not model.weights:
        raise UsageError(f"the size of a model at {quant} is not known; known: {', '.join(sizes.KNOWN_QUANTS)}")
    return model


def _machine(memory: str | None, gpu_memory: str | None, apple: bool) -> Machine:
    from venus_edge.fit import planner

    if memory is None and gpu_memory is None and not apple:
        from venus_edge.fit import machine

        return machine.probe()
    if apple and gpu_memory:
        raise UsageError("a machine with --apple has no memory of a card: give --memory alone")
    cards = [size(part) for part in (gpu_memory or "0").split(",")]
    return planner.described(size(memory or "16G"), *cards, unified=apple)


def size(text: str) -> int:
    """Bytes of `8G`, `512M` or a plain number of GiB. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise UsageError(f"{text!r} is not a size; give one as 8G or 512M")
    power = {"K": 1, "M": 2, "": 3, "G": 3, "T": 4}[found[2].upper()]
    return int(float(found[1]) * 1024**power)


# -- as a person reads it ---------------------------------------------------------------------------------------------


def _table(chosen: Plan, machine: Machine, unused: str = "") -> str:
    """`unused` is what to do about a GPU that is not used."""
    gib = 1024**3
    lines = [f"Machine   {_words(machine)}", f"Model     {chosen.model}, {chosen.quant}"]
    if not chosen.fits:
        return "\n".join([*lines, f"Does not fit: {chosen.given_up[0]}"])
    reading = f", and {chosen.n_ctx_reading:,} for reading pages" if chosen.n_ctx_reading else ""
    lines += [
        f"Window    {chosen.n_ctx:,} tokens{reading}",
        f"KV        {chosen.kv_type}",
        f"GPU       {_on_gpu(chosen)}",
        f"Batch     {chosen.n_batch}, {chosen.threads} threads",
        "",
        f"{'GiB':<12}{'memory':>8}{'GPU':>8}",
    ]
    lines += [f"{name:<12}{a / gib:>8.2f}{b / gib:>8.2f}" for name, a, b in _parts(chosen.ram, chosen.gpu)]
    free = f"{_free(chosen, machine) / gib:>8.2f}" if machine.gpu else ""
    lines.append(f"{'free':<12}{machine.ram_free / gib:>8.2f}{free}")
    if chosen.tensor_split:
        pairs = enumerate(zip(chosen.cards, machine.gpus, strict=True))
        lines += [f"card {n:<7}{'':>8}{held.needed / gib:>8.2f} of {gpu.free / gib:.2f}" for n, (held, gpu) in pairs]
    lines += ["", f"A saved conversation of the full window takes {chosen.snapshot / gib:.1f} GiB of disk."]
    if chosen.given_up:
        lines += ["Given up:", *(f"  {line}" for line in chosen.given_up)]
    if unused:
        lines.append(f"Note      {unused}")
    return "\n".join(lines)


def _on_gpu(chosen: Plan) -> str:
    if not chosen.gpu_layers:
        return "none"
    card = "" if chosen.main_gpu is None else f" on card {chosen.main_gpu}"
    cards = f" on {sum(share > 0 for share in chosen.tensor_split)} cards" if chosen.tensor_split else card
    return f"{chosen.gpu_layers} of {chosen.layers + 1} layers{cards}"


def _free(chosen: Plan, machine: Machine) -> int:
    """What is free on the cards that the plan takes, or on the best one."""
    taken = [gpu.free for held, gpu in zip(chosen.cards, machine.gpus, strict=False) if held.needed]
    return sum(taken) or (machine.gpu.free if machine.gpu else 0)


def _parts(ram: Memory, gpu: Memory) -> list[tuple[str, int, int]]:
    names = (("weights", "weights"), ("KV cache", "kv"), ("work", "compute"), ("logits", "output"))
    rows = [(name, getattr(ram, key), getattr(gpu, key)) for name, key in names]
    return [*rows, ("the program", ram.process, 0), ("in all", ram.needed, gpu.needed)]


def _words(machine: Machine) -> str:
    gib = 1024**3
    cards = machine.gpus if machine.gpu else ()
    beside = "".join(f"; {card.name}, {card.total / gib:.1f} GiB" for card in cards)
    beside = beside or "; no GPU that llama.cpp can use"
    memory = f"{machine.ram_total / gib:.1f} GiB of memory, {machine.ram_free / gib:.1f} to be used"
    return f"{memory}; {machine.cores} cores{beside}"


def _record(chosen: Plan, machine: Machine) -> dict[str, object]:
    record = asdict(chosen)
    for place, part in (("ram", chosen.ram), ("gpu", chosen.gpu)):
        record[place] = {**asdict(part), "needed": part.needed}
    free = {"ram": machine.ram_free, "gpu": _free(chosen, machine)}
    return {**record, "snapshot": chosen.snapshot, "free": free}
