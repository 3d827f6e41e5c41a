"""What a pack may not do to a machine, and what becomes of a pack that was damaged on the way: one line each."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from venus_edge.errors import StorageError
from venus_edge.pack import Part, make, unpack

FILES = {
    "config/config.toml": b"offline = true\n",
    "corpora/灯塔.sqlite": "灯塔的高度是53米。".encode() * 9_000,
    "models/tiny.gguf": bytes(range(256)) * 8_000,
    f"wheels/{'long_name' * 14}-1.0-py3-none-any.whl": b"PK",
}
MODEL = "models/tiny.gguf"
HERE = f"{platform.system()} {platform.machine()}".lower()
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def parts(tmp_path: Path) -> list[Part]:
    found = []
    for number, (name, data) in enumerate(FILES.items()):
        path = tmp_path / "parts" / str(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        found.append(Part(path, name))
    return found


Packed = Callable[..., Path]


@pytest.fixture
def packed(parts: list[Part], tmp_path: Path) -> Packed:
    def write(name: str = "kit", **facts: Any) -> Path:
        make.write(parts, facts, tmp_path / name, lambda _: None)
        return tmp_path / name

    return write


def taken(pack: Path, home: Path) -> list[str]:
    said: list[str] = []
    unpack.take(pack, home, said.append)
    return said


def contents(home: Path) -> dict[str, bytes]:
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def refused(pack: Path, home: Path) -> str:
    """The line for a pack that is not taken. Nothing wrong is left under a right name."""
    with pytest.raises(unpack.Broken) as caught:
        taken(pack, home)
    right = {unpack.place(Path(), name).as_posix(): data for name, data in FILES.items()}
    left = contents(home) if home.is_dir() else {}
    assert {name: data for name, data in left.items() if not name.endswith(".part") and right.get(name) != data} == {}
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ["kit", "套件.tar"])
def test_what_was_packed_comes_out_at_its_place(packed: Packed, tmp_path: Path, name: str) -> None:
    home = tmp_path / "家"
    said = taken(packed(name), home)
    expected = {unpack.place(Path(), name).as_posix(): data for name, data in FILES.items()}
    assert contents(home) == expected
    assert said[0] == f"4 files, {sum(map(len, FILES.values())):,} bytes; 0 are here already"
    assert taken(tmp_path / name, home) == [said[0].replace("; 0 are", "; 4 are")]


def test_any_tar_reads_the_pack(packed: Packed) -> None:
    with tarfile.open(packed("kit.tar")) as archive:
        members = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive}
        assert {name: file.read() for name, file in members.items() if file and name in FILES} == FILES


def test_the_same_parts_make_the_same_pack(packed: Packed, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    assert packed("kit.tar").read_bytes() == packed("again/kit.tar").read_bytes()


# -- damaged on the way -----------------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_flipped_byte(packed: Packed, tmp_path: Path) -> None:
    pack = packed()
    flip(pack / MODEL, 1_000_000)
    assert refused(pack, tmp_path / "home").startswith(f"{MODEL} is damaged (sha256 ")


def test_a_flipped_byte_anywhere_in_a_tar(packed: Packed, tmp_path: Path) -> None:
    whole = packed("kit.tar").read_bytes()
    end = len(whole.rstrip(b"\0"))
    for number, at in enumerate(range(0, end, end // 60)):
        (tmp_path / "bad.tar").write_bytes(whole)
        flip(tmp_path / "bad.tar", at)
        home = tmp_path / f"home{number}"
        try:
            taken(tmp_path / "bad.tar", home)
        except unpack.Broken:
            continue
        expected = {unpack.place(Path(), name).as_posix(): data for name, data in FILES.items()}
        assert contents(home) == expected  # it fell where nothing is read: a header's unused bytes, padding


def test_a_tar_that_was_cut_and_came_whole_the_second_time(packed: Packed, tmp_path: Path) -> None:
    pack, home = packed("kit.tar"), tmp_path / "home"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:1_500_000])
    assert refused(pack, home) == f"the pack ends early, in {MODEL}: copy it again; what came whole stays"
    pack.write_bytes(whole)
    assert taken(pack, home)[0].endswith("2 are here already")


@pytest.mark.parametrize("cut", [0, 100, 512, 700])
def test_a_tar_that_ends_before_its_first_file(packed: Packed, tmp_path: Path, cut: int) -> None:
    pack = packed("kit.tar")
    pack.write_bytes(pack.read_bytes()[:cut])
    assert "ends early" in refused(pack, tmp_path / "home")


def missing(pack: Path) -> None:
    (pack / MODEL).unlink()


def extra(pack: Path) -> None:
    (pack / "wheels" / "evil.whl").write_bytes(b"")


def cut(pack: Path) -> None:
    (pack / MODEL).write_bytes(b"x")


def link(pack: Path) -> None:
    (pack / MODEL).unlink()
    (pack / MODEL).symlink_to("/etc/hostname")


def linked_folder(pack: Path) -> None:
    (pack / "models").rename(pack.parent / "elsewhere")
    (pack / "models").symlink_to(pack.parent / "elsewhere")


def fifo(pack: Path) -> None:
    (pack / MODEL).unlink()
    os.mkfifo(pack / MODEL)


def no_manifest(pack: Path) -> None:
    (pack / "manifest.json").unlink()


def half_a_manifest(pack: Path) -> None:
    (pack / "manifest.json").write_bytes((pack / "manifest.json").read_bytes()[:200])


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (missing, f"missing from the pack: {MODEL}: copy it again"),
        (extra, "wheels/evil.whl is in the pack, but not in its manifest: remove it, or copy the pack again"),
        (cut, f"{MODEL} has 1 bytes, the manifest says 2,048,000: copy the pack again"),
        (link, f"{MODEL} is no plain file: a pack has no links and no devices; nothing of it is taken"),
        (linked_folder, "models is no plain file: a pack has no links and no devices; nothing of it is taken"),
        (fifo, f"{MODEL} is no plain file: a pack has no links and no devices; nothing of it is taken"),
        (no_manifest, "manifest.json cannot be read (No such file or directory): name a pack's folder or .tar"),
        (half_a_manifest, "manifest.json is not a pack's, or damaged: copy the pack again (UnicodeDecodeError)"),
    ],
)
def test_a_folder_that_is_not_as_it_was(
    packed: Packed, tmp_path: Path, damage: Callable[[Path], None], line: str
) -> None:
    pack = packed()
    damage(pack)
    assert refused(pack, tmp_path / "home").removeprefix(f"{pack}/") == line
    assert not (tmp_path / "home").exists()


# -- made to harm -----------------------------------------------------------------------------------------------------

TRICKS = [
    "../evil", "/etc/cron.d/evil", "models/../../evil", "models/./x", "models//x", "models/", "C:/evil", "models\\evil",
    "models/c:evil", "elsewhere/x", "evil.sh", "models/nul.gguf", "models/COM1", "models/x.", "models/x ", "models/\n",
    "models/" + "x" * 300, "", ".", "~/.bashrc", "models/\ud800", "models/com¹.txt", "models/aux .gguf",
    "models/CONIN$",
    "models/\0", "models/x\0.gguf", "manifest.json", "program/bin/python",
]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
def test_a_path_that_no_pack_has(name: str) -> None:
    with pytest.raises(unpack.Broken, match="names a path that no pack has"):
        unpack.read_manifest(manifest(name))


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["models/a", "models/a"], "two files of one name"),
        (["models/灯塔", "models/灯塔"], "two files of one name"),
        (["models/A.gguf", "models/a.gguf"], "two files of one name"),
        (["models/caf\u00e9", "models/cafe\u0301"], "two files of one name"),
        (["models/a", "models/A/b"], "a file that is a folder too"),
    ],
)
def test_names_that_fall_together_somewhere(names: list[str], line: str) -> None:
    with pytest.raises(unpack.Broken, match=line):
        unpack.read_manifest(manifest(*names))


def manifest(*names: str, size: int = 3, data: bytes = b"abc", **facts: Any) -> bytes:
    digest = hashlib.sha256(data).hexdigest()
    rows = [{"path": name, "size": size, "sha256": digest} for name in names]
    return json.dumps({"venus-edge-pack": 1, "files": rows, **facts}).encode()


@pytest.mark.parametrize(
    "facts",
    [
        {"extras": ["pdf]; evil"]},
        {"needs": ["gcc\x1b]0;evil\x07"]},
        {"python": "3.11\x1b[2J"},
        {"files": [{"path": "models/a", "size": float("inf"), "sha256": "0" * 64}]},
        {"files": [{"path": "models/a", "size": -1, "sha256": "0" * 64}]},
        {"files": [{"path": "models/a", "size": 1, "sha256": "../x"}]},
        {"files": {"models/a": 1}},
        {"needs": 7},
    ],
)
def test_a_manifest_that_nobody_packs(facts: dict[str, Any]) -> None:
    with pytest.raises(unpack.Broken, match=r"manifest.json is .*: copy the pack again") as caught:
        unpack.read_manifest(manifest("models/a", **facts))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("number", [0, 2, -1, "1", None, 1.5])
def test_another_format(number: object) -> None:
    text = manifest("models/a").replace(b'"venus-edge-pack": 1', f'"venus-edge-pack": {json.dumps(number)}'.encode())
    with pytest.raises(unpack.Broken, match=f"the pack is of format {number}, this reads 1: use the pack's own"):
        unpack.read_manifest(text)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"python": "3.99", "system": ""},
            f"the pack is for Python 3.99 on {HERE}, this is Python {PYTHON}: name the other one, "
            "PYTHON=/path/to/python3.99 sh install.sh, or make a pack for this one (venus-edge pack --wheels --python)",
        ),
        (
            {"python": "3.99", "system": "plan9 mips"},
            f"the pack is for Python 3.99 on plan9 mips, this is {HERE}: make one for this machine "
            "(venus-edge pack --wheels --platform)",
        ),
    ],
)
def test_another_python_or_another_machine(packed: Packed, tmp_path: Path, facts: dict[str, str], said: str) -> None:
    assert refused(packed(**facts), tmp_path / "home") == said
    unpack.take(tmp_path / "kit", tmp_path / "home", lambda _: None, program=False)  # its files may be looked at


def tar(path: Path, *members: tuple[str, bytes, bytes, str]) -> Path:
    """A tar with a manifest of models/a (abc), and what else is given: name, type, data, link."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, data, target in (("manifest.json", tarfile.REGTYPE, manifest("models/a"), ""), *members):
            member = tarfile.TarInfo(f"kit/{name}" if not name.startswith("/") else name)
            member.size, member.type, member.linkname = len(data), kind, target
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("members", "line"),
    [
        ([("models/a", tarfile.SYMTYPE, b"", "/etc/passwd")], "no plain file"),
        ([("models/a", tarfile.LNKTYPE, b"", "kit/manifest.json")], "no plain file"),
        ([("models/a", tarfile.CHRTYPE, b"", "")], "no plain file"),
        ([("models/a", tarfile.FIFOTYPE, b"", "")], "no plain file"),
        ([("models", tarfile.DIRTYPE, b"", "")], "was not written by venus-edge pack"),
        ([("models/a", tarfile.XHDTYPE, b"20 path=../../../evil", "")], "was not written by venus-edge pack"),
        ([("models/a", tarfile.CONTTYPE, b"abc", "")], "no plain file"),
        ([("models/a", tarfile.GNUTYPE_SPARSE, b"abc", "")], "no plain file"),
        ([("models/a", tarfile.GNUTYPE_LONGLINK, b"abc", "")], "no plain file"),
        ([("models/a", tarfile.GNUTYPE_LONGNAME, b"x" * 9_000, "")], "no plain file"),
        ([("../evil", tarfile.REGTYPE, b"abc", "")], "not in its manifest"),
        ([("/evil", tarfile.REGTYPE, b"abc", "")], "not in its manifest"),
        ([("models/b", tarfile.REGTYPE, b"abc", "")], "not in its manifest"),
        ([("models/a", tarfile.REGTYPE, b"a" * 9_000_000, "")], "models/a has 9,000,000 bytes, the manifest says 3"),
        ([("models/a", tarfile.REGTYPE, b"abd", "")], "models/a is damaged"),
        ([("models/a", tarfile.REGTYPE, b"abc", "")] * 2, "there is more in the pack than its manifest lists"),
        ([], "ends early"),
    ],
)
def test_a_tar_made_to_harm(tmp_path: Path, members: list[tuple[str, bytes, bytes, str]], line: str) -> None:
    pack = tar(tmp_path / "bad.tar", *members)
    with pytest.raises(unpack.Broken, match=line):
        taken(pack, tmp_path / "home")
    assert contents(tmp_path / "home") in ({}, {"data/models/a": b"abc"})
    assert not (tmp_path / "evil").exists()


