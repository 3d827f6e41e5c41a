"""ADDRESS -> PAGE: the cache or a fetch, then the extract. `Web` is the Opener of the web.

In: any string. Out: a `Page`, or the `Failure` that says in one sentence why there is none. Never raises for an
address. A copy that is served because the site fails or we are offline says its age in `Page.note`. A page that was
opened a moment ago is neither fetched nor asked about again, whatever its headers: a run comes back to it for another
goal (`Recent`, in memory).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from venus_edge.sources.address import Address, parse
from venus_edge.sources.cache import Cache, Copy
from venus_edge.sources.extract import VERSION, Extracted, extract
from venus_edge.sources.http import Fetcher, Response
from venus_edge.sources.robots import REFUSED, Robots
from venus_edge.values import Failure, Page, Trouble

_STATUS = {
    401: Failure(Trouble.REFUSED, "refused: the site wants a login (401)"),
    402: Failure(Trouble.REFUSED, "refused: the site wants payment (402)"),
    403: Failure(Trouble.REFUSED, "refused: the site does not let us in (403)"),
    404: Failure(Trouble.UNREADABLE, "page could not be read: not found (404)"),
    407: Failure(Trouble.REFUSED, "refused: a proxy wants a login (407)"),
    410: Failure(Trouble.UNREADABLE, "page could not be read: it is gone (410)"),
    429: Failure(Trouble.REFUSED, "refused: too many requests (429)"),
    451: Failure(Trouble.REFUSED, "refused: not available for legal reasons (451)"),
}
_OFFLINE = Failure(Trouble.OFFLINE, "offline: not in the local index or page cache")


@dataclass(frozen=True, slots=True)
class Recent:
    """The last pages that were opened whole, in memory, for `seconds`."""

    seconds: float = 900.0
    most: int = 32
    _pages: OrderedDict[str, tuple[float, Page]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, address: Address, now: float) -> Page | None:
        with self._lock:
            opened, page = self._pages.get(address.url, (0.0, None))
        return replace(page, url=address.display) if page is not None and now - opened < self.seconds else None

    def put(self, address: Address, page: Page, now: float) -> None:
        with self._lock:
            self._pages[address.url] = (now, page)
            self._pages.move_to_end(address.url)
            while len(self._pages) > self.most:
                self._pages.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Web:
    """Opens web addresses. Without a `cache` nothing is kept on disk, without `recent` nothing in memory; `clock` gives
    seconds since 1970; with `robots`, pages that a site keeps from robots are not asked for."""

    fetcher: Fetcher
    cache: Cache | None = None
    clock: Callable[[], float] = time.time
    robots: Robots | None = None
    recent: Recent | None = None

    def open(self, url: str) -> Page | Failure:
        """The page at `url`, as the model wrote it."""
        address = parse(url)
        if isinstance(address, Failure):
            return address
        policy, now = self.fetcher.gate.policy, self.clock()
        refused = None if policy.offline else policy.refuses(address.host, address.port)
        if refused is not None:
            return refused
        recent = self.recent.get(address, now) if self.recent is not None else None
        if recent is not None:
            return recent
        copy = self._kept(address, now)
        if copy is not None and now < copy.fresh_until:
            return _of_copy(address, copy, "")
        if policy.offline:
            return _stale(address, copy, _OFFLINE)
        if self.robots is not None and not self.robots.allows(address):
            return REFUSED
        page, whole = self._fetched(address, copy, now)
        if self.recent is not None and whole and isinstance(page, Page):
            self.recent.put(address, page, now)
        return page

    def _kept(self, address: Address, now: float) -> Copy | None:
        """The copy on the disk, extracted by today's rules."""
        copy = self.cache.get(address.url, now) if self.cache is not None else None
        if copy is None or self.cache is None or copy.extractor == VERSION:
            return copy
        body = self.cache.body(address.url)
        if body is None:
            return None
        extracted = extract(body, copy.url, copy.header("content-type"))
        self.cache.put_extract(address.url, extracted, VERSION)
        return replace(copy, extracted=extracted, extractor=VERSION)

    def _fetched(self, address: Address, copy: Copy | None, now: float) -> tuple[Page | Failure, bool]:
        """What the site says of the page, and whether it is the page of now, and whole."""
        response = self.fetcher.fetch(address, copy.conditions if copy is not None else None)
        if isinstance(response, Failure):
            return _stale(address, copy, response), False
        if response.status == 304 and copy is not None and self.cache is not None:
            return _of_copy(address, self.cache.refresh(copy, response, now), ""), True
        failure = _failed(response)
        if failure is not None:
            return _stale(address, copy, failure), False
        extracted = extract(response.body, response.url, response.header("content-type"))
        if self.cache is not None and response.complete:
            self.cache.put(address.url, response, extracted, VERSION, now)
        page = extracted if isinstance(extracted, Failure) else _page(address, extracted, response.note)
        return page, response.complete


def _failed(response: Response) -> Failure | None:
    """What a status means that brings no page."""
    if response.status in _STATUS:
        return _STATUS[response.status]
    if response.status >= 500:
        return Failure(Trouble.TIMEOUT, f"unreachable: the site has an error ({response.status})")
    if not 200 <= response.status < 300:
        return Failure(Trouble.UNREADABLE, f"page could not be read: status {response.status}")
    return None


def _stale(address: Address, copy: Copy | None, failure: Failure) -> Page | Failure:
    """A copy with its age where the site fails, refuses or is out of reach; a page that is gone is gone."""
    lasting = failure.trouble in (Trouble.UNREADABLE, Trouble.BAD_ADDRESS)
    if copy is None or isinstance(copy.extracted, Failure) or lasting:
        return failure
    return _of_copy(address, copy, f"copy of {_day(copy.fetched_at)} ({failure.trouble.value} now)")


def _of_copy(address: Address, copy: Copy, note: str) -> Page | Failure:
    return copy.extracted if isinstance(copy.extracted, Failure) else _page(address, copy.extracted, note)


def _page(address: Address, extracted: Extracted, note: str) -> Page:
    digest = hashlib.sha256(extracted.full.encode()).hexdigest()
    notes = "; ".join(n for n in (note, extracted.note) if n)
    return Page(address.display, extracted.title, extracted.text, digest, extracted.date, notes, extracted.rest)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
