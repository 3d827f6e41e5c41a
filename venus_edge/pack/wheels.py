"""WHAT PIP INSTALLS FROM, FOR ANOTHER MACHINE. In: a Target. Out: a folder of wheels, and what else it needs there.

The program's own wheel is built from its checkout or put together again from its installation. For a machine like this
one pip builds or takes what is installed here; for another it takes binary wheels only, and llama.cpp (which PyPI has
as source) as source with what builds it, unless pip finds a wheel of it. pip judges the conditions of requirements by
the Python that runs it, so what the wheels ask for is judged here again, by the machine they are for.
"""

from __future__ import annotations

import base64
import email
import hashlib
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from venus_edge.errors import StorageError, UsageError
from venus_edge.pack import Target
from venus_edge.registry import PACKAGE

NAME, LLAMA = "venus-edge", "llama-cpp-python"
EXTRAS = ("fast", "pdf")  # carried where the target has wheels of them
BUILDS = ("scikit-build-core[pyproject]", "cmake", "ninja")  # what llama-cpp-python's source asks for
COMPILERS = {
    "linux": ("gcc and g++ (or clang)",),
    "darwin": ("the Xcode command line tools (xcode-select --install)",),
    "windows": ("Visual Studio Build Tools with C++",),
}
_SYSTEMS = {"linux": "linux", "manylinux": "linux", "musllinux": "linux", "win": "windows", "macosx": "darwin"}
_MARKERS = {  # of a system: os_name, sys_platform, platform_system, as the conditions of requirements ask
    "linux": ("posix", "linux", "Linux"),
    "darwin": ("posix", "darwin", "Darwin"),
    "windows": ("nt", "win32", "Windows"),
}
_GLIBC = {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5}  # 2.N, that these older tags stand for

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Needs:
    """The machine that the wheels are for: Python as "3.11", system as "linux x86_64", and what it must have; the
    extras that are there."""

    python: str
    system: str
    compilers: tuple[str, ...] = ()
    extras: tuple[str, ...] = EXTRAS


class _NoWheel(StorageError):
    """There is none of something for this machine."""


def gather(target: Target, folder: Path, say: Say, extras: Sequence[str] = EXTRAS) -> Needs:
    """Fills the folder. Raises UsageError for a target that is none, StorageError where pip fails."""
    here = ".".join(map(str, sys.version_info[:2]))
    python = target.python or here
    if not re.fullmatch(r"3\.\d{1,2}", python) or int(python[2:]) < 11:
        raise UsageError(f"--python is 3.11 or newer, as 3.12, not {python!r}")
    system = _system(target.platforms) if target.platforms else f"{platform.system()} {platform.machine()}".lower()
    say("wheels of venus-edge and what it needs ...")
    own = own_wheel(folder)
    same = python == here and not target.platforms
    if same and not target.source:
        _pip("wheel", f"{own}[{','.join(extras)}]", "--wheel-dir", str(folder))
        return Needs(python, system, extras=tuple(extras))
    fetch = _Fetch(folder, python, system, () if same else tuple(_flags(python, target.platforms)))
    compiled = not fetch.llama(target.source)
    fetch.close([NAME, *(BUILDS if compiled else ())])
    return Needs(python, system, COMPILERS[system.split()[0]] if compiled else (), tuple(fetch.extras(extras, say)))


# -- what the target is -----------------------------------------------------------------------------------------------


def _system(platforms: Sequence[str]) -> str:
    """The system and processor of pip's platform tags, all the same."""
    found = set()
    for tag in platforms:
        named = re.fullmatch(r"(manylinux|musllinux|linux|win|macosx)(?:_?\d+)*_(\w*?[a-z]\w*)", tag)
        if named is None or named[2].startswith("universal"):
            raise UsageError(
                f"{tag!r} is no platform of wheels, like manylinux_2_28_x86_64, win_amd64, macosx_12_0_arm64"
            )
        found.add(f"{_SYSTEMS[named[1]]} {named[2]}")
    if len(found) > 1:
        raise UsageError(f"a pack is for one kind of machine, not for {' and '.join(sorted(found))}")
    return found.pop()


def _flags(python: str, platforms: Sequence[str]) -> Iterator[str]:
    """What tells pip of another machine."""
    yield from ("--python-version", python, "--implementation", "cp")
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        yield from ("--abi", abi)
    for tag in dict.fromkeys(older for newest in platforms for older in _tags(newest)):
        yield from ("--platform", tag)


def _tags(tag: str) -> Iterator[str]:
    """A tag and those of older systems whose wheels run there as well, which pip knows of macOS only."""
    yield tag
    old, _, machine = tag.partition("_")
    if old in _GLIBC:
        tag = f"manylinux_2_{_GLIBC[old]}_{machine}"
    if named := re.fullmatch(r"(manylinux_2|musllinux_1)_(\d+)_(\w+)", tag):
        for minor in range(int(named[2]), -1, -1):
            yield f"{named[1]}_{minor}_{named[3]}"
            if named[1] == "manylinux_2":
                yield from (f"{name}_{named[3]}" for name, number in _GLIBC.items() if number == minor)


