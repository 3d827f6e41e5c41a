"""EVERY OUTWARD CONNECTION PASSES HERE: policy first, then the checked address, then the ledger.

In: a policy, and requests through an httpx2 transport (or, for a library with sockets of its own, a permit). Out:
connections to public addresses only, each written in the ledger. A name is resolved once, every address it has is
checked, and the connection goes to the very address that was checked, so that a second answer of the name server
changes nothing. Offline, nothing is resolved and no socket is opened. Proxies and certificates of the environment are
used where the caller asks for it: a proxy resolves the names itself.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import httpcore2
import httpx2

from venus_edge.sources.address import IPAddress, is_public
from venus_edge.sources.deadline import within
from venus_edge.sources.proxies import Proxies
from venus_edge.values import Failure, Trouble

# Names that never lead to the public Internet (RFC 6761, 6762, 8375, and what routers and clouds use).
_LOCAL_NAMES = "localhost local internal localdomain lan home corp intranet private arpa onion test invalid"
_LARGEST_HEAD = 256 * 1024  # bytes of headers that are read before they are left to the parser to refuse
OFFLINE = Failure(Trouble.OFFLINE, "offline: no connection is made")

T = TypeVar("T")
Resolver = Callable[[str, int], list[IPAddress]]


class Refusal(Exception):
    """A connection that the gate does not make; `failure` says why. Stays inside `sources`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Policy:
    """What may leave the machine. `allow_hosts` are names, addresses or networks of one's own ("searx.lan",
    "127.0.0.1", "192.168.1.0/24", with or without ":port") that need not be public."""

    offline: bool = False
    allow_hosts: tuple[str, ...] = ()

    def allows(self, host: str, port: int) -> bool:
        """Whether the person named this host. A name is never allowed by the address that it resolves to."""
        return any(_matches(entry.strip().lower(), host, port) for entry in self.allow_hosts)

    def refuses(self, host: str, port: int) -> Failure | None:
        """Why no connection to `host` may be tried, as far as the name alone says it."""
        if self.offline:
            return OFFLINE
        if self.allows(host, port):
            return None
        literal = _literal(host)
        if literal is not None:
            return None if is_public(literal) else _not_allowed(host)
        last = host.rpartition(".")[2]
        return _not_allowed(host) if "." not in host or last in _LOCAL_NAMES.split() else None


def _matches(entry: str, host: str, port: int) -> bool:
    name, _, wanted = entry.rpartition(":") if entry.count(":") == 1 or entry.startswith("[") else (entry, "", "")
    if entry.startswith("[") and entry.endswith("]"):
        name, wanted = entry, ""
    if wanted.isdecimal() and int(wanted) != port:
        return False
    name = (name if wanted.isdecimal() or not wanted else entry).strip("[]").rstrip(".")
    literal = _literal(host)
    if literal is None:
        return name == host or (name.startswith("*.") and host.endswith(name[1:]))
    try:
        return literal in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _not_allowed(host: str, why: str = "it is not on the public Internet") -> Failure:
    return Failure(Trouble.BAD_ADDRESS, f"address not allowed: {host}: {why}")


# -- the ledger ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: who was spoken to and why, the bytes up and down, and how it ended. `address` is the IP
    address that was connected to, "" if there was no connection or a library made it."""

    host: str
    port: int
    purpose: str
    outcome: str
    sent: int = 0
    received: int = 0
    address: str = ""


@dataclass(slots=True)
class Use:
    """What a library with its own sockets says of a request: it goes into the ledger when the request is over."""

    outcome: str = "failed"
    sent: int = 0
    received: int = 0


class Ledger:
    """What left the machine. Threads write into it."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def write(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)


# -- the gate --------------------------------------------------------------------------------------------------------


