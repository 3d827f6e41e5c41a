"""Web archives, written here by hand: gzipped or not, chunked and packed bodies, redirects, revisits, damage."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import Path

import pytest

from venus_edge import corpora
from venus_edge.corpus import page
from venus_edge.corpus.collect import Report, Skipped
from venus_edge.errors import CorpusError
from venus_edge.settings import Directories, Settings
from venus_edge.values import Page

TEXT = "The Kereon light was first lit in 1916 by its first keeper, who had come over from Ushant in a storm."

CHINESE = "克雷翁灯塔于1916年首次点亮，由一位守塔人看守了二十年。"


def record(kind: str, url: str, block: bytes, **fields: str) -> bytes:
    named = {"WARC-Type": kind, "WARC-Target-URI": url, "Content-Length": str(len(block))}
    named |= {f"WARC-{name.replace('_', '-').title()}": value for name, value in fields.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return b"WARC/1.1\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


def http(body: bytes, status: int = 200, **fields: str) -> bytes:
    named = {"Content-Type": "text/html; charset=utf-8"} | {n.replace("_", "-").title(): v for n, v in fields.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


def html(title: str, text: str = TEXT) -> bytes:
    return f"<!doctype html><html><head><title>{title}</title></head><body><p>{text}</p></body></html>".encode()


def chunked(body: bytes) -> bytes:
    parts = [body[i : i + 40] for i in range(0, len(body), 40)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def deflated(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


RECORDS = [
    record("warcinfo", "", b"software: by hand\r\n"),
    record("request", "https://x.example/plain", b"GET /plain HTTP/1.1\r\n\r\n"),
    record("response", "https://x.example/plain", http(html("Plain")), payload_digest="sha1:PLAIN"),
    record("response", "https://x.example/chunks", http(chunked(html("Chunks")), transfer_encoding="chunked")),
    record(
        "response", "https://x.example/undone",
        http(html("Undone"), transfer_encoding="chunked", content_encoding="gzip"),
    ),
    record(
        "response", "https://x.example/both",
        http(chunked(gzip.compress(html("Both"))), transfer_encoding="chunked", content_encoding="gzip"),
    ),
    record("response", "https://x.example/raw", http(deflated(html("Deflated")), content_encoding="deflate")),
    record("response", "https://x.example/灯塔", http(html("灯塔", CHINESE))),
    record("response", "https://x.example/old", http(b"", 301, location="/plain")),
    record("response", "https://x.example/gone", http(b"gone", 404)),
    record("response", "https://x.example/picture", http(b"\x89PNG", content_type="image/png")),
    record("revisit", "https://x.example/again", http(b""), refers_to_target_uri="https://x.example/plain"),
    record("revisit", "https://x.example/digest", http(b""), payload_digest="sha1:PLAIN"),
    record("resource", "https://x.example/note.txt", b"A barometer in a note.", ),
    record("metadata", "https://x.example/plain", b"fetchTimeMs: 3\r\n"),
]  # fmt: skip
OPEN = {
    "plain": "Plain", "chunks": "Chunks", "undone": "Undone", "both": "Both", "raw": "Deflated", "灯塔": "灯塔",
    "%E7%81%AF%E5%A1%94": "灯塔", "old": "Plain", "again": "Plain", "digest": "Plain",
}  # fmt: skip


def file_of(folder: Path, form: str) -> Path:
    whole, members = b"".join(RECORDS), b"".join(gzip.compress(each) for each in RECORDS)
    name = {"wacz": "a.wacz", "plain": "a.warc"}.get(form, "a.warc.gz")
    if form == "wacz":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as out:
            out.writestr("archive/data.warc.gz", members)
            out.writestr("pages/pages.jsonl", "{}")
        members = packed.getvalue()
    body = {"plain": whole, "one member": gzip.compress(whole)}.get(form, members)
    (folder / name).write_bytes(body)
    return folder / name


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    return Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))


@pytest.mark.parametrize("form", ["plain", "members", "one member", "wacz"])
def test_what_was_saved_opens_at_its_own_addresses(chosen: Settings, tmp_path: Path, form: str) -> None:
    report = corpora.create("web", [str(file_of(tmp_path, form))], chosen)
    assert (report.added, report.skipped) == (7, [Skipped("https://x.example/gone", "the server answered 404")])
    opened = corpora.opened(corpora.path_of("web", chosen), chosen, lambda _: None)
    found = {path: opened.open(f"http://www.x.example/{path}/") for path in OPEN}
    assert {path: each.title for path, each in found.items() if isinstance(each, Page)} == OPEN
    assert [hit.url for hit in opened.search("灯塔 点亮").hits] == ["https://x.example/灯塔"]
    assert [hit.url for hit in opened.search("barometer").hits] == ["https://x.example/note.txt"]
    opened.close()
    assert corpora.update("web", chosen) == Report(unchanged=7, documents=7)


def test_the_later_capture_of_an_address_counts_and_what_is_gone_goes(chosen: Settings, tmp_path: Path) -> None:
    file = tmp_path / "a.warc"
    first = record("response", "https://x.example/a", http(html("First")))
    file.write_bytes(first + record("response", "https://x.example/b", http(html("Other", TEXT + " Twice."))))
    corpora.create("web", [str(file)], chosen)
    file.write_bytes(first + record("response", "https://x.example/a", http(html("Second", TEXT + " Again."))))
    report = corpora.update("web", chosen)
    assert (report.documents, report.removed, report.updated) == (1, 1, 1)
    opened = corpora.opened(corpora.path_of("web", chosen), chosen, lambda _: None)
    assert [hit.title for hit in opened.search("Kereon").hits] == ["Second"]
    opened.close()


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_cut_archive_gives_what_stands_before(chosen: Settings, tmp_path: Path, cut: float) -> None:
    file = file_of(tmp_path, "members")
    body = file.read_bytes()
    file.write_bytes(body[: int(len(body) * cut)])
    report = corpora.create("web", [str(file)], chosen)
    assert 0 < report.documents < 7
    assert "a.warc.gz is damaged or cut behind record" in report.skipped[-1].reason
    file.write_bytes(body)
    assert corpora.update("web", chosen).documents == 7


def test_a_record_that_is_too_large_is_read_past(
    chosen: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "LARGEST", 2_000)
    file = tmp_path / "a.warc"
    large = record("response", "https://x.example/large", http(html("Large", TEXT * 40)))
    bomb = http(gzip.compress(b"<p>" + b"a" * 100_000), content_encoding="gzip")
    file.write_bytes(large + record("response", "https://x.example/bomb", bomb) + RECORDS[2])
    report = corpora.create("web", [str(file)], chosen)
    assert (report.documents, report.skipped) == (
        1,
        [
            Skipped("https://x.example/large", "too large: more than 0 MB"),
            Skipped("https://x.example/bomb", "too large: more than 0 MB"),
        ],
    )


def test_what_is_no_archive_is_said(chosen: Settings, tmp_path: Path) -> None:
    (tmp_path / "a.wacz").write_bytes(b"text")
    with pytest.raises(CorpusError, match=r"a\.wacz is not a WACZ file"):
        corpora.create("web", [str(tmp_path / "a.wacz")], chosen)
    (tmp_path / "a.warc").write_bytes(b"<html>Not found</html>")
    assert (
        "damaged or cut behind record 0" in corpora.create("web", [str(tmp_path / "a.warc")], chosen).skipped[0].reason
    )
