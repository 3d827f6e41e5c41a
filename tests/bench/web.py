"""What the web can do to us, in tables: cases, addresses, bombs and drips, a cache that is killed and fought over.

    python -m tests.bench.web [cases] [addresses] [bombs] [cache]

Servers are on loopback and nothing else is connected to: an audit hook counts every connection and every name that
Python is asked for, and breaks off what would leave the machine. Memory is the peak of a process of its own above what
it had before the visit. Ends with 1 if a row is not what it should be. The suite has smaller versions of all this.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.sources import test_cache, test_page_cases, test_search_cases
from tests.sources.loopback import Reply, Site, open_gate, raw
from venus_edge.sources.address import IPAddress
from venus_edge.sources.cache import FILE, Cache
from venus_edge.sources.gate import Gate
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.web import Web
from venus_edge.values import Failure, Page, Trouble

ROOT = Path(__file__).resolve().parents[2]
wrong: list[str] = []


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def check(right: bool, what: str) -> str:
    if not right:
        wrong.append(what)
    return "" if right else "   <- WRONG"


# -- cases -----------------------------------------------------------------------------------------------------------


def cases() -> None:
    """Kind -> outcome, for the kinds of the shared cases S and P."""
    for title, table in (("Search", test_search_cases.TABLE), ("Pages", test_page_cases.TABLE)):
        say(f"\n{title}: kind -> outcome")
        for case, kind, done, expected in table:
            outcome = done()
            say(f"  {case}  {kind:<52} {outcome}{check(outcome == expected, kind)}")
    say("\nFive outcomes of a search, to the model and to the person")
    for outcome in test_search_cases.FIVE:
        model, person = test_search_cases.five(outcome)
        say(f"  {outcome:<14} {model[:100]}")
        say(f"  {'':<14} {person[:100]}")


# -- addresses -------------------------------------------------------------------------------------------------------

connections: list[object] = []
names: list[object] = []


def watch() -> None:
    """Counts what is connected to and resolved; what is not this machine is broken off."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            connections.append(address)
            if isinstance(address, tuple) and not str(address[0]).startswith("127."):
                raise ConnectionRefusedError("nothing leaves this machine here")
        elif event == "socket.getaddrinfo":
            names.append(arguments[0])

    sys.addaudithook(hook)


def addresses() -> None:
    """Every spelling, then redirects and names that change their answer."""
    say("\nAddresses: as written -> why it is refused")
    every = [*test_page_cases.PRIVATE.split(), *test_page_cases.NO_WEB.split()]
    web = Web(Fetcher(Gate(), Limits(seconds=5)))
    connections.clear()
    names.clear()
    for url in every:
        outcome = web.open(url)
        refused = isinstance(outcome, Failure) and outcome.trouble is Trouble.BAD_ADDRESS
        told = outcome.detail if isinstance(outcome, Failure) else "read"
        say(f"  {url:<44} {told.removeprefix('address not allowed: ')}{check(refused, url)}")
    right = check(not connections and not names, "addresses")
    say(f"  {len(every)} spellings, {len(connections)} connections, {len(names)} names resolved{right}")
    with Site() as inside:
        for name, done in _detours(inside).items():
            connections.clear()
            outcome = done()
            told = outcome.detail if isinstance(outcome, Failure) else "read"
            reached = len(inside.asked)
            say(f"  {name:<44} {told[:90]}; {reached} requests inside{check(not reached, name)}")


