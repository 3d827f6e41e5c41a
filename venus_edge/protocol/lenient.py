"""ALMOST JSON -> VALUE. What quantised models write when they mean JSON, read the way they mean it.

In: text and where in it an object or list starts. Out: the value and where it ends. Strict JSON is the caller's first
try: this reading also takes any kind of quotes and brackets (full-width ones too), quotes left inside a string,
trailing or missing commas, Python's words, bare words, comments and raw line breaks. It closes what is left open only
where the caller knows that the text is complete, and never guesses at a missing value.
"""

from __future__ import annotations

import re

Value = str | bool | None | list["Value"] | dict[str, "Value"]

_MAX_DEPTH = 40  # a call needs four
_DOUBLE = '"“”„‟＂«»'
_SINGLE = "'‘’‛＇`"
_QUOTES = _DOUBLE + _SINGLE
_OPEN_OBJECT, _CLOSE_OBJECT = "{｛", "}｝"
_OPEN_LIST, _CLOSE_LIST = "[［【", "]］】"
_CLOSERS = _CLOSE_OBJECT + _CLOSE_LIST

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*[^*]{0,200}\*/)*+")
_SEPARATORS = re.compile(r"(?:\s|[,，、;；]|//[^\n]*|/\*[^*]{0,200}\*/)*+")
_COLON = re.compile(r"\s*(?:=>|[:：=])")
_IN_QUOTES = re.escape(_QUOTES)
_KEY = re.compile(rf"[{_IN_QUOTES}]?([^{_IN_QUOTES}:：=,，{{}}\[\]\n]{{1,40}})[{_IN_QUOTES}]?")
_QUOTED_KEY_AND_COLON = re.compile(rf"[{_DOUBLE}][\w ]{{1,40}}[{_DOUBLE}]\s*[:：]")
_STRAY_QUOTE = re.compile(rf"[{_DOUBLE}]")
_STOPS = {True: re.compile(rf"\\.|[{_DOUBLE}]", re.DOTALL), False: re.compile(rf"\\.|[{_SINGLE}]", re.DOTALL)}
_BARE_VALUE = re.compile(rf"[^,，\n{re.escape(_CLOSERS + _OPEN_OBJECT + _OPEN_LIST + _DOUBLE)}]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "NULL", "undefined", "NaN", "nil", "...", "…"), None),
}
# What may stand after the quote that ends a value; after any other, it is a quote inside the text.
_AFTER_VALUE = re.compile(
    rf"""\s*(?:
      [{re.escape(_CLOSERS)}]                                        # a closing bracket
    | [,，、;；]\s*(?:                                               # a comma, and then the start of a value or key
          [{re.escape(_QUOTES + _CLOSERS)}{{\[｛［\d-] | /[/*] | \Z
        | (?:true|false|null|None|True|False)\b | \w{{1,40}}[{_DOUBLE}]?\s*[:：=] | \.\.\. | …
      )
    | [{_DOUBLE}]\w{{1,40}}[{_DOUBLE}]\s*[:：]                       # no comma: a key,
    | (?<=\n)[ \t]{{0,40}}[{re.escape(_QUOTES)}]                     # a quote on the next line,
    | (?<=[ ])[{_DOUBLE}][^{_DOUBLE}\n]{{1,400}}[{_DOUBLE}]\s*[,\]]  # or another whole string
    )""",
    re.VERBOSE,
)


class Unreadable(ValueError):
    """The text is no object or list, however kindly read; or it stops in the middle and may not be closed."""


def read_lenient(text: str, start: int, complete: bool) -> tuple[Value, int]:
    """The value that starts at `start`, and the position after it. `complete` says that the text was not cut off, so
    that brackets and a quote left open at its end may be closed. Raises Unreadable."""
    reader = _Reader(text, start, complete)
    value = reader.value(0)
    return value, reader.at


