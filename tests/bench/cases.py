"""The kinds of the shared cases that are tables in the suite, printed: kind -> outcome.

    python -m tests.bench.cases [s] [p] [l]

Search services and pages are on loopback, corpora in a temporary directory. Ends with 1 if a row is not what it should
be.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence

from tests import test_cases_l
from tests.sources import test_page_cases, test_search_cases

Table = Sequence[tuple[str, str, Callable[[], str], str]]

ARCHIVES = test_cases_l.ARCHIVES if importlib.util.find_spec("libzim") else []
TABLES: dict[str, Table] = {
    "s": test_search_cases.TABLE,
    "p": test_page_cases.TABLE,
    "l": sorted([*test_cases_l.TABLE, *ARCHIVES], key=lambda row: row[0]),
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def shown(table: Table) -> int:
    """Prints a table; how many rows are wrong."""
    wrong = 0
    for case, kind, done, expected in table:
        outcome = done()
        wrong += outcome != expected
        say(f"  {case}  {kind:<52} {outcome}{'' if outcome == expected else '   <- WRONG'}")
    return wrong


def main() -> int:
    chosen = sys.argv[1:] or list(TABLES)
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        say(f"no table {', '.join(unknown)}; known: {', '.join(TABLES)}")
        return 2
    wrong = sum(shown(TABLES[name]) for name in chosen)
    say(f"\n{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
