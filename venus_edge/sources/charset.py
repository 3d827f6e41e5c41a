"""BYTES -> TEXT, as browsers decide it. Pure.

In: a body and its Content-Type. Out: the text and the name of the codec. Order: byte-order mark, UTF-8 that is
beyond doubt, a header or meta label that really decodes, the page's language, detection. Labels are those of the
WHATWG Encoding Standard: gb2312 means gb18030, shift_jis means cp932, iso-8859-1 means windows-1252. Nothing raises.
"""

from __future__ import annotations

import codecs
import re
from itertools import islice

# WHATWG Encoding Standard, section 4.2, as codec -> labels (Python's codec that holds the same characters).
_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": "arabic asmo-708 csisolatinarabic ecma-114 iso-8859-6 iso-ir-127 iso8859-6 iso88596 iso_8859-6",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7",
    "iso8859-8": "csisolatinhebrew hebrew iso-8859-8 iso-8859-8-i iso-ir-138 iso8859-8 iso88598 iso_8859-8 logical"
    " visual",
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9 latin9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1"
    " iso_8859-1:1987 l1 latin1 latin-1 us-ascii windows-1252 x-cp1252",
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 l5 latin5 windows-1254 x-cp1254",
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030 cp936 euc-cn",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5 big5hkscs cp950",
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp eucjp",
    "iso2022_jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis cp932",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    " cp949 uhc",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}

# UTF-32 before UTF-16: its mark begins with the other's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Where a second table holds more characters under the same label, it is asked next.
_WIDER = {
    "big5": ("big5", "cp950", "big5hkscs"),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
    "cp932": ("cp932", "shift_jisx0213"),
}
_BY_LANGUAGE = {
    "zh-tw": ("big5", "gb18030"),
    "zh-hk": ("big5", "gb18030"),
    "zh-hant": ("big5", "gb18030"),
    "zh": ("gb18030", "big5"),
    "ja": ("euc_jp", "cp932"),
    "ko": ("cp949",),
    "ru": ("cp1251",),
    "uk": ("cp1251",),
    "bg": ("cp1251",),
    "el": ("cp1253",),
    "he": ("cp1255",),
    "ar": ("cp1256",),
    "th": ("cp874",),
    "tr": ("cp1254",),
    "fa": ("cp1256",),
    "lt": ("cp1257",),
    "lv": ("cp1257",),
    "et": ("cp1257",),
    **dict.fromkeys(("pl", "cs", "sk", "sl", "hr", "hu", "ro"), ("iso8859-2",)),
}
_CYRILLIC = frozenset(("cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5", "mac-cyrillic"))
# chardet names the narrower set of a family.
_DETECTED = {"johab": "cp949", "utf-8-sig": "utf-8", "tis-620": "cp874", "maccyrillic": "mac-cyrillic"}

# codec, the commonest characters of its language, and the share of running text that they make up at least. Japanese
# first: its kana stand at the same places in EUC-JP and in GB2312, where no Chinese text uses them.
_COMMON = (
    ("cp932", "のにはをたがでとしれさるいなもか、。", 0.15),
    ("euc_jp", "のにはをたがでとしれさるいなもか、。", 0.15),
    ("gb18030", "的一是在不了有和人这中大为上个国我以要他年于，。、", 0.1),
    ("big5", "的一是在不了有和人這中大為上個國我以要他年於，。、", 0.1),
    ("cp949", "이다는을의에가하고지로도기한은어사아자", 0.12),
)

_HEAD = 65536  # browsers look at 1,024 bytes; pages with a long <style> before the <meta> are meant to work too
_SAMPLE = 30_000
_COMMENT = re.compile(rb"<!--.*?-->|<(script|style)\b.*?</\1", re.S | re.I)
_META = re.compile(rb"<meta\b[^>]*?charset\s*=\s*[\"']?\s*([^\s\"'>;,/]+)", re.I)
_XML = re.compile(rb"^\s*<\?xml\b[^>]*?encoding\s*=\s*[\"']([^\"']+)", re.I)
_LANGUAGE = re.compile(rb"<html\b[^>]*?\blang\s*=\s*[\"']?([A-Za-z-]+)", re.I)
_PARAMETER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.I)
_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_C1 = re.compile(rb"[\x80-\x9f]")
_WIDE_STARTS = ((re.compile(rb"(?:[\t-\r -~]\0){3}"), "utf-16-le"), (re.compile(rb"(?:\0[\t-\r -~]){3}"), "utf-16-be"))
_ESCAPED = re.compile(rb"\x1b\$[@B]|\x1b\([BJ]")  # ISO-2022-JP


def codec_of(label: str) -> str | None:
    """The codec a browser would use for a charset label; None for one that it does not know."""
    return _CODECS.get(label.strip().strip("\"'").lower())


