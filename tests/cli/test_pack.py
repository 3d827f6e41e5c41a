"""`pack` and `unpack` as a person types them: what goes in, what stays out, and what is refused in one line."""

from __future__ import annotations

import json
import shutil
import zipfile
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support import bert
from venus_edge import config, demo, registry, world
from venus_edge.cli.app import cli
from venus_edge.errors import UsageError
from venus_edge.pack import wheels
from venus_edge.settings import Directories

PAGE = "---\nurl: https://例子.example/灯塔\ntitle: 克雷翁灯塔\n---\n克雷翁灯塔于1916年首次点亮，高53米。\n"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of one's own that goes by another name than the shipped one's."""
    return Path(shutil.copy(demo.HERE / "venus-tiny.gguf", tmp_path / "My_venus-tiny.gguf"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "笔记").mkdir()
    (tmp_path / "笔记" / "灯塔.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "笔记"


def test_model_corpus_and_cache_arrive_and_answer(
    tmp_path: Path, model: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, home = tmp_path / "kit.tar", tmp_path / "home"
    packed = run("pack", kit, "--model", model, "--corpus", notes, "--corpus", demo.CORPUS, "--cache")
    assert (packed.exit_code, packed.stdout) == (0, f"{kit}\n"), packed.output
    assert run("unpack", kit, home, "--files-only").exit_code == 0
    at(home, monkeypatch)
    shutil.rmtree(notes)
    model.unlink()
    answered = run("run", demo.questions()[0].text)
    assert answered.exit_code == 0, answered.output
    assert demo.questions()[0].expect in answered.stdout
    assert "Connections: none; 0 bytes left this machine" in answered.stderr
    (index,) = (home / "data" / "corpora").glob("笔记-*.sqlite")
    assert "https://例子.example/灯塔" in run("corpus", "search", index, "灯塔 高度").stdout


def test_a_corpus_in_a_pack_does_not_say_from_where_it_was_read(tmp_path: Path, notes: Path) -> None:
    assert run("corpus", "create", "notes", notes).exit_code == 0
    assert run("pack", tmp_path / "kit", "--corpus", "notes").exit_code == 0
    (index,) = (tmp_path / "kit").rglob("*.sqlite")
    assert str(tmp_path).encode() not in index.read_bytes()


def at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the program is the one that was unpacked."""
    for name in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"VENUS_{name}_DIR", str(home / name.lower()))


@pytest.fixture
def wiki(tmp_path: Path, notes: Path) -> Path:
    """An archive that the corpora `wiki` and `维基` read in place, the first beside notes of one's own."""
    pytest.importorskip("libzim.writer")
    from tests.corpus.test_zim import archive

    file = archive(tmp_path / "lights.zim", True)
    assert run("corpus", "create", "wiki", file, notes).exit_code == 0
    assert run("corpus", "create", "维基", file).exit_code == 0
    return file


QUERIES = (("wiki", "Kereon lighthouse", "zim:lights/A/Kereon"), ("wiki", "高53米", "https://例子.example/灯塔"))


