"""WHAT IS WRONG HERE, AND WHAT TO DO: one finding a check, from the installation to a turn of the model.

In: settings, and how the network is tried. Out: findings in order. A check that cannot be made says so; none prints a
token, a key or a proxy's password. Only the model's turn takes long (`quick` leaves it out).
"""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from venus_edge import config, demo, hub, model, modelfiles, registry, runtime, world
from venus_edge.engine import devices, offload
from venus_edge.errors import VenusError
from venus_edge.fit import card, header, machine, planner, sizes, speed
from venus_edge.settings import Settings, check
from venus_edge.values import Malformed, Reply

if TYPE_CHECKING:
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.engine.offload import Placement

State = Literal["ok", "warn", "fail", "skip"]
Reach = Callable[[str, Settings, str], str]  # address, settings, host of one's own -> "" if it answers, else why not

PACKAGES = ("llama-cpp-python", "huggingface-hub", "lxml", "httpx2", "click")
REACHED = 10.0  # seconds in which a place has to answer
PAGE = "https://example.org/"  # made for such questions (RFC 2606)
EARLIEST = date(2026, 1, 1)  # before this program was written: a clock that says so is wrong
LATEST = date(2040, 1, 1)
LITTLE = 1_000_000_000  # bytes of disk under which a session or a page cache soon fails
PROBE_WINDOW, PROBE_TOKENS = 8_192, 700
PROBE_QUESTION = "In which year did the tide gauge of Brest begin to record?"
TAG_IDS = {"<tool_call>": 151_657, "</tool_call>": 151_658, "<tool_response>": 151_665, "</tool_response>": 151_666,
           "<think>": 151_667, "</think>": 151_668}  # fmt: skip  # PROTOCOL section 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    name: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the settings that were given, and the world around them."""

    flags: Mapping[str, object] = field(default_factory=dict)
    quick: bool = False
    today: date = field(default_factory=date.today)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    reach: Reach | None = None
    reach_hub: Callable[[], str] | None = None


def examine(patient: Patient) -> Iterator[Finding]:
    """Every finding, as it comes. Settings that cannot be read end it: nothing else could be told."""
    yield from _installation()
    try:
        settings = config.resolve(patient.flags, patient.environment).settings
        check(settings)
        runtime.check_words(settings)
        specs = registry.load(settings.directories.config)
    except VenusError as error:
        yield Finding("settings", "fail", str(error), "correct it; venus-edge config keys lists the keys")
        return
    yield _settings(patient)
    yield from _guarded("directories", lambda: _directories(settings))
    yield from _guarded("disk", lambda: _disk(settings))
    yield clock(patient.today)
    yield from _guarded("llama.cpp", _build)
    yield from _guarded("gpu", lambda: _gpu(settings))
    yield from _model(settings, patient)
    yield from _guarded("corpus", lambda: _corpora(settings))
    yield from _guarded("page cache", lambda: _cache(settings))
    yield from _guarded("hub", lambda: _hub(settings, patient, len(specs)))
    yield from _guarded("search", lambda: _network(settings, patient.reach or reach))


