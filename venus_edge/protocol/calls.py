"""WHAT STANDS IN A TOOL CALL -> ToolCall, whatever shape the model gave it.

In: the text after an opening tag. Out: the call and where it ends, or what is wrong with it. Strict JSON first; then
JSON with raw line breaks; then a lenient reading; then the XML and Python shapes of other model families. What a shape
means is decided here too: names and aliases, arguments as a string, a list or not at all. An empty query is a call
with no queries (the tool answers it); an unknown tool is no call.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from venus_edge.protocol.lenient import Unreadable, Value, read_lenient
from venus_edge.protocol.prompt import well_formed
from venus_edge.values import SearchCall, ToolCall, VisitCall

MAX_CALL = 65_536  # characters: the longest released call has under 1,000

_NAME = ("name", "tool", "tool_name", "toolname", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "argument", "parameter", "input", "inputs", "kwargs")
_ARGUMENTS_TOO = ("tool_input", "action_input", "function_arguments", "tool_arguments", "tool_args")
_WRAPPERS = ("function", "tool_call", "tool_calls", "function_call", "call", "calls")
_QUERY = ("query", "queries", "q", "search_query", "search_queries", "querys", "keywords", "keyword", "search", "term")
_QUERY_TOO = ("terms", "search_term", "search_terms", "question", "questions", "text", "string", "query_list", "查询")
_URL = ("url", "urls", "link", "links", "uri", "uris", "href", "address", "addresses", "page", "pages", "webpage")
_URL_TOO = ("webpages", "website", "websites", "page_url", "web_url", "url_list", "site", "网址", "链接")
_GOAL = ("goal", "goals", "purpose", "objective", "intent", "aim", "task", "instruction", "query", "question", "目标")
_STRICT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
_RAW_BREAKS = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A call, or in words why it is none; `start` and `end` enclose what was read."""

    call: ToolCall | str
    end: int
    start: int = 0


