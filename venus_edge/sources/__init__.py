"""THE WORLD: search services and pages. Every outward connection passes `gate.py`.

In: queries and addresses. Out: `Found` and `Page | Failure` values (the Protocols are in `tools`). Nothing here words
a result for the model.
"""
