"""ADDRESS -> RESPONSE, within limits. In: an `Address`. Out: a `Response` of any status, or the `Failure` to get one.

One visit has one deadline, one cookie jar and at most ten redirects, each of them checked by the gate like the first.
What breaks off is kept and marked. Nothing here knows what a page says; it is bytes all the way.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

import httpcore2
import httpx2

from venus_edge.sources import encodings, kinds
from venus_edge.sources.address import Address, parse
from venus_edge.sources.encodings import decoded
from venus_edge.sources.gate import Gate, Refusal
from venus_edge.sources.pace import Pace
from venus_edge.values import Failure, Trouble

USER_AGENT = "venus-edge/0.1 (+https://github.com/venus-edge/venus-edge)"
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.9,*/*;q=0.5"
_FEW_BYTES = 500  # what came before a deadline and is less than this is no page
_REFRESH = re.compile(
    rb"<meta\b(?=[^>]*http-equiv\s*=\s*[\"']?refresh\b)[^>]*\bcontent\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.I
)
_TARGET = re.compile(r"^\s*(\d+(?:\.\d*)?)\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"']+)", re.I)
_NOT_MARKUP = re.compile(rb"<!--.*?-->|<(noscript|script|style)\b.*?</\1", re.S | re.I)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one visit may take, redirects included: seconds, bytes on the wire, bytes once decoded, redirects."""

    seconds: float = 30.0
    wire_bytes: int = 10_000_000
    decoded_bytes: int = 10_000_000
    redirects: int = 10


@dataclass(frozen=True, slots=True)
class Response:
    """What a server sent. `url` is where it came from after redirects; `body` is decoded; names of headers are in
    lower case. `complete` is False for a body that was cut, and `note` says by what."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    complete: bool = True
    note: str = ""

    def header(self, name: str) -> str:
        """The values of a header, joined by commas; "" if there is none."""
        return ", ".join(value for key, value in self.headers if key == name)


def accept_language(language: str) -> str:
    """The Accept-Language for a page in `language` ("zh-CN", "ja", ""): that first, English next, the rest last."""
    if not language or language.lower().startswith("en"):
        return "en-US,en;q=0.9,*;q=0.5"
    short = language.partition("-")[0]
    first = language if language == short else f"{language},{short};q=0.9"
    return f"{first},en;q=0.6,*;q=0.4"


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches pages through the gate. `language` is the reader's ("zh-CN"), "" for English; `pace` is shared by those
    that fetch side by side."""

    gate: Gate
    limits: Limits = field(default_factory=Limits)
    user_agent: str = USER_AGENT
    language: str = ""
    pace: Pace = field(default_factory=Pace)

    @property
    def headers(self) -> dict[str, str]:
        """What every page is asked for with."""
        return {
            "User-Agent": self.user_agent,
            "Accept": _ACCEPT,
            "Accept-Language": accept_language(self.language),
            "Accept-Encoding": ", ".join(["gzip", "deflate", *encodings.offered()]),
            "Connection": "close",
        }

    def fetch(self, address: Address, conditions: Mapping[str, str] | None = None) -> Response | Failure:
        """The response to a GET of `address`. `conditions` are headers such as If-None-Match."""
        deadline = time.monotonic() + self.limits.seconds
        try:
            with (
                self.pace.turn(address.host, deadline),
                self.gate.client("page", deadline, self.headers) as client,
            ):
                return _Visit(client, self.limits, deadline).run(address, dict(conditions or {}))
        except Refusal as refusal:
            return refusal.failure
        except TimeoutError:
            return Failure(Trouble.TIMEOUT, f"timed out: other requests to {address.host} are still waiting")
        except httpx2.InvalidURL:
            return Failure(Trouble.BAD_ADDRESS, "address not allowed: it is not a well-formed URL")
        except httpcore2.ProxyError as error:
            return Failure(Trouble.TIMEOUT, f"unreachable: {address.host}: the proxy says: {str(error)[:100]}")
        except (httpcore2.TimeoutException, httpx2.TimeoutException):
            return Failure(
                Trouble.TIMEOUT, f"timed out: {address.host} did not answer within {self.limits.seconds:g} s"
            )
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.TransportError) as error:
            return Failure(Trouble.TIMEOUT, f"unreachable: {address.host}: {_said(error)}")