# -- text -> call -----------------------------------------------------------------------------------------------------

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
    r"</(?:parameter|param|argument|arg)>",
    re.IGNORECASE | re.DOTALL,
)
_XML_PLAIN_VALUE = re.compile(r"<(query|queries|url|urls|goal)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_MAX_XML = 4_096
_XML_END = re.compile(r"</(?:function|invoke|tool|search|visit)>", re.IGNORECASE)
_PYTHON = re.compile(r"(?:functions?\.|tools?\.)?(search|visit)\s*\(", re.IGNORECASE)
_NAME_THEN_JSON = re.compile(r"(?:functions?\.|tools?\.)?(search|visit)\b[\s:：]*(?=[{\[])", re.IGNORECASE)


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
        return Decoded(_meaning(value), end)
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
            return Decoded(_meaning(value), end - 1)
        if block[at : at + 1] in _OPENERS:
            value, end = read_lenient(block, at, complete)
            return Decoded(_meaning(value), end)
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
    return Decoded(_meaning({"name": name.group(1) or name.group(2), "arguments": arguments}), stop)


def _python_call(block: str, at: int, complete: bool) -> Decoded | None:
    """`search(query=["..."])`, `search("...")`."""
    name = _PYTHON.match(block, at)
    end = block.rfind(")")
    if name is None or end < name.end() or block[end + 1 :].strip():
        return None
    inside = block[name.end() : end]
    keyed = re.match(r"\s*\w+\s*[=:]", inside)
    value = _value_at("{" + inside + "}", 0) if keyed else _value_at("[" + inside + "]", 0)
    return Decoded(_meaning({"name": name.group(1), "arguments": value}), end + 1)


def _named_call(block: str, at: int, complete: bool) -> Decoded | None:
    """The tool's name, then its arguments as JSON."""
    name = _NAME_THEN_JSON.match(block, at)
    if name is None:
        return None
    try:
        value, end = read_lenient(block, name.end(), complete)
    except Unreadable:
        return None
    return Decoded(_meaning({"name": name.group(1), "arguments": value}), end)


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


_HOLDS_JSON = re.compile(r"[\[{]\s*(?:[\"'{\[]|\d[\d,\s]*\]|[\]}])")


# -- value -> call ----------------------------------------------------------------------------------------------------


def _meaning(value: Value, depth: int = 0) -> ToolCall | str:
    """The call that a decoded value is, or what is wrong with it."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict):
        return "a call is an object with name and arguments"
    fields = {key.strip().lower(): item for key, item in value.items()}
    wrapped = next((fields[key] for key in _WRAPPERS if isinstance(fields.get(key), dict | list)), None)
    if wrapped is not None and depth < 3:
        return _meaning(wrapped, depth + 1)
    name = next((item for key in _NAME if isinstance(item := fields.get(key), str) and item.strip()), None)
    if name is None:
        return _nameless(fields)
    arguments = next((fields[key] for key in (*_ARGUMENTS, *_ARGUMENTS_TOO) if key in fields), None)
    if arguments is None:
        arguments = {key: item for key, item in fields.items() if key not in _NAME}
    return _call(name, arguments)


def _nameless(fields: dict[str, Value]) -> ToolCall | str:
    """An object without a name, where its keys leave no doubt."""
    for tool in ("search", "visit"):
        if isinstance(fields.get(tool), dict | list) and len(fields) == 1:
            return _call(tool, fields[tool])
    inner = next((item for key in _ARGUMENTS if isinstance(item := fields.get(key), dict)), fields)
    keys = {key.strip().lower() for key in inner}
    if keys & {"url", "urls"}:
        return _call("visit", inner)
    if keys & {"query", "queries"}:
        return _call("search", inner)
    return "the call has no name"


def _call(name: str, arguments: Value) -> ToolCall | str:
    tool = name.strip().strip("\"'`").rpartition(".")[2].strip().lower()
    if isinstance(arguments, str):
        arguments = _unpacked(arguments)
    if tool == "search":
        return SearchCall(_distinct(_strings(_picked(arguments, (*_QUERY, *_QUERY_TOO)))))
    if tool == "visit":
        return _visit(arguments)
    return f"unknown tool {name.strip()[:40]!r}; known: search, visit"


def _visit(arguments: Value) -> VisitCall:
    if isinstance(arguments, dict):
        goal = "; ".join(_distinct(_strings(_picked(arguments, _GOAL)[:1])))
        return VisitCall(_distinct(_addresses(_strings(_picked(arguments, (*_URL, *_URL_TOO))))), goal)
    texts = list(_strings([arguments]))
    addresses = [text for text in texts if _is_address(text)]
    goal = "; ".join(text for text in texts if not _is_address(text))
    return VisitCall(_distinct(_addresses(addresses)), goal)


def _picked(arguments: Value, keys: Sequence[str]) -> list[Value]:
    """The values under any of `keys`, in the keys' order; all of them where the arguments are no object."""
    if not isinstance(arguments, dict):
        return [arguments]
    fields = {key.strip().lower(): item for key, item in arguments.items()}
    return [fields[key] for key in keys if fields.get(key) not in (None, "", [])]


def _strings(values: Iterable[Value]) -> Iterator[str]:
    """The texts in nested lists, in order; numbers as written, null and booleans not. Never a string's letters."""
    waiting: list[Iterator[Value]] = [iter(values)]
    while waiting:
        try:
            value = next(waiting[-1])
        except StopIteration:
            waiting.pop()
            continue
        if isinstance(value, list):
            waiting.append(iter(value))
        elif isinstance(value, dict):
            waiting.append(iter(_in_object(value)))
        elif isinstance(value, str):
            unpacked = _unpacked(value)
            if isinstance(unpacked, str):
                yield unpacked
            elif len(waiting) < 8:
                waiting.append(iter([unpacked]))


def _in_object(value: dict[str, Value]) -> list[Value]:
    """Of an object where a text was expected: its query or address, else whatever texts it holds."""
    known = _picked(value, (*_QUERY, *_URL))
    return known or [item for item in value.values() if not isinstance(item, dict)]


def _unpacked(text: str) -> Value:
    """The list or object that a string holds as JSON; else the string."""
    inner = text.strip()
    if not _HOLDS_JSON.match(inner):
        return text
    for read in (_RAW_BREAKS.raw_decode, lambda text: read_lenient(text, 0, complete=True)):
        try:
            value, end = read(inner)
        except (ValueError, RecursionError):
            continue
        if end == len(inner):
            unpacked: Value = value
            return unpacked
    return text


def _addresses(texts: Iterable[str]) -> Iterator[str]:
    """Addresses as written; one string that holds several, each with its scheme, is several."""
    for text in texts:
        yield from re.split(r"[,;，；、]?\s+(?=https?://)", text.strip())


def _is_address(text: str) -> bool:
    return re.match(r"\s*[<(\[]?(?:\w{1,12}:/|www\.|[\w-]+(?:\.[\w-]+)+(?:/|\s*$))", text) is not None


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for raw in texts if (text := well_formed(raw).strip())))
