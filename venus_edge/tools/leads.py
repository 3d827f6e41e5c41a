"""PAGE + GOAL -> THE LINKS WORTH FOLLOWING, for evidence is quoted without the addresses of its links.

In: a page, what was quoted of it, the goal. Out: the few links of the quoted passages whose words speak of the goal,
the one with most of its words first. Whether they lead anywhere is not known here.
"""

from __future__ import annotations

from venus_edge import terms
from venus_edge.values import Page

MOST = 5
_LONGEST = 300  # characters of an address that is told
_OPENED = ("http://", "https://", "file:", "zim:")

Lead = tuple[str, str]  # the link's words and its address


def leads(page: Page, quoted: str, goal: str) -> list[Lead]:
    """At most `MOST` links, each address once."""
    wanted = frozenset(terms.content_terms(goal))
    here = page.url.partition("#")[0]
    scored: dict[str, tuple[int, str]] = {}
    for words, address in terms.links(page.full):
        shared = len(wanted & frozenset(terms.terms(words)))
        if shared and words in quoted and _is_worth_it(address, here) and address not in scored:
            scored[address] = (shared, words)
    best = sorted(scored, key=lambda address: -scored[address][0])
    return [(" ".join(scored[address][1].split()), address) for address in best[:MOST]]


def _is_worth_it(address: str, here: str) -> bool:
    return address.startswith(_OPENED) and len(address) <= _LONGEST and address.partition("#")[0] != here


def told(found: list[Lead]) -> str:
    """The lines that follow a summary; "" if there is no link to tell."""
    return "".join(["\n\nLinks there:", *(f"\n- {words}: {address}" for words, address in found)]) if found else ""
