"""Corpora by name: their sources, what is read again, what ends in the middle, who writes, and what is given away."""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from venus_edge import corpora, world
from venus_edge.cli.app import cli
from venus_edge.cli.corpus import Meter
from venus_edge.corpus import collect, store
from venus_edge.corpus.collect import Report, Skipped, Step
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.writing import BeingWrittenError, writing
from venus_edge.errors import CorpusError, UsageError
from venus_edge.settings import Directories, Settings
from venus_edge.values import Page


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("config", "data", "cache"):
        monkeypatch.setenv(f"VENUS_{name.upper()}_DIR", str(tmp_path / name))
    return Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# 灯塔\n\n克雷翁灯塔于1916年点亮。见[潮位站](sub/gauge.md#year)。", encoding="utf-8")
    (folder / "sub" / "gauge.md").write_text(
        "---\nurl: https://x.example/gauge\n---\n# Gauge\n\nA tide gauge at Brest."
    )
    return folder


def lines(file: Path, rows: list[dict[str, object]]) -> Path:
    body = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    file.write_bytes(gzip.compress(body) if file.suffix == ".gz" else body)
    return file


def found(name: str, chosen: Settings, query: str) -> list[str]:
    with Corpus(corpora.path_of(name, chosen)) as corpus:
        return [hit.url for hit in corpus.search(query).hits]


def test_sources_of_several_kinds_are_one_corpus(chosen: Settings, docs: Path, tmp_path: Path) -> None:
    rows = lines(tmp_path / "rows.jsonl.gz", [
        {"id": "7", "title": "Barometer", "text": "A barometer in Paris."},
        {"_id": "8", "contents": "气压计在巴黎。", "url": "https://x.example/八"},
        {"id": 9, "body": "A hygrometer."},
    ])  # fmt: skip
    assert corpora.create("mix", [str(docs), str(rows)], chosen) == Report(added=5, documents=5)
    assert found("mix", chosen, "barometer") == ["file:rows/7"]
    assert found("mix", chosen, "气压计") == ["https://x.example/八"]
    assert found("mix", chosen, "hygrometer") == ["file:rows/9"]
    assert corpora.update("mix", chosen) == Report(unchanged=5, documents=5)


def test_links_between_documents_open(chosen: Settings, docs: Path) -> None:
    corpora.create("docs", [str(docs)], chosen)
    with Corpus(corpora.path_of("docs", chosen)) as corpus:
        page = corpus.open("file:docs/a.md")
        assert isinstance(page, Page)
        assert "[潮位站](file:docs/sub/gauge.md#year)" in page.text
        linked = corpus.open("file:docs/sub/gauge.md#year")
        assert isinstance(linked, Page)
        assert linked.url == "https://x.example/gauge"


def test_lines_that_give_no_document_are_said(chosen: Settings, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "1", "text": "Good."}\n[1]\nno json\n{"id": "4"}\n\n{"text": "No name."}')
    report = corpora.create("rows", [str(file)], chosen)
    assert (report.documents, report.skipped) == (
        2,
        [
            Skipped("line 2", "it is not a JSON object"),
            Skipped("line 3", "it is not JSON"),
            Skipped("4", "it has no text"),
        ],
    )
    cut = gzip.compress(b'{"id": "1", "text": "Good."}\n' * 1000 + os.urandom(5000))[:-4000]
    (tmp_path / "cut.jsonl.gz").write_bytes(cut)
    said = corpora.create("cut", [str(tmp_path / "cut.jsonl.gz")], chosen).skipped[-1]
    assert said.path == "cut"
    assert said.reason.startswith("damaged or cut behind line ")


def test_documents_of_the_office_are_read_and_others_are_counted(chosen: Settings, docs: Path) -> None:
    with zipfile.ZipFile(docs / "book.docx", "w") as out:
        text = "<w:p><w:r><w:t>A sextant from 1788.</w:t></w:r></w:p>"
        space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        out.writestr("[Content_Types].xml", "<Types/>")
        out.writestr("word/document.xml", f'<w:document xmlns:w="{space}"><w:body>{text}</w:body></w:document>')
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    (docs / "more.jsonl").write_text("{}")
    report = corpora.create("docs", [str(docs)], chosen)
    assert found("docs", chosen, "sextant") == ["file:docs/book.docx"]
    assert (report.documents, report.others, report.skipped) == (
        3,
        {".png": 1},
        [
            Skipped("more.jsonl", "an archive: name it as a source of its own"),
            Skipped("broken.pdf", "page could not be read: it is a damaged PDF document"),
        ],
    )


