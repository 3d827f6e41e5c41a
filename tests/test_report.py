"""Session -> one file that stands alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.bench.report import records as long_session
from venus_edge.cli.app import cli
from venus_edge.report import Report, Turn, page, plain
from venus_edge.report.markup import answer as marked_up
from venus_edge.report.markup import is_http, link
from venus_edge.report.session import duration, report

URL = "https://atlas.example/kerrin"
TEXT = (
    "# Kerrin Point\n\nKerrin Point Lighthouse was first lit in 1916. </div><script>alert(1)</script>"
    '<img src=x onerror="alert(2)"> [a](javascript:alert(3))\n'
)
ANSWER = "**Kerrin Point Lighthouse** was first lit in 1916. It is 47 m tall, says https://invented.example/a."
SETTINGS = {"sampling": {"temperature": 1.0}, "reader": "extractive"}
USAGE = {"prompt_tokens": 10, "reused_tokens": 4, "evaluated_tokens": 6, "generated_tokens": 5, "seconds": 1.5}


def records(
    answer: str = ANSWER, text: str = TEXT, question: str = "When was Kerrin Point lit?"
) -> list[dict[str, Any]]:
    """The journal of a run of three turns."""
    hit = {"title": "Kerrin <b>Point</b>", "url": "javascript:alert(4)", "snippet": "a \u202elight", "date": ""}
    page = {"url": URL, "title": "Kerrin Point Lighthouse", "text": text, "sha256": "0", "date": "", "note": ""}
    reading = {"url": URL, "outcome": {"evidence": text, "summary": "s"}, "page": page}
    slow = {"trouble": "timeout", "detail": "no answer within 20 s", "nearest": []}
    found = {"text": "[]", "found": [{"hits": [hit]}, {"hits": [], "failure": slow}], "readings": []}
    result = {"prediction": answer, "termination": "answered", "turns": 3, "tool_call_count": 2}
    return [
        {"venus_edge": "0.1.0", "schema": 1, "created": "2026-03-01T12:00:00+00:00"},
        {"event": "RunStarted", "question": question, "model": "tiny", "n_ctx": 4096, "seed": 7, "settings": SETTINGS},
        replied(1, "I search.", {"queries": ["kerrin", "lit"]}),
        {"event": "ToolReturned", "turn": 1, "result": found, "seconds": 0.5},
        {"event": "AttemptDropped", "turn": 2, "attempt": 1, "reason": "malformed", "detail": "no call", "text": ""},
        replied(2, "", {"urls": [URL], "goal": "year"}),
        {"event": "ToolReturned", "turn": 2, "result": {"text": "evidence", "readings": [reading]}, "seconds": 0.5},
        replied(3, "Done.", {"text": answer, "cut": False}),
        {"event": "Finished", "result": {**result, "elapsed_seconds": 725.0}},
    ]


def replied(turn: int, thought: str, action: dict[str, Any]) -> dict[str, Any]:
    return {"event": "Replied", "turn": turn, "reply": {"thought": thought, "action": action}, "usage": USAGE}


class Elements(HTMLParser):
    """The elements and attributes that a browser would find, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.found if name in attrs]


def test_a_report_says_what_left_the_machine() -> None:
    hosts: list[dict[str, Any]] = [{"host": "a.example", "connections": 2, "sent": 1_200, "received": 34_000}]
    ledgers: list[dict[str, Any]] = [{"event": "Ledger", "hosts": []}, {"event": "Ledger", "hosts": hosts}]
    assert dict(report([*records(), *ledgers]).counts)["left this machine"] == (
        "a.example (2): 1,200 bytes up, 34,000 down"
    )
    assert dict(report([*records(), ledgers[0]]).counts)["left this machine"] == "nothing: no connection"


# -- records -> report ------------------------------------------------------------------------------------------------


def test_a_report_holds_what_the_journal_holds() -> None:
    made = report(records())
    assert (made.question, made.answer, made.state, made.model) == (
        "When was Kerrin Point lit?",
        ANSWER,
        "answered",
        "tiny",
    )
    assert made.turns == (
        Turn(
            1,
            "I search.",
            "search: kerrin | lit",
            "1. Kerrin <b>Point</b>\n   javascript:alert(4)\n   a \u202elight\ntimeout: no answer within 20 s",
            (),
            5,
            2.0,
        ),
        Turn(2, "", f"visit: {URL}  for: year", "evidence", ("attempt 1 dropped (malformed): no call",), 5, 2.0),
        Turn(3, "Done.", "answer", "", (), 5, 1.5),
    )
    assert [(c.mark, [q.url for q in c.quotes]) for c in made.citations.sentences] == [
        ("supported", [URL]),
        ("not found", []),
    ]
    assert [unread.url for unread in made.citations.unread] == ["https://invented.example/a"]
    assert dict(made.counts) == {
        "turns": "3",
        "tool calls": "2",
        "malformed replies": "0",
        "repeated calls": "0",
        "tokens of conversation": "15",
        "tokens generated": "15",
        "tokens evaluated": "18",
        "tokens reused": "12",
        "time": "12 min 5 s",
    }
    assert made.settings == (
        ("n_ctx", "4096"),
        ("seed", "7"),
        ("settings.sampling.temperature", "1.0"),
        ("settings.reader", "extractive"),
        ("venus-edge", "0.1.0"),
    )