def _detours(inside: Site) -> dict[str, Callable[[], Page | Failure]]:
    """Ways to a server on this machine that nobody allowed."""
    public, local = ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address("127.0.0.1")

    def named(*answers: list[IPAddress]) -> Callable[[], Page | Failure]:
        left = list(answers)

        def resolve(host: str, port: int) -> list[IPAddress]:
            return left.pop(0) if len(left) > 1 else left[0]

        url = f"http://rebinding.example:{inside.port}/"
        return lambda: Web(Fetcher(Gate(resolver=resolve), Limits(seconds=5))).open(url)

    def redirected(target: str) -> Callable[[], Page | Failure]:
        def done() -> Page | Failure:
            with Site() as outside:
                outside.pages["/"] = Reply(status=302, headers={"Location": target.format(inside.port)})
                gate = open_gate(f"127.0.0.1:{outside.port}")
                return Web(Fetcher(gate, Limits(seconds=5))).open(outside.url("/"))

        return done

    return {
        "a name that is public, then private": named([public], [local]),
        "a name that is both": named([public, local]),
        "a name that is private, wrapped in NAT64": named([ipaddress.ip_address("64:ff9b::7f00:1")]),
        "a redirect to http://127.0.0.1": redirected("http://127.0.0.1:{}/"),
        "a redirect to http://2130706433": redirected("http://2130706433:{}/"),
        "a redirect to http://[::ffff:127.0.0.1]": redirected("http://[::ffff:127.0.0.1]:{}/"),
        "a redirect to http://localhost": redirected("http://localhost:{}/"),
    }


# -- bombs and drips -------------------------------------------------------------------------------------------------

VISIT = """
import json, sys, time
from tests.sources.loopback import open_gate
from venus_edge.sources.extract import extract
from venus_edge.sources.http import Fetcher, Limits
from venus_edge.sources.web import Web
def peak():  # of this program alone: ru_maxrss begins with what the parent had
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
extract(b"<p>lamp</p>", "https://example.org/")
before = peak()
began = time.monotonic()
found = Web(Fetcher(open_gate(), Limits(seconds=float(sys.argv[2])))).open(sys.argv[1])
seconds = time.monotonic() - began
told = getattr(found, "detail", None) or f"read ({found.note})"
print(json.dumps([seconds, time.process_time(), (peak() - before) / 1024, told]))
"""
SECONDS = 5.0  # of a visit here
MOST_MB, MOST_CPU, SLACK = 500, 10.0, 15.0  # MB and seconds of a visit, those of reading what came in time included


def _packed(size: int, level: int = 1) -> bytes:
    """So many zeros, compressed without ever holding them."""
    packer, zeros = zlib.compressobj(level, zlib.DEFLATED, 31), bytes(1 << 20)
    return b"".join([packer.compress(zeros) for _ in range(size >> 20)] + [packer.flush()])


