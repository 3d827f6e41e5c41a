"""A hub on this machine, in the shapes of the real one: the model API, resolve redirects, a store behind them, ranges.

The store answers under another host name than the hub, as the real one does, so that a token which follows the
redirect is seen. Faults are switched on by field; the requests that came are kept.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import quote, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    range: str
    token: str
    agent: str = ""


@dataclass
class LoopbackHub:
    """Repositories by name: file name -> bytes. Files that end in .gguf or .safetensors are LFS files.

    `cut` ends each answer of the store after so many bytes, `cuts` times; `refuse` answers a status for paths that
    match; `ranges` off sends whole files always; `lie` sends other bytes of the same length, `lies` times; `longer` is
    added to the sizes that are listed; `store` is where a download is sent on to ("" a relative address).
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    cut: int = 0
    cuts: int = 0
    refuse: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    refusals: int = 1_000
    ranges: bool = True
    lie: bool = False
    lies: int = 1_000
    longer: int = 0
    store: str = "http://localhost:{port}"
    slow: float = 0.0  # seconds between two pieces of what the store sends
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def blob(self, digest: str) -> bytes:
        return next(data for files in self.repos.values() for data in files.values() if _sha256(data) == digest)

    def refused(self, path: str) -> tuple[int, dict[str, str]] | None:
        hit = next((answer for pattern, answer in self.refuse.items() if re.search(pattern, path)), None)
        if hit is None or self.refusals <= 0:
            return None
        self.refusals -= 1
        return hit


@contextmanager
def serving(hub: LoopbackHub) -> Iterator[LoopbackHub]:
    """The hub, answering on a port of its own until left."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[LoopbackHub]

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = self.headers
        self.hub.requests.append(
            Request(
                self.command,
                path,
                headers.get("Range", ""),
                headers.get("Authorization", ""),
                headers.get("User-Agent", ""),
            )
        )
        if refused := self.hub.refused(path):
            self._send(refused[0], b"", refused[1])
        elif path.startswith("/api/models/"):
            self._info(path.removeprefix("/api/models/").partition("/revision/")[0])
        elif path.startswith("/store/"):
            self._store(self.hub.blob(path.removeprefix("/store/")))
        elif parts := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self._resolve(parts[1], parts[2])
        else:
            self._send(404, b"", {})

    def _info(self, repo: str) -> None:
        if repo not in self.hub.repos:
            # what the real hub says of a repository that is not there, to one who is not logged in
            self._send(401, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})
            return
        siblings = [_sibling(name, data, self.hub.longer) for name, data in self.hub.repos[repo].items()]
        record = {"_id": "1", "id": repo, "modelId": repo, "sha": COMMIT, "private": False, "siblings": siblings}
        self._send(200, json.dumps(record).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo: str, name: str) -> None:
        data = self.hub.repos.get(repo, {}).get(name)
        if data is None:
            self._send(404, b"Entry not found", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        elif _is_lfs(name):
            digest = _sha256(data)
            store = f"{self.hub.store.format(port=self.hub.port)}/store/{quote(digest)}?Signature=s1gned"
            linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data)), "X-Repo-Commit": COMMIT}
            self._send(302, b"", {"Location": store, "Accept-Ranges": "bytes", **linked})
        else:
            self._send(200, data, {"ETag": f'"{_git(data)}"', "X-Repo-Commit": COMMIT})

    def _store(self, data: bytes) -> None:
        etag, size = _sha256(data), len(data)
        if self.hub.lie and self.hub.lies > 0:
            self.hub.lies -= 1
            data = bytes(byte ^ 0xFF for byte in data)
        headers, status = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"}, 200
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and self.hub.ranges:
            start = int(wanted[1])
            if start >= size:
                self._send(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            data, status = data[start:], 206
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        self._send(status, data, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        hub = self.hub
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        cut = bool(hub.cut and hub.cuts and self.path.startswith("/store/") and len(body) > hub.cut)
        if cut:
            hub.cuts -= 1
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self._write(body[: hub.cut] if cut else body)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _write(self, body: bytes) -> None:
        step = 1_000_000 if self.hub.slow else max(1, len(body))
        with contextlib.suppress(OSError):  # whoever asked is gone
            for start in range(0, len(body), step):
                self.wfile.write(body[start : start + step])
                time.sleep(self.hub.slow)


def _sibling(name: str, data: bytes, longer: int) -> dict[str, object]:
    size = len(data) + longer
    record: dict[str, object] = {"rfilename": name, "size": size, "blobId": _git(data)}
    if _is_lfs(name):
        record["lfs"] = {"sha256": _sha256(data), "size": size, "pointerSize": 135}
    return record


def _is_lfs(name: str) -> bool:
    return name.endswith((".gguf", ".safetensors"))


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()


def _git(data: bytes) -> str:
    return sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
