"""A PACK -> A FOLDER THAT WORKS. In: a pack's folder or .tar. Out: every file at its place, checked; the program
installed from the wheels, without a network; the doctor's findings.

Carried in the pack and run there by `install.sh`, so it imports nothing of the package and nothing beyond Python's own
library. It believes nothing that the pack says: a path that leaves the folder, a link, a device, a name twice, another
size or hash than the manifest's ends it before anything is installed. What is there and right is not copied again.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import unicodedata
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

FORMAT = 1
MANIFEST = "manifest.json"
TOP_FILES = ("README.txt", "install.sh", "unpack.py")
FOLDERS = ("config", "corpora", "models", "pages", "wheels")
PAGES = "pages/pages.sqlite"
MOST_MANIFEST = 16_000_000  # bytes
MOST_FILES = 50_000
MOST_NAME = 200  # bytes of a path; names of wheels alone come to a hundred
SPARE = 64 * 1024**2  # bytes that are left free
_FOREIGN = "llama.cpp may be built for another machine than this; pack it as source (venus-edge pack --source)"
_CHUNK = 1024 * 1024
_BLOCK = 512  # bytes of a tar's header, and of what its files are filled up to
# devices of Windows, whatever their ending
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d¹²³]) *(\.|$)")
_LITTER = re.compile(r"\._.*|\.DS_Store|Thumbs\.db|desktop\.ini")  # what file managers leave in folders they copy
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"7z\xbc\xaf")
_WRONG = re.compile(r'[\x00-\x1f\x7f\ud800-\udfff<>:"|?*\\]|[. ]$')


class Broken(Exception):
    """What is wrong with a pack, or with this machine for it: one line that says what to do."""


@dataclass(frozen=True)
class File:
    """A file as the manifest lists it."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a pack says of itself. `python` and `system` ("linux x86_64") are what its wheels need, "" for anything;
    `needs` is what compiles llama.cpp there, `extras` those of the program that have their wheels;
    `left_out` what belongs to it and comes by another way."""

    files: tuple[File, ...]
    python: str
    system: str
    needs: tuple[str, ...]
    extras: tuple[str, ...]
    left_out: tuple[str, ...]
    model: str

    @property
    def by_name(self) -> dict[str, File]:
        return {file.name: file for file in self.files}

    @property
    def wheels(self) -> list[File]:
        return [file for file in self.files if file.name.startswith("wheels/")]


# -- the manifest -----------------------------------------------------------------------------------------------------


def read_manifest(text: bytes) -> Manifest:
    """The manifest, every path of it checked. Raises Broken."""
    try:
        table = json.loads(text)
        version, rows = table["venus-edge-pack"], table["files"]
        if version != FORMAT:
            raise Broken(
                f"the pack is of format {str(version)[:20]}, this reads {FORMAT}: use the pack's own install.sh"
            )
        files = tuple(File(str(row["path"]), int(row["size"]), str(row["sha256"])) for row in rows)
        texts = [str(table.get(key, "")) for key in ("python", "system", "model")]
        needs, extras, left_out = (tuple(map(str, table.get(key, []))) for key in ("needs", "extras", "left_out"))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise Broken(f"{MANIFEST} is not a pack's, or damaged: copy the pack again ({type(error).__name__})") from error
    check_names([*(file.name for file in files), *left_out])
    for file in files:
        if file.size < 0 or not re.fullmatch(r"[0-9a-f]{64}", file.sha256):
            raise Broken(f"{MANIFEST} is damaged at {file.name!r}: copy the pack again")
    if not all(re.fullmatch(r"[a-z]+", extra) for extra in extras) or not "".join((*texts, *needs)).isprintable():
        raise Broken(f"{MANIFEST} is damaged at what the pack needs: copy the pack again")
    return Manifest(files, texts[0], texts[1], needs, extras, left_out, texts[2])


def check_names(names: list[str]) -> None:
    """Raises Broken for a path that a pack does not have: outside its folders, or the same as another somewhere."""
    if len(names) > MOST_FILES:
        raise Broken(f"the manifest lists {len(names):,} files; a pack has {MOST_FILES:,} at most")
    seen: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        inside = name in TOP_FILES or (len(parts) > 1 and parts[0] in FOLDERS)
        if not inside or len(name.encode("utf-8", "replace")) > MOST_NAME or any(map(_is_wrong, parts)):
            raise Broken(f"the pack names a path that no pack has: {name[:120]!r}; nothing of it is taken")
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            raise Broken(f"the pack has two files of one name: {seen[same]!r} and {name!r}; nothing of it is taken")
        seen[same] = name
    for same, name in seen.items():
        for end in (found.start() for found in re.finditer("/", same)):
            if same[:end] in seen:
                raise Broken(f"the pack has a file that is a folder too: {seen[same[:end]]!r} and {name!r}")


def _is_wrong(part: str) -> bool:
    return part in ("", ".", "..") or bool(_WRONG.search(part) or _RESERVED.match(part))


def check_machine(manifest: Manifest) -> None:
    """Raises Broken where the wheels are for another Python or another kind of machine."""
    here = f"{platform.system()} {platform.machine()}".lower()
    python = ".".join(map(str, sys.version_info[:2]))
    wanted = f"the pack is for Python {manifest.python or python} on {manifest.system or here}"
    if manifest.system not in ("", here):
        raise Broken(f"{wanted}, this is {here}: make one for this machine (venus-edge pack --wheels --platform)")
    if manifest.python not in ("", python):
        raise Broken(
            f"{wanted}, this is Python {python}: name the other one, PYTHON=/path/to/python{manifest.python} sh "
            "install.sh, or make a pack for this one (venus-edge pack --wheels --python)"
        )


# -- where the bytes are ----------------------------------------------------------------------------------------------

Source = Iterator["tuple[File, BinaryIO]"]


@contextmanager
def opened(pack: Path) -> Iterator[tuple[Manifest, Source]]:
    """A pack's manifest, and its files in the pack's order, each to be read before the next. Raises Broken."""
    with ExitStack() as stack:
        with _readable(pack):
            if pack.is_dir():
                manifest = read_manifest(_some(pack / MANIFEST))
                _check_folder(pack, manifest)
                files = _folder(pack, manifest)
            else:
                manifest, files = _begun(stack.enter_context(pack.open("rb")), pack)
        yield manifest, files


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Broken(f"{error.filename or path} cannot be read: {error.strerror or error}") from error


def _begun(tar: BinaryIO, pack: Path) -> tuple[Manifest, Source]:
    """The manifest, which stands at the beginning, and the files behind it."""
    if tar.read(6).startswith(_COMPRESSED):
        raise Broken(f"{pack} is compressed, a pack is not: unpack it with what made it, then name what was in it")
    tar.seek(0)
    top, first, size = _header(tar)
    if first != MANIFEST or size > MOST_MANIFEST:
        raise Broken(
            f"{pack} is not a pack: {MANIFEST} does not stand at its beginning; if it was put together again by hand: "
            "unpack it (tar xf), and name the folder of the pack"
        )
    manifest = read_manifest(_exactly(tar, size, MANIFEST))
    _exactly(tar, -size % _BLOCK, MANIFEST)
    return manifest, _members(tar, top, manifest)


def _some(path: Path) -> bytes:
    try:
        with path.open("rb") as source:
            text = source.read(MOST_MANIFEST + 1)
    except OSError as error:
        raise Broken(f"{path} cannot be read ({error.strerror or error}): name a pack's folder or .tar") from error
    if len(text) > MOST_MANIFEST:
        raise Broken(f"{path} is larger than any manifest")
    return text


def _check_folder(pack: Path, manifest: Manifest) -> None:
    """Raises Broken for what is not listed, is missing, is of another size or is no plain file."""
    known = manifest.by_name
    for path in sorted(pack.rglob("*")):
        name = path.relative_to(pack).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise Broken(f"{name} is no plain file: a pack has no links and no devices; nothing of it is taken")
        if path.is_file() and name not in known and name != MANIFEST and not _LITTER.fullmatch(path.name):
            raise Broken(f"{name} is in the pack, but not in its manifest: remove it, or copy the pack again")
    missing = [name for name in known if not (pack / name).is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Broken(f"missing from the pack: {missing[0]}{more}: copy it again")
    for file in manifest.files:
        if (have := (pack / file.name).stat().st_size) != file.size:
            raise Broken(f"{file.name} has {have:,} bytes, the manifest says {file.size:,}: copy the pack again")


def _folder(pack: Path, manifest: Manifest) -> Source:
    for file in manifest.files:
        with _readable(pack / file.name):
            source = (pack / file.name).open("rb")
        with source:
            yield file, source


def _members(tar: BinaryIO, top: str, manifest: Manifest) -> Source:
    """The files of a tar as they come. Only plain headers are read, and long names: no links, no holes."""
    left = manifest.by_name
    while left:
        folder, name, size = _header(tar)
        file = left.pop(name, None) if folder == top else None
        if file is None:
            raise Broken(f"{name[:120]!r} is in the pack twice, or not in its manifest: nothing more of it is taken")
        if size != file.size:
            raise Broken(f"{name} has {size:,} bytes, the manifest says {file.size:,}: copy the pack again")
        end = tar.tell() + size + (-size % _BLOCK)
        yield file, tar
        tar.seek(end)
    if _read(tar, _BLOCK, "its end").strip(b"\0"):
        raise Broken("there is more in the pack than its manifest lists")


def _header(tar: BinaryIO) -> tuple[str, str, int]:
    """The next member's top folder, its path below it, and its bytes."""
    member, long = _block(tar), ""
    if member.type == tarfile.GNUTYPE_LONGNAME and member.size <= _BLOCK:  # the name of the next, over 100 bytes
        long = _exactly(tar, _BLOCK, "a name").rstrip(b"\0").decode("utf-8", "replace")
        member = _block(tar)
    if member.type in (tarfile.DIRTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE):
        raise Broken("the .tar was not written by venus-edge pack: unpack it (tar xf), and name the folder of the pack")
    if member.type != tarfile.REGTYPE:
        raise Broken(
            f"{member.name[:120]!r} is no plain file: a pack has no links and no devices; nothing of it is taken"
        )
    top, _, name = (long or member.name).partition("/")
    return top, name, member.size


