"""WHAT STANDS IN A TOOL CALL'S TAGS -> Decoded: the call and where it ends, or what is wrong with it.

In: the text after an opening tag. Strict JSON first; then JSON with raw line breaks; then a lenient reading; then the
XML and Python shapes of other model families. Which of these a cut text may still use is decided here; what the decoded
value means is `calls`.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

from venus_edge.protocol.calls import meaning
from venus_edge.protocol.lenient import Unreadable, Value, read_lenient
from venus_edge.values import ToolCall

MAX_CALL = 65_536  # characters: the longest released call has under 1,000

_STRICT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
_RAW_BREAKS = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False)
_LEAD = re.compile(r"(?:[\s\u200b\ufeff]|```\w*|</?tool_calls?>|<function_call>|json(?=[\s{]))*+", re.IGNORECASE)
_CALL_END = re.compile(
    r"</\s*tool[_ -]?(?:calls?|responses?)?\s*(?:>|$)|<tool_calls?>|</function_call>"
    r"|<tool_response>|<answer>|<\|im_end\|>",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[{｛]")
_OPENERS = ("{", "[", "｛", "［")
_UNBRACED = re.compile(r"[\"'“]?(?:name|type)[\"'”]?\s{0,3}[:：]", re.IGNORECASE)  # the opening brace is missing
_XML_NAME = re.compile(
    r"<(?:function|invoke|tool)(?:=|\s{1,3}name\s{0,2}=\s{0,2})[\"']?([\w. -]{1,60})[\"']?\s{0,3}>|<(search|visit)>",
    re.IGNORECASE,
)
_XML_VALUE = re.compile(
    r"<(?:parameter|param|argument|arg)(?:=|\s{1,3}name\s{0,2}=\s{0,2})[\"']?\s{0,2}(\w{1,40})\s{0,2}[\"']?\s{0,2}>(.*?)"
    r"(?:</(?:parameter|param|argument|arg)>|(?=<(?:parameter|param|argument|arg)[=\s])"
    r"|(?=</(?:function|invoke|tool|search|visit)>)|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_XML_PLAIN_VALUE = re.compile(r"<(query|queries|url|urls|goal)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_MAX_XML = 4_096
_XML_END = re.compile(r"</(?:function|invoke|tool|search|visit)>", re.IGNORECASE)
_PYTHON = re.compile(r"(?:functions?\.|tools?\.)?(search|visit)\s*\(", re.IGNORECASE)
_NAME_THEN_JSON = re.compile(r"(?:functions?\.|tools?\.)?(search|visit)\b[\s:：]*(?=[{\[])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A call, or in words why it is none; `start` and `end` enclose what was read."""

    call: ToolCall | str
    end: int
    start: int = 0


def decode_call(text: str, start: int, whole: bool, anywhere: bool) -> Decoded | None:
    """The call whose opening tag ends at `start`; None if nothing there looks like one (a tag that is only mentioned).

    `whole` says that the reply was not cut by a limit. Only then, or where a closing tag follows, is anything mended,
    and brackets are closed only where the closing tag follows. `anywhere` also takes an object after a few words.
    """
    window = text[start : start + MAX_CALL]
    at = _end_of(_LEAD, window, 0)
    end_tag = _CALL_END.search(window, at)
    block = window[: end_tag.start()] if end_tag else window
    if anywhere and not _looks_like_call(window, at):
        bracket = _BRACKET.search(block, at)
        at = bracket.start() if bracket else at
    if not _looks_like_call(window, at):
        return None
    decoded = _strict_call(window, at)
    if decoded is None and (end_tag or whole):
        decoded = _mended_call(block, at, complete=end_tag is not None)
    if decoded is None:
        reason = "the call is not readable JSON" if end_tag or whole else "the call is cut off"
        decoded = Decoded(reason, len(block))
    return Decoded(decoded.call, start + decoded.end)


def decode_bare(text: str, at: int) -> Decoded | None:
    """The call that stands at `at` without tags, if it is JSON to the letter or the XML shape, and of a known tool."""
    window = text[at : at + MAX_CALL]
    decoded = _strict_call(window, 0) if window[:1] == "{" else _xml_call(window, 0, complete=False)
    return None if decoded is None or isinstance(decoded.call, str) else Decoded(decoded.call, at + decoded.end, at)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _looks_like_call(text: str, at: int) -> bool:
    return text[at : at + 1] in (*_OPENERS, '"') or any(
        pattern.match(text, at) for pattern in (_UNBRACED, _XML_NAME, _PYTHON, _NAME_THEN_JSON)
    )