def test_a_run_that_did_not_finish_has_a_report() -> None:
    made = report([*records()[:7], {"event": "Failed", "turn": 3, "error": "out of memory"}])
    assert (made.state, made.answer, made.failure) == ("unfinished", "", "out of memory")
    assert [turn.number for turn in made.turns] == [1, 2, 3]
    assert "The run has no answer." in page.html(made)
    assert "out of memory" in page.html(made)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [{}],
        [{"event": "Finished"}],
        [{"event": "Finished", "result": 3}, {"event": "Replied", "turn": "x"}],
        [7, None],
    ],
)
def test_any_records_are_a_report(found: list[Any]) -> None:
    made = report(found)
    assert made.state == "unfinished"
    assert all(write(made) for write in (page.html, plain.markdown, plain.json_text))


def test_a_duration_is_in_the_units_that_people_use() -> None:
    assert [duration(s) for s in (2.36, 59.9, 725, 12_000)] == ["2.4 s", "59.9 s", "12 min 5 s", "3 h 20 min"]


# -- HTML -------------------------------------------------------------------------------------------------------------


def test_nothing_of_a_page_is_live() -> None:
    elements = Elements(page.html(report(records(answer=ANSWER + "\n\n" + TEXT, question=TEXT))))
    tags = {tag for tag, _ in elements.found}
    assert tags.isdisjoint({"script", "img", "iframe", "form", "object", "link", "base", "svg", "b"})
    assert all(not name.startswith("on") and name != "style" for _, attrs in elements.found for name in attrs)
    assert all(href.startswith(("#", "https://")) for href in elements.values("href"))
    assert elements.values("src") == []
    assert "<script>alert(1)</script>" in elements.text
    assert "\u202e" not in elements.text


def test_every_element_is_closed_in_order() -> None:
    assert (
        Elements(page.html(report(records(answer=ANSWER + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> *q* **r")))).open
        == []
    )


def test_the_policy_allows_the_one_style_sheet_and_nothing_else() -> None:
    html = page.html(report(records()))
    [style] = re.findall(r"<style>(.*?)</style>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in html
    assert not re.search(r"url\(|@import", style)


def test_a_link_tells_its_target_nothing() -> None:
    elements = Elements(page.html(report(records())))
    outward = [attrs for tag, attrs in elements.found if tag == "a" and str(attrs["href"]).startswith("http")]
    assert outward
    assert all({"noreferrer", "noopener"} <= set(str(attrs["rel"]).split()) for attrs in outward)


def test_every_mark_leads_to_its_passage_and_every_passage_into_its_text() -> None:
    elements = Elements(page.html(report(records())))
    targets = elements.values("id")
    assert len(targets) == len(set(targets))
    inside = [href[1:] for href in elements.values("href") if href.startswith("#")]
    assert set(inside) <= set(targets)
    start = TEXT.index("Kerrin Point Lighthouse was")
    assert {"q1", "c1", f"t0-{start}"} <= set(inside)


def test_quotes_that_overlap_leave_the_text_whole() -> None:
    text = "Kerrin Point Lighthouse was first lit in 1916. It is 41 m tall."
    html = page.html(
        report(records("It was lit in 1916 at Kerrin Point Lighthouse. Kerrin Point Lighthouse is 41 m tall.", text))
    )
    [shown] = re.findall(r'<details id="s0">.*?<div class="text">(.*?)</div>', html, re.S)
    assert re.sub(r"<[^>]+>", "", shown) == text


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//host/x", "http:/x", "https://a b",
        "http://a\nb", " http://a", "https://a\"onclick='x'", "",
    ],
)  # fmt: skip
def test_what_a_browser_could_run_is_no_link(url: str) -> None:
    assert not is_http(url)
    assert "<a " not in link(url, "text")


# -- the answer's Markdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one<br>two</p>\n<p>three</p>"),
        ("## A *b* c", "<h3>A <em>b</em> c</h3>"),
        ("**a** and 2 * 3", "<p><strong>a</strong> and 2 * 3</p>"),
        ("snake_case_name", "<p>snake_case_name</p>"),
        ("`<b>`", "<p><code>&lt;b&gt;</code></p>"),
        ("<b>x</b> & y", "<p>&lt;b&gt;x&lt;/b&gt; &amp; y</p>"),
        ("```py\na < b\n```", "<pre><code>a &lt; b</code></pre>"),
        ("- a\n- b", '<ol><li class="dot" data-depth="0">a</li><li class="dot" data-depth="0">b</li></ol>'),
        ("3. a", '<ol><li value="3" data-depth="0">a</li></ol>'),
        ("> q", "<blockquote><p>q</p></blockquote>"),
        ("---", "<hr>"),
        ("[t](javascript:alert(1))", "<p>t (javascript:alert(1))</p>"),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |",
            '<div class="wide"><table><thead><tr><th> a </th><th> b </th></tr></thead>'
            "<tbody><tr><td> 1 </td><td> 2 </td></tr></tbody></table></div>",
        ),
    ],
)  # fmt: skip
def test_markdown_of_answers(text: str, html: str) -> None:
    assert marked_up(text, ()) == html


