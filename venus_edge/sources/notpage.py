"""PAGE -> IS IT THE PAGE AT ALL? Pure rules over a page's title, headings and visible text.

In: what a page shows. Out: what stands there instead of the page (a consent wall, a login, "not found", ...), or None.
Only short pages are suspected: an article about the 404 page is an article. The words are in `phrases`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from venus_edge.sources import phrases
from venus_edge.sources.markdown import one_line

NEEDS_JAVASCRIPT = "needs JavaScript"
_ENOUGH = 20_000  # characters: a text of this length is a page, whatever follows
_ASIDE = 60  # words of a <noscript> that are a message, not a copy of the page
EMPTY = 25  # words: a page that shows less may show nothing


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows: `text` is its visible text without menus; `password` says that it asks for one, `noscript`
    is what it tells readers without JavaScript."""

    title: str
    headings: str
    text: str
    password: bool = False
    noscript: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`title` is looked for in the title and first headings, `body` in the text: what is given must be there. The text
    has at most `longest` words."""

    name: str
    longest: int
    title: re.Pattern[str] | None = None
    body: re.Pattern[str] | None = None


_RULES = (
    _Rule("bot check", 250, phrases.BOT_TITLE, phrases.BOT_BODY),
    _Rule("bot check", 120, None, phrases.BOT_ALONE),
    _Rule("not found", 300, phrases.MISSING_TITLE),
    _Rule("not found", 60, None, phrases.MISSING_BODY),
    _Rule("error page", 120, phrases.ERROR_TITLE),
    _Rule("error page", 120, None, phrases.ERROR_BODY),
    _Rule("parked domain", 200, None, phrases.PARKED_BODY),
    _Rule("login", 150, phrases.LOGIN_TITLE),
    _Rule("login", 60, None, phrases.LOGIN_BODY),
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")


def words(text: str) -> int:
    """How much a text says, in words; two Chinese, Japanese or Korean characters count as one."""
    return len(_WORD.findall(text)) + (len(_CJK.findall(text)) + 1) // 2


def instead(shown: Shown) -> str | None:
    """What stands there instead of the page: "needs JavaScript", "consent wall", "not found", "bot check", "login",
    "error page", "parked domain". None if it is the page."""
    text = shown.text[:_ENOUGH]
    size = words(text)
    head = f"{one_line(shown.title)}\n{one_line(shown.headings)}"
    aside = shown.noscript if size <= EMPTY and words(shown.noscript) <= _ASIDE else ""
    said = f"{head}\n{text}\n{aside}"
    if shown.password and size <= 120 and phrases.LOGIN_FIELD.search(said):
        return "login"
    for rule in _RULES:
        if size <= rule.longest and _fits(rule, head, said):
            return rule.name
    if size <= 500 and _is_consent(head, text):
        return "consent wall"
    if size <= EMPTY and _awaits_script(shown, said):
        return NEEDS_JAVASCRIPT
    return None


def _fits(rule: _Rule, head: str, said: str) -> bool:
    return all(p.search(where) for p, where in ((rule.title, head), (rule.body, said)) if p is not None)


def _awaits_script(shown: Shown, said: str) -> bool:
    needs = phrases.NEEDS_SCRIPT.search(shown.noscript) or phrases.NEEDS_SCRIPT.search(said)
    return needs is not None or phrases.LOADING.fullmatch(shown.text.strip()) is not None


def _is_consent(head: str, text: str) -> bool:
    """Most sentences speak of cookies, partners and consent; without a title that says so, nearly all of them. And they
    speak to the reader."""
    sentences = [s for s in _SENTENCE.split(text) if words(s) >= 3]
    about = sum(_is_about_consent(s) for s in sentences)
    share = about / max(1, len(sentences))
    if not phrases.ADDRESSED.search(f"{head}\n{text}"):
        return False
    return share >= 0.5 if phrases.CONSENT_TITLE.search(head) else share >= 0.8 and about >= 2 and words(text) <= 250


def _is_about_consent(sentence: str) -> bool:
    found = len(phrases.CONSENT.findall(sentence))
    return found >= 2 or (found == 1 and words(sentence) < 12)
