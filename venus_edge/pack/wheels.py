"""WHAT PIP INSTALLS FROM, FOR ANOTHER MACHINE. In: a Target. Out: a folder of wheels, and what else it needs there.

The program's own wheel is built from its checkout or put together again from its installation. For a machine like this
one pip builds or takes what is installed here; for another it takes binary wheels only, and llama.cpp (which PyPI has
as source) as source with what builds it. Limits: pip judges the conditions of requirements by the Python that runs it.
"""

from __future__ import annotations

import base64
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

NAME, LLAMA, EXTRAS = "venus-edge", "llama-cpp-python", ("fast", "pdf")
BUILDS = ("scikit-build-core[pyproject]", "cmake", "ninja")  # what llama-cpp-python's source asks for
COMPILERS = ("gcc and g++ (or clang)", "make")
_SYSTEMS = {"linux": "linux", "manylinux": "linux", "musllinux": "linux", "win": "windows", "macosx": "darwin"}


@dataclass(frozen=True, slots=True)
class Needs:
    """The machine that the wheels are for: Python as "3.11", system as "linux x86_64", and what it must have."""

    python: str
    system: str
    compilers: tuple[str, ...] = ()


def gather(target: Target, folder: Path, say: Callable[[str], None]) -> Needs:
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
        _pip("wheel", f"{own}[{','.join(EXTRAS)}]", "--wheel-dir", str(folder))
        return Needs(python, system)
    abis = [word for abi in (f"cp{python.replace('.', '')}", "abi3", "none") for word in ("--abi", abi)]
    foreign = [] if same else ["--python-version", python, "--implementation", "cp", *abis]
    named = [word for tag in target.platforms for word in ("--platform", tag)]
    wanted = [*requirements(NAME, EXTRAS), *requirements(LLAMA), *BUILDS]
    _pip("download", "--only-binary=:all:", *foreign, *named, "--dest", str(folder), *wanted)
    exact = f"{LLAMA}=={metadata.version(LLAMA)}"
    _pip("download", "--no-deps", f"--no-binary={LLAMA}", "--dest", str(folder), exact)
    return Needs(python, system, COMPILERS)


def _system(platforms: Sequence[str]) -> str:
    """The system and processor of pip's platform tags, all the same."""
    found = set()
    for tag in platforms:
        named = re.fullmatch(r"(manylinux|musllinux|linux|win|macosx)(?:_?\d+)*_(\w*?[a-z]\w*)", tag)
        if named is None:
            raise UsageError(
                f"{tag!r} is no platform of wheels, like manylinux_2_28_x86_64, win_amd64, macosx_12_0_arm64"
            )
        found.add(f"{_SYSTEMS[named[1]]} {named[2]}")
    if len(found) > 1:
        raise UsageError(f"a pack is for one kind of machine, not for {' and '.join(sorted(found))}")
    return found.pop()


def requirements(name: str, extras: Sequence[str] = ()) -> list[str]:
    """What an installed distribution asks for, with these extras; llama.cpp left out, since it is handled by itself."""
    found = []
    for line in metadata.requires(name) or []:
        requirement, _, condition = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", condition)
        if (extra is None or extra[1] in extras) and not requirement.startswith(LLAMA):
            found.append(requirement.strip())
    return found


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
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        why = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        raise StorageError(f"pip {arguments[0]} fails: {why.removeprefix('ERROR: ')[:300]}")
