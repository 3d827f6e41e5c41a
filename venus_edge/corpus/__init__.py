"""A DISK INSTEAD OF THE WORLD: a folder of documents that answers `search` and `visit`.

In: files, queries and addresses. Out: `Found` and `Page | Failure` values (the Protocols are in `tools`). No sockets.
"""