class _Reader:
    """One pass over a text, left to right."""

    def __init__(self, text: str, at: int, complete: bool) -> None:
        self.text = text
        self.at = at
        self.complete = complete
        self.last = len(text.rstrip())
        self.open_lists = 0
        self.open_objects = 0

    def value(self, depth: int) -> Value:
        char = self._next(_SPACE)
        if depth > _MAX_DEPTH:
            raise Unreadable("nested too deep")
        if char in _OPEN_OBJECT or _QUOTED_KEY_AND_COLON.match(self.text, self.at):  # a key: its brace is missing
            return self._object(depth, skip=char in _OPEN_OBJECT)
        if char in _OPEN_LIST:
            return self._list(depth)
        if char in _QUOTES:
            return self._string(char)
        return self._bare()

    def _next(self, skip: re.Pattern[str]) -> str:
        """The character after what `skip` matches; Unreadable at the end of the text."""
        found = skip.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.at >= len(self.text):
            raise Unreadable("stops in the middle")
        return self.text[self.at]

    def _ended(self) -> bool:
        """Whether the text is over, separators aside; Unreadable if it may not be."""
        found = _SEPARATORS.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.at < len(self.text):
            return False
        if not self.complete:
            raise Unreadable("stops in the middle")
        return True

    def _object(self, depth: int, skip: bool) -> Value:
        self.at += skip
        self.open_objects += 1
        pairs: dict[str, Value] = {}
        while not self._ended():
            char = self.text[self.at]
            if char in _CLOSE_OBJECT:
                self.at += 1
                break
            if char in _CLOSE_LIST:
                if self.open_lists:
                    break  # the list around this object ends, so the object does
                self.at += 1
                continue
            if char in _OPEN_OBJECT:
                self.at += 1  # an opening brace too many
                continue
            key = self._key(char)
            pairs[key] = self.value(depth + 1)
        self.open_objects -= 1
        return pairs

    def _list(self, depth: int) -> Value:
        self.at += 1
        self.open_lists += 1
        items: list[Value] = []
        while not self._ended():
            char = self.text[self.at]
            if char in _CLOSE_LIST:
                self.at += 1
                break
            if char in _CLOSE_OBJECT:
                if self.open_objects:
                    break
                self.at += 1
                continue
            items.append(self.value(depth + 1))
        self.open_lists -= 1
        return items

    def _key(self, char: str) -> str:
        found = _KEY.match(self.text, self.at)
        colon = _COLON.match(self.text, found.end()) if found else None
        if found is None or (colon is None and char not in _QUOTES):
            raise Unreadable("a key or its value is missing")
        self.at = colon.end() if colon else found.end()
        return found.group(1).strip()

    def _string(self, opener: str) -> str:
        start = self.at + 1
        for found in _STOPS[opener in _DOUBLE].finditer(self.text, start):
            at = found.start()
            if found.group()[0] == "\\":
                continue
            if _AFTER_VALUE.match(self.text, found.end()) or self._over(found.end()):
                self.at = found.end()
                return _unescaped(self.text[start:at])
            if self._starts_a_key(start, at):
                return self._ended_before(start, at)
        if not self.complete:
            raise Unreadable("stops in the middle of a string")
        return self._ended_before(start, len(self.text))

    def _starts_a_key(self, start: int, at: int) -> bool:
        """Whether the quote at `at` opens the next key, the closing quote of the string from `start` being left out."""
        after_comma = self.text[max(start, at - 8) : at].rstrip().endswith((",", "，"))
        return after_comma and _QUOTED_KEY_AND_COLON.match(self.text, at) is not None

    def _ended_before(self, start: int, end: int) -> str:
        """A string without its closing quote: the brackets and commas before `end` are not its own."""
        text = self.text[start:end].rstrip(_CLOSERS + ",， \t\r\n")
        self.at = start + len(text)
        return _unescaped(text)

    def _over(self, at: int) -> bool:
        return self.complete and at >= self.last

    def _bare(self) -> Value:
        found = _BARE_VALUE.match(self.text, self.at)
        if not found:
            raise Unreadable("a value is missing")
        if found.end() == len(self.text) and not self.complete:
            raise Unreadable("stops in the middle")
        stray = _STRAY_QUOTE.match(self.text, found.end())
        self.at = found.end() + (stray is not None and _AFTER_VALUE.match(self.text, stray.end()) is not None)
        word = found.group().strip()
        return _WORDS.get(word, word)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_character, text)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    if code:
        return chr(int(code, 16))
    # A backslash that JSON does not know (a path, a formula) is one the model meant; before a sign it is not.
    return _CONTROL.get(char) or (escape.group() if char.isalnum() else char)