def decode(body: bytes, content_type: str = "") -> tuple[str, str]:
    """The text of `body` and the codec that gave it. Bytes that mean nothing become U+FFFD."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace"), codec
    codec = _wide(body) or _escaped(body) or _sure_utf8(body) or _declared(body, content_type) or _guessed(body)
    return body.decode(codec, "replace"), codec


def _wide(body: bytes) -> str | None:
    """UTF-16 without a mark: markup in it has a zero in every other byte."""
    head = body[:2000]
    for start, codec in _WIDE_STARTS:
        if start.match(head):
            return codec
    if len(head) < 8 or head.count(0) < len(head) * 0.2:
        return None
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > 10 * even:
        return "utf-16-le"
    return "utf-16-be" if even > 10 * odd else None


def _escaped(body: bytes) -> str | None:
    """ISO-2022-JP, whatever was said: plain ASCII with its escapes."""
    if body.isascii() and _ESCAPED.search(body) and _decodes(body, "iso2022_jp"):
        return "iso2022_jp"
    return None


def _sure_utf8(body: bytes) -> str | None:
    """UTF-8, if it decodes and holds enough sequences that another charset would not make by chance.

    A wrong byte in fifty sequences is a damaged UTF-8 page, not another charset; a cut last character is no fault.
    """
    if body.isascii():
        return None  # says nothing yet: ISO-2022-JP is ASCII too
    if _decodes(body, "utf-8"):  # "联通" in GBK is valid UTF-8: a few sequences prove nothing
        return "utf-8" if len(list(islice(_SEQUENCE.finditer(body), 4))) == 4 else None
    sequences = len(_SEQUENCE.findall(body))
    stray = len(_HIGH.findall(_SEQUENCE.sub(b"", body)))
    return "utf-8" if sequences >= 4 and stray * 50 <= sequences else None


def _declared(body: bytes, content_type: str) -> str | None:
    labels = _labels(body, content_type)
    for codec in labels:
        for wider in _WIDER.get(codec, (codec,)):
            if _decodes(body, wider):
                return wider
    if _decodes(body, "utf-8"):
        return "utf-8"
    return next((codec for codec in labels if _mostly(body, codec)), None)


def _labels(body: bytes, content_type: str) -> tuple[str, ...]:
    """What the header, the XML declaration and the metas say, in that order, without single-byte claims over UTF-8."""
    head = _COMMENT.sub(b"", body[:_HEAD])
    header = [m.encode("ascii", "ignore") for m in _PARAMETER.findall(content_type)]
    inside = [*_XML.findall(head), *_META.findall(head)]
    known = [codec_of(label.decode("ascii", "ignore")) for label in (*header, *inside)]
    # a label that could be read byte by byte is not UTF-16 (WHATWG: treat it as UTF-8)
    named = ["utf-8" if c and c.startswith("utf-16") else c for c in known]
    if header and named[0] == "cp1252":  # is what servers say that nobody told: the page knows better
        named.append(named.pop(0))
    if "utf-8" in named:  # of two claims the one that can be checked goes first
        named.insert(0, "utf-8")
    return tuple(dict.fromkeys(c for c in named if c))


def _decodes(body: bytes, codec: str) -> bool:
    """Whether every byte means something; a character cut at the very end is forgiven."""
    if codec == "cp1252":  # browsers give its five empty places a meaning
        return True
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(body, final=False)
    except UnicodeError:
        return False
    return True


def _mostly(body: bytes, codec: str) -> bool:
    """Whether at most one in twenty of the non-ASCII characters is damaged."""
    text = body[: 1 << 20].decode(codec, "replace")
    high = sum(1 for c in text if c > "\x7f")
    return text.count("\ufffd") * 20 <= high


def _guessed(body: bytes) -> str:
    """The charset of a page that does not say it: by its language, else by its bytes (chardet), else windows-1252."""
    found = _LANGUAGE.search(body[:_HEAD])
    language = found.group(1).decode("ascii").lower() if found else ""
    parts = language.split("-")
    for length in range(len(parts), 0, -1):
        for codec in _BY_LANGUAGE.get("-".join(parts[:length]), ()):
            if _decodes(body, codec):
                return _among(body, codec)
    return _detected(_sample(body)) or "cp1252"


def _among(body: bytes, codec: str) -> str:
    """Of the charsets of a language, which all decode anything, the one that the bytes speak for."""
    if codec == "iso8859-2":
        return "cp1250" if _C1.search(body) else codec
    found = _detected(_sample(body)) if codec in _CYRILLIC else None
    return found if found in _CYRILLIC else codec


def _sample(body: bytes) -> bytes:
    """The stretch around the first non-ASCII byte, without markup: what detection should look at."""
    bare = re.sub(rb"<[^<>]{0,2000}>", b" ", _COMMENT.sub(b" ", body[: 1 << 20]))
    first = _HIGH.search(bare)
    start = max(0, first.start() - 1000) if first else 0
    return bare[start : start + _SAMPLE]


def _detected(sample: bytes) -> str | None:
    import chardet

    for codec, common, share in _COMMON:
        if _is_running_text(sample, codec, common, share):
            return codec
    found = chardet.detect(sample)
    name = str(found["encoding"] or "").lower()
    codec_found = codec_of(name) or _DETECTED.get(name)
    if codec_found is None or codec_found == "utf-8":  # not UTF-8, or it would have decoded before
        return None
    if codec_found == "koi8-r":  # says the same, and Ukrainian beside it
        return "koi8-u"
    return next((c for c in _WIDER.get(codec_found, (codec_found,)) if _decodes(sample, c)), codec_found)


def _is_running_text(sample: bytes, codec: str, common: str, share: float) -> bool:
    """Whether the commonest characters of a language are as frequent as in its running text. chardet needs more text
    than a short page has; read in the wrong charset, hardly any of these characters come out."""
    try:
        text = codecs.getincrementaldecoder(codec)("strict").decode(sample, final=False)
    except UnicodeError:
        return False
    wide = [c for c in text if c > "\x7f"]
    return len(wide) >= 8 and sum(c in common for c in wide) >= share * len(wide)