def test_something_else_than_a_pack(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(__file__, "x/test.py")
    (tmp_path / "text.tar").write_text("这不是归档文件" * 100)
    for name, line in (
        ("other", "manifest.json does not stand at its beginning"),
        ("text", "is no .tar"),
        ("no", "read"),
    ):
        with pytest.raises(unpack.Broken, match=line):
            taken(tmp_path / f"{name}.tar", tmp_path / "home")


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_a_link_below_the_folder_leads_nothing_out_of_it(packed: Packed, tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    outside.mkdir()
    (home / "data").mkdir(parents=True)
    (home / "data" / "models").symlink_to(outside)
    assert "leads out of" in refused(packed(), home)
    assert list(outside.iterdir()) == []


def test_a_config_of_ones_own_stays(packed: Packed, tmp_path: Path) -> None:
    own = tmp_path / "home" / "config" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("threads = 2\n")
    taken(packed(), tmp_path / "home")
    assert own.read_text() == "threads = 2\n"


# -- the disk and the hand --------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB; where none can be mounted, the test is skipped."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode
    except FileNotFoundError:
        done = 1
    if done:
        pytest.skip("nothing can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_no_room_is_said_before_anything_is_written(packed: Packed, small_disk: Path) -> None:
    line = refused(packed(), small_disk / "home")
    assert line.startswith(f"69 MB are needed in {small_disk / 'home'}, 1 MB are free: ")
    assert contents(small_disk) == {}


def test_a_disk_that_fills_up_meanwhile(packed: Packed, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "_check_space", lambda *_: None)
    line = refused(packed("kit.tar"), small_disk / "home")
    assert line == f"the disk of {small_disk / 'home'} is full: make room, then run it again to go on"


def test_no_room_for_the_pack_itself(parts: list[Part], small_disk: Path) -> None:
    with pytest.raises(StorageError, match="the pack takes 69 MB, 1 MB are free"):
        make.write(parts, {}, small_disk / "kit.tar", lambda _: None)
    assert contents(small_disk) == {}


@pytest.mark.parametrize("name", ["kit", "kit.tar"])
def test_interrupted_and_run_again_it_goes_on(packed: Packed, tmp_path: Path, name: str) -> None:
    pack, home, stops = packed(name), tmp_path / "home", 2

    def stop(line: str) -> None:
        if line.startswith("  ") and len(contents(home)) == stops:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack.take(pack, home, stop)
    assert len(contents(home)) == stops
    said = taken(pack, home)
    assert (said[0].endswith("; 2 are here already"), len(said)) == (True, 3)
    assert contents(home) == {unpack.place(Path(), name).as_posix(): data for name, data in FILES.items()}


def test_nothing_is_unpacked_into_the_pack_itself(packed: Packed) -> None:
    pack = packed()
    for home in (pack, pack / "home"):
        with pytest.raises(unpack.Broken, match="lies in the pack itself"):
            unpack.unpack(pack, home, lambda _: None)


def test_memory_is_bounded_whatever_the_size(tmp_path: Path) -> None:
    import tracemalloc

    with (tmp_path / "big").open("wb") as out:
        out.truncate(200_000_000)
    tracemalloc.start()
    make.write([Part(tmp_path / "big", MODEL)], {}, tmp_path / "kit.tar", lambda _: None)
    taken(tmp_path / "kit.tar", tmp_path / "home")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize("name", [".DS_Store", "models/._tiny.gguf", "Thumbs.db", "wheels/desktop.ini"])
def test_what_a_file_manager_leaves_in_a_folder_is_passed_over(packed: Packed, tmp_path: Path, name: str) -> None:
    (packed() / name).write_bytes(b"x")
    taken(tmp_path / "kit", tmp_path / "home")
    assert len(contents(tmp_path / "home")) == len(FILES)


def test_a_tar_that_was_compressed_or_put_together_again_by_hand(packed: Packed, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "again.tar", "w") as archive:
        archive.add(packed(), "kit")
    with tarfile.open(tmp_path / "kit.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "kit", "kit")
    assert "unpack it (tar xf), and name the folder" in refused(tmp_path / "again.tar", tmp_path / "home")
    assert "kit.tar.gz is compressed, a pack is not" in refused(tmp_path / "kit.tar.gz", tmp_path / "home")


# -- installed --------------------------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, module: str, text: str) -> Part:
    """A wheel of one module; the program's reports which it is and what it was asked."""
    path, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}/__init__.py", "")
        archive.writestr(f"{module}/__main__.py", text)
        needs = "Requires-Dist: llama-cpp-python\n" if module == "venus_edge" else ""
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Part(path, f"wheels/{path.name}")


def installed(folder: Path, home: Path, word: str) -> list[str]:
    """What the installation of a pack says whose program answers with this word."""
    folder.mkdir()
    program = wheel(folder, "venus_edge", "venus_edge", f"import os, sys\nprint({word!r}, *sys.argv[1:], os.getcwd())")
    llama = wheel(folder, "llama_cpp_python", "llama_cpp", "")
    make.write([program, llama], {"left_out": ["corpora/维基.zim"]}, folder / "kit", lambda _: None)
    return unpacked(folder / "kit", home)


def unpacked(pack: Path, home: Path) -> list[str]:
    said: list[str] = []
    assert unpack.unpack(pack, home, said.append) == 0
    return said


def test_the_program_runs_from_its_own_folder_alone_and_is_made_anew_for_other_wheels(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "它的 'home'", tmp_path / "elsewhere"
    (elsewhere / "venus_edge").mkdir(parents=True)
    (elsewhere / "venus_edge" / "__main__.py").write_text("print('evil')")
    (elsewhere / "json.py").write_text("print('evil')")

    def answer() -> str:
        lead = {**os.environ, "PYTHONPATH": str(elsewhere)}
        command = [str(home / ("venus-edge.cmd" if os.name == "nt" else "venus-edge")), "灯塔 'x'"]
        return subprocess.run(command, cwd=elsewhere, env=lead, capture_output=True, text=True, check=True).stdout

    said = installed(tmp_path / "one", home, "one")
    assert f"installing into {home / 'program'}, without a network ..." in said
    lacking = home / "data" / "corpora" / "维基.zim"
    assert f"missing: corpora/维基.zim, left out of the pack: copy it to {lacking}" in said
    assert "missing: a model; the pack carries none (venus-edge pack --model NAME)" in said
    assert answer() == f"one 灯塔 'x' {elsewhere}\n"
    state = home / "program" / "installed"
    assert f"the program is in {home / 'program'} already" in unpacked(tmp_path / "one" / "kit", home)
    state.write_text("")  # as after a kill while pip was at work
    (home / "program" / "half").write_text("")
    assert f"installing into {home / 'program'}, without a network ..." in installed(tmp_path / "two", home, "two")
    assert (answer(), (home / "program" / "half").exists()) == (f"two 灯塔 'x' {elsewhere}\n", False)
    state.unlink()
    with pytest.raises(unpack.Broken, match="program is there already and not this program's: name another folder"):
        unpack.unpack(tmp_path / "two" / "kit", home, lambda _: None)
    assert (home / "program" / "pyvenv.cfg").exists()
