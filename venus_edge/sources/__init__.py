"""THE WORLD: search services and pages. Every outward connection passes `gate.py`.

In: queries and addresses. Out: `Found` and `Page | Failure` values (the Protocols are in `tools`). Nothing here words
a result for the model.

    address.py    URL as written -> Address; which IP addresses are public      (pure)
    gate.py       policy, checked and pinned connections, ledger                proxies.py   host -> its proxy
    http.py       Address -> Response, within limits                            encodings.py gzip, br -> bytes (pure)
    pace.py       turns: a pause at each host, so many at once                  deadline.py  work under a deadline
    cache.py      pages and results on disk                                     freshness.py headers -> how long (pure)
    extract.py    bytes -> Extracted: charset.py, kinds.py, metadata.py, reader.py (readability), prune.py, markdown.py,
                  notpage.py (phrases.py); documents.py (pdfchild.py) for PDF, office text and EPUB
    web.py        address -> Page: the Opener of the web                        robots.py    may it be read?
    modelserver.py  requests to the server that runs the model: the Client of the remote engine
    search.py     query -> Found: the Searcher of the web                       language.py  query -> market (pure)
    provider.py   what a search service is, and its Reply                       services.py  the services by name
    service.py    request -> JSON: searxng.py, serper.py, brave.py, tavily.py, wikipedia.py; ddgs.py has its own sockets
"""
