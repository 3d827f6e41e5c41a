"""BYTES OF AN EVENT STREAM -> THE DATA OF ITS EVENTS (server-sent events, WHATWG HTML 9.2).

Pure. In: chunks, cut anywhere, inside a character too. Out: the data of each event that is complete. Comments, which
servers send to keep a connection open, and the other fields are skipped.
"""

from __future__ import annotations

LONGEST = 8_000_000  # bytes of a line; what is longer is no event stream


class Events:
    """Feed it chunks; it gives back the data of the events that they completed."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Raises ValueError for a line without end."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST:
            raise ValueError("a line of the event stream does not end")
        return [event for line in lines if (event := self._line(line.removesuffix(b"\r"))) is not None]

    def _line(self, line: bytes) -> str | None:
        if not line:
            data, self._data = self._data, []
            return "\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        return None
