"""Settings -> a ready Agent: the one file that knows every part.

In: Settings. Out: a Runtime whose `agent` plays runs; what was opened for it is closed when it is left. What can be
refused is refused before the model is loaded.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from venus_edge import demo as demo_files
from venus_edge import guards, hub, recorded, registry, window
from venus_edge.agent import Agent, Config
from venus_edge.engine import Engine
from venus_edge.errors import EngineError, ModelError, StorageError, UsageError
from venus_edge.events import Event, Finished, Ledger, Resumed, RunStarted, ToolReturned, Traffic
from venus_edge.fit import planner, speed
from venus_edge.fit.planner import Machine, Plan, Wishes
from venus_edge.fit.speed import Estimate, Forecast, Speed
from venus_edge.protocol import prompt, rendering
from venus_edge.registry import ModelSpec
from venus_edge.sessions.reading import Session
from venus_edge.settings import Directories, Settings, check
from venus_edge.sources.seal import Seal, sealed
from venus_edge.state import OutOfOrder, State, rebuilt
from venus_edge.tools import Opener, Reader, Searcher, Tools
from venus_edge.values import KV_NAMES, DialectName, Failure, Found, KvTypes, Page

if TYPE_CHECKING:
    from venus_edge.corpora import Opened
    from venus_edge.corpus.collect import Progress, Report
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.engine.options import EngineOptions
    from venus_edge.engine.remote import RemoteEngine
    from venus_edge.replay import Cassette
    from venus_edge.sources.cache import Cache
    from venus_edge.sources.gate import Gate
    from venus_edge.sources.language import Market

Note = Callable[[str], None]

DEFAULT_MODEL = "dr-venus-4b-rl"
PAUSE = 0.5  # seconds between two pages of one site
FLASH = {"auto": None, "on": True, "off": False}
READING_WINDOW = 8_192  # tokens of the second sequence, in which the model reads pages,
READING_REST = 2_000  # and those of them that are for the prompt and the reply


@dataclass(frozen=True, slots=True)
class World:
    """Where hits and pages come from in this run: the corpora, the web, or both; and the cache beside them."""

    searcher: Searcher
    opener: Opener
    cache: Cache

    def search_all(self, queries: Sequence[str], limit: int) -> tuple[Found, ...]:
        return self.searcher.search_all(queries, limit)

    def open(self, url: str) -> Page | Failure:
        return self.opener.open(url)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a run needs, open. `recorded` are the settings as a session keeps them, `earlier` what left the
    machine before this process went on with the run, `seal` what holds it offline."""

    settings: Settings
    spec: ModelSpec
    engine: Engine
    agent: Agent
    seed: int
    gates: tuple[Gate, ...] = ()
    speed_key: str = ""  # under which the speed of this model, opened so, is kept
    recorded: Mapping[str, Any] = field(default_factory=dict)
    earlier: tuple[Traffic, ...] = ()
    seal: Seal = field(default_factory=Seal)

    def started(self, question: str, session: str = "") -> RunStarted:
        """The first event of a run."""
        spec = self.spec
        return RunStarted(question, spec.name, spec.dialect, self.engine.n_ctx, self.seed, session, self.recorded)

    def events(self, question: str, session: str = "") -> Generator[Event, None, None]:
        """One run, from its first event to `Finished`. KeyboardInterrupt, thrown in, ends it with its record."""
        return self._accounted(self.agent.run(question, self.started(question, session)))

    def resume(self, session: Session, restored: int = 0, anyway: bool = False) -> Generator[Event, None, None]:
        """The events that follow those of a session, the first being `Resumed`. Raises UsageError where the run would
        be played by something else than it began with, unless `anyway`."""
        started, events = session.started, session.events
        differs = recorded.differences(started, self.started(started.question))
        if differs and not anyway:
            raise UsageError(
                f"session {session.path.stem} cannot go on as it began: {differs}; to go on so: "
                f"venus-edge sessions resume {session.path.stem} --anyway"
            )
        resumed = Resumed(standing(session).done, session.seconds, restored, differs)
        return self._accounted(self.agent.resume(started.question, events, session.seconds, resumed))

    def _accounted(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The events, and among them what has left the machine: where that has changed, and at the end."""
        told, step = self.traffic, partial(next, events, None)
        with closing(events):
            while (event := step()) is not None:
                now, step = self.traffic, partial(next, events, None)
                is_last = isinstance(event, Finished)
                ledger = (Ledger(now),) if is_last or (isinstance(event, ToolReturned) and now != told) else ()
                told = now if ledger else told
                try:
                    yield from (*ledger, event) if is_last else (event, *ledger)
                except KeyboardInterrupt as interrupt:
                    if is_last:
                        yield event
                        return
                    step = partial(events.throw, interrupt)

    def forecast(self) -> Forecast:
        """How long a run that begins now will take; it follows the run."""
        directory, spec = self.settings.directories.cache, self.spec
        return Forecast(
            self.engine.stats,
            spec.dialect,
            spec.reader == "model",
            self.engine.n_ctx,
            _limits(self.settings).seconds,
            speed.kept(directory, self.speed_key) if self.speed_key else None,
            usual=_runs_long(spec),
        )

    def learn(self, forecast: Forecast) -> None:
        """Keeps the speed that a run had, for the next one's forecast."""
        learned = forecast.learned()
        if learned is not None and self.speed_key:
            speed.keep(self.settings.directories.cache, self.speed_key, learned)

    def hosts(self) -> list[dict[str, object]]:
        """What left the machine: each host with its connections and the bytes up and down."""
        return [asdict(host) for host in self.traffic]

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """The same as values; what left it before the run went on included."""
        totals = {host.host: [host.connections, host.sent, host.received] for host in self.earlier}
        for entry in (entry for gate in self.gates for entry in gate.ledger.entries):
            total = totals.setdefault(entry.host, [0, 0, 0])
            for place, count in enumerate((1, entry.sent, entry.received)):
                total[place] += count
        return tuple(Traffic(host, *counts) for host, counts in totals.items())

    def ledger(self) -> str:
        """The same in one line for a person."""
        hosts = self.traffic
        if not hosts or (self.settings.offline and not self.earlier):
            here = "".join(
                f" ({host.host} is this machine: {host.sent:,} bytes to it, {host.received:,} from it)"
                for host in hosts
            )
            stopped = "".join(f"; stopped: {attempt}" for attempt in dict.fromkeys(self.seal.stopped))
            return f"Connections: none; 0 bytes left this machine{here}{stopped}"
        sent, received = sum(host.sent for host in hosts), sum(host.received for host in hosts)
        names = ", ".join(host.host for host in hosts[:5]) + (", ..." if len(hosts) > 5 else "")
        count = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}"
        return f"Connections: {count} ({names}); {sent:,} bytes up, {received:,} down"


