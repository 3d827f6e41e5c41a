"""A REQUEST TO A SEARCH SERVICE -> ITS JSON, or the `Reply` that says why there is none. Through the gate.

What a status means is the same for all of them but for the few that a service names in `meanings`. Keys go into headers
and nowhere else: nothing that the request or the reply raises is passed on as it is worded.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import httpcore2
import httpx2

from venus_edge.sources.encodings import decoded
from venus_edge.sources.gate import Gate, Refusal
from venus_edge.sources.http import USER_AGENT
from venus_edge.sources.provider import UNREACHABLE, Reply, refused
from venus_edge.values import Failure, Trouble

_LARGEST = 4_000_000  # bytes of a reply
_LONGEST_WAIT = 3600.0  # seconds that a service may ask us to stay away
_TOO_MUCH = refused("rate limit", "soon")
_MEANINGS: dict[int, Reply] = {
    202: _TOO_MUCH,
    400: refused("it does not take this query (400)"),
    401: refused("it does not accept the key (401)", "never"),
    402: refused("the plan of this key is used up (402)", "never"),
    403: refused("it does not accept the key (403)", "never"),
    404: refused("there is no search at this address (404)", "never"),
    418: _TOO_MUCH,
    422: refused("it does not take this query (422)"),
    429: _TOO_MUCH,
}
_CHECK = re.compile(
    r"captcha|one (?:more|last) step|unusual traffic|are you (?:a )?(?:human|robot)|anomaly|challenge-form"
    r"|verify you are|not a robot|just a moment|验证|驗證|人机",
    re.I,
)


def is_check(text: str) -> bool:
    """Whether a reply asks for a proof that we are human."""
    return bool(_CHECK.search(text))


@dataclass(frozen=True, slots=True)
class Service:
    """A service that answers in JSON. `headers` hold its key; `meanings` are what a status means there, beside what it
    means everywhere."""

    gate: Gate
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    meanings: Mapping[int, Reply] = field(default_factory=dict)

    def get(self, url: str, parameters: Mapping[str, str | int], deadline: float) -> dict[str, Any] | Reply:
        """The object that a GET with these parameters brings."""
        given = {name: value for name, value in parameters.items() if value != ""}
        return self._asked("GET", f"{url}?{urlencode(given, errors='replace')}", None, deadline)

    def post(self, url: str, body: Mapping[str, object], deadline: float) -> dict[str, Any] | Reply:
        """The object that a POST of this object brings."""
        return self._asked("POST", url, json.dumps(body).encode(), deadline)

    def _asked(self, method: str, url: str, content: bytes | None, deadline: float) -> dict[str, Any] | Reply:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
        headers |= {"Content-Type": "application/json"} if content is not None else {}
        try:
            url, account = _without_account(url)
            headers |= account
            with self.gate.client("search", deadline, headers | dict(self.headers)) as client:
                return self._received(client, client.build_request(method, url, content=content))
        except Refusal as refusal:
            return Reply(failure=refusal.failure, again="never")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError):
            return refused(
                f"{_host(url) or 'its address'} cannot be asked: the address or the key is malformed", "never"
            )
        except (httpcore2.LocalProtocolError, httpx2.LocalProtocolError):
            return refused("the address or the key is malformed", "never")
        except httpcore2.ProxyError as error:
            said = f"search service is unreachable: the proxy says: {str(error)[:100]}"
            return Reply(failure=Failure(Trouble.TIMEOUT, said))
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, httpx2.TransportError):
            return Reply(failure=UNREACHABLE)

    def _received(self, client: httpx2.Client, request: httpx2.Request) -> dict[str, Any] | Reply:
        response = client.send(request, stream=True)
        wire = bytearray()
        try:
            for chunk in response.stream:  # type: ignore[union-attr]  # a sync client gives a sync stream
                wire += chunk
                if len(wire) > _LARGEST:
                    break
        finally:
            response.close()
        body, _ = decoded(bytes(wire), response.headers.get("content-encoding", ""), _LARGEST)
        said = self._meant(response, body.decode("utf-8", "replace"))
        return said if said is not None else _object(body)

    def _meant(self, response: httpx2.Response, text: str) -> Reply | None:
        """What a status says that brings no results; None for one that does."""
        status = response.status_code
        meaning = self.meanings.get(status) or _MEANINGS.get(status)
        if status == 200:
            return None
        if meaning is not None:
            return _after(meaning, response.headers.get("retry-after", ""))
        if 300 <= status < 400:
            return refused(f"it sends on to another address ({status})", "never")
        if is_check(text):
            return _TOO_MUCH
        return Reply(failure=Failure(Trouble.TIMEOUT, f"search service has an error ({status})"))


def _after(meaning: Reply, wait: str) -> Reply:
    if meaning.again != "soon" or not (wait.isascii() and wait.isdigit() and len(wait) < 8):
        return meaning
    return Reply(failure=meaning.failure, again="soon", wait=min(float(wait), _LONGEST_WAIT))


def _object(body: bytes) -> dict[str, Any] | Reply:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return _TOO_MUCH if is_check(text) or not text.strip() else refused("its reply is not JSON")
    return value if isinstance(value, dict) else refused("its reply is not what it should be")


def _without_account(url: str) -> tuple[str, dict[str, str]]:
    """The address without the name and password in it, and the header that they become: addresses are logged."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    account = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, {"Authorization": f"Basic {b64encode(account).decode()}"}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def items(value: object) -> list[dict[str, Any]]:
    """The objects in a list, whatever else is there instead."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(item: Mapping[str, object], *names: str) -> str:
    """The first of these fields that is text and not empty."""
    return next((value for name in names if isinstance(value := item.get(name), str) and value), "")
