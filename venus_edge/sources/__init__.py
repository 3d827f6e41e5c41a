"""THE WORLD: search services and pages. Every outward connection passes `gate.py`.

In: queries and addresses. Out: `Found` and `Page | Failure` values (the Protocols are in `tools`). Nothing here words
a result for the model.

    address.py    URL as written -> Address; which IP addresses are public      (pure)
    gate.py       policy, checked and pinned connections, ledger
    http.py       Address -> Response, within limits                            deadline.py  work under a deadline
    cache.py      pages on disk                                                 freshness.py headers -> how long (pure)
    extract.py    bytes -> Extracted: charset.py, kinds.py, metadata.py, prune.py, markdown.py, notpage.py (phrases.py)
    web.py        address -> Page: the Opener of the web
    ddgs.py       query -> Found: the Searcher of the web                       language.py  query -> market (pure)
"""