def demo(settings: Settings) -> Settings:
    """The same settings on what ships with the package: its corpus, its model unless another is named, no network."""
    return replace(
        settings, model=settings.model or demo_files.MODEL, corpus=settings.corpus or (demo_files.CORPUS,), offline=True
    )


def standing(session: Session) -> State:
    """Where a session's run stands. Raises StorageError where its events are not in the order of a run."""
    started = session.started
    state = State(started.question, list(prompt.opening(started.question, recorded.today_of(session))))
    try:
        return rebuilt(state, session.events)
    except OutOfOrder as error:
        raise StorageError(
            f"session {session.path}, line {session.lines[error.number]}, is out of order: {error} was due there; "
            "put back what was edited"
        ) from error


def changed_pages(session: Session, settings: Settings) -> Iterator[str]:
    """A line for each page of the record that is not on this machine any more, or says something else now."""
    read = (
        reading.page for event in session.events if isinstance(event, ToolReturned) for reading in event.result.readings
    )
    pages = {page.url: page for page in read if page is not None}
    with ExitStack() as stack:
        cache = stack.enter_context(page_cache(settings.directories))
        shelves = [
            stack.enter_context(closing(open_corpus(path, settings, lambda _: None))) for path in settings.corpus
        ]
        for url, page in pages.items():
            copy = cache.find(url)
            said = {sha256(copy.said.encode()).hexdigest()} if copy is not None else set[str]()
            said |= {now.sha256 for shelf in shelves if isinstance(now := shelf.open(url), Page)}
            if page.sha256 not in said:
                where = "is in the cache with another text" if said else "is no longer in the cache"
                yield f"{url} {where}; the session has what was read"