def test_a_sentence_is_marked_across_emphasis_and_cells() -> None:
    html = marked_up(ANSWER, report(records()).citations.sentences)
    assert html.startswith(
        '<p><span class="yes" id="c1"><strong>Kerrin Point Lighthouse</strong> was first lit in 1916.</span>'
        '<a class="ref yes" href="#q1" aria-label="supported, passage 1">1✓</a> <span class="no" id="c2">'
    )


@pytest.mark.parametrize(
    "text", ["*" * 3000, "[" * 3000, "`" * 999, "|\n" * 500, "# " * 500, "- \n" * 500, "> " * 800, "~~~", "\x00\ud800"]
)
def test_any_answer_becomes_well_formed_html(text: str) -> None:
    assert Elements(page.html(report(records(answer=text)))).open == []


# -- Markdown and JSON ------------------------------------------------------------------------------------------------


def test_a_text_cannot_leave_its_fence() -> None:
    written = plain.markdown(report(records(text="before\n```\n````\n# not a heading of the report")))
    assert "`````\nbefore\n```\n````\n# not a heading of the report\n`````" in written


def test_markdown_has_a_footnote_for_each_sentence() -> None:
    written = plain.markdown(report(records()))
    assert "was first lit in 1916.[^1] It is 47 m tall" in written
    assert "\n[^1]: ✓ supported: “Kerrin Point Lighthouse was first lit in 1916.”" in written


def test_json_has_the_fields_of_the_report_and_offsets_that_count_into_its_texts() -> None:
    made = json.loads(plain.json_text(report(records())))
    assert list(made) == list(Report.__dataclass_fields__)
    quote = made["citations"]["sentences"][0]["quotes"][0]
    assert made["texts"][quote["source"]]["text"][quote["start"] : quote["end"]] == quote["text"]


def test_a_long_session_loses_nothing() -> None:
    made = report(long_session())
    assert len(made.turns) == 199
    assert {citation.mark for citation in made.citations.sentences} == {"supported"}
    assert page.html(made).count("<details") == 199 + 49


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session file in a data directory of its own; the working directory is another one."""
    monkeypatch.setenv("VENUS_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "data" / "sessions" / "20260301-120000-kerrin.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records()), encoding="utf-8")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def export(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sessions", "export", *arguments])


@pytest.mark.parametrize("named", [[], ["20260301"], ["kerrin"], ["20260301-120000-kerrin"]])
def test_export_writes_the_newest_or_the_named_session_here(session: Path, named: list[str]) -> None:
    result = export(*named)
    assert (result.exit_code, result.stdout) == (0, "20260301-120000-kerrin.html\n")
    assert Path("20260301-120000-kerrin.html").read_text(encoding="utf-8") == page.html(report(records()))


@pytest.mark.parametrize(("kind", "write"), [("md", plain.markdown), ("json", plain.json_text), ("html", page.html)])
def test_export_to_stdout_prints_the_report_alone(session: Path, kind: str, write: Any) -> None:
    assert export(str(session), "--format", kind, "--out", "-").stdout == write(report(records()))


def test_export_never_writes_over_a_session(session: Path) -> None:
    before = session.read_bytes()
    result = export(str(session), "--format", "json", "--out", str(session))
    assert (result.exit_code, "is the session itself" in result.output) == (2, True)
    assert session.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing-like-it"], 2, "no session 'nothing-like-it' in "),
        (["--out", "missing/dir/a.html"], 1, "the report cannot be written to missing/dir/a.html: No such file"),
        (["--out", "."], 1, "the report cannot be written to .: Is a directory"),
    ],
)
def test_what_cannot_be_exported_is_one_line(session: Path, arguments: list[str], code: int, said: str) -> None:
    result = export(*arguments)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_a_name_of_several_sessions_lists_them(session: Path) -> None:
    (session.parent / "20260302-120000-kerrin.jsonl").write_bytes(session.read_bytes())
    result = export("kerrin")
    assert result.exit_code == 2
    assert "'kerrin' is in 2 names: 20260302-120000-kerrin, 20260301-120000-kerrin" in result.output
