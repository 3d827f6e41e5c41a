"""Corpora by name where a person's disk or hand is not as it should be: other people's files, names that are folders
too, a source twice, a source that is gone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from venus_edge import config, corpora, recorded, world
from venus_edge.cli.app import cli
from venus_edge.cli.corpus import Meter
from venus_edge.corpus.collect import Step
from venus_edge.corpus.store import Document, Writer
from venus_edge.sessions.reading import load
from venus_edge.settings import Directories, Settings


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("config", "data", "cache"):
        monkeypatch.setenv(f"VENUS_{name.upper()}_DIR", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    settings = Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))
    settings.directories.corpora.mkdir(parents=True)
    return settings


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# Quokka\n\nA quokka lives on Rottnest.", encoding="utf-8")
    (folder / "sub" / "b.md").write_text("# 灯塔\n\n克雷翁灯塔于1916年点亮。", encoding="utf-8")
    return folder


def corpus(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["corpus", *map(str, arguments)])


# -- other people's files ---------------------------------------------------------------------------------------------


def database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (text)")
    db.close()


def text(path: Path) -> None:
    path.write_text("My thesis. 我的论文。", encoding="utf-8")


@pytest.mark.parametrize("write", [database, text])
@pytest.mark.parametrize(
    "command",
    [
        ["rm", "-y"],
        ["create"],
        ["add"],
        ["update"],
        ["rebuild"],
        ["remove"],
        ["check"],
        ["info"],
        ["export"],
        ["search"],
    ],
    ids=lambda command: command[0],
)
def test_what_is_not_ours_is_left_as_it_is(
    chosen: Settings, docs: Path, write: Callable[[Path], None], command: list[str]
) -> None:
    path = chosen.directories.corpora / "论文.sqlite"
    write(path)
    before = path.read_bytes()
    further: dict[str, list[str | Path]] = {
        "create": [docs],
        "add": [docs],
        "remove": ["docs"],
        "export": [docs / "c"],
        "search": ["灯塔"],
    }
    done = corpus(*command, "论文", *further.get(command[0], []))
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: {path} is not a corpus: move it away, or choose another name\n",
    )
    assert path.read_bytes() == before
    assert f"{path} is not a corpus: move it away" in corpus("list").stdout
    assert list(path.parent.iterdir()) == [path]


def test_a_corpus_that_is_removed_takes_along_what_its_rebuilds_left_and_says_how_much(
    chosen: Settings, docs: Path
) -> None:
    corpus("create", "notes", docs)
    path = corpora.path_of("notes", chosen)
    path.write_bytes(path.read_bytes()[:60_000])
    assert corpus("rebuild", "notes").exit_code == 0
    kept = path.with_name("notes.sqlite.old-1")
    assert f"left by a rebuild: {kept}, 0.1 MB" in corpus("info", "notes").stdout
    assert corpus("list").stdout.endswith("sources: 1; 0.1 MB that a rebuild left\n")
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    theirs = path.with_name("notes.sqlite.old-2")
    text(theirs)
    assert corpus("rm", "notes", "-y").stderr == f"{path} removed: {size:,} bytes\n"
    assert list(path.parent.iterdir()) == [theirs]


def test_what_is_in_the_log_yet_counts_as_size(chosen: Settings) -> None:
    path = corpora.path_of("rows", chosen)
    with Writer(path) as writer:
        with writer.batch():
            for n in range(300):
                writer.put(Document(f"https://x.example/{n}", "Row", f"A sextant, number {n * 7919}. 六分仪" * 40))
        said = corpus("list").stdout
    assert "300 documents" in said
    assert " 0.0 MB" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two words", "letters of any script, digits, - _ and . but no spaces"),
        ("CON", "Windows keeps it for a device"),
        ("com1.old", "Windows keeps it for a device"),
    ],
)
def test_a_name_that_cannot_be_is_said_with_what_can(chosen: Settings, docs: Path, name: str, said: str) -> None:
    done = corpus("create", name, docs)
    assert (done.exit_code, said in done.stderr, done.stderr.count("\n")) == (2, True, 1)
    assert corpus("create", "灯塔", docs).exit_code == 0


# -- a name that is a folder too --------------------------------------------------------------------------------------


@pytest.fixture(params=["papers", "手册"])
def twice(request: pytest.FixtureRequest, chosen: Settings, docs: Path, tmp_path: Path) -> str:
    """The name of a corpus that has a quokka, and of a folder here that has a zebra."""
    name = str(request.param)
    assert corpus("create", name, docs).exit_code == 0
    (tmp_path / name).mkdir()
    (tmp_path / name / "z.md").write_text("# Zebra\n\nA zebra beside a quokka. 斑马。", encoding="utf-8")
    return name


@pytest.mark.parametrize("way", ["./{}", "../{here}/{}", "{whole}/{}", "{}/"])
def test_what_is_written_as_a_path_is_the_path(chosen: Settings, tmp_path: Path, twice: str, way: str) -> None:
    path = way.format(twice, here=tmp_path.name, whole=tmp_path)
    assert "Zebra\n" in corpus("search", path, "quokka").stdout
    assert "斑马" in corpus("show", path, f"file:{twice}/z.md").stdout
    assert corpus("path", path).stdout.strip() == str(world.index_path(tmp_path / twice, chosen))


def test_a_path_that_is_not_there_is_not_the_corpus_of_that_name(chosen: Settings, docs: Path) -> None:
    corpus("create", "notes", docs)
    done = corpus("search", "./notes", "quokka")
    assert (done.exit_code, "there is nothing at " in done.stderr) == (1, True)


def test_a_bare_name_is_the_corpus_and_the_folder_is_said(chosen: Settings, twice: str) -> None:
    done = corpus("search", twice, "quokka")
    assert done.stdout.startswith("Quokka\n")
    assert done.stderr == f"{twice} is the corpus of that name; what lies here is named ./{twice}\n"


@pytest.mark.parametrize(
    ("twice", "bare", "seen"), [("papers", True, "Quokka"), ("手册", False, "Zebra")], indirect=["twice"]
)
def test_a_run_and_what_goes_on_from_it_search_what_was_named(
    chosen: Settings, twice: str, bare: bool, seen: str
) -> None:
    command = [
        "run",
        "--demo",
        "quokka",
        "-c",
        twice if bare else f"./{twice}",
        "--max-turns",
        "1",
        "--temperature",
        "0",
    ]
    CliRunner().invoke(cli, command)
    (session,) = chosen.directories.sessions.glob("*.jsonl")
    (place,) = recorded.settings_of(load(session)).corpus
    opened = world.open_corpus(place, chosen, lambda _: None)
    assert opened.search("quokka", 1).hits[0].title == seen
    opened.close()


def test_names_and_paths_in_the_settings_are_what_they_are(
    chosen: Settings, twice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(places: tuple[Path, ...]) -> list[str]:
        return [str(corpora.named(place, chosen) is not None) for place in places]

    monkeypatch.setenv("VENUS_CORPUS", f"{twice}{os.pathsep}./{twice}")
    assert found(config.settings({}).corpus) == ["True", "False"]
    monkeypatch.delenv("VENUS_CORPUS")
    chosen.directories.config.mkdir()
    (chosen.directories.config / "config.toml").write_text(f'corpus = ["{twice}", "../{twice}"]', encoding="utf-8")
    assert found(config.settings({}).corpus) == ["True", "False"]


# -- a source twice, a source that is gone, nothing to read -----------------------------------------------------------


def test_what_is_named_twice_is_read_once_and_said(chosen: Settings, docs: Path) -> None:
    file, sub = docs / "a.md", docs / "sub"
    made = corpus("create", "notes", docs, "docs", "docs/../docs/", file, sub)
    assert made.stderr.count("it is a source already") == 2
    assert made.stderr.count(f"it is read with {docs}") == 2
    assert made.stderr.endswith("2 indexed: 2 new, 0 changed, 0 as before, 0 gone\n")
    assert corpus("create", "notes", docs, "docs", file).exit_code == 0  # which goes on with it
    again = corpus("add", "notes", docs, file)
    assert f"left out {docs}: it is a source already" in again.stderr
    assert f"left out {file}: it is read with {docs}" in again.stderr
    assert corpus("info", "notes").stdout.count("(folder)") == 1


def test_a_folder_takes_over_the_files_in_it_that_were_sources(chosen: Settings, docs: Path) -> None:
    corpus("create", "notes", docs / "a.md", docs / "sub")
    added = corpus("add", "notes", docs)
    assert f"left out a.md: it is read with {docs}" in added.stderr
    assert added.stderr.splitlines()[-1].startswith("2 indexed: 2 new")
    assert [line.split()[0] for line in corpus("info", "notes").stdout.splitlines()[1::2]] == ["docs"]
    assert corpus("search", "notes", "灯塔").stdout.splitlines()[1] == "  file:docs/sub/b.md"


def test_what_a_folder_hides_is_a_source_of_its_own(chosen: Settings, docs: Path) -> None:
    (docs / ".kept").mkdir()
    (docs / ".kept" / "c.md").write_text("# Sextant")
    assert corpus("create", "notes", docs, docs / ".kept").stderr.splitlines()[-1].startswith("3 indexed: 3 new")


def test_an_archive_that_was_read_in_place_is_indexed_from_now_on(chosen: Settings, tmp_path: Path) -> None:
    pytest.importorskip("libzim")
    from tests.corpus.test_zim import archive

    file = archive(tmp_path / "lights.zim", indexed=False)
    advice = f"index it with: venus-edge corpus add 灯 {file} --index"
    for said in (corpus("create", "灯", file), corpus("search", "灯", "灯塔")):
        assert advice in said.stderr
    done = corpus("add", "灯", file, "--index")
    assert advice not in done.stderr
    assert "7 indexed: 7 new" in done.stderr
    assert "lights (zim-index): 7 documents" in corpus("info", "灯").stdout
    assert corpus("search", "灯", "首次点亮").stdout.splitlines()[1] == "  zim:lights/A/%E7%81%AF%E5%A1%94"
    assert f"left out {file}: it is a source already" in corpus("add", "灯", file, "--index").stderr


@pytest.mark.parametrize("command", ["update", "rebuild"])
def test_sources_that_are_gone_are_said_wherever_one_looks(
    chosen: Settings, docs: Path, tmp_path: Path, command: str
) -> None:
    pytest.importorskip("libzim")
    from tests.corpus.test_zim import archive

    file = archive(tmp_path / "usb.zim", indexed=True)
    corpus("create", "海", docs, file)
    file.unlink()
    docs.rename(tmp_path / "moved")
    put = "put it back, or take it out with: venus-edge corpus remove 海"
    folder = f"{docs} is not there (what it gave before stays): {put} docs"
    zim = f"{file} is not there: {put} usb"
    done = corpus(command, "海")
    assert done.exit_code == (command == "update")  # rebuild has made it whole of its texts
    assert done.stderr.splitlines()[:2] == [f"left out docs: {folder}", f"left out usb: {zim}"]
    for said in (corpus("check", "海").stderr, corpus("info", "海").stdout):
        assert folder in said
        assert zim in said
    assert corpus("show", "海", "file:docs/sub/b.md").exit_code == 0
    (tmp_path / "moved").rename(docs)
    assert corpus("remove", "海", "usb").exit_code == 0
    assert corpus(command, "海").exit_code == 0
    assert corpus("check", "海").stdout == "海 is sound\n"


def test_what_is_left_out_beforehand_is_listed_later_too_and_forgotten_when_it_is_gone(
    chosen: Settings, tmp_path: Path
) -> None:
    (tmp_path / "kit").mkdir()
    for name in ("wiki.zim", "网.warc.gz"):
        (tmp_path / "kit" / name).write_bytes(b"x")
    corpus("create", "kit", tmp_path / "kit")
    assert "kit (folder): 0 documents, 2 left out" in corpus("info", "kit").stdout
    assert corpus("info", "kit", "--skipped").stdout.splitlines() == [
        "kit: wiki.zim: an archive: name it as a source of its own",
        "kit: 网.warc.gz: an archive: name it as a source of its own",
    ]
    (tmp_path / "kit" / "wiki.zim").unlink()
    corpus("update", "kit")
    assert corpus("info", "kit", "--skipped").stdout.startswith("kit: 网.warc.gz")


# -- what the commands say --------------------------------------------------------------------------------------------


def test_one_of_a_thing_is_not_several_and_thousands_are_parted(chosen: Settings, docs: Path, tmp_path: Path) -> None:
    corpus("create", "one", docs / "a.md")
    assert corpus("list").stdout.split()[1:3] == ["1", "document"]
    said = corpus("info", "one").stdout
    assert said.startswith("1 document in 1 passage, ")
    assert "a.md (file): 1 document, 0 left out" in said
    assert corpus("remove", "one", "a.md").stderr == "1 document removed\n"
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"id": "{n}", "text": "Row {n}."}}\n' for n in range(1029)))
    assert corpus("create", "rows", rows).stderr.endswith("1,029 indexed: 1,029 new, 0 changed, 0 as before, 0 gone\n")


@pytest.mark.parametrize("most", ["0", "-3"])
def test_fewer_hits_than_one_are_refused(chosen: Settings, docs: Path, most: str) -> None:
    corpus("create", "notes", docs)
    done = corpus("search", "notes", "灯塔", "--results", most)
    assert (done.exit_code, "is not in the range x>=1" in done.stderr) == (2, True)


@pytest.mark.parametrize("query", ["-灯塔", "-X quokka", "--quokka"])
def test_a_query_may_begin_with_a_dash(chosen: Settings, docs: Path, query: str) -> None:
    corpus("create", "notes", docs)
    for words in ([query], ["--", query]):
        assert "Error" not in corpus("search", "notes", *words).stderr
    done = CliRunner().invoke(cli, ["run", query])
    assert done.stderr.startswith("Error: No such option '")
    assert "; put -- before a text that begins so; see: venus-edge run --help" in done.stderr


def test_progress_ends_its_line_before_anything_else_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Meter(iter((0.0, 1.0, 2.0)).__next__) as meter:
        meter(Step("旧书", 1, 18, 10, 100, 0, "x"))
        meter(Step("旧书", 2, 18, 20, 100, 0, "x"))
    assert capsys.readouterr().err.endswith("旧书: 2 of 18, 0.0 of 0.0 MB, 8 s left".ljust(79) + "\n")


@pytest.mark.parametrize("search", ["nosuch,ddgs", "corpus,nosuch"])
def test_a_search_service_that_is_not_known_is_refused_offline_too(chosen: Settings, docs: Path, search: str) -> None:
    done = CliRunner().invoke(cli, ["run", "--demo", "灯塔", "-c", str(docs), "--offline", "--search", search])
    assert (done.exit_code, "no search service 'nosuch'; known: auto, searxng" in done.stderr) == (2, True)


def test_offline_without_anything_to_search_all_that_could_be_named_is_said(chosen: Settings) -> None:
    done = CliRunner().invoke(cli, ["run", "灯塔", "--offline", "--model", "venus-tiny"])
    assert done.stderr == (
        "Error: offline there is nothing to search without --corpus: a folder of documents, a ZIM archive, or a name "
        "of: venus-edge corpus list\n"
    )
