"""A HOST -> THE PROXY IT IS REACHED THROUGH: the person's own, the environment's, or none.

In: scheme, host and port. Out: a proxy as httpcore2 takes it, or None. HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY
count as they do everywhere; this machine itself is never asked for through a proxy. A password is in no message.
"""

from __future__ import annotations

import importlib.util
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

import httpcore2

from venus_edge.errors import UsageError

NONE = "none"


@dataclass(frozen=True, slots=True)
class Proxies:
    """`address` is the proxy of every host, "none" for no proxy at all, "" for what the environment says."""

    address: str = field(default="", repr=False)

    def of(self, scheme: str, host: str, port: int) -> httpcore2.Proxy | None:
        """The proxy for a host. Raises UsageError for an address that cannot be one."""
        if self.address == NONE or is_here(host):
            return None
        if self.address:
            return None if _is_bypassed(host, port) else _proxy(self.address, "proxy")
        return proxy_for(scheme, host, port)

    def check(self) -> None:
        """Raises UsageError unless every address that may be used is one."""
        for scheme, port in (("http", 80), ("https", 443)):
            self.of(scheme, "example.org", port)


def address_of(proxy: httpcore2.Proxy) -> str:
    """A proxy as a library of other people takes it: one address, the account in it."""
    there = proxy.url.host.decode()
    place = f"[{there}]:{proxy.url.port}" if ":" in there else f"{there}:{proxy.url.port}"
    account = ":".join(quote(part.decode(), safe="") for part in proxy.auth) + "@" if proxy.auth else ""
    return f"{proxy.url.scheme.decode()}://{account}{place}"


def proxy_for(scheme: str, host: str, port: int) -> httpcore2.Proxy | None:
    """The proxy that the environment names for a host. Raises UsageError for an address that cannot be one."""
    named = urllib.request.getproxies()
    address = named.get(scheme) or named.get("all", "")
    if not address or is_here(host) or _is_bypassed(host, port):
        return None
    return _proxy(address, f"{scheme}_proxy".upper())


def is_here(host: str) -> bool:
    """Whether a host is this machine, by its name."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_bypassed(host: str, port: int) -> bool:
    return bool(urllib.request.proxy_bypass(f"{host}:{port}"))


def _proxy(address: str, variable: str) -> httpcore2.Proxy:
    address = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https", "socks5", "socks5h"):
        raise UsageError(f"{variable} is not the address of a proxy, like http://proxy:3128")
    if parts.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise UsageError(f"{variable} is a SOCKS proxy, which needs one package more: pip install socksio")
    bracketed = f"[{host}]" if ":" in host else host
    port = port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    account = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return httpcore2.Proxy(f"{parts.scheme}://{bracketed}:{port}", auth=account)