def test_an_archive_that_corpora_read_in_place_goes_along_once(
    tmp_path: Path, notes: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "lights.zim"
    other.parent.mkdir()
    shutil.copy(wiki, other)
    named = ["--corpus", "wiki", "--corpus", "维基", "--corpus", other]
    packed = run("pack", tmp_path / "kit", *named)
    size = f"{wiki.stat().st_size:,} bytes"
    assert (
        f"lights.zim, which corpus wiki reads in place, goes in (--no-archives: it does not): {size}" in packed.stderr
    )
    assert sorted(path.name for path in (tmp_path / "kit" / "corpora").iterdir()) == [
        "lights-2.zim", "lights.zim", "wiki.sqlite", "维基.sqlite",
    ]  # fmt: skip
    assert run("unpack", tmp_path / "kit", tmp_path / "home", "--files-only").exit_code == 0
    shutil.rmtree(notes)
    for path in (wiki, other):
        path.unlink()
    at(tmp_path / "home", monkeypatch)
    for name, query, url in (*QUERIES, ("维基", "Kereon lighthouse", "zim:lights/A/Kereon")):
        assert url in run("corpus", "search", name, query).stdout
        assert run("corpus", "show", name, url).exit_code == 0
    assert run("corpus", "check", "wiki").stdout == "wiki is sound\n"
    assert "lights-2.zim" in run("config", "show").stdout


def test_an_archive_that_is_left_out_is_named_and_found_once_it_is_put_there(
    tmp_path: Path, wiki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = run("pack", tmp_path / "kit.tar", "--corpus", "wiki", "--no-archives")
    size = f"{wiki.stat().st_size:,} bytes"
    line = (
        f"lights.zim, which corpus wiki reads in place, stays out; its place there is data/corpora/lights.zim: {size}"
    )
    assert line in packed.stderr
    assert run("unpack", tmp_path / "kit.tar", tmp_path / "home", "--files-only").exit_code == 0
    at(tmp_path / "home", monkeypatch)
    place = tmp_path / "home" / "data" / "corpora" / "lights.zim"
    found = run("corpus", "search", "wiki", "高53米")
    assert (found.exit_code, QUERIES[1][2] in found.stdout) == (0, True)
    assert f"corpus wiki reads {place} in place, which is not there: copy it there" in found.stderr
    shutil.move(wiki, place)
    assert QUERIES[0][2] in run("corpus", "search", "wiki", QUERIES[0][1]).stdout


def test_a_corpus_whose_archive_is_gone_is_not_packed(tmp_path: Path, wiki: Path) -> None:
    wiki.unlink()
    packed = run("pack", tmp_path / "kit", "--corpus", "维基")
    line = f"Error: corpus 维基 reads {wiki}, which is not there: put it back, or remove it: venus-edge corpus remove "
    assert (packed.exit_code, packed.stderr.startswith(line)) == (1, True)
    assert not (tmp_path / "kit").exists()
    searched = run("corpus", "search", "维基", "灯塔")
    assert searched.stderr == f"Error: corpus 维基 reads {wiki} in place, which is not there: copy it there\n"


def test_an_embedding_model_goes_along_and_a_corpus_is_found_by_meaning_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert.by_hand(tmp_path / "By_hand.gguf", [("lighthouse", "pharos", "灯"), ("bread", "loaf")])
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "a.txt").write_text("lighthouse")
    (tmp_path / "words" / "b.txt").write_text("bread")
    assert run("corpus", "create", "words", tmp_path / "words").exit_code == 0
    packed = run("pack", tmp_path / "kit", "--corpus", "words", "--dense", tmp_path / "By_hand.gguf")
    assert packed.exit_code == 0, packed.output
    without = run("pack", tmp_path / "kit2", "--corpus", "words")
    assert "corpus words: its vectors go in, the model 'by hand' does not" in without.stderr
    (tmp_path / "By_hand.gguf").unlink()
    assert run("unpack", tmp_path / "kit", tmp_path / "home", "--files-only").exit_code == 0
    at(tmp_path / "home", monkeypatch)
    assert 'dense = "by_hand"' in (tmp_path / "home" / "config" / "config.toml").read_text()
    with closing(world.open_corpus(Path("words"), config.settings({}), lambda _: None)) as corpus:
        assert [hit.snippet for hit in corpus.search("pharos 灯").hits] == ["lighthouse"]


def test_no_secret_and_nothing_of_this_machine_goes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Directories.from_environment().config
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'serper_key = "sk-secret"\nengine = "http://me:pass@10.0.0.1:1"\nproxy = "http://me:pass@p:1"\n'
        'threads = 7\nresults = 5\nlanguage = "zh-CN"\nallow_hosts = ["wiki.lan"]\n'
    )
    monkeypatch.setenv("VENUS_TAVILY_KEY", "sk-secret")
    assert run("pack", tmp_path / "kit", "--model", "venus-tiny").exit_code == 0
    assert (tmp_path / "kit" / "config" / "config.toml").read_text() == (
        'results = 5\nlanguage = "zh-CN"\nmodel = "venus-tiny"\noffline = true\n'
    )
    everything = b"".join(path.read_bytes() for path in (tmp_path / "kit").rglob("*") if path.is_file())
    for secret in (b"sk-secret", b"me:pass", b"wiki.lan", str(tmp_path).encode()):
        assert secret not in everything


