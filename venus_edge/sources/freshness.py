"""HEADERS -> HOW LONG A COPY IS FRESH, and what to ask when it is not (RFC 9111, as a private cache). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

Headers = Mapping[str, str]  # names in lower case

_UNSAID = 3600.0  # seconds: a page that says nothing of its age is asked for again in an hour
_LONGEST_GUESS = 7 * 86400.0
_LONGEST = 10 * 365 * 86400.0
_DIRECTIVE = re.compile(r"([\w-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,;\"]+)))?")


def directives(headers: Headers) -> dict[str, str]:
    """Cache-Control as a table, names in lower case; the first of a repeated one counts."""
    table: dict[str, str] = {}
    for name, quoted, bare in _DIRECTIVE.findall(headers.get("cache-control", "")):
        table.setdefault(name.lower(), quoted or bare)
    if not table and "no-cache" in headers.get("pragma", "").lower():
        table["no-cache"] = ""
    return table


def may_keep(headers: Headers) -> bool:
    """Whether a private cache may keep the response at all."""
    return "no-store" not in directives(headers)


def fresh_until(headers: Headers, now: float) -> float:
    """The time until which a response received at `now` need not be asked for again."""
    said = directives(headers)
    if "no-cache" in said or headers.get("vary", "").strip() == "*":
        return now
    age = _number(headers.get("age", "")) or 0.0
    if "max-age" in said:
        return now + max(0.0, min(_number(said["max-age"]) or 0.0, _LONGEST) - age)
    sent = seconds(headers.get("date", "")) or now
    if "expires" in headers:  # a date that cannot be read means "already expired" (RFC 9111, 5.3)
        expires = seconds(headers["expires"])
        return now if expires is None else now + max(0.0, min(expires - sent, _LONGEST) - age)
    changed = seconds(headers.get("last-modified", ""))
    if changed is not None and changed <= sent:
        return now + min(0.1 * (sent - changed), _LONGEST_GUESS)
    return now + _UNSAID


def conditions(headers: Headers) -> dict[str, str]:
    """The request headers that ask whether a kept response is still the page."""
    asked = {"If-None-Match": headers.get("etag", ""), "If-Modified-Since": headers.get("last-modified", "")}
    return {name: value for name, value in asked.items() if value and value.isascii() and value.isprintable()}


def seconds(date: str) -> float | None:
    """An HTTP date as seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
