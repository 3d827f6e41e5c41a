"""Web archives, written here by hand: gzipped or not, chunked and packed bodies, redirects, revisits, damage."""

from __future__ import annotations

import gzip
import io
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard

from venus_edge import corpora
from venus_edge.corpus import ledger, page
from venus_edge.corpus.collect import Report, Skipped
from venus_edge.errors import CorpusError
from venus_edge.settings import Directories, Settings
from venus_edge.values import Failure, Page

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
    record("response", "https://x.example/br", http(brotli.compress(html("Brotli")), content_encoding="br")),
    record(
        "response", "https://x.example/zstd",
        http(zstandard.ZstdCompressor().compress(html("Zstd")), content_encoding="zstd"),
    ),
    record("resource", "urn:pageinfo:https://x.example/plain", b'{"title": "a barometer"}', payload_digest="sha1:I"),
]  # fmt: skip
OPEN = {
    "plain": "Plain", "chunks": "Chunks", "undone": "Undone", "both": "Both", "raw": "Deflated", "灯塔": "灯塔",
    "%E7%81%AF%E5%A1%94": "灯塔", "old": "Plain", "again": "Plain", "digest": "Plain",
    "br": "Brotli", "zstd": "Zstd",
}  # fmt: skip


def zstd(bodies: list[bytes], dictionary: bytes = b"") -> bytes:
    """A frame for each; behind the dictionary in a frame of its own, if there is one."""
    packer = zstandard.ZstdCompressor(dict_data=zstandard.ZstdCompressionDict(dictionary) if dictionary else None)
    before = b"\x5d\x2a\x4d\x18" + struct.pack("<I", len(dictionary)) + dictionary if dictionary else b""
    return before + b"".join(packer.compress(body) for body in bodies)


def wacz(parts: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as out:
        for name, body in parts.items():
            out.writestr(name, body)
    return packed.getvalue()


def members(records: list[bytes]) -> bytes:
    return b"".join(map(gzip.compress, records))


def file_of(folder: Path, form: str) -> Path:
    """All records in one file."""
    name, body = {
        "plain": ("a.warc", b"".join(RECORDS)),
        "members": ("a.warc.gz", members(RECORDS)),
        "one member": ("a.warc.gz", gzip.compress(b"".join(RECORDS))),
        "wacz": ("a.wacz", wacz({"archive/data.warc.gz": members(RECORDS), "pages/pages.jsonl": b"{}"})),
        "zstd": ("a.warc.zst", zstd(RECORDS)),
        "zstd with a dictionary": ("a.warc.zst", zstd(RECORDS, b"".join(RECORDS)[:4_000])),
    }[form]
    (folder / name).write_bytes(body)
    return folder / name


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    return Settings(Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))


@pytest.mark.parametrize("form", ["plain", "members", "one member", "wacz", "zstd", "zstd with a dictionary"])
def test_what_was_saved_opens_at_its_own_addresses(chosen: Settings, tmp_path: Path, form: str) -> None:
    report = corpora.create("web", [str(file_of(tmp_path, form))], chosen)
    assert (report.added, report.skipped) == (9, [Skipped("https://x.example/gone", "the server answered 404")])
    opened = corpora.opened(corpora.path_of("web", chosen), chosen, lambda _: None)
    found = {path: opened.open(f"http://www.x.example/{path}/") for path in OPEN}
    assert {path: each.title for path, each in found.items() if isinstance(each, Page)} == OPEN
    assert [hit.url for hit in opened.search("灯塔 点亮").hits] == ["https://x.example/灯塔"]
    assert [hit.url for hit in opened.search("barometer").hits] == ["https://x.example/note.txt"]
    opened.close()
    assert corpora.update("web", chosen) == Report(unchanged=9, documents=9)


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


@pytest.mark.parametrize("form", ["members", "zstd"])
@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_cut_archive_gives_what_stands_before(chosen: Settings, tmp_path: Path, form: str, cut: float) -> None:
    file = file_of(tmp_path, form)
    body = file.read_bytes()
    file.write_bytes(body[: int(len(body) * cut)])
    report = corpora.create("web", [str(file)], chosen)
    assert 0 < report.documents < 9
    assert f"{file.name} is damaged or cut behind record" in report.skipped[-1].reason
    file.write_bytes(body)
    assert corpora.update("web", chosen).documents == 9


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
    said = corpora.create("web", [str(tmp_path / "a.warc")], chosen).skipped[0].reason
    assert said == "a.warc is not a web archive, or damaged at its start; fetch it again"
    (tmp_path / "b.warc.gz").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"b\.warc\.gz is empty; fetch it again"):
        corpora.create("other", [str(tmp_path / "b.warc.gz")], chosen)