def resolve(host: str, port: int) -> list[IPAddress]:
    """Every address of a name, in the system's order. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found))


@dataclass(frozen=True, slots=True)
class Gate:
    """The policy, the ledger and the name server that the connections go by. `environment`: SSL_CERT_FILE counts.
    `proxies` None: every connection is our own."""

    policy: Policy = field(default_factory=Policy)
    ledger: Ledger = field(default_factory=Ledger)
    resolver: Resolver = resolve
    environment: bool = False
    proxies: Proxies | None = None
    _tls: list[ssl.SSLContext] = field(default_factory=list)

    def allowing(self, *hosts: str) -> Gate:
        """The same gate and ledger for a part that may also speak to these hosts of one's own."""
        return replace(self, policy=replace(self.policy, allow_hosts=(*self.policy.allow_hosts, *hosts)))

    def transport(self, purpose: str, deadline: float) -> httpx2.BaseTransport:
        """A transport for one visit: everything through it is over at `deadline` (of time.monotonic)."""
        return (
            self.direct(purpose, deadline) if self.proxies is None else _Routed(self, self.proxies, purpose, deadline)
        )

    def direct(self, purpose: str, deadline: float) -> httpx2.BaseTransport:
        """A transport without a proxy, whatever is set."""
        return _Transport(_Backend(self, purpose, deadline), self._context)

    def proxied(
        self, purpose: str, deadline: float, proxy: httpcore2.Proxy, host: str, port: int
    ) -> httpx2.BaseTransport:
        """A transport to `host` through a proxy that the person named. Raises Refusal for a host that may not be."""
        self._check(host, port, purpose)
        there, at = proxy.url.host.decode(), proxy.url.port or 80
        way = self.allowing(f"[{there}]:{at}" if ":" in there else f"{there}:{at}")
        return _Transport(_Backend(way, f"{purpose} of {host}", deadline), self._context, proxy)

    def client(self, purpose: str, deadline: float, headers: dict[str, str]) -> httpx2.Client:
        """An HTTP client for one visit: cookies live as long as it, redirects are the caller's."""
        return httpx2.Client(
            transport=self.transport(purpose, deadline),
            headers=headers,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(max(0.001, deadline - time.monotonic())),
        )

    @contextmanager
    def permit(self, host: str, port: int, purpose: str) -> Iterator[Use]:
        """Leave for a library that opens its own sockets: the policy is checked and the ledger written, but its
        connections are not pinned. Raises Refusal."""
        self._check(host, port, purpose)
        use = Use()
        try:
            yield use
        finally:
            self.ledger.write(Entry(host, port, purpose, use.outcome, use.sent, use.received))

    def addresses(self, host: str, port: int, purpose: str, deadline: float) -> list[IPAddress]:
        """The addresses of `host`, every one of them checked. Raises Refusal, or httpcore2's ConnectError."""
        self._check(host, port, purpose)
        literal = _literal(host)
        found = [literal] if literal is not None else self._resolved(host, port, purpose, deadline)
        if not self.policy.allows(host, port):
            bad = next((a for a in found if not is_public(a)), None)
            if bad is not None:
                self._refuse(host, port, purpose, _not_allowed(host, f"it leads to {bad}, which is not public"))
        return found

    def _check(self, host: str, port: int, purpose: str) -> None:
        failure = self.policy.refuses(host, port)
        if failure is not None:
            self._refuse(host, port, purpose, failure)

    def _refuse(self, host: str, port: int, purpose: str, failure: Failure) -> None:
        self.ledger.write(Entry(host, port, purpose, f"not allowed: {failure.trouble.value}"))
        raise Refusal(failure)

    def _resolved(self, host: str, port: int, purpose: str, deadline: float) -> list[IPAddress]:
        try:
            found = within(deadline, lambda: self.resolver(host, port))
        except TimeoutError:
            self.ledger.write(Entry(host, port, purpose, "name server did not answer"))
            raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time") from None
        except (OSError, UnicodeError, ValueError):
            self.ledger.write(Entry(host, port, purpose, "no such name"))
            raise httpcore2.ConnectError(f"there is no host {host}, or no name server") from None
        if not found:
            raise httpcore2.ConnectError(f"there is no host {host}")
        return found

    def _context(self) -> ssl.SSLContext:
        """The TLS settings, made once: reading the certificates takes tens of milliseconds."""
        if not self._tls:
            self._tls.append(httpx2.create_ssl_context(trust_env=self.environment))
        return self._tls[0]


# -- how httpx2 goes through it --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Connection:
    """What a connection has carried; becomes its line in the ledger when it closes."""

    ledger: Ledger
    host: str
    port: int
    purpose: str
    address: str
    deadline: float
    sent: int = 0
    received: int = 0
    outcome: str = "ok"
    closed: bool = False

    def left(self, timeout: float | None) -> float:
        """The seconds that one operation may take. Raises ReadTimeout when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.outcome = "timed out"
            raise httpcore2.ReadTimeout("the time limit was reached")
        return left if timeout is None else min(timeout, left)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            entry = Entry(self.host, self.port, self.purpose, self.outcome, self.sent, self.received, self.address)
            self.ledger.write(entry)


class _Stream(httpcore2.NetworkStream):
    """A connection under the deadline, counted, with the response's head made fit for a strict parser."""

    def __init__(self, inner: httpcore2.NetworkStream, connection: _Connection) -> None:
        self._inner = inner
        self._connection = connection
        self._head: bytes | None = b""  # what is read of the response's head; None once it is through

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head is None:
            return self._read(max_bytes, timeout)
        while (end := _end_of_head(self._head)) is None:
            data = self._read(max_bytes, timeout)
            self._head += data
            if not data or len(self._head) > _LARGEST_HEAD:
                head, self._head = self._head, None
                return head
        head, rest = self._head[:end], self._head[end:]
        self._head = rest if re.match(rb"HTTP/\d\.\d 1\d\d", head) else None
        return tidied(head) + (b"" if self._head is not None else rest)

    def _read(self, max_bytes: int, timeout: float | None) -> bytes:
        data = self._guarded(lambda left: self._inner.read(max_bytes, left), timeout)
        self._connection.received += len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._guarded(lambda left: self._inner.write(buffer, left), timeout)
        self._connection.sent += len(buffer)

    def _guarded(self, work: Callable[[float], T], timeout: float | None) -> T:
        try:
            return work(self._connection.left(timeout))
        except httpcore2.TimeoutException:
            self._connection.outcome = "timed out"
            raise
        except httpcore2.NetworkError:
            self._connection.outcome = "connection broken"
            raise

    def close(self) -> None:
        self._inner.close()
        self._connection.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        try:
            left = self._connection.left(timeout)
            return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._connection)
        except BaseException:
            self._connection.outcome = "no secure connection"
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _end_of_head(data: bytes) -> int | None:
    found = re.search(rb"\r?\n\r?\n", data)
    return found.end() if found else None


