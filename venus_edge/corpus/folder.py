"""A FOLDER OF .html .md .txt -> A CORPUS FILE, reading again only what has changed.

In: a folder, the corpus file, and `extract`, which makes text of HTML (runtime gives the one of `sources`). Out: a
`Report`; what was skipped is in it with the reason, and is never fatal. Links out of the folder are not followed.
"""

from __future__ import annotations

import codecs
import hashlib
import html
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from venus_edge.corpus import address
from venus_edge.corpus.store import Document, FileRow, Writer
from venus_edge.errors import CorpusError
from venus_edge.values import Failure

LARGEST = 20_000_000  # bytes of a file that is read
SUFFIXES = {".html": "html", ".htm": "html", ".xhtml": "html", ".md": "text", ".markdown": "text", ".txt": "text"}
_BATCH_FILES, _BATCH_BYTES = 200, 16_000_000  # what is written together


class Extracted(Protocol):
    """What an extractor makes of HTML."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def date(self) -> str: ...


Extract = Callable[[bytes, str, str], Extracted | Failure]  # body, address, content type
Progress = Callable[[int, int, str], None]  # files done, files in all, path of this one


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not in the corpus, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Report:
    """What a build came to, in documents. `documents` is what the corpus holds now."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    documents: int = 0
    skipped: list[Skipped] = field(default_factory=list)


def build(folder: Path, index: Path, extract: Extract, progress: Progress | None = None) -> Report:
    """Brings the corpus file `index` up to date with `folder`. Raises CorpusError if there is no such folder.

    Interrupted at any moment, the file is sound and the next build goes on.
    """
    root = _root(folder)
    report = Report()
    files = list(_walk(root, report.skipped))
    with Writer(index) as writer:
        build_ = _Build(root, folder.name or root.name, extract, writer, report, writer.files())
        _remove(build_, {file.path for file in files})
        done = 0
        for batch in _batches(files):
            with writer.batch():
                for file in batch:
                    done += 1
                    if progress:
                        progress(done, len(files), file.path)
                    _take(build_, file)
        report.documents = writer.count()
    return report


def _root(folder: Path) -> Path:
    root = folder.resolve()
    if not root.is_dir():
        raise CorpusError(f"{folder} is not a folder; give one that holds .html, .md or .txt files")
    if not os.access(root, os.R_OK | os.X_OK):
        raise CorpusError(f"{folder} cannot be read; allow it, or give another folder")
    return root


# -- what is there ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    path: str  # from the root, with /
    size: int
    mtime_ns: int


def _walk(root: Path, skipped: list[Skipped]) -> Iterator[_File]:
    """The readable documents, in the order of their paths. Hidden files and folders are not looked at."""
    for at, folders, names in os.walk(root, onerror=lambda error: skipped.append(_unreadable(root, error))):
        here = Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        _note_links(root, [here / name for name in folders], skipped)
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield from _stat(root, here / name, skipped)


def _unreadable(root: Path, error: OSError) -> Skipped:
    path = Path(os.fsdecode(error.filename)) if error.filename else root
    return Skipped(_relative(root, path), f"cannot be read: {error.strerror}")


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _note_links(root: Path, folders: Sequence[Path], skipped: list[Skipped]) -> None:
    """A link to a folder is not followed; what it leads to inside is read there."""
    outward = (path for path in folders if path.is_symlink() and not _leads_inside(root, path))
    skipped.extend(Skipped(_relative(root, path), "a link out of the folder") for path in outward)


def _leads_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a link to nothing, or in a circle
        return False


def _stat(root: Path, path: Path, skipped: list[Skipped]) -> Iterator[_File]:
    name = _relative(root, path)
    try:
        name.encode()
        if path.is_symlink() and not _leads_inside(root, path):
            skipped.append(Skipped(name, "a link out of the folder, or to nothing"))
            return
        stat = path.stat()
    except UnicodeEncodeError:
        skipped.append(Skipped(name.encode("utf-8", "replace").decode(), "its name is not UTF-8"))
    except OSError as error:
        skipped.append(_unreadable(root, error))
    else:
        if not path.is_file():
            skipped.append(Skipped(name, "not a file"))
        elif stat.st_size > LARGEST:
            skipped.append(Skipped(name, f"too large: {stat.st_size / 1e6:.0f} MB, at most {LARGEST / 1e6:.0f}"))
        else:
            yield _File(name, stat.st_size, stat.st_mtime_ns)


def _batches(files: Sequence[_File]) -> Iterator[list[_File]]:
    batch: list[_File] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# -- one file ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Build:
    """What taking a file needs to know. `known` are the files as they were read before."""

    root: Path
    name: str
    extract: Extract
    writer: Writer
    report: Report
    known: dict[str, FileRow]


def _take(build_: _Build, file: _File) -> None:
    """One file into the corpus, as far as it has changed."""
    known = build_.known.get(file.path)
    if known and (known.size, known.mtime_ns) == (file.size, file.mtime_ns):
        build_.report.unchanged += 1
        return
    try:
        body = (build_.root / file.path).read_bytes()
    except OSError as error:
        _skip(build_, file, f"cannot be read: {error.strerror}")
        return
    digest = hashlib.sha256(body).hexdigest()
    if known and known.sha256 == digest:
        build_.report.unchanged += 1
        number = known.document
    else:
        made = _document(build_, file, body)
        if isinstance(made, str):
            _skip(build_, file, made)
            return
        number = _store(build_, file, made)
    if number:
        build_.writer.put_file(file.path, FileRow(len(body), file.mtime_ns, digest, number))