def test_without_zstandard_the_command_that_brings_it_is_said(
    chosen: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, "zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CorpusError, match=r"a\.warc\.zst is packed with zstd: pip install 'venus-edge\[fast\]'$"):
        corpora.create("web", [str(file)], chosen)


def documents(chosen: Settings, file: Path, records: list[bytes]) -> list[str]:
    """The addresses of the documents that these records become."""
    file.write_bytes(b"".join(records))
    corpora.create(file.stem, [str(file)], chosen)
    opened = corpora.opened(corpora.path_of(file.stem, chosen), chosen, lambda _: None)
    found = sorted(hit.url for hit in opened.search("Kereon", 50).hits)
    opened.close()
    return found


def request(url: str, method: str = "GET", **fields: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return record("request", url, f"{method} / HTTP/1.1\r\n{lines}\r\n".encode())


@pytest.mark.parametrize("request_first", [True, False])
def test_what_a_page_loads_is_no_document(chosen: Settings, tmp_path: Path, request_first: bool) -> None:
    """Each with a text of its own: what says the same is one result."""
    asked: dict[str, dict[str, str]] = {
        "page": {"Sec_Fetch_Dest": "document"}, "frame": {"sec_fetch_dest": "iframe"}, "curl": {},
        "data": {"Sec_Fetch_Dest": "empty"}, "old-data": {"X_Requested_With": "XMLHttpRequest"},
        "log": {"method": "POST"}, "form": {"method": "POST", "Sec_Fetch_Dest": "document"},
    }  # fmt: skip
    records = []
    for path, fields in asked.items():
        url = f"https://x.example/{path}"
        pair = [request(url, **fields), record("response", url, http(html(path, f"{path}: {TEXT} {path} " * 3)))]
        records += pair if request_first else pair[::-1]
    for kind in ("document", "xhr", "fetch", "stylesheet"):
        text = html(kind, f"{kind}: {TEXT} {kind} " * 3)
        records.append(record("response", f"https://x.example/{kind}", http(text), resource_type=kind))
    found = documents(chosen, tmp_path / "a.warc", records)
    assert [url.rpartition("/")[2] for url in found] == ["curl", "document", "form", "frame", "page"]


def test_pictures_and_scripts_are_passed_over_whatever_they_are_called(chosen: Settings, tmp_path: Path) -> None:
    records = [
        record("response", "https://x.example/a.woff2", http(b"Kereon", content_type="application/octet-stream")),
        record("response", "https://x.example/b.js?v=1", http(b"Kereon()", content_type="text/plain")),
        record("response", "https://x.example/c.png", http(b"gone", 404, content_type="text/plain")),
        record("resource", "https://x.example/d.css", b"Kereon {}", content_type="text/plain"),
        record("response", "https://x.example/manifest.json", http(b'{"lamp": 1}', content_type="application/json")),
        record("response", "https://x.example/app", http(b'{"l": 1}', content_type="application/manifest+json")),
        record("response", "https://x.example/File:Kereon.jpg", http(html("File:Kereon.jpg"))),
    ]
    assert documents(chosen, tmp_path / "a.warc", records) == ["https://x.example/File:Kereon.jpg"]
    assert corpora.update("a", chosen) == Report(unchanged=1, documents=1)


def test_pages_that_say_the_same_open_at_both_addresses(chosen: Settings, tmp_path: Path) -> None:
    same = http(html("Same"))
    records = [record("response", f"https://x.example/{p}", same, payload_digest="sha1:SAME") for p in ("one", "two")]
    records.append(record("revisit", "https://x.example/three", http(b""), payload_digest="sha1:SAME"))
    assert documents(chosen, tmp_path / "a.warc", records) == ["https://x.example/one"]  # a copy is one result
    opened = corpora.opened(corpora.path_of("a", chosen), chosen, lambda _: None)
    pages = [opened.open(f"https://x.example/{path}") for path in ("one", "two", "three")]
    assert [each.title for each in pages if isinstance(each, Page)] == ["Same"] * 3
    opened.close()


def test_a_later_error_does_not_take_a_page_away_and_is_listed_where_there_is_none(
    chosen: Settings, tmp_path: Path
) -> None:
    records = [
        record("response", "https://x.example/a", http(html("A"))),
        record("response", "https://x.example/a", http(b"gone", 404)),
        record("response", "https://x.example/b", http(b"no", 403)),
        record("response", "https://x.example/c", http(b"wait", 503)),
        record("response", "https://x.example/c", http(html("C", TEXT + " And so on, to the end."))),
    ]
    assert documents(chosen, tmp_path / "a.warc", records) == ["https://x.example/a", "https://x.example/c"]
    assert ledger.left_out(corpora.path_of("a", chosen), -1) == [
        ("a", "https://x.example/b", "the server answered 403")
    ]


def test_a_circle_of_redirects_leads_nowhere(chosen: Settings, tmp_path: Path) -> None:
    ways = {"a": "/b", "b": "/c", "c": "/a", "self": "https://x.example/self", "odd": "intent://x#Intent;end"}
    records = [record("response", f"https://x.example/{p}", http(b"", 302, location=to)) for p, to in ways.items()]
    assert documents(chosen, tmp_path / "a.warc", [*records, RECORDS[2]]) == ["https://x.example/plain"]
    opened = corpora.opened(corpora.path_of("a", chosen), chosen, lambda _: None)
    for path in ways:
        assert isinstance(opened.open(f"https://x.example/{path}"), Failure)
    opened.close()


def test_the_parts_of_a_wacz_file_are_read_though_one_is_cut(chosen: Settings, tmp_path: Path) -> None:
    first = [record("response", "https://x.example/a", http(html("A", "甲：" + CHINESE))), RECORDS[2]]
    second = [record("response", "https://x.example/b", http(html("B")))]
    parts = {
        "archive/1.warc.gz": members(first)[:-40],
        "archive/2.warc": b"".join(second),
        "archive/3.cdx": b"no records",
        "indexes/index.cdx": b"",
    }
    (tmp_path / "a.wacz").write_bytes(wacz(parts))
    report = corpora.create("web", [str(tmp_path / "a.wacz")], chosen)
    assert (report.added, [skipped.reason for skipped in report.skipped]) == (
        2,
        ["archive/1.warc.gz is damaged or cut behind record 1: what stands there is left out"],
    )


@pytest.mark.parametrize(
    ("content_type", "codec", "text"),
    [
        ("text/html", "utf-8", CHINESE),
        ("text/html; charset=gb2312", "gb18030", CHINESE),
        ("text/html", "big5", "克雷翁燈塔於一九一六年首次點亮，由一位守塔人看守了二十年。"),
        ("text/html; charset=iso-8859-1", "cp1252", "Le phare de Kéréon, allumé en 1916, s’élève à 41 mètres."),
        ("text/html; charset=iso-8559-1", "utf-8", "Österreich hört die “Stimme” von Kéréon seit dem Jahr 1916."),
        ("text/html; charset=windows-1251", "cp1251", "Маяк Кереон впервые зажжён в 1916 году, его высота 41 метр."),
    ],
)
def test_a_page_is_read_in_its_encoding(
    chosen: Settings, tmp_path: Path, content_type: str, codec: str, text: str
) -> None:
    named = f"<meta charset={codec}>" if codec == "big5" else ""
    body = f"<html><head>{named}<title>T</title></head><body><p>{text}</p></body></html>".encode(codec)
    file = tmp_path / "a.warc"
    file.write_bytes(record("response", "https://x.example/a", http(body, content_type=content_type)))
    corpora.create("web", [str(file)], chosen)
    opened = corpora.opened(corpora.path_of("web", chosen), chosen, lambda _: None)
    page_ = opened.open("https://x.example/a")
    assert isinstance(page_, Page)
    assert text in page_.text
    opened.close()


def test_a_brotli_bomb_is_left_out(chosen: Settings, tmp_path: Path) -> None:
    bomb = http(brotli.compress(b"<p>" + bytes(page.LARGEST + 1)), content_encoding="br")
    (tmp_path / "a.warc").write_bytes(record("response", "https://x.example/a", bomb))
    assert corpora.create("web", [str(tmp_path / "a.warc")], chosen).skipped == [
        Skipped("https://x.example/a", "too large: more than 20 MB")
    ]