@contextmanager
def prepare(
    settings: Settings, note: Note, earlier: tuple[Traffic, ...] = (), cassette: Cassette | None = None
) -> Iterator[Runtime]:
    """Opens model and world; the world is the `cassette`, if there is one. Raises a VenusError of one line for whatever
    is missing or wrong."""
    check(settings)
    if settings.offline and not settings.corpus and cassette is None and _is_empty(settings.directories):
        raise UsageError(
            "offline there is nothing to search without --corpus DIR (a folder of .html, .md or .txt files)"
        )
    today, spec = _date(settings.date), spec_of(settings)
    check_engine(spec, settings)
    path = None if settings.engine else hub.locate(spec, settings.directories.models)
    with ExitStack() as stack:
        gates: list[Gate] = []
        seal = stack.enter_context(sealed(settings.offline, _own_server(settings, note)))
        played = cassette and World(cassette, cassette, _cache(settings, stack))
        world = played or _world(settings, stack, gates, note)
        engine: LlamaEngine | RemoteEngine
        if path is None:
            engine, key = remote_engine(settings, gates, note), speed.key_of_server(settings.engine, spec.name)
        else:
            engine, key = _engine(path, spec, settings, note)
        stack.enter_context(closing(engine))
        reader = _reader(spec, engine, settings, world.cache, path)
        ready = _ready(settings, spec, engine, world, reader, today, tuple(gates), key, path, cassette)
        yield replace(ready, earlier=earlier, seal=seal)


def _own_server(settings: Settings, note: Note) -> tuple[tuple[str, int], ...]:
    """Host and port of a model's server on this machine, which offline is the one place that is spoken to."""
    from venus_edge.engine.wire import host_of, place

    if not (settings.offline and settings.engine and place(settings.engine) == "this machine"):
        return ()
    host, _, port = host_of(settings.engine).rpartition(":")
    note(f"offline: no connection is made but that to {host}:{port}, which is this machine")
    return ((host.strip("[]"), int(port)),)


def remote_engine(settings: Settings, gates: list[Gate], note: Note, once: bool = False) -> RemoteEngine:
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


def _ready(
    settings: Settings,
    spec: ModelSpec,
    engine: Engine,
    world: World,
    reader: Reader,
    today: date,
    gates: tuple[Gate, ...],
    key: str,
    path: Path | None,
    cassette: Cassette | None,
) -> Runtime:
    from venus_edge.tools.toolbox import Toolbox

    _check_template(spec, engine, today)
    seed = secrets.randbelow(2**31) if settings.seed is None else settings.seed
    tools: Tools = Toolbox(world, world, reader, spec.dialect, spec.results)
    tools = cassette.before(tools) if cassette is not None else tools
    config = Config(
        today,
        replace(spec.sampling, seed=seed),
        _limits(settings),
        engine.chat_template,
        settings.grammar,
        cast("window.Policy | None", settings.context_policy),
    )
    kept = recorded.recorded(settings, spec, path, engine, config)
    return Runtime(settings, spec, engine, Agent(engine, tools, config), seed, gates, key, kept)


def _check_template(spec: ModelSpec, engine: Engine, today: date) -> None:
    """Raises ModelError if the model's own chat template cannot hold a conversation."""
    try:
        rendering.render(prompt.opening("?", today), engine.chat_template)
    except rendering.TemplateUnusable as error:
        raise ModelError(
            f"{spec.title}: {error}; give a file whose template is that of Qwen3, or convert it again"
        ) from error


# -- the model --------------------------------------------------------------------------------------------------------


def spec_of(settings: Settings) -> ModelSpec:
    """The model's entry, with what the settings say laid over it."""
    specs, name = registry.load(settings.directories.config), settings.model or DEFAULT_MODEL
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


