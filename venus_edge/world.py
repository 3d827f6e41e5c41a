"""SETTINGS -> THE WORLD, OPEN: where hits and pages come from. Corpora, the web, or both; and the cache beside them.

In: Settings, and a stack that closes what is opened. Out: a World; or one corpus, the page cache, where an index lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge.errors import CorpusError, StorageError, UsageError
from venus_edge.events import ToolReturned
from venus_edge.sessions.reading import Session
from venus_edge.settings import Directories, Settings
from venus_edge.tools import Opener, Searcher
from venus_edge.values import Failure, Found, Page

if TYPE_CHECKING:
    from venus_edge.corpora import Opened
    from venus_edge.corpus.collect import Progress, Report
    from venus_edge.sources.cache import Cache
    from venus_edge.sources.gate import Gate
    from venus_edge.sources.language import Market

Note = Callable[[str], None]

PAUSE = 0.5  # seconds between two pages of one site


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


def opened(settings: Settings, stack: ExitStack, gates: list[Gate], note: Note) -> World:
    """The corpora that were named; the web where there are none, or beside them where `search` names `corpus` and
    services."""
    from venus_edge.corpus.shelf import Shelf
    from venus_edge.sources import services

    names = services.named(settings.search)
    beside = [name for name in names if name != services.CORPUS] if services.CORPUS in names else []
    if services.CORPUS in names and not settings.corpus:
        raise UsageError("search names corpus, but there is none: name a folder, an archive or a corpus with --corpus")
    if settings.offline and (web_names := [name for name in names if name not in (services.CORPUS, "auto")]):
        rest = "only the corpora are" if settings.corpus and not beside else "what they gave before is"
        note(f"offline: {', '.join(web_names)} cannot be asked; {rest} searched")
    web = _web(settings, stack, gates) if beside or not settings.corpus else None
    if web is not None and not settings.corpus:
        return web
    corpora = _corpora(settings, note, stack)
    shelf = Shelf(corpora if web is None else [*corpora, web])
    return World(shelf, shelf, web.cache if web is not None else cache(settings, stack))


def _corpora(settings: Settings, note: Note, stack: ExitStack) -> list[Opened]:
    """All that were named. A ZIM archive that cannot be read is said, and the others stay; the last one raises."""
    from venus_edge.corpora import is_archive

    opened: list[Opened] = []
    for number, path in enumerate(settings.corpus, 1):
        try:
            opened.append(stack.enter_context(closing(open_corpus(path, settings, note))))
        except CorpusError as error:
            if not is_archive(path) or (number == len(settings.corpus) and not opened):
                raise
            note(str(error))
    return opened


def _web(settings: Settings, stack: ExitStack, gates: list[Gate]) -> World:
    from venus_edge.sources import services
    from venus_edge.sources.gate import Gate, Policy
    from venus_edge.sources.http import USER_AGENT, Fetcher
    from venus_edge.sources.pace import Pace
    from venus_edge.sources.proxies import Proxies
    from venus_edge.sources.robots import Robots
    from venus_edge.sources.search import Search
    from venus_edge.sources.web import Recent, Web

    where, proxies = place(settings), Proxies(settings.proxy)
    proxies.check()
    gate = Gate(Policy(settings.offline, settings.allow_hosts), environment=True, proxies=proxies)
    gates.append(gate)
    fetcher = Fetcher(
        gate,
        user_agent=settings.user_agent or USER_AGENT,
        language=where.language if where is not None else "",
        pace=Pace(PAUSE),
    )
    kept = cache(settings, stack, fetcher.headers)
    asked = services.providers(settings.search, settings.services, gate, where)
    search = Search(asked, kept, settings.offline, f"{where}" if where else "", settings.search_seconds)
    robots = Robots(fetcher.fetch, fetcher.user_agent) if settings.robots else None
    return World(search, Web(fetcher, kept, robots=robots, recent=Recent()), kept)


def place(settings: Settings) -> Market | None:
    """Where and in which language searches are asked and pages read; None: by the query's script."""
    from venus_edge.sources.language import Market, named, spoken

    region, language = named(settings.region), spoken(settings.language)
    if settings.region and region is None:
        raise UsageError(f"region {settings.region!r} is not a country and a language, like de-de or cn-zh")
    if settings.language and language is None:
        raise UsageError(f"language {settings.language!r} is not a language and a country, like zh-CN or sv-SE")
    return Market(region.region, language.language) if region and language else region or language


def cache(settings: Settings, stack: ExitStack, asked: Mapping[str, str] | None = None) -> Cache:
    from venus_edge.sources.cache import Cache

    return stack.enter_context(Cache(settings.directories.cache, settings.cache_mb * 1_000_000, asked))