# -- what it needs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Wheels for one machine into one folder. `flags`: what tells pip of it."""

    folder: Path
    python: str
    system: str
    flags: tuple[str, ...]

    def llama(self, as_source: bool) -> bool:
        """llama.cpp as it is installed here: a wheel where there is one for the machine, else its source. Out: whether
        it is a wheel."""
        exact = f"{LLAMA}=={metadata.version(LLAMA)}"
        if not as_source:
            try:
                self._download("--no-deps", exact)
            except _NoWheel:
                pass
            else:
                return True
        _pip("download", "--no-deps", f"--no-binary={LLAMA}", "--dest", str(self.folder), exact)
        return False

    def close(self, roots: Sequence[str]) -> None:
        """Everything that these ask for, and what that asks for."""
        asked: set[str] = set()
        while lacking := self.lacking(roots):
            if again := asked.intersection(lacking):
                raise StorageError(f"pip fetches no wheel of {', '.join(sorted(again))}")
            asked.update(lacking)
            self._download(*lacking)

    def extras(self, wanted: Sequence[str], say: Say) -> Iterator[str]:
        """Those extras of the program whose wheels there are."""
        for extra in wanted:
            try:
                self.close([f"{NAME}[{extra}]"])
            except _NoWheel as error:
                say(f"left out, the program runs without it: {extra}: {error}")
            else:
                yield extra

    def lacking(self, roots: Sequence[str]) -> list[str]:
        """What these ask for, and what that asks for, of which the folder has no wheel."""
        from packaging.requirements import Requirement

        there = {_canonical(path.name.partition("-")[0]): path for path in self.folder.iterdir()}
        todo, seen, missing = [Requirement(root) for root in roots], set(), set()
        while todo:
            wanted = todo.pop()
            path = there.get(_canonical(wanted.name))
            if path is None:
                wanted.marker = None
                missing.add(str(wanted))
                continue
            for extra in {"", *wanted.extras}:
                if (path, extra) not in seen:
                    seen.add((path, extra))
                    asked = map(Requirement, _requires(path))
                    todo += [each for each in asked if each.marker is None or each.marker.evaluate(self._facts(extra))]
        return sorted(missing)

    def _facts(self, extra: str) -> dict[str, str]:
        """The machine as the conditions of requirements ask for it."""
        kind, _, machine = self.system.partition(" ")
        os_name, sys_platform, platform_system = _MARKERS[kind]
        return {
            "extra": extra, "os_name": os_name, "sys_platform": sys_platform, "platform_system": platform_system,
            "platform_machine": machine.upper() if kind == "windows" else machine,
            "python_version": self.python, "python_full_version": f"{self.python}.0",
            "implementation_name": "cpython", "platform_python_implementation": "CPython",
        }  # fmt: skip

    def _download(self, *wanted: str) -> None:
        try:
            _pip("download", "--only-binary=:all:", *self.flags, "--dest", str(self.folder), *wanted)
        except StorageError as error:
            none = re.search(r"No matching distribution found for (.*)", str(error))
            if none is None:
                raise
            raise _NoWheel(
                f"there is no wheel of {none[1]} for Python {self.python} on {self.system}: try another --python, a "
                "newer --platform, or name a folder that has one in PIP_FIND_LINKS"
            ) from error


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requires(path: Path) -> list[str]:
    """What a wheel asks for, with its conditions; llama.cpp's source asks for what it asks for here."""
    if path.suffix != ".whl":
        return metadata.requires(LLAMA) or []
    with zipfile.ZipFile(path) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist", [])


# -- the program itself -----------------------------------------------------------------------------------------------


def own_wheel(folder: Path) -> Path:
    """The program's own wheel: from the checkout it runs in, else from its installation."""
    root = PACKAGE.parent
    if (root / "pyproject.toml").is_file():
        _pip("wheel", "--no-deps", str(root), "--wheel-dir", str(folder))
        return next(iter(sorted(folder.glob("venus_edge-*.whl"))))
    return again(metadata.distribution(NAME), folder)


def again(installed: metadata.Distribution, folder: Path) -> Path:
    """The wheel of an installed distribution, from the files that its record lists."""
    version = installed.version
    wheel = folder / f"{NAME.replace('-', '_')}-{version}-py3-none-any.whl"
    info = f"{NAME.replace('-', '_')}-{version}.dist-info"
    rows = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in _recorded(installed):
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    if not any(row.startswith("venus_edge/__init__.py,") for row in rows):
        wheel.unlink()
        raise StorageError("the installation of venus-edge has no record of its files: install it from a wheel again")
    return wheel


def _recorded(installed: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a wheel among those of an installation: no scripts, nothing that an installer wrote."""
    wrote = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    for file in installed.files or []:
        name = file.as_posix()
        if not name.startswith(("..", "/")) and "__pycache__" not in file.parts and file.name not in wrote:
            yield name, Path(str(installed.locate_file(file)))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--quiet", "--no-input"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StorageError(f"pip {arguments[0]} fails: {_why(done.stderr)}")


def _why(said: str) -> str:
    """What pip says is wrong, in one line."""
    lines = [line for line in said.splitlines() if line.strip()] or ["it says nothing"]
    if lines[-1].endswith("No module named pip"):
        return f"it is not here; get it with: {sys.executable} -m ensurepip"
    if any("connection broken by" in line for line in lines):
        return "the registry of packages cannot be reached (PIP_INDEX_URL names another): run it again with a network"
    why = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
    return why.removeprefix("ERROR: ")[:300]
