"""TEXT -> AMOUNTS: the numbers of a text, however they are written, and the text without them. Pure.

1,916, 1916 and 一九一六 are one value; 41 m, 41 metres and 41米 are one length, 1.5 km is 1500 m; 3 May, May 3 and
5月3日 are one day of one month; the 1980s and the 12th century are ranges of years.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

BLANK = "\x00"  # what stands for an amount in the text without them


@dataclass(frozen=True, slots=True)
class Amount:
    """`value` in the base unit of `dimension` ("" for a bare number); a range of years goes to `high`. `rough` if the
    text says "about"; `text` as it was written."""

    dimension: str
    value: float
    high: float
    text: str
    rough: bool = False


def same(claim: Amount, read: Amount) -> bool:
    """Whether what was read bears out what is claimed."""
    if claim.high > claim.value:
        return read.dimension in ("year", "") and claim.value <= read.value and read.high <= claim.high
    if not _comparable(claim, read) or read.high > read.value:
        return False
    if math.isclose(claim.value, read.value, rel_tol=1e-6):
        return True
    return claim.rough and claim.dimension != "year" and math.isclose(_rounded(read.value, claim.value), claim.value)


def rivals(one: Amount, other: Amount) -> bool:
    """Whether one of them could stand in the place of the other: the same kind, and not the same value."""
    return one.dimension == other.dimension and not same(one, other) and not same(other, one)


def _comparable(one: Amount, other: Amount) -> bool:
    loose = ("", "year", "day")  # 1,916 may be meant where 1916 looks like a year
    return one.dimension == other.dimension or (
        "" in (one.dimension, other.dimension) and one.dimension in loose and other.dimension in loose
    )


def _rounded(value: float, like: float) -> float:
    """The value at the last place that is not zero in `like`: 1,964,000 like 2,000,000 is 2,000,000."""
    if value <= 0 or like <= 0:
        return value
    digits = len(f"{like:.6e}".split("e")[0].rstrip("0").replace(".", "")) or 1
    return float(f"{value:.{digits - 1}e}")


# -- how numbers are written ------------------------------------------------------------------------------------------

_UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters", "米", "公尺"), ("length", 1.0)),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers", "公里", "千米"), ("length", 1000.0)),
    **dict.fromkeys(("cm", "centimetre", "centimetres", "centimeter", "centimeters", "厘米"), ("length", 0.01)),
    **dict.fromkeys(("mm", "millimetres", "millimeters", "毫米"), ("length", 0.001)),
    **dict.fromkeys(("mi", "mile", "miles", "英里"), ("length", 1609.344)),
    **dict.fromkeys(("ft", "foot", "feet", "英尺"), ("length", 0.3048)),
    **dict.fromkeys(("kg", "kilogram", "kilograms", "公斤", "千克"), ("mass", 1.0)),
    **dict.fromkeys(("t", "tonne", "tonnes", "tons", "吨"), ("mass", 1000.0)),
    **dict.fromkeys(("%", "percent", "per cent", "％"), ("share", 1.0)),
    **dict.fromkeys(("°c", "摄氏度"), ("celsius", 1.0)),
    "°f": ("fahrenheit", 1.0),
    "年": ("year", 1.0),
    "月": ("month", 1.0),
    "日": ("day", 1.0),
    "号": ("day", 1.0),
}
_SCALES = {
    "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "mn": 1e6, "bn": 1e9,
    "千": 1e3, "万": 1e4, "百万": 1e6, "千万": 1e7, "亿": 1e8,
}  # fmt: skip
_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NTHS = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
sixteenth seventeenth eighteenth nineteenth twentieth
"""
_MONTH_NAMES = """
january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep|october oct
|november nov|december dec
"""
_WORDS = {word: i for i, word in enumerate(_ONES.split())} | {word: 10 * i for i, word in enumerate(_TENS.split(), 2)}
_ORDINALS = {word: i for i, word in enumerate(_NTHS.split(), 1)}
_MONTHS = {name: i for i, names in enumerate(_MONTH_NAMES.split("|"), 1) for name in names.split()}
_HAN = {c: i for i, c in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_HAN_STEPS = {"十": 10, "百": 100, "千": 1000}

_ROUGH = re.compile(
    r"(?:about|around|roughly|nearly|almost|approximately|some|over|circa|ca\.|more than|约|近|大约|将近|超过|逾)\s*"
    r"(?:[$€£¥]\s*)?$",
    re.IGNORECASE,
)
_BY_LENGTH = sorted(_UNITS, key=len, reverse=True)
_LATIN_UNITS = "|".join(re.escape(unit) for unit in _BY_LENGTH if unit[0].isascii() and unit[0].isalpha())
_OTHER_UNITS = "|".join(re.escape(unit) for unit in _BY_LENGTH if not (unit[0].isascii() and unit[0].isalpha()))
_UNIT = rf"(?:[ \-]?(?P<unit>(?:{_LATIN_UNITS})(?![A-Za-z\d²³])|{_OTHER_UNITS}))"
_SCALE = r"(?:[ \-]?(?P<scale>(?:thousand|million|billion|trillion|mn|bn)(?![a-z])|百万|千万|[万亿千]))"
_FIGURE = (
    r"(?<![A-Za-z\d_.])(?<![A-Za-z]-)(?P<figure>\d{1,3}(?:[,'’]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)(?:st|nd|rd|th)?"
)
_LOW, _TEENS = _ONES.split()[1:10], sorted(_ONES.split()[2:], key=len, reverse=True)
_SMALL = rf"(?:(?:{'|'.join(_TENS.split())})(?:[ -](?:{'|'.join(_LOW)}))?|{'|'.join(_TEENS)})"
_HUNDREDS = rf"(?:[ -](?:hundred|thousand)(?:(?:[ -]and)?[ -]{_SMALL})?)"
_WORD_FIGURE = rf"\b(?P<words>{_SMALL}{_HUNDREDS}*|one{_HUNDREDS}+)\b"
_HAN_FIGURE = (
    r"(?<!第)(?P<han>[〇零一二三四五六七八九十百千两]{2,}|"
    r"[二三四五六七八九十两](?=[万亿年月日号米个座条名人位层项次种公千英吨]))"
)
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_AMOUNT = re.compile(
    r"(?P<iso>(?<!\d)\d{4}-\d{2}-\d{2}(?!\d))"
    rf"|(?P<month>\b(?:{_MONTH})\b(?=\.?\s+\d)|(?<=\d\s)\b(?:{_MONTH})\b|(?<=(?:st|nd|rd|th)\s)\b(?:{_MONTH})\b"
    r"|\b(?:january|february|april|june|july|august|september|october|november|december)\b)"
    r"|\b(?P<decade>\d{3}0)['’]?s\b|(?P<han_decade>\d{3}0)年代"
    rf"|\b(?P<century>\d{{1,2}}(?=(?:st|nd|rd|th)[ -]century)|(?:{'|'.join(_ORDINALS)})(?=[ -]century))"
    r"(?:st|nd|rd|th)?[ -]century|(?P<han_century>\d{1,2})世纪"
    r"|百分之(?P<share>\d+(?:\.\d+)?|[〇零一二三四五六七八九十百]+)"
    rf"|{_FIGURE}{_SCALE}?{_UNIT}?|{_WORD_FIGURE}{_SCALE.replace('scale', 'word_scale')}?"
    rf"{_UNIT.replace('unit', 'word_unit')}?|{_HAN_FIGURE}{_SCALE.replace('scale', 'han_scale')}?"
    rf"{_UNIT.replace('unit', 'han_unit')}?",
    re.IGNORECASE,
)


def read(text: str) -> tuple[tuple[Amount, ...], str]:
    """The amounts of a text in their order, and the text (compatibility forms unified) with BLANK in their places."""
    plain = unicodedata.normalize("NFKC", text)
    found: list[Amount] = []

    def take(match: re.Match[str]) -> str:
        rough = bool(_ROUGH.search(plain[max(0, match.start() - 16) : match.start()]))
        found.extend(_amounts(match, rough))
        return f" {BLANK} " if match[0].isascii() else BLANK

    rest = _AMOUNT.sub(take, plain)
    return tuple(found), rest


def _amounts(match: re.Match[str], rough: bool) -> list[Amount]:
    text = match[0].strip()
    if match["iso"]:
        year, month, day = (float(part) for part in text.split("-"))
        return [Amount("year", year, year, text), Amount("month", month, month, text), Amount("day", day, day, text)]
    if match["month"]:
        return [_one("month", _MONTHS[text.lower()], text)]
    if first := match["decade"] or match["han_decade"]:
        return [Amount("year", float(first), float(first) + 9, text)]
    if century := match["century"] or match["han_century"]:
        number = int(century) if century.isdigit() else _ORDINALS[century.lower()]
        return [Amount("year", number * 100 - 99, number * 100, text)]
    if share := match["share"]:
        return [_one("share", float(share) if share[0].isdigit() else _han_value(share), text, rough)]
    return [_measured(match, text, rough)]


def _one(dimension: str, value: float, text: str, rough: bool = False) -> Amount:
    return Amount(dimension, value, value, text, rough)


def _measured(match: re.Match[str], text: str, rough: bool) -> Amount:
    """A figure in digits or words, with its scale and unit."""
    figure = match["figure"]
    scale = match["scale"] or match["word_scale"] or match["han_scale"]
    unit = match["unit"] or match["word_unit"] or match["han_unit"]
    value = _figure_value(match)
    if scale:
        value *= _SCALES[scale.lower()]
    if unit:
        dimension, factor = _UNITS[unit.lower()]
        return _one(dimension, value * factor, text, rough)
    is_year = bool(figure) and figure.isdigit() and not scale and 1000 <= value <= 2100
    return _one("year" if is_year else "", value, text, rough)


def _figure_value(match: re.Match[str]) -> float:
    if match["figure"]:
        return float(re.sub(r"[,'’]", "", match["figure"]))
    return _word_value(match["words"]) if match["words"] else _han_value(match["han"])


def _word_value(text: str) -> float:
    total = part = 0
    for word in re.split(r"[ -]", text.lower()):
        if word == "hundred":
            part *= 100
        elif word == "thousand":
            total, part = total + part * 1000, 0
        else:
            part += _WORDS.get(word, 0)
    return float(total + part)


def _han_value(text: str) -> float:
    """一九一六 is read digit by digit, 四十一 by its steps."""
    if not any(character in _HAN_STEPS for character in text):
        return float("".join(str(_HAN[character]) for character in text))
    total = digit = 0
    for character in text:
        if character in _HAN_STEPS:
            total += (digit or 1) * _HAN_STEPS[character]
            digit = 0
        else:
            digit = _HAN[character]
    return float(total + digit)