def _guarded(name: str, checks: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; an error of ours is one more."""
    try:
        yield from checks()
    except VenusError as error:
        yield Finding(name, "fail", str(error))
    except OSError as error:
        yield Finding(name, "fail", f"{error.filename or name}: {error.strerror or error}", "correct its rights")


# -- the installation -------------------------------------------------------------------------------------------------


def _installation() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        "python", "ok", f"{python} on {platform.system()} {platform.machine()}, venus-edge {_version('venus-edge')}"
    )
    missing = [name for name in PACKAGES if not _version(name)]
    if missing:
        yield Finding("packages", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield Finding("packages", "ok", ", ".join(f"{name} {_version(name)}" for name in PACKAGES))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _build() -> Iterator[Finding]:
    made = machine.build()
    slow = platform.machine().lower() in ("x86_64", "amd64") and "AVX2" not in made.features
    beside = [name for name in devices.build().backends if name not in ("CPU", "BLAS", "RPC")]
    offload_ = f"built for {', '.join(beside)}" if beside else "CPU only"
    detail = f"{made.version}, {offload_}, {' '.join(made.features)}"
    if slow:
        remedy = "pip install --force-reinstall --no-cache-dir llama-cpp-python, on this machine"
        yield Finding("llama.cpp", "warn", f"{detail}: built without AVX2, so it is several times slower", remedy)
    else:
        yield Finding("llama.cpp", "ok", detail)


def _gpu(settings: Settings) -> Iterator[Finding]:
    probed, there = machine.probe(), devices.sign()
    if probed.gpu:
        for number, card in enumerate(probed.gpus):
            yield _device(number, card, settings)
    elif there:
        could = offload.can_use(devices.build(), there)
        remedy = "check its driver" if could else offload.install(there.option, sys.platform)
        detail = "this build could use one but finds none" if could else "which this build cannot use"
        yield Finding("gpu", "warn", f"{there.maker} GPU, {detail}", remedy)
    elif settings.gpu_layers not in ("auto", "0"):
        remedy = f"leave it at auto; {offload.lacking(devices.build(), there, sys.platform)}"
        yield Finding("gpu", "warn", f"gpu-layers is {settings.gpu_layers}, and there is none", remedy)
    else:
        yield Finding("gpu", "ok", "none: the CPU computes")


def _device(number: int, device: planner.Gpu, settings: Settings) -> Finding:
    free = f"{device.free / sizes.GIB:.1f} of {device.total / sizes.GIB:.1f} GiB free"
    detail = f"card {number}: {device.name}, {free}"
    if settings.gpu_layers == "0":
        return Finding("gpu", "warn", f"{detail}, not used: gpu-layers is 0", "set gpu-layers to auto")
    return Finding("gpu", "ok", detail)


# -- settings, disk, clock --------------------------------------------------------------------------------------------


def _settings(patient: Patient) -> Finding:
    unknown = config.unknown_variables(patient.environment)
    if unknown:
        return Finding(
            "settings", "warn", f"not known: {', '.join(unknown)}", "venus-edge config keys lists the variables"
        )
    return Finding("settings", "ok", "every key is known (venus-edge config show)")


def _directories(settings: Settings) -> Iterator[Finding]:
    places = settings.directories
    for name, path in (("data", places.data), ("cache", places.cache)):
        nearest = next(parent for parent in (path, *path.parents) if parent.exists())
        if not _is_writable(nearest):
            remedy = f"correct its rights, or set VENUS_{name.upper()}_DIR"
            yield Finding("directories", "fail", f"{path} cannot be written", remedy)
            return
    yield Finding("directories", "ok", f"{places.data}, {places.cache}")


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made there: rights alone do not say it, of a read-only disk or to root."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        return error.errno == errno.ENOSPC  # another finding's matter


def _disk(settings: Settings) -> Iterator[Finding]:
    data, models = machine.disk_free(settings.directories.data), machine.disk_free(modelfiles.hub_cache())
    detail = f"{data / 1e9:.1f} GB free for sessions, {models / 1e9:.1f} GB for models"
    if min(data, models) < LITTLE:
        yield Finding("disk", "fail", detail, "make room: venus-edge cache path, venus-edge models list")
    else:
        yield Finding("disk", "ok", detail)


def clock(today: date) -> Finding:
    """The model is told the date, and pages are kept by it."""
    if EARLIEST <= today <= LATEST:
        return Finding("clock", "ok", today.isoformat())
    return Finding("clock", "fail", f"the clock says {today.isoformat()}", "set the system's date")


# -- the model --------------------------------------------------------------------------------------------------------


def _model(settings: Settings, patient: Patient) -> Iterator[Finding]:
    """The file, whether it fits, and one turn of it; each only if the one before it is sound."""
    if settings.engine:
        yield from _guarded("model", lambda: _server(settings))
        return
    remedy = "venus-edge models list"
    try:
        spec = model.spec_of(settings)
        remedy = f"venus-edge models pull {spec.name}" if spec.gguf_repo else remedy
        path = modelfiles.locate(spec, settings.directories.models)
        found = header.read(path)
    except VenusError as error:
        yield Finding("model", "fail", str(error), remedy)
        return
    warnings = card.warnings(found) if spec.name != demo.MODEL else ()
    detail = f"{path}: {card.lines(found)[0]}"
    yield Finding("model", "warn" if warnings else "ok", "; ".join((detail, *warnings)))
    try:
        planned, _ = model.plan(path, spec, settings)
    except VenusError as error:
        yield Finding("memory", "fail", str(error))
        return
    yield _memory(planned)
    if patient.quick or not planned.fits:
        yield Finding("turn", "skip", "not tried" if planned.fits else "it does not fit")
        return
    yield from _guarded("turn", lambda: _turn(path, planned, settings, patient.today))


def _server(settings: Settings) -> Iterator[Finding]:
    """The server that runs the model: whether it answers, and what it says of itself. Raises EngineError."""
    notes: list[str] = []
    with closing(model.server(settings, [], notes.append, once=True)) as engine:
        told = "; ".join((f"window {engine.n_ctx:,} tokens", *notes))
    yield Finding("model", "ok", f"the server {_without_password(settings.engine)} runs it: {told}")


def _memory(planned: planner.Plan) -> Finding:
    if not planned.fits:
        return Finding("memory", "fail", planned.given_up[0], "venus-edge plan shows each part")
    detail = f"window {planned.n_ctx:,} tokens, KV {planned.kv_type}, {planned.ram.needed / sizes.GIB:.1f} GiB"
    short = planned.n_ctx < planner.LEAST_WINDOW and bool(planned.given_up)
    return Finding("memory", "warn" if short else "ok", "; ".join((detail, *planned.given_up)))


def _turn(path: Path, planned: planner.Plan, settings: Settings, today: date) -> Iterator[Finding]:
    """One greedy turn in a small window: does the model think first, is its call well formed, are the tags its own."""
    from venus_edge.engine.llama import LlamaEngine

    small = replace(planned, n_ctx=min(planned.n_ctx, PROBE_WINDOW), n_ctx_reading=0)
    with closing(LlamaEngine(path, model.options(small, settings))) as engine:
        yield placed(engine.placement, engine.notes, planned.gpu_layers)
        yield tags(engine)
        yield judged(_reply(engine, today))
        pace = speed.of_run(engine.stats, (1, 1))
    if pace is not None:
        yield Finding("speed", "ok", f"reads {pace.prefill:.0f} tokens/s, writes {pace.decode:.1f}")


def _reply(engine: LlamaEngine, today: date) -> Reply:
    from venus_edge.engine import Request, Sampling
    from venus_edge.protocol import parse, prompt, rendering

    ids = engine.tokenize(rendering.render(prompt.opening(PROBE_QUESTION, today), engine.chat_template))
    sampling = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=PROBE_TOKENS)
    generation = engine.generate(Request(ids, sampling, ("<tool_response>",)))
    text = "".join(generation)
    return parse.parse(text, generation.finish or "stop")


def placed(found: Placement, notes: tuple[str, ...], planned: int) -> Finding:
    """Where llama.cpp says that the model is, in the small window of this check."""
    detail = "; ".join((*found.lines(), *notes))
    if found.offloaded < planned:
        return Finding("placed", "warn", detail, f"{planned} layers were planned: close what else uses the GPU")
    return Finding("placed", "warn" if notes else "ok", detail)


def tags(engine: LlamaEngine) -> Finding:
    """Whether the tags are tokens of the vocabulary, and in one of full size those that the model was trained with."""
    vocabulary = engine.vocabulary
    known = {**vocabulary.specials.user, **vocabulary.specials.control}
    split = [tag for tag in TAG_IDS if tag not in known]
    other = [tag for tag, number in TAG_IDS.items() if vocabulary.size > 151_000 and known.get(tag) != number]
    if split:
        return Finding("tokens", "fail", f"no single tokens: {' '.join(split)}", "convert the model again")
    if other:
        return Finding("tokens", "fail", f"other ids than DR-Venus has: {' '.join(other)}", "convert the model again")
    return Finding("tokens", "ok", "the tags are single tokens")


def judged(reply: Reply) -> Finding:
    """What one turn tells of a model."""
    if isinstance(reply.action, Malformed):
        return Finding("turn", "warn", f"not well formed: {reply.action}", "use a DR-Venus model, at Q4_K_M or better")
    kind = type(reply.action).__name__
    if not reply.thought:
        return Finding("turn", "warn", f"{kind} without thinking first", "use a DR-Venus model")
    return Finding("turn", "ok", f"thinks, then a well-formed {kind}")


# -- what is searched and read ----------------------------------------------------------------------------------------


def _corpora(settings: Settings) -> Iterator[Finding]:
    from venus_edge import corpora

    if not settings.corpus:
        yield Finding("corpus", "skip", "none is set")
    for path in settings.corpus:
        by_name = corpora.named(path, settings)
        if by_name is None and not path.exists():
            yield Finding(
                "corpus", "fail", f"{path} is not there", "correct --corpus; venus-edge corpus list has the names"
            )
            continue
        index = by_name or (path if path.is_file() else world.index_path(path, settings))
        if not index.is_file():
            yield Finding("corpus", "warn", f"{path} is not indexed yet", f"venus-edge corpus build {path}")
            continue
        said: list[str] = []
        with closing(corpora.opened(index, settings, said.append)):
            yield Finding("corpus", "warn" if said else "ok", "; ".join((str(path), *said)))


def _cache(settings: Settings) -> Iterator[Finding]:
    from venus_edge.sources.cache import FILE, Cache

    path = settings.directories.cache / FILE
    with Cache(settings.directories.cache) as cache:
        sound = cache.is_sound()
    if not sound:
        yield Finding("page cache", "warn", f"{path} is damaged: what it holds is fetched again", f"remove {path}")
    else:
        yield Finding("page cache", "ok", f"{path.stat().st_size / 1e6:.1f} MB" if path.exists() else "empty")


def _hub(settings: Settings, patient: Patient, known: int) -> Iterator[Finding]:
    """Where models come from, and whether it answers; of the token only whether there is one."""
    named = patient.environment.get("HF_ENDPOINT", hub.ENDPOINT)
    token = "HF_TOKEN is set" if patient.environment.get("HF_TOKEN") else "no HF_TOKEN"
    detail = f"{_without_password(named)}, {token}, {known} models known"
    if settings.offline or hub.offline():
        why = "offline" if settings.offline else "HF_HUB_OFFLINE is set"
        yield Finding("hub", "skip", f"{detail}; {why}")
        return
    asked = patient.reach_hub or (lambda: hub.reach(hub.gate(allow_hosts=settings.allow_hosts)))
    if trouble := asked():
        remedy = "check the network, HF_ENDPOINT and the proxy; models that are here need no hub"
        yield Finding("hub", "warn", f"{detail}: {_without_password(trouble)}", remedy)
    else:
        yield Finding("hub", "ok", detail)


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//***@", address)


def _network(settings: Settings, reached: Reach) -> Iterator[Finding]:
    """Whether what a run would ask can be reached: each search service that is set, a page, and hosts of one's own.

    Without any search service a run has nothing to go by, unless it has a corpus.
    """
    from venus_edge.sources import services

    order = services.sites(settings.search, settings.services)
    if settings.offline or settings.corpus:
        yield Finding("search", "skip", "offline" if settings.offline else "the corpus is searched, not the web")
        return
    troubles = {name: reached(address, settings, own) for name, (address, own) in order.items()}
    deaf = all(troubles.values())
    for name, trouble in troubles.items():
        remedy = "venus-edge run --search names others; or work with --offline and a --corpus" if trouble else ""
        state: State = "ok" if not trouble else "fail" if deaf else "warn"
        yield Finding(f"search {name}", state, _without_password(trouble) or "answers", remedy)
    for address, own in ((PAGE, ""), *((f"http://{host}/", host) for host in settings.allow_hosts if _is_host(host))):
        trouble = reached(address, settings, own)
        remedy = "check the network; a firewall may let some sites through only" if trouble else ""
        yield Finding("pages", "warn" if trouble else "ok", _without_password(trouble) or address, remedy)


def _is_host(allowed: str) -> bool:
    """Whether an entry of allow_hosts is one host, not a network or a pattern."""
    return "/" not in allowed and "*" not in allowed


def reach(address: str, settings: Settings, own: str) -> str:
    """Asks for one page as a run does, through the proxy that is set; "" if it answers, whatever it says, else why not.
    Raises UsageError for a proxy that is none."""
    from venus_edge.sources.address import parse
    from venus_edge.sources.gate import Gate, Policy
    from venus_edge.sources.http import Fetcher, Limits
    from venus_edge.sources.proxies import Proxies
    from venus_edge.values import Failure

    place = parse(address)
    if isinstance(place, Failure):
        return place.detail
    allowed = (*settings.allow_hosts, own) if own else settings.allow_hosts
    proxies = Proxies(settings.proxy)
    proxies.check()
    gate = Gate(Policy(settings.offline, allowed), environment=True, proxies=proxies)
    answer = Fetcher(gate, Limits(seconds=REACHED)).fetch(place)
    if not isinstance(answer, Failure):
        return ""
    through = proxies.of(place.scheme, place.host, place.port)
    return answer.detail if through is None else f"through the proxy {through.url.host.decode()}: {answer.detail}"