def _skip(build_: _Build, file: _File, reason: str) -> None:
    """Notes a file that gives no document, and takes out the one that it gave before."""
    build_.report.skipped.append(Skipped(file.path, reason))
    _forget(build_, file.path)


def _forget(build_: _Build, path: str) -> None:
    known = build_.known.pop(path, None)
    if known:
        build_.writer.drop(known.document)
        build_.writer.drop_file(path)


def _remove(build_: _Build, present: set[str]) -> None:
    gone = [path for path in build_.known if path not in present]
    with build_.writer.batch():
        for path in gone:
            _forget(build_, path)
    build_.report.removed = len(gone)


def _store(build_: _Build, file: _File, document: Document) -> int:
    """The id under which the document is stored, 0 if it is there already."""
    renewed = file.path in build_.known
    _forget(build_, file.path)
    free = []
    for url in (document.url, *document.aliases):
        there = build_.writer.find(url)
        if there is None:
            free.append(url)
        elif there[1] == document.sha256:
            build_.report.skipped.append(Skipped(file.path, f"the same text is there at {url}"))
            return 0
    if not free:
        build_.report.skipped.append(Skipped(file.path, "another file has its address"))
        return 0
    number = build_.writer.put(Document(free[0], document.title, document.text, document.date, tuple(free[1:])))
    build_.report.updated += renewed
    build_.report.added += not renewed
    return number


# -- bytes -> document ------------------------------------------------------------------------------------------------

_TAG = re.compile(r"<(link|meta)\b([^>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([a-zA-Z:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_SAVED = re.compile(r"<!--\s*saved from url=\(\d+\)(\S+?)\s*-->", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_-]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$|^(\S.*)\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
_HEAD = 65_536  # bytes of a page in which its addresses are looked for


def _document(build_: _Build, file: _File, body: bytes) -> Document | str:
    """The document of a file, or the reason why it has none."""
    name = Path(file.path)
    own = address.of_file(build_.name, name.parts)
    if not body.strip():
        return "it is empty"
    if _is_binary(body):
        return "it is not text"
    if SUFFIXES[name.suffix.lower()] == "html":
        made = _from_html(body, own, build_.extract)
    else:
        made = _from_text(decode(body), own)
    if isinstance(made, str):
        return made
    if not made.text.strip():
        return "it has no text"
    title = made.title or name.stem.replace("_", " ").strip()
    return Document(made.url, " ".join(title.split()), made.text, made.date, made.aliases)


def _from_html(body: bytes, own: str, extract: Extract) -> Document | str:
    addresses = [*_addresses_in(decode(body[:_HEAD], cut=len(body) > _HEAD)), own]
    page = extract(body, addresses[0], "")
    if isinstance(page, Failure):
        return page.detail
    return Document(
        addresses[0], page.title, page.text.encode("utf-8", "replace").decode(), page.date, tuple(addresses[1:])
    )


def _addresses_in(head: str) -> list[str]:
    """The web addresses that a page names as its own: canonical, og:url, where it was saved from."""
    named: dict[str, str] = {}
    for tag in _TAG.finditer(head):
        fields = {m[1].lower(): html.unescape(m[2] or m[3] or m[4] or "") for m in _ATTRIBUTE.finditer(tag[2])}
        if "canonical" in fields.get("rel", "").lower().split():
            named.setdefault("canonical", fields.get("href", ""))
        elif fields.get("property", fields.get("name", "")).lower() == "og:url":
            named.setdefault("og:url", fields.get("content", ""))
    saved = _SAVED.search(head)
    found = (named.get("canonical", ""), named.get("og:url", ""), saved[1] if saved else "")
    return list(dict.fromkeys(url.strip() for url in found if _is_web(url)))


def _is_web(url: str) -> bool:
    return url.strip().lower().startswith(("http://", "https://")) and bool(address.host(url.strip()))


def _from_text(text: str, own: str) -> Document:
    """Markdown or plain text; a front matter may name its address, title and date."""
    front = _FRONT_MATTER.match(text)
    fields = {name.lower(): _unquoted(value) for name, value in _FIELD.findall(front[1])} if front else {}
    body = text[front.end() :] if front else text
    heading = _HEADING.search(body[:4_000])
    first = next((line.strip() for line in body.splitlines() if line.strip()), "")
    title = fields.get("title") or (heading[1] or heading[2] if heading else "") or (first if len(first) <= 100 else "")
    named = [url for url in (fields.get(n, "") for n in ("url", "canonical", "source", "link")) if _is_web(url)]
    addresses = [*dict.fromkeys(named), own]
    return Document(addresses[0], title, body.strip(), fields.get("date", "")[:10], tuple(addresses[1:]))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# -- bytes -> text ----------------------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _is_binary(body: bytes) -> bool:
    """NUL bytes without a mark that explains them."""
    return b"\0" in body[:8_192] and not body.startswith(tuple(mark for mark, _ in _MARKS))


def decode(body: bytes, cut: bool = False) -> str:
    """By its mark, as UTF-8, as GB18030 where that reads as Chinese, else as windows-1252. `cut`: the end may be the
    middle of a character."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return _newlines(body.decode(codec, "replace"))
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(body, final=not cut)
    except UnicodeDecodeError:
        text = _chinese(body) or body.decode("cp1252", "replace")
    return _newlines(text)


def _chinese(body: bytes) -> str:
    """The body as GB18030, "" unless its high bytes stand in pairs: accents of Latin letters stand alone."""
    paired = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", body))
    text = body.decode("gb18030", "replace")
    return text if paired >= 0.8 * sum(byte > 0x7F for byte in body) and "\ufffd" not in text[:-1] else ""


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
