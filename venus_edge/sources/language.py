"""TEXT -> ITS LANGUAGE, BY ITS SCRIPT. Pure: which market a search service is asked in, and which language of a page.

Kana decides for Japanese, and so do characters that only Japanese writes so (観, 駅, 図); Hangul for Korean; other
Chinese characters alone mean Chinese. Latin script says nothing of its language: it counts as English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Market:
    """`region` as ddgs names it ("cn-zh"), `language` as HTTP does ("zh-CN")."""

    region: str
    language: str

    @property
    def country(self) -> str:
        """The country's two letters ("cn"); "" for a language of many."""
        country = self.region.partition("-")[0]
        return "" if country in ("xa", "wt") else country


ENGLISH = Market("us-en", "en-US")
_JAPANESE = Market("jp-jp", "ja-JP")
_HAN = re.compile(r"[\u4e00-\u9fff]")
# in the order in which they decide: a Japanese text has Chinese characters too
_SCRIPTS = (
    (re.compile(r"[\u3041-\u30ff\uff66-\uff9d]"), _JAPANESE),
    (re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"), Market("kr-kr", "ko-KR")),
    (re.compile(r"[\u3105-\u312f]"), Market("tw-tzh", "zh-TW")),
    (re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), Market("cn-zh", "zh-CN")),
    (re.compile(r"[іїєґІЇЄҐ]"), Market("ua-uk", "uk-UA")),
    (re.compile(r"[\u0400-\u04ff]"), Market("ru-ru", "ru-RU")),
    (re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]{3}"), Market("gr-el", "el-GR")),
    (re.compile(r"[\u0590-\u05ff]"), Market("il-he", "he-IL")),
    (re.compile(r"[\u0600-\u06ff]"), Market("xa-ar", "ar")),
    (re.compile(r"[\u0e00-\u0e7f]"), Market("th-th", "th-TH")),
    (re.compile(r"ß"), Market("de-de", "de-DE")),
)


_WRITTEN = re.compile(r"([A-Za-z]{2})-([A-Za-z]{2,3})")
_NAMED = {"zh": "zh", "tzh": "zh", "jp": "ja", "kr": "ko"}  # what ddgs calls a language, where it is not its code


def named(written: str) -> Market | None:
    """The market of "de-de" or "cn-zh" (country first, as ddgs has it) or of "zh-CN" (as HTTP has it); None for what is
    neither."""
    found = _WRITTEN.fullmatch(written.strip())
    if found is None:
        return None
    first, second = found.groups()
    if second.isupper() and first.islower():
        known = next((m for _, m in _SCRIPTS if m.language == f"{first}-{second}"), None)
        return known or Market(f"{second.lower()}-{first}", f"{first}-{second}")
    country, language = first.lower(), second.lower()
    language = _NAMED.get(language, language)
    return Market(f"{country}-{second.lower()}", "ar" if country == "xa" else f"{language}-{country.upper()}")


# languages whose country has the same two letters
_OF_ONE_COUNTRY = frozenset(("de", "es", "fi", "fr", "hu", "it", "nl", "pl", "pt", "ro", "tr"))


def spoken(written: str) -> Market | None:
    """The market of a language, "zh-CN", "ja" or "fr"; None for what is none, or is spoken in many countries."""
    known = reversed((ENGLISH, *(found for _, found in _SCRIPTS)))  # mainland China before Taiwan
    for found in known:
        if written in (found.language, found.language.partition("-")[0]):
            return found
    if written in _OF_ONE_COUNTRY:
        return named(f"{written}-{written.upper()}")
    return named(written) if re.fullmatch(r"[a-z]{2,3}-[A-Z]{2}", written) else None


def market(text: str) -> Market:
    """The market that a query in this script is asked in."""
    found = next((found for script, found in _SCRIPTS if script.search(text)), ENGLISH)
    if found.language == "zh-CN" and any(_is_japanese(character) for character in _HAN.findall(text)):
        return _JAPANESE
    return found


def _is_japanese(character: str) -> bool:
    """Whether Japan's character set has it and neither mainland China's nor Taiwan's."""
    return _encodes(character, "shift_jis") and not _encodes(character, "gb2312") and not _encodes(character, "big5")


def _encodes(character: str, codec: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True