def test_a_model_of_ones_own_is_found_by_its_name_there(tmp_path: Path, model: Path) -> None:
    assert run("pack", tmp_path / "kit", "--model", model).exit_code == 0
    packed = json.loads((tmp_path / "kit" / "manifest.json").read_text())
    assert packed["model"] == "my-venus-tiny"
    assert (tmp_path / "kit" / "models" / "My_venus-tiny.gguf").is_file()
    spec = registry.load(tmp_path / "kit" / "config")["my-venus-tiny"]
    assert (spec.file, spec.n_ctx, spec.sampling.max_tokens) == ("", 4_096, 400)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["kit"], "nothing to pack: name --model, --corpus, --dense, --cache or --wheels"),
        (["kit.tar.gz", "--cache"], "kit.tar.gz would be a folder of that name: a pack is a folder or a .tar"),
        (["kit", "--cache", "--python", "3.12"], "--python, --platform and --source say what --wheels are for: "),
        (["kit", "--model", "no-such"], "unknown model 'no-such'; known: "),
        (["kit", "--model", "dr-venus-4b-rl"], "model dr-venus-4b-rl is not on this machine; get it with: "),
        (["kit", "--corpus", "missing"], "missing"),
        (["nowhere/kit", "--cache"], "nowhere is not there: make it first"),
        (["there", "--cache"], "there is there already: name a new folder or .tar"),
        (["kit", "--wheels", "--python", "2.7"], "--python is 3.11 or newer, as 3.12, not '2.7'"),
        (["kit", "--wheels", "--platform", "plan9"], "'plan9' is no platform of wheels"),
        (
            ["kit", "--wheels", "--platform", "macosx_12_0_universal2"],
            "'macosx_12_0_universal2' is no platform of wheels",
        ),
    ],
)
def test_what_cannot_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    result = run("pack", *words)
    last = result.stderr.splitlines()[-1]
    assert (result.exit_code in (1, 2), line in last, last.startswith("Error: ")) == (True, True, True), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_unpack_says_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    result = run("unpack", tmp_path / "kit.tar", tmp_path / "home")
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {tmp_path / 'kit.tar'} cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("platforms", "system"),
    [
        (("manylinux_2_28_x86_64", "manylinux2014_x86_64", "linux_x86_64"), "linux x86_64"),
        (("manylinux_2_28_aarch64",), "linux aarch64"),
        (("win_amd64",), "windows amd64"),
        (("macosx_12_0_arm64",), "darwin arm64"),
    ],
)
def test_a_platform_of_wheels_names_a_machine(platforms: tuple[str, ...], system: str) -> None:
    assert wheels._system(platforms) == system
    with pytest.raises(UsageError, match="one kind of machine"):
        wheels._system((*platforms, "musllinux_1_2_riscv64"))


def wheel(folder: Path, name: str, *requires: str) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}"
        )


@pytest.mark.parametrize(
    ("system", "python", "lacking"),
    [
        ("linux x86_64", "3.11", ["backport>=1", "uring"]),
        ("linux aarch64", "3.13", ["uring"]),
        ("windows amd64", "3.12", ["backport>=1", "colorama"]),
        ("darwin arm64", "3.13", []),
    ],
)
def test_what_wheels_ask_for_is_judged_by_the_machine_they_are_for(
    tmp_path: Path, system: str, python: str, lacking: list[str]
) -> None:
    wheel(tmp_path, "venus_edge", "click>=8", 'pypdfium2>=5; extra == "pdf"')
    windows = 'colorama; platform_system == "Windows" and platform_machine == "AMD64"'
    wheel(tmp_path, "click", windows, "more_words[x]")
    wheel(tmp_path, "more_words", 'uring; sys_platform == "linux" and extra == "x"')
    wheel(tmp_path, "pypdfium2", 'backport>=1; python_version < "3.13"', "venus-edge")
    fetch = wheels._Fetch(tmp_path, python, system, ())
    assert fetch.lacking(["venus-edge[pdf]"]) == lacking


def test_wheels_of_older_systems_serve_a_newer_one() -> None:
    assert [*wheels._tags("manylinux_2_19_aarch64")][:4] == [
        *("manylinux_2_19_aarch64", "manylinux_2_19_aarch64", "manylinux_2_18_aarch64", "manylinux_2_17_aarch64"),
    ]
    assert "manylinux2014_aarch64" in [*wheels._tags("manylinux_2_28_aarch64")]
    assert "manylinux_2_17_x86_64" in [*wheels._tags("manylinux2014_x86_64")]
    assert "manylinux_2_18_x86_64" not in [*wheels._tags("manylinux2014_x86_64")]
    assert [*wheels._tags("win_amd64")] == ["win_amd64"]


def test_the_wheel_of_an_installation_is_put_together_again(tmp_path: Path) -> None:
    installed = tmp_path / "site"
    info = installed / "venus_edge-9.9.dist-info"
    files = {
        "venus_edge/__init__.py": "x = '灯塔'\n",
        "venus_edge/demo/a.gguf": "GGUF",
        "venus_edge-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: venus-edge\nVersion: 9.9\n",
        "venus_edge-9.9.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    for name, text in files.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text, encoding="utf-8")
    written = ["../bin/venus-edge", "venus_edge-9.9.dist-info/INSTALLER", "venus_edge/__pycache__/x.pyc"]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in [*files, *written]))
    (distribution,) = metadata.distributions(name="venus-edge", path=[str(installed)])
    with zipfile.ZipFile(wheels.again(distribution, tmp_path)) as archive:
        assert sorted(archive.namelist()) == sorted([*files, "venus_edge-9.9.dist-info/RECORD"])
        assert archive.read("venus_edge/__init__.py").decode() == files["venus_edge/__init__.py"]
