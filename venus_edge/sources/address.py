"""A URL AS THE MODEL WRITES IT -> AN ADDRESS TO FETCH, and which IP addresses may be spoken to. Pure.

In: any string. Out: `Address`, or a `Failure` that says why it is none. Nothing here resolves a name (`gate` does).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from venus_edge.values import Failure, Trouble

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is fetched and is the cache's key (no fragment); `display` keeps the fragment; `host` is ASCII, without
    brackets or a last dot."""

    url: str
    display: str
    scheme: str
    host: str
    port: int


# Sentence marks that end a sentence, not a URL; brackets and quotes that wrap one.
_MARKS = ".,;:!?'\"*_`~|\\，。、；：！？…·’”„»›"
_PAIRS = {
    ")": "(",
    "]": "[",
    "}": "{",
    ">": "<",
    "）": "（",
    "】": "【",
    "」": "「",
    "』": "『",
    "》": "《",
    "〉": "〈",
}
_OPENING = "([{<\"'`*（【「『《〈“‘«‹"
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\x00-\x1f\x7f\ud800-\udfff]")
_MARKDOWN = re.compile(r"^!?\[[^\]]*\]\(\s*<?(.*)$", re.S)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_BARE_HOST = re.compile(r"^(?:[^\s/?#@:]+\.[^\W\d_][^\s/?#@:.]+|\d+(?:\.\d+){3})\.?(?::\d+)?(?:[/?#].*)?$")
_WEB = re.compile(r"^https?:/*", re.I)
_LABEL = re.compile(r"^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_WITHIN = re.compile(r"https?:/{1,2}", re.I)
_TWICE = re.compile(r"^https?:/+(?=https?:/)", re.I)  # "https://https://example.org"
_INTRODUCTIONS = frozenset(("url", "link", "source", "website", "address", "链接", "網址", "网址", "来源", "リンク"))
_DOTS = str.maketrans("。．｡", "...")
_NUMBER = re.compile(r"^(?:0[xX][0-9a-fA-F]*|\d+)$")
# what the path, the query and the fragment may hold unescaped (RFC 3986, and "%" because escapes are kept)
_PATH_SAFE = "/%:@!$&'()*+,;=~-._[]|"
_QUERY_SAFE = _PATH_SAFE + "?"


def parse(written: str) -> Address | Failure:
    """The address that `written` means."""
    text = _tidied(written)
    if not text:
        return _bad("it is empty")
    schemed = _with_scheme(text)
    if isinstance(schemed, Failure):
        return schemed
    try:
        parts = urlsplit(schemed)
        port = parts.port
    except ValueError:
        return _bad("it is not a well-formed URL")
    host = _host(parts.hostname or "")
    if isinstance(host, Failure):
        return host
    if re.search(r"/(?:\.{3,}|…)/?$", parts.path):
        return _bad("it is cut off: the path is an ellipsis")
    return _assembled(parts.scheme, host, port, parts.path, parts.query, parts.fragment)


def _bad(reason: str) -> Failure:
    return Failure(Trouble.BAD_ADDRESS, f"address not allowed: {reason}")


# -- from prose to a URL ---------------------------------------------------------------------------------------------


def _tidied(written: str) -> str:
    """Without what surrounds a URL in running text: brackets, quotes, Markdown, sentence marks, the invisible."""
    text = _INVISIBLE.sub("", written).strip().replace("&amp;", "&")
    markdown = _MARKDOWN.match(text)
    if markdown:
        text = _link_target(markdown.group(1))
    text = _introduced(text.lstrip(_OPENING).strip())
    return _trimmed(re.split(r"[\"<>]", text, maxsplit=1)[0].rstrip())


def _introduced(text: str) -> str:
    """The URL of "Link: https://..." and "see https://... for more"; what has a scheme in front stays as it is."""
    found = _WITHIN.search(text)
    if not found or found.start() == 0:
        return _TWICE.sub("", text)
    before = text[: found.start()]
    named = before.lower().rstrip(":： \n") in _INTRODUCTIONS
    if not named and (
        _SCHEME.match(before)
        or not re.search(r"[\s：，。、(（<\[\"“》】」』）)]$", before)
        or re.search(r"[/?]", before)
    ):
        return text
    return re.split(r"\s", text[found.start() :], maxsplit=1)[0]


def _link_target(rest: str) -> str:
    """The target of `[text](target "title")`: up to the bracket that closes it."""
    depth = 0
    for n, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            rest = rest[:n]
            break
    return re.sub(r"\s+(?:\"[^\"]*\"|'[^']*')\s*$", "", rest).strip().strip("<>")


def _trimmed(text: str) -> str:
    """Without closing brackets that nothing opens and sentence marks at the end. An ellipsis as a path stays: it says
    that the address is cut off."""
    while text:
        last = text[-1]
        if re.search(r"/(?:\.{3,}|…)$", text):
            return text
        if last in _PAIRS:
            if text.count(_PAIRS[last]) >= text.count(last):
                return text
        elif last not in _MARKS:
            return text
        text = text[:-1].rstrip()
    return text


def _with_scheme(text: str) -> str | Failure:
    """`text` with http or https in front, or why it cannot be given one."""
    head = re.split(r"[?#]", text, maxsplit=1)[0]
    text = head.replace("\\", "/") + text[len(head) :]  # browsers read a backslash before the query as a slash
    if _WEB.match(text):
        return _WEB.sub(lambda m: m.group().lower().rstrip("/") + "//", text, count=1)
    if text.startswith("//"):
        return "https:" + text
    if text.startswith("/"):
        return _bad("it is a path without a host")
    if _BARE_HOST.match(text) and not re.search(r"\s", re.split(r"[/?#]", text, maxsplit=1)[0]):
        return "https://" + text
    scheme = _SCHEME.match(text)
    if scheme and not re.match(r"^[^/?#\s]+:\d+(?:[/?#]|$)", text):
        return _bad(f"only http and https are opened, not {scheme.group(1).lower()}:")
    if re.match(r"^(?:localhost|\[[0-9A-Fa-f:.]+\]|[^\s/?#@:]+)(?::\d+)(?:[/?#].*)?$", text):
        return "http://" + text
    return _bad("it is not a URL")


# -- the host --------------------------------------------------------------------------------------------------------


def _host(written: str) -> str | Failure:
    """The ASCII form of a host name, or the canonical form of an IP address in any spelling."""
    name = unicodedata.normalize("NFKC", unquote(written)).translate(_DOTS).lower()
    name = name.removesuffix(".")
    if not name:
        return _bad("it has no host")
    if ":" in name:
        return _ipv6(name)
    literal = ipv4(name)
    if literal is not None:
        return str(literal)
    if _NUMBER.match(name.rpartition(".")[2]):  # WHATWG URL: a host that ends in a number is an IPv4 address or none
        return _bad(f"{_short(name)} is not a valid IP address")
    return _name(name)


def _ipv6(name: str) -> str | Failure:
    try:
        return str(ipaddress.IPv6Address(name.partition("%")[0]))
    except ValueError:
        return _bad(f"{_short(name)} is not a valid IP address")


def ipv4(name: str) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a host name spells as inet_aton and browsers read it: decimal, octal, hex, short."""
    parts = name.split(".")
    if not 1 <= len(parts) <= 4 or not all(_NUMBER.match(p) and p.isascii() for p in parts):
        return None
    try:
        numbers = [_part(p) for p in parts]
    except ValueError:
        return None
    *firsts, last = numbers
    if any(n > 255 for n in firsts) or last >= 256 ** (5 - len(numbers)):
        return None
    return ipaddress.IPv4Address(sum(n << (8 * (3 - i)) for i, n in enumerate(firsts)) + last)


def _part(text: str) -> int:
    if len(text) > 40:
        raise ValueError("no number of an address is that long")
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)


def _name(name: str) -> str | Failure:
    """IDNA: each label by UTS 46, checked for length and characters. Underscores are no host names, but they exist."""
    glued = re.search(r"[\u3001-\u303f\uff00-\uffef，。；：！？、]", name)
    if glued:
        return _bad(f"text is glued to the host name {_short(name)}")
    labels: list[str] = []
    for label in name.split("."):
        encoded = _encoded(label)
        if encoded is None:
            return _bad(f"{_short(name)} is not a valid host name")
        labels.append(encoded)
    if len(".".join(labels)) > 253:
        return _bad("the host name is too long")
    glue = _glued(name.split("."))
    return _bad(f"text is glued to the host name {_short(name)}") if glue else ".".join(labels)


def _glued(labels: list[str]) -> bool:
    """A last label that begins in Latin and goes on in Chinese, Japanese or Korean is a top-level domain and a
    sentence after it: no top-level domain mixes them."""
    return bool(re.match(r"^[a-z0-9-]+[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", labels[-1]))


def _encoded(label: str) -> str | None:
    if label.isascii():
        return label if len(label) <= 63 and _LABEL.match(label) else None
    import idna

    try:
        return idna.encode(label, uts46=True, transitional=False).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return None


def _short(name: str) -> str:
    return name if len(name) <= 60 else name[:57] + "..."


# -- together again --------------------------------------------------------------------------------------------------


def _assembled(scheme: str, host: str, port: int | None, path: str, query: str, fragment: str) -> Address | Failure:
    default = 443 if scheme == "https" else 80
    if port is not None and not 1 <= port <= 65535:
        return _bad(f"{port} is not a port")
    place = f"[{host}]" if ":" in host else host
    if port not in (None, default):
        place += f":{port}"
    url = f"{scheme}://{place}{_escaped(path or '/', _PATH_SAFE)}"
    if query:
        url += "?" + _escaped(query, _QUERY_SAFE)
    display = url + ("#" + _escaped(fragment, _QUERY_SAFE) if fragment else "")
    return Address(url, display, scheme, host, port or default)


def _escaped(text: str, safe: str) -> str:
    """Percent-encoded UTF-8; what is escaped already stays, a lone percent sign is escaped."""
    return quote(_ESCAPE.sub("%25", text), safe=safe)


# -- which addresses may be spoken to --------------------------------------------------------------------------------

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # IPv4-compatible, deprecated
_SPECIAL = tuple(
    ipaddress.ip_network(net)
    for net in (
        "0.0.0.0/8",  # "this network"; Linux connects to itself
        "100.64.0.0/10",  # carrier-grade NAT (RFC 6598)
        "192.0.0.0/24",  # IETF protocol assignments
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "198.18.0.0/15",  # benchmarking
        "240.0.0.0/4",  # reserved, and broadcast
        "64:ff9b:1::/48",  # NAT64 of a local network (RFC 8215)
        "100::/64",  # discard
        "2001::/23",  # IETF protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",  # site-local, deprecated
    )
)


def is_public(address: IPAddress) -> bool:
    """Whether an IP address belongs to the public Internet, and so does every address that is wrapped in it."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = wrapped(address)
        if inner is not None:
            return is_public(inner)
    special = any(address.version == net.version and address in net for net in _SPECIAL)
    local = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_reserved
    return address.is_global and not (special or local or address.is_private or address.is_multicast)


def wrapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, compatible, NAT64, 6to4, ISATAP."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    number = int(address)
    if address in _NAT64 or (address in _COMPATIBLE and number > 1):
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if (number >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):  # ISATAP (RFC 5214)
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return None