def test_what_was_read_and_left_out_is_not_read_again(
    chosen: Settings, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    corpora.create("docs", [str(docs)], chosen)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    report = corpora.update("docs", chosen)
    assert (report.unchanged, [skipped.path for skipped in report.skipped]) == (2, ["broken.pdf"])


def test_a_copy_comes_in_when_what_stood_in_its_way_is_gone(chosen: Settings, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("---\nurl: https://x.example/a\n---\nA barometer.")
    corpora.create("both", [str(tmp_path / "one"), str(tmp_path / "two")], chosen)
    (tmp_path / "one" / "a.md").unlink()
    report = corpora.update("both", chosen)
    assert (report.removed, report.added, report.documents) == (1, 1, 1)
    assert found("both", chosen, "barometer") == ["https://x.example/a"]


def test_sources_are_added_and_removed_and_a_lost_one_keeps_its_documents(
    chosen: Settings, docs: Path, tmp_path: Path
) -> None:
    corpora.create("mix", [str(docs)], chosen)
    rows = lines(tmp_path / "rows.jsonl", [{"id": "1", "text": "A barometer."}])
    assert corpora.add("mix", [str(rows)], chosen).documents == 3
    rows.unlink()
    report = corpora.update("mix", chosen)
    assert report.documents == 3
    assert report.skipped[0].reason.endswith("with: venus-edge corpus remove mix rows")
    assert corpora.remove("mix", "rows", chosen) == 1
    assert found("mix", chosen, "barometer") == []
    with pytest.raises(UsageError, match="corpus 'mix' has no source 'rows'; it has: docs"):
        corpora.remove("mix", "rows", chosen)


def test_rebuilt_it_is_the_same_and_the_old_one_serves_until_then(chosen: Settings, docs: Path) -> None:
    corpora.create("docs", [str(docs)], chosen)
    path = corpora.path_of("docs", chosen)
    with Corpus(path) as before:
        assert corpora.rebuild("docs", chosen) == Report(added=2, documents=2)
        assert len(before.search("灯塔").hits) == 1
    assert found("docs", chosen, "灯塔") == ["file:docs/a.md"]
    assert list(path.parent.glob("*.new*")) + list(path.parent.glob("*.writing")) == []


SAVED = """<html><head><title>Kereon lighthouse</title></head><body>
<nav><a href="/">Home</a> <a href="/lights">All lights</a> <a href="/contact">Contact us</a></nav>
<main><h1>Kereon lighthouse</h1><table class="infobox"><tr><th>Prism</th><td>ZX-5521</td></tr></table>{}</main>
<aside><table><tr><td>Jument</td><td>47.2 m</td></tr></table><ul><li>尼维迪克灯塔 36.9 m</li></ul></aside>
</body></html>"""
PROSE = "<p>It was built on a rock between 1907 and 1916, and part {} tells about its keepers, who rowed there.</p>"


@pytest.mark.parametrize("query", ["47.2", "Jument height", "尼维迪克", "36.9", "ZX-5521"])
def test_what_stands_in_a_table_or_a_sidebar_of_a_saved_page_is_found_and_read(
    chosen: Settings, tmp_path: Path, query: str
) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "kereon.html").write_text(SAVED.format("".join(PROSE.format(n) for n in range(9))), encoding="utf-8")
    (folder / "other.md").write_text("# Other\n\nNothing of the kind.")
    run = CliRunner()
    run.invoke(cli, ["corpus", "create", "saved", str(folder)])
    for place in ("saved", str(folder)):
        hit = run.invoke(cli, ["corpus", "search", place, query]).stdout.splitlines()
        assert hit[:2] == ["Kereon lighthouse", "  file:saved/kereon.html"]
    assert "47.2 m" in run.invoke(cli, ["corpus", "show", "saved", "file:saved/kereon.html"]).output


def test_a_second_writer_is_told_who_writes_and_readers_see_the_last_whole_state(chosen: Settings, docs: Path) -> None:
    corpora.create("docs", [str(docs)], chosen)
    with writing(corpora.path_of("docs", chosen)):
        with pytest.raises(BeingWrittenError, match=rf"docs\.sqlite is being written by process {os.getpid()} since "):
            corpora.update("docs", chosen)
        assert found("docs", chosen, "灯塔") == ["file:docs/a.md"]
    corpora.update("docs", chosen)


WRITES = """
import sys
from pathlib import Path
from venus_edge.corpus.store import Document, Writer
from venus_edge.corpus.writing import writing
with writing(path := Path(sys.argv[1])), Writer(path, new=False) as writer, writer.batch():
    for n in range(5000):
        writer.put(Document(f"https://new.example/{n}", "New", f"A sextant of 1788, number {n}. 六分仪"))
    print("written", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "a folder"])
def test_while_another_process_writes_it_is_searched_as_it_was_and_a_second_writer_is_told_who(
    chosen: Settings, docs: Path, by_name: bool
) -> None:
    corpora.create("docs", [str(docs)], chosen)
    path = corpora.path_of("docs", chosen) if by_name else world.build_corpus(docs, chosen)[0]
    command = [sys.executable, "-c", WRITES, str(path)]
    run, asked = CliRunner(), "docs" if by_name else str(docs)
    with Corpus(path) as before, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        who = f"is being written by process {child.pid} since "
        second = run.invoke(cli, ["corpus", "update", "docs"] if by_name else ["corpus", "build", str(docs)])
        assert (second.exit_code, who in second.stderr) == (1, True)
        beside = run.invoke(cli, ["corpus", "search", asked, "灯塔"])
        assert (beside.exit_code, beside.stdout.splitlines()[0]) == (0, "灯塔")
        assert before.search("sextant").hits == ()
        child.communicate(b"\n")
        assert len(before.search("六分仪").hits) == 10
    assert run.invoke(cli, ["corpus", "search", asked, "灯塔"]).exit_code == 0


def test_an_interrupted_build_goes_on_behind_its_last_batch(
    chosen: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "BATCH_ITEMS", 3)
    rows = lines(tmp_path / "rows.jsonl", [{"id": str(n), "text": f"Text {n}."} for n in range(10)])

    def stop(step: Step) -> None:
        if step.done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpora.create("rows", [str(rows)], chosen, progress=stop)
    done: list[int] = []
    report = corpora.create("rows", [str(rows)], chosen, progress=lambda step: done.append(step.done))
    assert (done, report) == ([7, 8, 9, 10], Report(added=4, unchanged=6, documents=10))


def test_killed_at_random_moments_it_is_sound_and_holds_everything_once(chosen: Settings, tmp_path: Path) -> None:
    rows = lines(
        tmp_path / "rows.jsonl", [{"id": str(n), "text": f"own{n} " + "a tide gauge " * 60} for n in range(4000)]
    )
    command = [sys.executable, "-m", "venus_edge", "corpus", "create", "rows", str(rows)]
    drawn, path = random.Random(5), corpora.path_of("rows", chosen)
    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None and not path.exists():
                pass
            try:
                child.wait(drawn.uniform(0.0, 0.4))
            except subprocess.TimeoutExpired:
                child.kill()
        if path.exists() and path.stat().st_size > 8_192:  # less: ended before its tables were made
            store.check(path)
    corpora.create("rows", [str(rows)], chosen)
    with Corpus(path) as corpus:
        assert corpus.info().documents == 4000
        assert [hit.url for hit in corpus.search("own3999").hits] == ["file:rows/3999"]


def test_a_copy_that_is_given_away_tells_nothing_of_this_disk(chosen: Settings, docs: Path, tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(cli, ["corpus", "create", "docs", str(docs)]).exit_code == 0
    copy = tmp_path / "copy.sqlite"
    assert run.invoke(cli, ["corpus", "export", "docs", str(copy)]).exit_code == 0
    assert str(tmp_path).encode() not in copy.read_bytes()
    assert "file:docs/a.md" in run.invoke(cli, ["corpus", "search", str(copy), "灯塔"]).output


@pytest.fixture
def session(chosen: Settings) -> str:
    pages = [
        {"url": "https://x.example/lights", "title": "Lights", "text": "Kereon was lit in 1916.", "date": ""},
        {"url": "https://x.example/灯塔", "title": "灯塔", "text": "克雷翁灯塔高41米。", "date": "2026-01-02"},
    ]
    readings = [{"url": f"http://x.example/r{n}", "page": page} for n, page in enumerate(pages)]
    records: list[dict[str, object]] = [
        {"venus_edge": "0", "schema": 2, "created": datetime(2026, 1, 2, tzinfo=UTC).isoformat()},
        {"event": "ToolReturned", "result": {"readings": [*readings, {"url": "https://x.example/no", "page": None}]}},
    ]
    chosen.directories.sessions.mkdir(parents=True)
    lines(chosen.directories.sessions / "20260102-000000-lights.jsonl", records)
    return "20260102-000000-lights"


def test_what_a_session_read_is_a_corpus_that_opens_offline(chosen: Settings, session: str) -> None:
    done = CliRunner().invoke(cli, ["cache", "pack", session, "--name", "lights"])
    assert (done.exit_code, done.stderr) == (0, "2 pages: 2 new, 0 as before\n")
    opened = world.open_corpus(Path("lights"), chosen, lambda _: None)
    assert [hit.url for hit in opened.search("灯塔高度").hits] == ["https://x.example/灯塔"]
    for url in ("https://www.x.example/lights/", "http://x.example/r0"):
        assert isinstance(opened.open(url), Page)
    opened.close()
    again = CliRunner().invoke(cli, ["cache", "pack", session, "--name", "lights"])
    assert again.stderr == "2 pages: 0 new, 2 as before\n"


def test_the_commands_say_what_there_is(chosen: Settings, docs: Path) -> None:
    run = CliRunner()
    (docs / "empty.md").write_text(" ")
    made = run.invoke(cli, ["corpus", "create", "notes", str(docs)])
    assert "left out empty.md: it is empty" in made.stderr
    assert run.invoke(cli, ["corpus", "list"]).output.split()[:3] == ["notes", "2", "documents"]
    assert "docs (folder): 2 documents, 1 left out" in run.invoke(cli, ["corpus", "info", "notes"]).output
    assert run.invoke(cli, ["corpus", "info", "notes", "--skipped"]).output == "docs: empty.md: it is empty\n"
    assert "tide gauge" in run.invoke(cli, ["corpus", "show", "notes", "x.example/gauge"]).output
    missing = run.invoke(cli, ["corpus", "show", "notes", "https://x.example/gauges"])
    assert missing.stderr == (
        "Error: https://x.example/gauges is not in the corpus; near it:\n  Gauge: https://x.example/gauge\n"
    )
    assert run.invoke(cli, ["corpus", "check", "notes"]).output == "notes is sound\n"
    path = run.invoke(cli, ["corpus", "path", "notes"]).output.strip()
    Path(path).write_bytes(Path(path).read_bytes()[:30_000])
    damaged = run.invoke(cli, ["corpus", "check", "notes"])
    assert (damaged.exit_code, damaged.stderr.rpartition("with: ")[2]) == (1, "venus-edge corpus rebuild notes\n")
    assert run.invoke(cli, ["corpus", "rm", "notes", "-y"]).exit_code == 0
    assert run.invoke(cli, ["corpus", "list"]).output == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["create", "a/b", "."], "'a/b' is no name for a corpus"),
        (["create", "x", "nowhere.md"], "nowhere.md is not there; name a folder, a file, an archive, or cache:"),
        (["update", "x"], "there is no corpus 'x' (none yet); make one with: venus-edge corpus create x SOURCE"),
        (["search", "x", "q"], "there is nothing at x; make a corpus with"),
    ],
)
def test_what_is_wrong_is_one_line(chosen: Settings, command: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, ["corpus", *command])
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_progress_has_rate_bytes_and_the_time_that_is_left() -> None:
    step = Step("rows", 500, 0, 10_000_000, 40_000_000, 500, "x")
    assert Meter(lambda: 0.0).line(step, 10.0) == "rows: 500, 50 documents/s, 10.0 of 40.0 MB, 30 s left"
    step = Step("docs", 500, 2_000, 10_000_000, 400_000_000, 500, "x")
    assert Meter(lambda: 0.0).line(step, 10.0) == "docs: 500 of 2,000, 50 documents/s, 10.0 of 400.0 MB, 6 min left"


def test_a_name_that_is_taken_by_other_sources_is_kept(chosen: Settings, docs: Path) -> None:
    corpora.create("docs", [str(docs)], chosen)
    with pytest.raises(
        UsageError, match="there is a corpus 'docs' already; add to it with: venus-edge corpus add docs"
    ):
        corpora.create("docs", [str(docs / "sub")], chosen)
    (docs / "a.bin").write_bytes(b"x")
    with pytest.raises(CorpusError, match="is of a kind that is not read"):
        corpora.add("docs", [str(docs / "a.bin")], chosen)


def test_ended_before_its_tables_were_made_or_within_a_checkpoint_it_goes_on(chosen: Settings, docs: Path) -> None:
    path = corpora.path_of("docs", chosen)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
    db.close()
    assert corpora.create("docs", [str(docs)], chosen).documents == 2
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO meta VALUES ('padding', ?)", ("x" * 2_000_000,))
        log, whole = path.with_name(path.name + "-wal").read_bytes(), path.read_bytes()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        header = path.read_bytes()[:8192]
    db.close()
    path.with_name(path.name + "-wal").write_bytes(log)
    path.write_bytes(header + whole[8192:])  # its first page is written, the others are still in the log
    store.check(path)
    assert corpora.update("docs", chosen) == Report(unchanged=2, documents=2)
    assert list(path.parent.glob("*.old*")) == []


def test_one_that_is_damaged_or_older_is_rebuilt_from_its_sources(chosen: Settings, docs: Path) -> None:
    corpora.create("docs", [str(docs)], chosen)
    with sqlite3.connect(corpora.path_of("docs", chosen)) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(
        CorpusError, match=r"made by an older venus-edge; make it again with: venus-edge corpus rebuild docs$"
    ):
        corpora.update("docs", chosen)
    assert corpora.rebuild("docs", chosen).documents == 2
    assert corpora.update("docs", chosen) == Report(unchanged=2, documents=2)
