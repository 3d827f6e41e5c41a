"""A RECORD -> ITS EVENT: the way back from JSON, by the types of the events themselves.

In: a record as JSON gives it. Out: the event that was written. Raises Unreadable, which says what should be where, for
anything else: a record is a file that people edit.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from venus_edge import events
from venus_edge.events import Event

KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event) if kind is not events.Streamed}


class Unreadable(ValueError):
    """A value that is not what its place in the record needs."""


def event_of(record: Mapping[str, Any]) -> Event:
    """The event. What a record has beside the event's fields is passed over."""
    name = record.get("event")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Unreadable(f"{name!r} is no event")
    return cast(Event, _object(kind, record, str(name)))


def _object(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise Unreadable(f"{where} should be an object")
    missing = sorted(_required(kind) - value.keys())
    if missing:
        raise Unreadable(f"{where} has no {', '.join(missing)}")
    given = {name: _value(hint, value[name], f"{where}.{name}") for name, hint in _hints(kind).items() if name in value}
    return kind(**given)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _required(kind: type) -> frozenset[str]:
    assert is_dataclass(kind)
    return frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        return _one_of(get_args(hint), value, where)
    if origin is tuple:
        return _items(get_args(hint)[0], value, where)
    if origin is Literal:
        return _checked(value, value in get_args(hint), where, " or ".join(map(str, get_args(hint))))
    if is_dataclass(hint):
        return _object(cast(type, hint), value, where)
    return _simple(hint, value, where)


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """Of several dataclasses the one whose fields are there."""
    if value is None and types.NoneType in kinds:
        return None
    if isinstance(value, Mapping):
        for kind in kinds:
            if is_dataclass(kind) and _required(cast(type, kind)) <= value.keys():
                return _object(cast(type, kind), value, where)
    raise Unreadable(f"{where} is none of {', '.join(kind.__name__ for kind in kinds)}")


def _items(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    items = _checked(value, isinstance(value, list), where, "a list")
    return tuple(_value(kind, item, f"{where}[{number}]") for number, item in enumerate(items))


def _simple(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        names = {member.name.lower(): member for member in hint}
        return names[_checked(value, value in names, where, " or ".join(names))]
    if hint is float:
        return float(_checked(value, _is_number(value), where, "a number"))
    if hint is int:
        return _checked(value, isinstance(value, int) and not isinstance(value, bool), where, "a whole number")
    if hint in (str, bool):
        return _checked(value, isinstance(value, hint), where, "text" if hint is str else "true or false")
    return _checked(value, isinstance(value, Mapping), where, "an object")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked(value: Any, right: bool, where: str, what: str) -> Any:
    if not right:
        raise Unreadable(f"{where} should be {what}")
    return value
