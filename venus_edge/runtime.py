"""Settings -> a ready Agent: the one file that knows every part.

In: Settings. Out: a Runtime whose `agent` plays runs; what was opened for it is closed when it is left. What can be
refused is refused before the model is loaded.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from venus_edge import demo as demo_files
from venus_edge import guards, model, modelfiles, recorded, window, world
from venus_edge.agent import Agent, Config
from venus_edge.engine import Engine
from venus_edge.errors import StorageError, UsageError
from venus_edge.events import Event, Finished, Ledger, Resumed, RunStarted, ToolReturned, Traffic
from venus_edge.fit import speed
from venus_edge.fit.speed import Forecast
from venus_edge.protocol import prompt
from venus_edge.registry import ModelSpec
from venus_edge.sessions.reading import Session
from venus_edge.settings import Settings, check
from venus_edge.sources.seal import Seal, sealed
from venus_edge.state import OutOfOrder, State, rebuilt
from venus_edge.tools import Reader, Tools
from venus_edge.world import World

if TYPE_CHECKING:
    from venus_edge.engine.llama import LlamaEngine
    from venus_edge.engine.remote import RemoteEngine
    from venus_edge.replay import Cassette
    from venus_edge.sources.cache import Cache
    from venus_edge.sources.gate import Gate

Note = Callable[[str], None]


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
            usual=model.runs_long(spec),
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


@contextmanager
def prepare(
    settings: Settings, note: Note, earlier: tuple[Traffic, ...] = (), cassette: Cassette | None = None
) -> Iterator[Runtime]:
    """Opens model and world; the world is the `cassette`, if there is one. Raises a VenusError of one line for whatever
    is missing or wrong."""
    check(settings)
    if settings.offline and not settings.corpus and cassette is None and world.is_empty(settings.directories):
        raise UsageError(
            "offline there is nothing to search without --corpus: a folder of documents, a ZIM archive, or a name of: "
            "venus-edge corpus list"
        )
    today, spec = _date(settings.date), model.spec_of(settings)
    model.check_engine(spec, settings)
    path = None if settings.engine else modelfiles.locate(spec, settings.directories.models)
    with ExitStack() as stack:
        gates: list[Gate] = []
        seal = stack.enter_context(sealed(settings.offline, _own_server(settings, note)))
        played = cassette and World(cassette, cassette, world.cache(settings, stack))
        outside = played or world.opened(settings, stack, gates, note)
        engine: LlamaEngine | RemoteEngine
        if path is None:
            engine, key = model.server(settings, gates, note), speed.key_of_server(settings.engine, spec.name)
        else:
            engine, key = model.opened(path, spec, settings, note)
        stack.enter_context(closing(engine))
        reader = _reader(spec, engine, settings, outside.cache, path)
        ready = _ready(settings, spec, engine, outside, reader, today, tuple(gates), key, path, cassette)
        yield replace(ready, earlier=earlier, seal=seal)


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


def check_words(settings: Settings) -> None:
    """Raises UsageError for a date, layers, a region, a language or a proxy that cannot be meant."""
    from venus_edge.sources.proxies import Proxies

    _date(settings.date)
    model.gpu_layers(settings.gpu_layers)
    world.place(settings)
    if settings.proxy:
        Proxies(settings.proxy).check()


def _own_server(settings: Settings, note: Note) -> tuple[tuple[str, int], ...]:
    """Host and port of a model's server on this machine, which offline is the one place that is spoken to."""
    from venus_edge.engine.wire import host_of, place

    if not (settings.offline and settings.engine and place(settings.engine) == "this machine"):
        return ()
    host, _, port = host_of(settings.engine).rpartition(":")
    note(f"offline: no connection is made but that to {host}:{port}, which is this machine")
    return ((host.strip("[]"), int(port)),)


def _reader(spec: ModelSpec, engine: Engine, settings: Settings, cache: Cache, path: Path | None) -> Reader:
    """Who reads pages; what was read before is not read again."""
    from venus_edge.tools.evidence import ExtractiveReader, ModelReader, ReadingPlan
    from venus_edge.tools.kept import KeptReader

    if spec.reader != "model":
        return KeptReader(ExtractiveReader(), cache)
    plan = ReadingPlan() if settings.read_tokens is None else ReadingPlan(settings.read_tokens)
    return KeptReader(
        ModelReader(engine, engine.chat_template, plan=plan, model=model.identity(spec, settings, path)), cache
    )


def _ready(
    settings: Settings,
    spec: ModelSpec,
    engine: Engine,
    outside: World,
    reader: Reader,
    today: date,
    gates: tuple[Gate, ...],
    key: str,
    path: Path | None,
    cassette: Cassette | None,
) -> Runtime:
    from venus_edge.tools.toolbox import Toolbox

    model.check_template(spec, engine, today)
    seed = secrets.randbelow(2**31) if settings.seed is None else settings.seed
    tools: Tools = Toolbox(outside, outside, reader, spec.dialect, spec.results)
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
