"""The released runs beside the project, and tool replies read back into the values they were worded from."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from venus_edge.protocol.dialects import PAGE_SEPARATOR
from venus_edge.protocol.prompt import TOOL_TIMEOUT_TEXT
from venus_edge.values import DialectName, Evidence, Failure, Found, Hit, Message, PageReading, Trouble

_EVIDENCE = re.compile(r"\n\nEvidence in page: \n(.*)\n\nSummary: \n(.*)\n\n\Z", re.DOTALL)
_SUMMARY = re.compile(r"\n\nSummary: \n(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Run:
    """One released run: its dialect and its messages."""

    name: str
    dialect: DialectName
    messages: tuple[Message, ...]

    def turns(self) -> Iterator[str]:
        return (m.content for m in self.messages if m.role == "assistant")

    def replies(self) -> Iterator[tuple[str, str]]:
        """Each call's turn with the tool's reply to it, without the tags around that."""
        for turn, reply in zip(self.messages[2:], self.messages[3:], strict=False):
            if turn.role == "assistant" and reply.role == "user":
                yield turn.content, reply.content.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")


def released(shared: Path) -> list[Run]:
    """Every run in the folder, in the order of the files' names."""
    return [_run(path) for path in sorted((shared / "trajectories").glob("*.json.gz"))]


def _run(path: Path) -> Run:
    record = json.loads(gzip.decompress(path.read_bytes()))
    messages = tuple(Message(m["role"], m["content"]) for m in record["messages"])
    return Run(path.name, "rl" if path.name.startswith("rl") else "sft", messages)


def read_search(text: str) -> list[Found]:
    """The results that a search reply words (not its failures)."""
    if text == "[]":
        return [Found("")]
    return [_found(entry) for entry in json.loads(text)]


def _found(entry: dict[str, object]) -> Found:
    items = entry["web_page_info_list"]
    assert isinstance(items, list)
    hits = tuple(Hit(i["title"], i["url"], i["snippet"], i.get("date", "")) for i in items)
    return Found(str(entry["query"]), hits)


def read_visit(text: str, urls: tuple[str, ...], goal: str, dialect: DialectName) -> list[PageReading]:
    """The readings that a visit reply words, given the call it answers."""
    if text == TOOL_TIMEOUT_TEXT:
        return [PageReading(url, Failure(Trouble.TIMEOUT, "")) for url in urls]
    blocks = text.split(PAGE_SEPARATOR) if len(urls) > 1 else [text]
    return [_reading(block, url, goal, dialect) for block, url in zip(blocks, urls, strict=True)]


def _reading(block: str, url: str, goal: str, dialect: DialectName) -> PageReading:
    header = f"The useful information in {url} for user goal {goal} as follows: "
    assert block.startswith(header)
    found = (_SUMMARY if dialect == "sft" else _EVIDENCE).fullmatch(block, len(header))
    assert found
    evidence, summary = ("", found[1]) if dialect == "sft" else (found[1], found[2])
    return PageReading(url, Evidence(evidence, summary))