def _strict_call(text: str, at: int) -> Decoded | None:
    for decoder in (_STRICT, _RAW_BREAKS):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str):  # JSON in a JSON string
            inner = _strict_call(value, _end_of(_LEAD, value, 0)) if value[:1] in "{[ \n" else None
            return Decoded(inner.call, end) if inner else None
        return Decoded(meaning(value), end)
    return None


def _mended_call(block: str, at: int, complete: bool) -> Decoded | None:
    """The first shape in which the block is a call; else the first in which it is at least read."""
    read: Decoded | None = None
    for shape in (_lenient_call, _xml_call, _python_call, _named_call, _escaped_call):
        decoded = shape(block, at, complete)
        if decoded and not isinstance(decoded.call, str):
            return decoded
        read = read or decoded
    return read


def _lenient_call(block: str, at: int, complete: bool) -> Decoded | None:
    try:
        if _UNBRACED.match(block, at):
            value, end = read_lenient(block[:at] + "{" + block[at:], at, complete)
            return Decoded(meaning(value), end - 1)
        if block[at : at + 1] in _OPENERS:
            value, end = read_lenient(block, at, complete)
            return Decoded(meaning(value), end)
    except Unreadable:
        pass
    return None


def _xml_call(block: str, at: int, complete: bool) -> Decoded | None:
    """`<function=search><parameter=query>...` and its cousins."""
    name = _XML_NAME.match(block, at)
    end = _XML_END.search(block, at)
    if name is None or not (end or complete):
        return None
    stop = min(end.end() if end else len(block), at + _MAX_XML)
    found = [*_XML_VALUE.finditer(block, name.end(), stop), *_XML_PLAIN_VALUE.finditer(block, name.end(), stop)]
    arguments: Value = {m.group(1): m.group(2).strip() for m in found}
    if not arguments:
        bracket = _BRACKET.search(block, name.end(), stop)
        arguments = _value_at(block, bracket.start()) if bracket else None
    return Decoded(meaning({"name": name.group(1) or name.group(2), "arguments": arguments}), stop)


def _python_call(block: str, at: int, complete: bool) -> Decoded | None:
    """`search(query=["..."])`, `search("...")`."""
    name = _PYTHON.match(block, at)
    end = block.rfind(")")
    if name is None or end < name.end() or block[end + 1 :].strip(" \n`"):
        return None
    inside = block[name.end() : end]
    keyed = re.match(r"\s*\w+\s*[=:]", inside)
    value = _value_at("{" + inside + "}", 0) if keyed else _value_at("[" + inside + "]", 0)
    return Decoded(meaning({"name": name.group(1), "arguments": value}), end + 1)


def _named_call(block: str, at: int, complete: bool) -> Decoded | None:
    """The tool's name, then its arguments as JSON."""
    name = _NAME_THEN_JSON.match(block, at)
    if name is None:
        return None
    try:
        value, end = read_lenient(block, name.end(), complete)
    except Unreadable:
        return None
    return Decoded(meaning({"name": name.group(1), "arguments": value}), end)


def _escaped_call(block: str, at: int, complete: bool) -> Decoded | None:
    """JSON whose quotes were escaped once too often, for JSON or for HTML."""
    for plain in (_unescaped_once(block[at:].strip().strip('"')), html.unescape(block[at:]).strip()):
        decoded = _strict_call(plain, 0)
        if decoded is not None and not isinstance(decoded.call, str):
            return Decoded(decoded.call, len(block))
    return None


def _unescaped_once(text: str) -> str:
    try:
        inner = _RAW_BREAKS.decode(f'"{text}"')
    except ValueError:
        return text.replace('\\"', '"')
    return str(inner)


def _value_at(text: str, at: int) -> Value:
    """The JSON-like value at `at`, None if there is none."""
    try:
        return read_lenient(text, at, complete=True)[0]
    except Unreadable:
        return None