def page_cache(directories: Directories) -> Cache:
    """The page cache, for a person's own commands. Raises StorageError where the disk does not serve it."""
    from venus_edge.sources.cache import Cache

    kept = Cache(directories.cache)
    kept.stats()
    if kept.trouble:
        raise StorageError(f"the cache {kept.path} cannot be read: {kept.trouble}")
    return kept


def is_empty(directories: Directories) -> bool:
    """Whether nothing was ever fetched: an earlier run's pages and searches can be asked offline."""
    from venus_edge.sources.cache import Cache

    with Cache(directories.cache) as kept:
        if not kept.path.exists():
            return True
        stats = kept.stats()
        return not (stats.pages or stats.searches)


def changed_pages(session: Session, settings: Settings) -> Iterator[str]:
    """A line for each page of the record that is not on this machine any more, or says something else now."""
    read = (
        reading.page for event in session.events if isinstance(event, ToolReturned) for reading in event.result.readings
    )
    pages = {page.url: page for page in read if page is not None}
    with ExitStack() as stack:
        kept = stack.enter_context(page_cache(settings.directories))
        shelves = [
            stack.enter_context(closing(open_corpus(path, settings, lambda _: None))) for path in settings.corpus
        ]
        for url, page in pages.items():
            copy = kept.find(url)
            said = {sha256(copy.said.encode()).hexdigest()} if copy is not None else set[str]()
            said |= {now.sha256 for shelf in shelves if isinstance(now := shelf.open(url), Page)}
            if page.sha256 not in said:
                where = "is in the cache with another text" if said else "is no longer in the cache"
                yield f"{url} {where}; the session has what was read"


def open_corpus(path: Path, settings: Settings, note: Note) -> Opened:
    """A corpus by its name; by its folder, whose index is brought up to date first; by its file; or a ZIM archive.
    Raises CorpusError."""
    from venus_edge import corpora, meaning
    from venus_edge.corpus.writing import BeingWrittenError

    is_file = path.is_file() or (corpora.is_archive(path) and not path.is_dir())
    file = named(path, settings, note) or (path if is_file else None)
    if file is not None:
        return corpora.opened(file, settings, note)
    try:
        index, report = build_corpus(path, settings)
    except (StorageError, BeingWrittenError) as error:
        try:
            before = meaning.corpus(index_path(path, settings), settings, note)
        except CorpusError:  # there is none, or but the beginning of one: what kept it from being made is what to say
            raise error from None
        note(f"corpus {path.name} is searched as it was indexed before: {error}")
        return before
    if report.added or report.updated or report.removed:
        note(f"corpus {path.name}: {report.documents} indexed ({report.added} new, {report.updated} changed)")
    for skipped in report.skipped[:5]:
        note(f"corpus {path.name}: left out {skipped.path}: {skipped.reason}")
    return meaning.corpus(index, settings, note, check=False)


def named(path: Path, settings: Settings, note: Note) -> Path | None:
    """The file of the corpus that has this name; where a folder or file here is called so too, that is said."""
    from venus_edge import corpora

    file = corpora.named(path, settings)
    if file is not None and path.exists():
        note(f"{path} is the corpus of that name; what lies here is named ./{path}")
    return file


def build_corpus(folder: Path, settings: Settings, progress: Progress | None = None) -> tuple[Path, Report]:
    """Brings a folder's index up to date; it lies in the data directory, named for the folder. Raises CorpusError."""
    from venus_edge.corpus.folder import build, check_folder
    from venus_edge.corpus.writing import writing
    from venus_edge.sources.extract import extract

    check_folder(folder)
    index = index_path(folder, settings)
    with writing(index):
        return index, build(folder, index, extract, progress)


def corpus_file(path: Path, settings: Settings, note: Note) -> Path:
    """The file of a corpus as it is now: by its name, itself, or that of its folder, which is indexed first; its
    passages embedded where `dense` is set. Raises CorpusError, StorageError, UsageError."""
    from venus_edge import corpora, meaning

    file = named(path, settings, note) or (path if path.is_file() else None)
    index = file or build_corpus(path, settings)[0]
    if settings.dense and not corpora.is_archive(index):
        meaning.corpus(index, settings, note).close()
    return index.absolute()


def embedding_model(settings: Settings) -> Path:
    """The file of the embedding model that is set. Raises UsageError where there is none."""
    from venus_edge import meaning

    return meaning.model_file(settings)


def index_path(folder: Path, settings: Settings) -> Path:
    """Where the index of a folder is kept: the folder's name and a hash of its whole path."""
    whole = folder.resolve()
    return settings.directories.corpora / f"{whole.name}-{sha256(str(whole).encode()).hexdigest()[:12]}.sqlite"