def plan(path: Path, spec: ModelSpec, settings: Settings, most: int | None = None) -> tuple[Plan, Machine]:
    """How this machine would open a model file now, with a window of at most `most`. Raises ModelError, EngineError."""
    from venus_edge.engine.options import EngineOptions, check_window
    from venus_edge.fit import header, machine

    model, probed = header.model(header.read(path)), machine.probe()
    if settings.n_ctx:
        check_window(EngineOptions(n_ctx=settings.n_ctx), model.shape.n_ctx_train)
    check_cards(settings, probed)
    return planner.plan(model, probed, wishes(spec, settings, most)), probed


def check_engine(spec: ModelSpec, settings: Settings) -> None:
    """Raises UsageError for layers, cards, KV types and flash attention that can be meant together on no machine."""
    from venus_edge.engine.options import EngineOptions
    from venus_edge.engine.options import check as check_options

    kv = _kv_types(spec, settings) or KvTypes("f16", "f16")
    check_options(
        EngineOptions(
            n_gpu_layers=_gpu_layers(settings.gpu_layers),
            main_gpu=settings.main_gpu,
            tensor_split=settings.tensor_split,
            type_k=kv.k,
            type_v=kv.v,
            flash_attention=FLASH[settings.flash_attention],
        )
    )


def check_words(settings: Settings) -> None:
    """Raises UsageError for a date, layers, a region, a language or a proxy that cannot be meant."""
    from venus_edge.sources.proxies import Proxies

    _date(settings.date)
    _gpu_layers(settings.gpu_layers)
    _place(settings)
    if settings.proxy:
        Proxies(settings.proxy).check()


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


def check_cards(settings: Settings, machine: Machine) -> None:
    """Raises UsageError for a card that was named and is not there."""
    from venus_edge.engine.offload import check_present

    names = [gpu.name for gpu in machine.gpus] if machine.offload else []
    check_present(settings.main_gpu, settings.tensor_split, names)


def _kv_types(spec: ModelSpec, settings: Settings) -> KvTypes | None:
    text = settings.kv_type or spec.kv_type
    try:
        return KvTypes.of(text) if text else None
    except ValueError:
        known = ", ".join(KV_NAMES)
        raise UsageError(f"KV type {text!r} is none of {known}, nor two of them for K and V as q8_0,f16") from None


def wishes(spec: ModelSpec, settings: Settings, most: int | None = None) -> Wishes:
    """What the settings and the model's entry ask of a plan."""
    return Wishes(
        n_ctx=settings.n_ctx,
        n_ctx_most=most or spec.n_ctx,
        reading=_reading_window(settings) if spec.reader == "model" else 0,
        kv_type=settings.kv_type or spec.kv_type or None,
        gpu_layers=_gpu_layers(settings.gpu_layers),
        main_gpu=settings.main_gpu,
        tensor_split=settings.tensor_split,
        flash=FLASH[settings.flash_attention] is not False,
        threads=settings.threads,
        quant_usual=spec.quant,
    )


def _engine(path: Path, spec: ModelSpec, settings: Settings, note: Note) -> tuple[LlamaEngine, str]:
    """The model, opened as planned; where llama.cpp finds less memory than the plan, with the next smaller window. And
    what its speed is kept under."""
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.fit import card, header

    for line in card.warnings(header.read(path)):
        note(line)

    def planned(most: int) -> Plan:
        return plan(path, spec, settings, most)[0]

    def opened(chosen: Plan) -> LlamaEngine:
        return LlamaEngine(path, options(chosen, settings))

    chosen, engine = _first_that_opens(planned, opened, spec.n_ctx, settings.n_ctx is not None)
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


def estimate(found: Speed, spec: ModelSpec, n_ctx: int) -> Estimate | None:
    """How long a run of the model takes at a speed; None where its runs are not of the kind of the released ones."""
    return speed.estimate(found, spec.dialect, spec.reader == "model", n_ctx) if _runs_long(spec) else None


def _runs_long(spec: ModelSpec) -> bool:
    return spec.n_ctx_train >= planner.LEAST_WINDOW


def options(chosen: Plan, settings: Settings) -> EngineOptions:
    """A plan as the engine takes it. Layers that were asked for stay asked for: without a device the engine says so."""
    from venus_edge.engine.options import EngineOptions

    asked, kv = _gpu_layers(settings.gpu_layers), KvTypes.of(chosen.kv_type)
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


