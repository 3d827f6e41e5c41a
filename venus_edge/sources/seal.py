"""OFFLINE, HELD: while a seal is on, no library of this process reaches for a network; what tries to is stopped.

In: the places on this machine that the person named (a model's server). Out: a Seal that knows what it stopped. Nothing
here is needed for offline to be true (the gate and the search refuse before): it is the proof that nothing goes past
them. What is stopped gets an OSError, as on a machine whose network is down. Python hears of its own sockets only, so
libraries that bring others are not loaded under a seal.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# Names are asked of nobody, datagrams count as connections, and a socket pair within the process is none.
_NAMES = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_PLACES = {"socket.connect": 1, "socket.bind": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getnameinfo": 0}
_OWN_SOCKETS = {"primp", "hf_xet", "curl_cffi", "pycurl"}  # compiled HTTP clients, which no audit hook sees


@dataclass(slots=True)
class Seal:
    """What may be reached on this machine ("127.0.0.1:8080"), and what was stopped."""

    own: tuple[tuple[str, int], ...] = ()
    stopped: list[str] = field(default_factory=list)

    def judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises for an audit event that would reach out: OSError, or ImportError for a library."""
        if event == "import":
            if str(arguments[0]).partition(".")[0] in _OWN_SOCKETS:
                raise ImportError(f"offline: {arguments[0]} opens sockets of its own and is not loaded")
        elif event.startswith("socket.") and not self._harmless(event, arguments):
            self.stopped.append(_said(event, arguments))
            raise OSError(errno.ENETUNREACH, f"offline: {self.stopped[-1]} was stopped")

    def _harmless(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "socket.__new__":
            return arguments[1] == getattr(socket, "AF_UNIX", None) or bool(self.own)
        if event in _NAMES:
            return any(_text(arguments[0]) == host for host, _ in self.own)
        if event in _PLACES:
            return self._is_own(arguments[_PLACES[event]], event)
        return True  # this machine's own name, numbers of services

    def _is_own(self, place: Any, event: str) -> bool:
        if not self.own or not isinstance(place, tuple):
            return False
        if event == "socket.bind":
            return _is_loopback(place[0])
        return _is_loopback(place[0]) and any(place[1] == port for _, port in self.own)


@contextmanager
def sealed(offline: bool = True, own: tuple[tuple[str, int], ...] = ()) -> Iterator[Seal]:
    """A seal on the whole process, threads included, until it is left; not `offline`, one that holds nothing.

    huggingface_hub and those who look where it looks are told as well (HF_HUB_OFFLINE). `own`: host and port of this
    machine. Processes that are started have no seal."""
    seal = Seal(own)
    if not offline:
        yield seal
        return
    _hook.install()
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    _hook.seals.append(seal)
    try:
        yield seal
    finally:
        _hook.seals.remove(seal)
        if before is None:
            os.environ.pop("HF_HUB_OFFLINE", None)
        else:
            os.environ["HF_HUB_OFFLINE"] = before


class _Hook:
    """Python's audit hooks cannot be taken away again: there is one, set with the first seal, that asks those on."""

    def __init__(self, add: Callable[[Callable[[str, tuple[Any, ...]], None]], None] = sys.addaudithook) -> None:
        self.seals: list[Seal] = []
        self._add, self._is_set = add, False

    def install(self) -> None:
        if not self._is_set:
            self._add(self.heard)
            self._is_set = True

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        for seal in self.seals:
            seal.judge(event, arguments)


_hook = _Hook()


def _is_loopback(host: object) -> bool:
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _text(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _said(event: str, arguments: tuple[Any, ...]) -> str:
    """An attempt, for the person: what was to be done, and where."""
    verb = event.removeprefix("socket.")
    if event in _PLACES:
        place = arguments[_PLACES[event]]
        return f"{verb} {place[0]}:{place[1]}" if isinstance(place, tuple) else f"{verb} {place}"
    return f"{verb} {_text(arguments[0])}" if event in _NAMES else "a new socket"