def _said(error: Exception) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not valid"
    return text[:200] or "the connection was closed"


@dataclass(slots=True)
class _Visit:
    """One GET with its redirects."""

    client: httpx2.Client
    limits: Limits
    deadline: float
    seen: set[tuple[str, str]] = field(default_factory=set)
    refreshed: bool = False

    def run(self, address: Address, conditions: dict[str, str]) -> Response | Failure:
        for _ in range(self.limits.redirects + 1):
            state = (address.url, repr(sorted(self.client.cookies.items())))
            if state in self.seen:
                return Failure(Trouble.UNREADABLE, "page could not be read: it redirects in a circle")
            self.seen.add(state)
            response = self._get(address, conditions)
            target = self._leads_to(response)
            if not target:
                return response
            following = _followed(address, target)
            if isinstance(following, Failure):
                return following
            address, conditions = following, {}
        return Failure(Trouble.UNREADABLE, f"page could not be read: more than {self.limits.redirects} redirects")

    def _leads_to(self, response: Response) -> str:
        """Where a response sends on to, by its status or, once a visit, by a meta refresh; "" if it is the page."""
        if response.status in _REDIRECTS:
            return response.header("location").strip()
        if self.refreshed or response.status != 200 or not (target := refresh_target(response.body)):
            return ""
        self.refreshed = True
        return target

    def _get(self, address: Address, conditions: dict[str, str]) -> Response:
        request = self.client.build_request("GET", address.url, headers=conditions)
        raw = self.client.send(request, stream=True)
        try:
            wire, complete, note = _read(raw, self.limits, self.deadline)
        finally:
            raw.close()
        headers = tuple((_text(k).lower(), _text(v)) for k, v in raw.headers.raw)
        named = ",".join(v for k, v in headers if k == "content-encoding")
        body, whole = decoded(wire, named, self.limits.decoded_bytes)
        if complete and not whole:
            note = "incomplete: the body is cut or larger than what is read"
        return Response(address.url, raw.status_code, headers, body, complete and whole, note)


def _text(value: bytes) -> str:
    """A header's bytes as text: UTF-8 where it is, else each byte a character."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _followed(address: Address, target: str) -> Address | Failure:
    try:
        joined = urljoin(address.url, target)
    except ValueError:
        return Failure(Trouble.BAD_ADDRESS, "address not allowed: it redirects to what is no URL")
    following = parse(joined)
    if isinstance(following, Failure):
        return replace(following, detail=f"{following.detail} (redirected from {address.host})")
    return following


def refresh_target(body: bytes) -> str:
    """Where a page's meta refresh leads within ten seconds, "" for a page that stays (or only reloads)."""
    head = _NOT_MARKUP.sub(b"", body[:65536])
    found = _REFRESH.search(head)
    if not found:
        return ""
    content = _TARGET.match(html.unescape(_text(next(g for g in found.groups() if g is not None))))
    return content[2].strip() if content and float(content[1]) <= 10 else ""


def _read(raw: httpx2.Response, limits: Limits, deadline: float) -> tuple[bytes, bool, str]:
    """The body on the wire: (bytes, complete, why not). Raises the timeout if next to nothing came before it."""
    body = bytearray()
    try:
        for chunk in raw.stream:  # type: ignore[union-attr]  # a sync client gives a sync stream
            body += chunk
            if len(body) >= limits.wire_bytes:
                return bytes(body[: limits.wire_bytes]), False, _LARGE.format(limits.wire_bytes / 1e6)
            if _is_not_read(body, raw):
                return bytes(body), False, "only its beginning was fetched: it is no text"
    except (httpcore2.TimeoutException, httpx2.TimeoutException):
        if len(body) < _FEW_BYTES:
            raise
        return bytes(body), False, "incomplete: the time limit was reached"
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.TransportError):
        return bytes(body), False, "incomplete: the connection was cut"
    return bytes(body), True, ""


_LARGE = "incomplete: only the first {:g} MB were read"


def _is_not_read(body: bytearray, raw: httpx2.Response) -> bool:
    """A film or an archive shows itself in its first bytes; the rest need not come."""
    if not 4096 <= len(body) < 300_000 or raw.headers.get("content-encoding"):
        return False
    return kinds.kind_of(bytes(body[:4096]), raw.headers.get("content-type", "")) in ("image", "media", "archive")