def _reading_window(settings: Settings) -> int:
    """The tokens of the second sequence: so much of a page as was asked for, and room for the prompt and the reply."""
    return READING_WINDOW if settings.read_tokens is None else settings.read_tokens + READING_REST


def _gpu_layers(text: str) -> int | None:
    """None for auto, -1 for all."""
    named = {"auto": None, "all": -1}
    if text in named:
        return named[text]
    if text.isascii() and text.isdigit():
        return int(text)
    raise UsageError(f"gpu-layers is auto, all or a number, not {text!r}")


def _limits(settings: Settings) -> guards.Limits:
    usual = guards.Limits()
    return replace(
        usual,
        turns=settings.max_turns or usual.turns,
        seconds=settings.max_seconds or usual.seconds,
        tokens=settings.max_tokens or usual.tokens,
    )


def _date(text: str | None) -> date:
    if text is None:
        return date.today()
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise UsageError(f"date {text!r} is not YYYY-MM-DD") from None


def _reader(spec: ModelSpec, engine: Engine, settings: Settings, cache: Cache, path: Path | None) -> Reader:
    """Who reads pages; what was read before is not read again."""
    from venus_edge.tools.evidence import ExtractiveReader, ModelReader, ReadingPlan
    from venus_edge.tools.kept import KeptReader

    if spec.reader != "model":
        return KeptReader(ExtractiveReader(), cache)
    plan = ReadingPlan() if settings.read_tokens is None else ReadingPlan(settings.read_tokens)
    return KeptReader(
        ModelReader(engine, engine.chat_template, plan=plan, model=_identity(spec, settings, path)), cache
    )


def _identity(spec: ModelSpec, settings: Settings, path: Path | None) -> str:
    """What tells one model from another: the file as it is, or the server and the name."""
    if path is None:
        return f"{settings.engine} {spec.name}"
    stat = path.stat()
    return f"{path.name} {stat.st_size} {stat.st_mtime_ns}"


# -- the world --------------------------------------------------------------------------------------------------------


def _world(settings: Settings, stack: ExitStack, gates: list[Gate], note: Note) -> World:
    """The corpora that were named; the web where there are none, or beside them where `search` names `corpus` and
    services."""
    from venus_edge.corpus.shelf import Shelf
    from venus_edge.sources import services

    names = services.named(settings.search)
    beside = [name for name in names if name != services.CORPUS] if services.CORPUS in names else []
    if services.CORPUS in names and not settings.corpus:
        raise UsageError("search names corpus, but there is none: name a folder with --corpus DIR")
    web = _web(settings, stack, gates) if beside or not settings.corpus else None
    if web is not None and not settings.corpus:
        return web
    corpora = [stack.enter_context(closing(open_corpus(path, settings, note))) for path in settings.corpus]
    shelf = Shelf(corpora if web is None else [*corpora, web])
    return World(shelf, shelf, web.cache if web is not None else _cache(settings, stack))


def _web(settings: Settings, stack: ExitStack, gates: list[Gate]) -> World:
    from venus_edge.sources import services
    from venus_edge.sources.gate import Gate, Policy
    from venus_edge.sources.http import USER_AGENT, Fetcher
    from venus_edge.sources.pace import Pace
    from venus_edge.sources.proxies import Proxies
    from venus_edge.sources.robots import Robots
    from venus_edge.sources.search import Search
    from venus_edge.sources.web import Recent, Web

    place, proxies = _place(settings), Proxies(settings.proxy)
    proxies.check()
    gate = Gate(Policy(settings.offline, settings.allow_hosts), environment=True, proxies=proxies)
    gates.append(gate)
    fetcher = Fetcher(
        gate,
        user_agent=settings.user_agent or USER_AGENT,
        language=place.language if place is not None else "",
        pace=Pace(PAUSE),
    )
    cache = _cache(settings, stack, fetcher.headers)
    asked = services.providers(settings.search, settings.services, gate, place)
    search = Search(asked, cache, settings.offline, f"{place}" if place else "", settings.search_seconds)
    robots = Robots(fetcher.fetch, fetcher.user_agent) if settings.robots else None
    return World(search, Web(fetcher, cache, robots=robots, recent=Recent()), cache)


