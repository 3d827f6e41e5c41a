"""DECODED VALUE -> ToolCall, whatever shape the model gave it.

In: what a call's JSON (or the like) decodes to, numbers as strings. Out: the call, or in words why it is none. Names
and aliases, arguments as a string, a list or not at all are sorted out here. An empty query is a call with no queries
(the tool answers it); an unknown tool is no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from venus_edge.protocol.lenient import Value, read_lenient
from venus_edge.protocol.prompt import well_formed
from venus_edge.values import SearchCall, ToolCall, VisitCall

_NAME = ("name", "tool", "tool_name", "toolname", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "argument", "parameter", "input", "inputs", "kwargs")
_ARGUMENTS_TOO = ("tool_input", "action_input", "function_arguments", "tool_arguments", "tool_args")
_WRAPPERS = ("function", "tool_call", "tool_calls", "function_call", "call", "calls")
_QUERY = ("query", "queries", "q", "search_query", "search_queries", "querys", "keywords", "keyword", "search", "term")
_QUERY_TOO = ("terms", "search_term", "search_terms", "question", "questions", "text", "string", "query_list", "查询")
_URL = ("url", "urls", "link", "links", "uri", "uris", "href", "address", "addresses", "page", "pages", "webpage")
_URL_TOO = ("webpages", "website", "websites", "page_url", "web_url", "url_list", "site", "网址", "链接")
_GOAL = ("goal", "goals", "purpose", "objective", "intent", "aim", "task", "instruction", "query", "question", "目标")

_KNOWN = (*_QUERY, *_QUERY_TOO, *_URL, *_URL_TOO)
_NESTS = (*_ARGUMENTS, "visit", "properties", "value")
_HOLDS_JSON = re.compile(r"[\[{]\s*(?:[\"'{\[]|\d[\d,\s]*\]|[\]}])")
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)


def meaning(value: Value, depth: int = 0) -> ToolCall | str:
    """The call that a decoded value is, or what is wrong with it."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict):
        return "a call is an object with name and arguments"
    fields = {key.strip().lower(): item for key, item in value.items()}
    wrapped = next((fields[key] for key in _WRAPPERS if isinstance(fields.get(key), dict | list)), None)
    if wrapped is not None and depth < 3:
        return meaning(wrapped, depth + 1)
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
    arguments = _innermost(arguments)
    if tool == "search":
        return SearchCall(_distinct(_strings(_picked(arguments, (*_QUERY, *_QUERY_TOO)))))
    if tool == "visit":
        return _visit(arguments)
    return f"unknown tool {name.strip()[:40]!r}; known: search, visit"


def _innermost(arguments: Value) -> Value:
    """Arguments out of a string, or out of an object that holds nothing but them."""
    for _ in range(3):
        if isinstance(arguments, str):
            arguments = _unpacked(_unquoted(arguments))
        if not isinstance(arguments, dict) or _picked(arguments, _KNOWN):
            break
        inner = [arguments[key] for key in arguments if key.strip().lower() in _NESTS]
        if len(inner) != 1 or not isinstance(inner[0], dict | str):
            break
        arguments = inner[0]
    return arguments


def _unquoted(text: str) -> str:
    """What a JSON string that was encoded twice holds, else the text. Not for queries: those may be quoted."""
    try:
        inner = _JSON.decode(text) if text.strip().startswith('"{') else text
    except ValueError:
        return text
    return inner if isinstance(inner, str) else text


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
    for read in (_JSON.raw_decode, lambda text: read_lenient(text, 0, complete=True)):
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
