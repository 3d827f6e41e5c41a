"""EVENTS <-> DISK: one append-only file a session, JSON lines. docs/sessions.md tells every record and field.

In: the events of a run. Out: the same, later. `journal` writes, `reading` and `decode` read, `summary` lists and finds,
`lock` keeps two from writing one session, `snapshot` says when the model's cache is kept beside it. What a run makes of
its events is not known here.
"""

from __future__ import annotations

SCHEMA = 2
SUFFIX = ".jsonl"
SNAPSHOT = ".kv"  # beside the session, while its run is unfinished
UNFINISHED = ("", "interrupted", "llm_error")  # terminations that a run can go on from; "": it was killed