def _block(tar: BinaryIO) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(_read(tar, _BLOCK, "a name"), "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise Broken("the pack ends early or is no .tar of this program's: copy it again") from error


def _exactly(source: BinaryIO, size: int, name: str) -> bytes:
    data = _read(source, size, name)
    if len(data) != size:
        raise Broken(f"the pack ends early, in {name}: copy it again")
    return data


def _read(source: BinaryIO, size: int, name: str) -> bytes:
    """What a disk that is going bad, or was pulled out, gives no more is said of the pack, not of the target."""
    try:
        return source.read(size)
    except OSError as error:
        raise Broken(f"{name} cannot be read from the pack ({error.strerror or error}): copy the pack again") from error


# -- taking it in -----------------------------------------------------------------------------------------------------


def place(home: Path, name: str) -> Path:
    """Where a file of the pack belongs: models, corpora below `data`, all else as it is named."""
    below = name if name.partition("/")[0] not in ("models", "corpora") else f"data/{name}"
    return home / below


def take(pack: Path, home: Path, say: Callable[[str], None], program: bool = True) -> Manifest:
    """Every file of the pack at its place, checked; the same again goes on where it ended. `program`: its wheels are to
    be installed. Raises Broken."""
    with opened(pack) as (manifest, source), _full(home):
        if program:
            check_machine(manifest)
        home.mkdir(parents=True, exist_ok=True)
        lacking = [file for file in manifest.files if not _is_there(place(home, file.name), file, say)]
        _check_space(home, sum(file.size for file in lacking))
        wanted = {file.name for file in lacking}
        say(f"{len(manifest.files)} files, {sum(file.size for file in manifest.files):,} bytes; "
            f"{len(manifest.files) - len(wanted)} are here already")  # fmt: skip
        for file, stream in source:
            if file.name in wanted:
                _copy(stream, file, place(home, file.name), home, say)
    return manifest


def _is_there(path: Path, file: File, say: Callable[[str], None]) -> bool:
    """Whether the right file is at its place; a config.toml that is there is the person's own, whatever it says."""
    is_right = (
        path.is_file() and not path.is_symlink() and path.stat().st_size == file.size and _hash(path) == file.sha256
    )
    if file.name.startswith("config/") and path.is_file() and not is_right:
        say(f"{path} was there and stays as it is; the pack's own is {file.name}")
        return True
    return is_right


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _copy(source: BinaryIO, file: File, target: Path, home: Path, say: Callable[[str], None]) -> None:
    """One file, under its name only once it was found right."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if home.resolve() not in (target.parent.resolve() / target.name).parents:
        raise Broken(f"{target.parent} leads out of {home}: remove that link, or name another folder")
    partial, digest, left = target.with_name(f"{target.name}.part"), hashlib.sha256(), file.size
    partial.unlink(missing_ok=True)
    with partial.open("xb") as out:
        while left:
            chunk = _read(source, min(_CHUNK, left), file.name)
            if not chunk:
                raise Broken(f"the pack ends early, in {file.name}: copy it again; what came whole stays")
            digest.update(chunk)
            out.write(chunk)
            left -= len(chunk)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != file.sha256:
        partial.unlink()
        raise Broken(f"{file.name} is damaged (sha256 {digest.hexdigest()[:12]}..., the manifest says "
                     f"{file.sha256[:12]}...): copy the pack again; what was right stays")  # fmt: skip
    os.replace(partial, target)
    say(f"  {file.name}  {file.size:,} bytes, right")


def _check_space(home: Path, need: int) -> None:
    if need + SPARE > (free := shutil.disk_usage(home).free):
        raise Broken(
            f"{size_text(need + SPARE)} are needed in {home}, {size_text(free)} are free: make room, or name another"
        )


def size_text(size: int) -> str:
    """Bytes as a person counts them."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


@contextmanager
def _full(home: Path) -> Iterator[None]:
    """What the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Broken(f"the disk of {home} is full: make room, then run it again to go on") from error
        if error.errno == errno.EFBIG:
            raise Broken(f"the disk of {home} takes no file of that size: name a folder on another disk") from error
        raise Broken(f"{error.filename or home}: {error.strerror or error}: name a folder of your own") from error


# -- installing -------------------------------------------------------------------------------------------------------


def install(home: Path, manifest: Manifest, say: Callable[[str], None]) -> Path:
    """The program in a virtual environment below `home`, from the pack's wheels alone; the command that runs it there.
    Without wheels: the Python that runs this, which has the program. Raises Broken."""
    python = _environment(home, manifest, say) if manifest.wheels else Path(sys.executable)
    _try_out(python, bool(manifest.wheels))
    command = home / ("venus-edge.cmd" if os.name == "nt" else "venus-edge")
    command.write_text(_command(home, python), encoding="utf-8")
    with suppress(PermissionError):  # of FAT, where every file may be run or none
        command.chmod(0o755)
    return command


def _environment(home: Path, manifest: Manifest, say: Callable[[str], None]) -> Path:
    """The environment's Python. One that was not finished, or is of other wheels, is made anew."""
    below = home / "program"
    python = below / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    state, wanted = below / "installed", "\n".join(file.sha256 for file in manifest.wheels)
    if python.exists() and state.is_file() and state.read_text() == wanted:
        say(f"the program is in {below} already")
        return python
    _check_space(home, sum(_inflated(place(home, file.name)) for file in manifest.wheels))
    _check_compiler(manifest, say)
    _make_way(below, state)
    say(f"installing into {below}, without a network ...")
    try:
        venv.create(
            below, with_pip=True, symlinks=os.name != "nt"
        )  # as `python -m venv`: a copy may not find its library
    except OSError as error:
        raise Broken(f"Python's venv fails in {below} ({error}): name a folder on another disk") from error
    except subprocess.CalledProcessError as error:
        raise Broken(f"Python's venv fails ({error}): install your system's python3-venv package") from error
    _pip(python, home, manifest)
    state.write_text(wanted)
    return python


def _make_way(below: Path, state: Path) -> None:
    """An empty folder, marked as this program's. Raises Broken for one that is somebody else's."""
    if below.exists() and not state.exists() and any(below.iterdir()):
        raise Broken(f"{below} is there already and not this program's: name another folder to install into")
    shutil.rmtree(below, ignore_errors=True)
    below.mkdir(exist_ok=True)
    state.write_text("")


def _check_compiler(manifest: Manifest, say: Callable[[str], None]) -> None:
    """Raises Broken where llama.cpp is to be compiled and nothing here does."""
    if not manifest.needs:
        return
    needs = ", ".join(manifest.needs)
    there = any(map(shutil.which, ("c++", "g++", "clang++"))) or "CXX" in os.environ
    if os.name != "nt" and not there:  # Windows does not keep its compilers on the path
        raise Broken(f"llama.cpp is compiled here, and there is no C++ compiler: install {needs}, then run it again")
    say(f"llama.cpp is compiled here, which takes minutes and {needs}")


def _pip(python: Path, home: Path, manifest: Manifest) -> None:
    """Nothing is looked for anywhere else, and nothing is kept outside `home`."""
    own = next((place(home, file.name) for file in manifest.wheels if "/venus_edge-" in file.name), None)
    if own is None:
        raise Broken("the pack has wheels, but none of venus-edge: make it again with venus-edge pack --wheels")
    command = [str(python), "-I", "-m", "pip", "install", "--no-index", "--no-cache-dir"]
    extras = f"[{','.join(manifest.extras)}]" if manifest.extras else ""
    quiet = ["--disable-pip-version-check", "--no-input", "--quiet"]
    done = subprocess.run(
        [*command, *quiet, "--find-links", str(home / "wheels"), f"{own}{extras}"],
        env=bare(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        log = home / "install.log"
        log.write_text(f"{done.stdout}{done.stderr}", encoding="utf-8")
        raise Broken(f"pip cannot install from {home / 'wheels'}: {_last(done.stderr)}; all that it said: {log}")


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what leads Python or pip elsewhere."""
    return {name: value for name, value in environment.items() if not name.startswith(("PIP_", "PYTHON", "VENUS_"))}


def _inflated(wheel: Path) -> int:
    """The bytes that a wheel becomes; of source, that it has."""
    if wheel.suffix != ".whl":
        return wheel.stat().st_size
    try:
        with zipfile.ZipFile(wheel) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise Broken(f"{wheel.name} is no wheel: {error}") from error


def _try_out(python: Path, packed: bool) -> None:
    """Raises Broken where the program is not there, or llama.cpp was built for a newer CPU or system than this."""
    done = subprocess.run(
        [str(python), "-I", "-c", "import venus_edge, llama_cpp"],
        env=bare(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and not packed:
        raise Broken(
            f"the files are there; the pack carries no program, and {python} has none: pack --wheels carries it, or "
            "where it is installed: venus-edge unpack"
        )
    if done.returncode:
        why = _last(done.stderr) if done.returncode > 0 else f"it ends with signal {-done.returncode}"
        raise Broken(f"the program does not start ({why}): {_FOREIGN}")


def _last(text: str) -> str:
    """What pip or Python says is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it says nothing"]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines)[-1][:300]


def _command(home: Path, python: Path) -> str:
    """A command that keeps everything in `home`, wherever it is called from."""
    places = {"VENUS_CONFIG_DIR": "config", "VENUS_DATA_DIR": "data", "VENUS_CACHE_DIR": "cache"}
    if os.name == "nt":
        sets = "".join(f'set "{name}=%~dp0{folder}"\n' for name, folder in places.items())
        own = f"%~dp0{python.relative_to(home)}" if home in python.parents else str(python)
        return f'@echo off\n{sets}"{own}" -I -m venus_edge %*\n'
    sets = " ".join(f"{name}={quoted(str(home / folder))}" for name, folder in places.items())
    return f'#!/bin/sh\n{sets} exec {quoted(str(python))} -I -m venus_edge "$@"\n'


def quoted(text: str) -> str:
    """A text as one word of sh."""
    return "'" + text.replace("'", "'\\''") + "'"


# -- the whole way ----------------------------------------------------------------------------------------------------


def unpack(pack: Path, home: Path, say: Callable[[str], None], program: bool = True) -> int:
    """Takes a pack in, installs it, and lets the doctor look at it. Out: the doctor's exit code. Raises Broken."""
    home = home.expanduser().absolute()
    if pack.is_dir() and (home == pack.absolute() or pack.resolve() in home.resolve().parents):
        raise Broken(f"{home} lies in the pack itself: name a folder outside it")
    manifest = take(pack, home, say, program)
    if not program:
        if PAGES in manifest.by_name:
            say(f"its pages are taken in with: venus-edge cache import {place(home, PAGES)}")
        return 0
    with _full(home):
        command = install(home, manifest, say)
    environment = bare(os.environ)
    if PAGES in manifest.by_name:
        subprocess.run([str(command), "cache", "import", str(place(home, PAGES))], env=environment, check=False)
    for name in manifest.left_out:
        if not (lacking := place(home, name)).is_file():
            say(f"missing: {name}, left out of the pack: copy it to {lacking}")
    if not manifest.model:
        say("missing: a model; the pack carries none (venus-edge pack --model NAME)")
    say(f"$ {command} doctor")
    done = subprocess.run([str(command), "doctor"], env=environment, check=False)
    if done.returncode < 0:  # of a signal: an instruction that this processor does not have
        raise Broken(f"the doctor ends with signal {-done.returncode}: {_FOREIGN}")
    say(f'To ask: {command} "..."')
    return done.returncode


def main(arguments: list[str]) -> int:
    reader = argparse.ArgumentParser(prog="install.sh", description="Takes a pack of venus-edge in, without a network.")
    reader.add_argument("home", nargs="?", default="~/venus-edge", help="the folder for everything (~/venus-edge)")
    given = reader.parse_args(arguments)
    try:
        return unpack(Path(__file__).resolve().parent, Path(given.home), _say)
    except Broken as error:
        _say(f"Error: {error}")
        return 1
    except KeyboardInterrupt:
        _say("interrupted: run it again to go on")
        return 130


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
