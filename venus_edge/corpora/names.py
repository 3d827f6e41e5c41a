"""NAMES OF CORPORA -> FILES in the data directory; what is wrong with one is said by its name.

In: Settings, a name. Out: the path of a corpus file, the list of all, a source's place on this disk.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge.corpus.places import PIECE
from venus_edge.errors import CorpusError, StorageError, UsageError
from venus_edge.settings import Settings

if TYPE_CHECKING:
    from venus_edge.corpus.ledger import SourceRow

_NAME = re.compile(r"\w[\w.-]{0,63}")
_OF_WINDOWS = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)  # no file there has such a name
OF_A_FOLDER = re.compile(r"-[0-9a-f]{12}\.sqlite$")  # a corpus that is known by its folder


@dataclass(frozen=True, slots=True)
class Named:
    """A corpus in the list. `trouble` says why it cannot be read, "" if it can."""

    name: str
    path: Path
    documents: int
    size: int
    sources: int
    trouble: str = ""
    in_place: int = 0  # of the sources
    left: int = 0  # bytes of what a rebuild left beside it


def path_of(name: str, settings: Settings) -> Path:
    """Where a corpus of this name lies, or would. Raises UsageError for what is no name."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise UsageError(f"{name!r} is no name for a corpus: letters of any script, digits, - _ and . but no spaces, "
                         "up to 64 characters")  # fmt: skip
    if _OF_WINDOWS.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a corpus: Windows keeps it for a device; choose another")
    return settings.directories.corpora / f"{name}.sqlite"


def named(path: Path, settings: Settings) -> Path | None:
    """The corpus file of what was given as a path and is the name of a corpus: bare, or in config.toml, whose paths
    begin from its folder."""
    is_bare = len(path.parts) == 1 or (path.parent == settings.directories.config and not path.exists())
    if not is_bare or not _NAME.fullmatch(path.name):
        return None
    file = settings.directories.corpora / f"{path.name}.sqlite"
    return file if file.is_file() else None


def is_archive(file: Path) -> bool:
    """Whether it is called as a ZIM archive is, or a piece of one."""
    return file.suffix.lower() == ".zim" or bool(PIECE.fullmatch(file.suffix.lower()))


def there(name: str, settings: Settings) -> Path:
    """The file of a corpus that there is. Raises UsageError with the names there are, CorpusError for what is somebody
    else's file."""
    from venus_edge.corpus import files

    path = path_of(name, settings)
    if not path.is_file():
        known = ", ".join(each.name for each in listed(settings)) or "none yet"
        raise UsageError(
            f"there is no corpus {name!r} ({known}); make one with: venus-edge corpus create {name} SOURCE"
        )
    files.check_ours(path)
    return path


def listed(settings: Settings) -> list[Named]:
    """The corpora that have a name."""
    files = sorted(settings.directories.corpora.glob("*.sqlite"))
    return [_named(file) for file in files if not OF_A_FOLDER.search(file.name)]


def _named(file: Path) -> Named:
    from venus_edge.corpus import files
    from venus_edge.corpus.index import Corpus
    from venus_edge.corpus.ledger import sources_of

    size = left = 0
    try:
        files.check_ours(file)
        size, left = files.size(file), sum(map(files.size, files.left(file)))
        with said_by_name(file), closing(Corpus(file, check=False)) as corpus:
            documents = corpus.info().documents
            sources = sources_of(file)
        in_place = sum(source.kind == "zim" for source in sources)
        return Named(file.stem, file, documents, size, len(sources), "", in_place, left)
    except (CorpusError, StorageError) as error:
        return Named(file.stem, file, 0, size, 0, str(error), left=left)


def sources_in(path: Path) -> list[SourceRow]:
    """The sources of a named corpus. Raises CorpusError with the command that mends it."""
    from venus_edge.corpus.ledger import sources_of

    with said_by_name(path):
        return sources_of(path)


@contextmanager
def said_by_name(path: Path) -> Iterator[None]:
    """What is wrong with a named corpus is said with the command that mends it."""
    from venus_edge.corpus import files
    from venus_edge.corpus.store import BUILD

    try:
        yield
    except CorpusError as error:
        if path.is_file():
            files.check_ours(path)
        raise CorpusError(str(error).replace(BUILD, mending(path))) from error


def mending(path: Path) -> str:
    from venus_edge.corpus.ledger import sources_of

    with suppress(CorpusError, StorageError):
        if sources_of(path, checked=False):
            return f"venus-edge corpus rebuild {path.stem}"
    return f"venus-edge corpus create {path.stem} SOURCE"


def place_of(source: SourceRow, file: Path) -> Path:
    """Where a source of a corpus file lies: beside it, if it came with it from another machine."""
    return file.parent / source.place


def gone(source: SourceRow, file: Path) -> str:
    """That a source of a corpus is not on this disk, with what to do; "" where it is, or is not looked for."""
    place = place_of(source, file)
    if not source.place or source.kind == "cache" or place.exists():
        return ""
    stays = "" if source.kind == "zim" else " (what it gave before stays)"
    return (f"{place} is not there{stays}: put it back, or take it out with: "
            f"venus-edge corpus remove {file.stem} {shlex.quote(source.name)}")  # fmt: skip