def _place(settings: Settings) -> Market | None:
    """Where and in which language searches are asked and pages read; None: by the query's script."""
    from venus_edge.sources.language import Market, named, spoken

    region, language = named(settings.region), spoken(settings.language)
    if settings.region and region is None:
        raise UsageError(f"region {settings.region!r} is not a country and a language, like de-de or cn-zh")
    if settings.language and language is None:
        raise UsageError(f"language {settings.language!r} is not a language and a country, like zh-CN or sv-SE")
    return Market(region.region, language.language) if region and language else region or language


def _cache(settings: Settings, stack: ExitStack, asked: Mapping[str, str] | None = None) -> Cache:
    from venus_edge.sources.cache import Cache

    return stack.enter_context(Cache(settings.directories.cache, settings.cache_mb * 1_000_000, asked))


def _is_empty(directories: Directories) -> bool:
    """Whether nothing was ever fetched: an earlier run's pages and searches can be asked offline."""
    from venus_edge.sources.cache import Cache

    with Cache(directories.cache) as cache:
        if not cache.path.exists():
            return True
        stats = cache.stats()
        return not (stats.pages or stats.searches)


def page_cache(directories: Directories) -> Cache:
    """The page cache, for a person's own commands. Raises StorageError where the disk does not serve it."""
    from venus_edge.sources.cache import Cache

    cache = Cache(directories.cache)
    cache.stats()
    if cache.trouble:
        raise StorageError(f"the cache {cache.path} cannot be read: {cache.trouble}")
    return cache


def open_corpus(path: Path, settings: Settings, note: Note) -> Opened:
    """A corpus by its name; by its folder, whose index is brought up to date first; by its file; or a ZIM archive.
    Raises CorpusError."""
    from venus_edge import corpora, meaning
    from venus_edge.corpus.writing import BeingWrittenError

    file = corpora.named(path, settings) or (path if path.is_file() else None)
    if file is not None:
        return corpora.opened(file, settings, note)
    try:
        index, report = build_corpus(path, settings)
    except (StorageError, BeingWrittenError) as error:
        if not (index := index_path(path, settings)).is_file():
            raise
        note(f"corpus {path.name} is searched as it was indexed before: {error}")
        return meaning.corpus(index, settings, note)
    if report.added or report.updated or report.removed:
        note(f"corpus {path.name}: {report.documents} indexed ({report.added} new, {report.updated} changed)")
    for skipped in report.skipped[:5]:
        note(f"corpus {path.name}: left out {skipped.path}: {skipped.reason}")
    return meaning.corpus(index, settings, note, check=False)


def build_corpus(folder: Path, settings: Settings, progress: Progress | None = None) -> tuple[Path, Report]:
    """Brings a folder's index up to date; it lies in the data directory, named for the folder. Raises CorpusError."""
    from venus_edge.corpus.folder import build, check_folder
    from venus_edge.corpus.writing import writing
    from venus_edge.sources.extract import extract

    check_folder(folder)
    index = index_path(folder, settings)
    with writing(index):
        return index, build(folder, index, extract, progress)


def copy_corpus(path: Path, settings: Settings, target: Path) -> Path:
    """Copies a corpus (by its name, its file, or its folder, which is indexed first) into a new file; a ZIM archive is
    linked. Out: what was copied. Raises CorpusError, StorageError."""
    from venus_edge import corpora
    from venus_edge.corpus import ledger

    file = corpora.named(path, settings) or (path if path.is_file() else None)
    index = file or build_corpus(path, settings)[0]
    if index.suffix.lower() == ".zim":
        target.symlink_to(index.resolve())
    else:
        ledger.export(index, target)  # tells nothing of this disk
    return index


def index_path(folder: Path, settings: Settings) -> Path:
    """Where the index of a folder is kept: the folder's name and a hash of its whole path."""
    whole = folder.resolve()
    return settings.directories.corpora / f"{whole.name}-{sha256(str(whole).encode()).hexdigest()[:12]}.sqlite"
