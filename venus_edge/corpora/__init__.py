"""CORPORA BY NAME: where they lie, what they are made of, and how they are opened.

In: Settings, a name, and sources as a person names them: folders, files, ZIM, WARC and WACZ archives, JSON lines,
`cache:` (the page cache), sessions. Out: corpus files in the data directory, and places to search and visit.
"""

from venus_edge.corpora.making import add, check, create, embed, engine_of, pack_sessions, rebuild, remove, rm, update
from venus_edge.corpora.names import Named, gone, is_archive, listed, named, path_of, place_of, said_by_name, there
from venus_edge.corpora.opening import Opened, archives, in_place, opened, pieces

__all__ = [
    "Named",
    "Opened",
    "add",
    "archives",
    "check",
    "create",
    "embed",
    "engine_of",
    "gone",
    "in_place",
    "is_archive",
    "listed",
    "named",
    "opened",
    "pack_sessions",
    "path_of",
    "pieces",
    "place_of",
    "rebuild",
    "remove",
    "rm",
    "said_by_name",
    "there",
    "update",
]