def _page(*fields: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/html", *fields, "", ""]).encode()


def _slowly(first: bytes, drop: bytes, pause: float = 0.05) -> Callable[[], Iterator[bytes]]:
    def chunks() -> Iterator[bytes]:
        yield first
        while True:
            yield drop
            time.sleep(pause)

    return chunks


def _for_ever(first: bytes, block: bytes) -> Callable[[], Iterator[bytes]]:
    return _slowly(first, block, 0.0)


def _servers() -> dict[str, Callable[[], Iterable[bytes]]]:
    bomb = _packed(1 << 30)
    twice = gzip.compress(bomb)
    deep = b"<div>" * 300_000 + b"lamp"
    found: dict[str, Callable[[], Iterable[bytes]]] = {
        f"gzip: 1 GB of zeros in {len(bomb) / 1e6:.1f} MB": lambda: [_page("Content-Encoding: gzip"), bomb],
        f"gzip in gzip: the same in {len(twice) / 1e3:.1f} kB": lambda: [_page("Content-Encoding: gzip, gzip"), twice],
        "endless zeros": _for_ever(_page(), bytes(65536)),
        "endless text": _for_ever(_page(), b"<p>The lamp was lit. " * 3000),
        "endless chunks": _for_ever(_page("Transfer-Encoding: chunked"), b"4\r\nlamp\r\n" * 8000),
        "endless headers": _for_ever(b"HTTP/1.1 200 OK\r\n", b"X-Lamp: lit\r\n" * 4000),
        "a header without an end": _for_ever(b"HTTP/1.1 200 OK\r\nX-Lamp: ", b"l" * 65536),
        "300,000 levels of markup": lambda: [_page(f"Content-Length: {len(deep)}"), deep],
        "a byte of the body every 50 ms": _slowly(_page("Transfer-Encoding: chunked"), b"1\r\nx\r\n"),
        "a byte of the head every 50 ms": _slowly(b"HTTP/1.1 200 OK\r\nX-Lamp: ", b"l"),
        "silence after the head": _slowly(_page("Content-Length: 9"), b"", 0.2),
    }
    found |= _newer()
    return found


def _newer() -> dict[str, Callable[[], Iterable[bytes]]]:
    """Bombs of encodings that are offered only where their package is installed."""
    made: dict[str, Callable[[], Iterable[bytes]]] = {}
    try:
        import zstandard
    except ImportError:
        pass
    else:
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        zeros = bytes(1 << 20)
        zstd = b"".join([packer.compress(zeros) for _ in range(1024)] + [packer.flush()])
        made[f"zstd: 1 GB of zeros in {len(zstd) / 1e3:.1f} kB"] = lambda: [_page("Content-Encoding: zstd"), zstd]
    return made


def bombs() -> None:
    """Each server visited by a process of its own, with a limit of `SECONDS`."""
    say(f"\nBombs and drips: a visit of at most {SECONDS:g} s, 10 MB   seconds    CPU s   MB above   outcome")
    for name, chunks in _servers().items():
        with raw(chunks) as url:
            command = [sys.executable, "-c", VISIT, url, str(SECONDS)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)
        if done.returncode:
            say(f"  {name:<52} {done.stderr[-200:]}{check(False, name)}")
            continue
        seconds, cpu, megabytes, outcome = json.loads(done.stdout)
        right = check(seconds <= SECONDS + SLACK and cpu <= MOST_CPU and megabytes <= MOST_MB, name)
        say(f"  {name:<52} {seconds:8.2f} {cpu:8.2f} {megabytes:10.0f}   {outcome[:70]}{right}")


# -- the cache -------------------------------------------------------------------------------------------------------


def cache() -> None:
    """A process that writes without end, killed 50 times; then two that write into one file."""
    kills, chance = 50, random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        kept = lost = 0
        for seed in range(kills):
            process = test_cache.hammer(Path(folder), seed, -1)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.3))
            process.send_signal(signal.SIGKILL)
            test_cache.finish(process)
            sound, unreadable = _sound(Path(folder))
            kept += sound
            lost += unreadable
        right = check(kept > 0 and not lost, "kill -9")
        say(f"\nCache: kill -9 {kills} times: {kept} entries looked at, {lost} damaged, {_integrity(folder)}{right}")
    with tempfile.TemporaryDirectory() as folder:
        rounds, began = 1500, time.monotonic()
        processes = [test_cache.hammer(Path(folder), seed, rounds) for seed in (1, 2)]
        codes = [test_cache.finish(process) for process in processes]
        seconds = time.monotonic() - began
        failed, size = sum(code != 0 for code in codes), os.path.getsize(Path(folder) / FILE)
        right = check(codes == [0, 0] and _sound(Path(folder))[1] == 0, "two processes")
        say(
            f"Cache: two processes, {rounds:,} writes and {rounds:,} reads each: {seconds:.1f} s, "
            f"{failed} failed, {size / 1e3:.0f} kB for a limit of 400, {_integrity(folder)}{right}"
        )


def _sound(folder: Path) -> tuple[int, int]:
    """The entries that can be read, and those that cannot."""
    with Cache(folder) as opened:
        keys = opened.keys()
        entries = [opened.get(key, test_cache.NOW) for key in keys]
    return sum(e is not None for e in entries), sum(e is None for e in entries) + len(list(folder.glob("*damaged*")))


def _integrity(folder: str) -> str:
    db = sqlite3.connect(Path(folder) / FILE)
    try:
        return "integrity " + str(db.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        db.close()


PARTS = {"cases": cases, "addresses": addresses, "bombs": bombs, "cache": cache}


def main() -> int:
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        say(f"no part {', '.join(unknown)}; known: {', '.join(PARTS)}")
        return 2
    watch()
    for name in chosen:
        PARTS[name]()
    say(f"\n{len(wrong)} wrong" + (f": {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
