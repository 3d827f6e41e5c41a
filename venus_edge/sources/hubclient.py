"""THE HUB THROUGH THE GATE: the HTTP client that huggingface_hub is given instead of one of its own.

In: a gate whose policy allows the person's own hub. Out: an httpx2 client whose every connection, redirects to a store
included, passes the gate and is in its ledger. The environment's proxies are used as the hub's library would use them,
but never for this machine itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpcore2
import httpx2

from venus_edge.errors import ModelError
from venus_edge.sources.gate import Gate, Policy, Refusal
from venus_edge.sources.proxies import is_here, proxy_for

_LONGEST = 7 * 86_400.0  # seconds of one request: a large file on a slow line; silence has its own, shorter limit
_LOOPBACK = ("localhost", "127.0.0.0/8", "::1")


def gate(endpoint: str, offline: bool = False, allow_hosts: tuple[str, ...] = ()) -> Gate:
    """A gate for the hub at `endpoint`, which the person may have set to a host of their own."""
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").lower()
    own = _LOOPBACK if is_here(host) else (f"[{host}]" if ":" in host else host,) if host else ()
    return Gate(Policy(offline, (*own, *allow_hosts)), environment=True)


def client(passing: Gate, purpose: str) -> httpx2.Client:
    """A client for huggingface_hub (its `set_client_factory`); it follows redirects, as the hub's answers need."""
    return httpx2.Client(transport=_Passing(passing, purpose), follow_redirects=True, trust_env=False, timeout=30)


class _Passing(httpx2.BaseTransport):
    """Each request by a transport of the gate's own; errors as httpx2 names them, refusals as ours."""

    def __init__(self, passing: Gate, purpose: str) -> None:
        self._gate, self._purpose = passing, purpose

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        host, scheme = request.url.host, request.url.scheme
        port = request.url.port or (443 if scheme == "https" else 80)
        proxy = proxy_for(scheme, host, port)
        with _translated(proxy):
            transport = self._transport(host, port, proxy)
            response = transport.handle_request(request)
            assert isinstance(response.stream, httpx2.SyncByteStream)
            response.stream = _Body(response.stream, proxy)
            return response

    def _transport(self, host: str, port: int, proxy: httpcore2.Proxy | None) -> httpx2.BaseTransport:
        deadline = time.monotonic() + _LONGEST
        if proxy is None:
            return self._gate.transport(self._purpose, deadline)
        return self._gate.proxied(self._purpose, deadline, proxy, host, port)


class _Body(httpx2.SyncByteStream):
    """A response's body, its errors translated."""

    def __init__(self, inner: httpx2.SyncByteStream, proxy: httpcore2.Proxy | None) -> None:
        self._inner, self._proxy = inner, proxy

    def __iter__(self) -> Iterator[bytes]:
        with _translated(self._proxy):
            yield from self._inner

    def close(self) -> None:
        self._inner.close()


@contextmanager
def _translated(proxy: httpcore2.Proxy | None) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        allow = "" if "offline" in refusal.failure.detail else "; if it is yours, name it in VENUS_ALLOW_HOSTS"
        raise ModelError(f"{refusal.failure.detail}{allow}") from refusal
    except httpcore2.ProxyError as error:
        raise httpx2.ProxyError(f"the proxy says: {error}") from error
    except httpcore2.TimeoutException as error:
        raise httpx2.ReadTimeout(str(error) or "no answer in time") from error
    except httpcore2.NetworkError as error:
        through = (
            f"the proxy {proxy.url.host.decode()}: " if proxy and isinstance(error, httpcore2.ConnectError) else ""
        )
        raise httpx2.NetworkError(f"{through}{error}") from error
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise httpx2.RemoteProtocolError(str(error) or type(error).__name__) from error