_FIELD = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*?)[ \t]*$", re.S)
_STATUS = re.compile(rb"^\S+\s+(\d{3})(?:\s+(.*))?$", re.S)


def tidied(head: bytes) -> bytes:
    """A response's head without what a strict parser refuses whole responses for: lines that are no fields, control
    bytes, a second Content-Length, a Content-Length beside chunks, a version that is not HTTP's."""
    first, *lines = re.split(rb"\r?\n", head.rstrip(b"\r\n"))
    status = _STATUS.match(first)
    if status is None:
        return head
    old = re.match(rb"HTTP/1\.0", first)
    kept = [(b"HTTP/1.0 " if old else b"HTTP/1.1 ") + status[1] + b" " + _visible(status[2] or b"")]
    fields = [(m[1], _visible(m[2])) for line in lines if (m := _FIELD.match(line))]
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in fields)
    lengths = 0
    for name, value in fields:
        low = name.lower()
        if low == b"content-length":
            lengths += 1
            if chunked or lengths > 1 or not value.isdigit():
                continue
        kept.append(name + b": " + (b"chunked" if low == b"transfer-encoding" else value))
    return b"\r\n".join(kept) + b"\r\n\r\n"


def _visible(value: bytes) -> bytes:
    return re.sub(rb"[\x00-\x08\x0a-\x1f\x7f]", b"", value).strip()


class _Backend(httpcore2.NetworkBackend):
    """Opens connections for one visit."""

    def __init__(self, gate: Gate, purpose: str, deadline: float) -> None:
        self._gate, self._purpose, self._deadline = gate, purpose, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._gate.addresses(host, port, self._purpose, self._deadline)
        error: Exception = httpcore2.ConnectError(f"there is no host {host}")
        for n, address in enumerate(addresses):
            connection = _Connection(self._gate.ledger, host, port, self._purpose, str(address), self._deadline)
            try:
                share = connection.left(timeout) / (len(addresses) - n)
                inner = httpcore2.SyncBackend().connect_tcp(str(address), port, timeout=share)
            except (httpcore2.NetworkError, httpcore2.TimeoutException) as failed:
                connection.outcome = "timed out" if isinstance(failed, httpcore2.TimeoutException) else "no connection"
                connection.close()
                error = failed
            else:
                return _Stream(inner, connection)
        raise error


class _Transport(httpx2.BaseTransport):
    """One visit's connections. Connections are not kept: the next request is checked again."""

    def __init__(
        self, backend: _Backend, context: Callable[[], ssl.SSLContext], proxy: httpcore2.Proxy | None = None
    ) -> None:
        self._backend, self._context, self._proxy = backend, context, proxy

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        secure = request.url.scheme == "https"
        pool = httpcore2.ConnectionPool(
            ssl_context=self._context() if secure else None,
            network_backend=self._backend,
            max_keepalive_connections=0,
            proxy=self._proxy,
        )
        raw = request.url
        target = httpcore2.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
        content = cast("Iterable[bytes]", request.stream)
        asked = httpcore2.Request(request.method, target, headers=request.headers.raw, content=content)
        asked.extensions = dict(request.extensions)
        try:
            response = pool.handle_request(asked)
        except BaseException:
            pool.close()
            raise
        stream = _Body(response, pool)
        return httpx2.Response(response.status, headers=response.headers, stream=stream, extensions=response.extensions)


class _Routed(httpx2.BaseTransport):
    """One visit's connections, each through the proxy that is set for its host, if there is one."""

    def __init__(self, gate: Gate, proxies: Proxies, purpose: str, deadline: float) -> None:
        self._gate, self._proxies, self._purpose, self._deadline = gate, proxies, purpose, deadline

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        host, scheme = request.url.host, request.url.scheme
        port = request.url.port or (443 if scheme == "https" else 80)
        proxy = self._proxies.of(scheme, host, port)
        if proxy is None:
            return self._gate.direct(self._purpose, self._deadline).handle_request(request)
        return self._gate.proxied(self._purpose, self._deadline, proxy, host, port).handle_request(request)


class _Body(httpx2.SyncByteStream):
    """A response's body; closing it closes the connection."""

    def __init__(self, response: httpcore2.Response, pool: httpcore2.ConnectionPool) -> None:
        self._response, self._pool = response, pool

    def __iter__(self) -> Iterator[bytes]:
        yield from cast("Iterable[bytes]", self._response.stream)

    def close(self) -> None:
        self._response.close()
        self._pool.close()
