"""FINISHED TEXT -> REPLY: the thought, what the turn does, and the text that the conversation keeps.

In: what came after the generation prompt (which ended with `<think>` and a line break; the text may open a thought of
its own) and why it ended. Out: a Reply, always. Tags inside the thought are prose; the first call runs, also where an
answer stands beside it; a reply that a limit cut is never completed by guessing. What stands in a call is for `decode`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from venus_edge.protocol.decode import Decoded, decode_bare, decode_call
from venus_edge.protocol.prompt import well_formed
from venus_edge.values import Answer, Malformed, Reply, ToolCall

Finish = Literal["stop", "length", "context", "cancelled"]

_MAX_TRIES = 8  # opening tags looked into in one reply: bounds the work that a hostile text can ask for

_TAG = re.compile(
    r"[<＜]\s{0,2}(?P<closes>/?)\s{0,2}"
    r"(?:(?P<think>think(?:ing)?)|(?P<call>tool[_ -]?calls?|function_calls?)"
    r"|(?P<answer>(?:final_)?answer(?:\s[^<>\n]{1,40})?))\s{0,2}[>＞]",
    re.IGNORECASE,
)
_OPENING = re.compile(r"\s*[<＜]think(?:ing)?[>＞]", re.IGNORECASE)
# Where a model plays the tool and goes on alone. The official solver cuts at every <tool_response> (PROTOCOL 4.2); one
# in the middle of a thought's line is only talked about.
_RUNS_ON = re.compile(
    r"(?:^|[>\n])[ \t]{0,8}(?=<tool_response>)"
    r"|</tool_call>\s{0,40}(?=<think>|<\|im_start\|>)"
    r"|(?=<\|im_end\|>\s{0,9}<\|im_start\|>)",
    re.IGNORECASE,
)
_ENDS = ("<|im_end|>", "<|endoftext|>")
_BLANK_ANSWER = " \t\r\n.…·*_`'\"-"  # what the placeholder in "<answer>...</answer>" is made of


def parse(text: str, finish: Finish = "stop", final: bool = False) -> Reply:
    """The reply that a finished text is. Never raises; takes time linear in the text.

    In a `final` turn, which was asked for the answer, an answer goes before a call; elsewhere the call runs.
    """
    body, opened = _body(well_formed(text))
    tags = _tags(body)
    turn = _turn(body, tags, whole=finish == "stop")
    deed = _deed(body, turn, tags, finish == "stop", final)
    return Reply(_unpaired(body[: turn.thought_end]).strip(), deed.action, _kept(body, opened, turn, deed))


def abandoned(text: str, reason: str) -> Reply:
    """A reply that was stopped from outside: all of it is thought, and it does nothing."""
    body, opened = _body(well_formed(text))
    turn = _Turn(len(body), len(body), closed=False)
    return Reply(_unpaired(body).strip(), Malformed(reason), _kept(body, opened, turn, _Deed(Malformed(reason))))


# -- the shape of a turn ----------------------------------------------------------------------------------------------


class _Tag(NamedTuple):
    kind: Literal["think", "call", "answer"]
    closes: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """Where the thought ends and where the rest begins; between them stands the closing tag, if there is one."""

    thought_end: int
    rest: int
    closed: bool


def _body(text: str) -> tuple[str, str]:
    """The text after its opening think tag, up to where the model plays on alone; and how its thought is opened."""
    opening = _OPENING.match(text)
    body = text[opening.end() :] if opening else text
    runs_on = _RUNS_ON.search(body)
    body = body[: runs_on.end()] if runs_on else body
    end = len(body)
    while body.endswith(_ENDS, 0, end):
        end = body.rindex("<|", 0, end)
    return body[:end], "<think>" if opening else "<think>\n"


def _tags(body: str) -> list[_Tag]:
    return [
        _Tag("think" if m["think"] else "call" if m["call"] else "answer", bool(m["closes"]), m.start(), m.end())
        for m in _TAG.finditer(body)
    ]


def _turn(body: str, tags: Sequence[_Tag], whole: bool) -> _Turn:
    closing = _closing(body, tags)
    if closing:
        return _Turn(closing.start, closing.end, closed=True)
    start = _unannounced(body, tags, whole)
    return _Turn(start, start, closed=False)


def _closing(body: str, tags: Sequence[_Tag]) -> _Tag | None:
    """The tag that ends the thought: the first with an action right behind it, else the first with one before the next
    such tag, else the first. (A thought that quotes its own closing tag, or was opened twice, has several.)"""
    first: _Tag | None = None
    followed: _Tag | None = None
    for i, tag in enumerate(tags):
        if tag.kind != "think" or not tag.closes:
            continue
        first = first or tag
        after = tags[i + 1] if i + 1 < len(tags) else None
        if after is None or after.kind == "think" or after.closes:
            continue
        if not body[tag.end : after.start].strip():
            return tag
        followed = followed or tag
    return followed or first


def _unannounced(body: str, tags: Sequence[_Tag], whole: bool) -> int:
    """Where the action starts in a thought that was never closed; the end of the text if there is none.

    An action on a line of its own comes before one in the middle of a line, and a call before an answer. In a cut text
    an action with more prose behind it is a rehearsal.
    """
    best = (9, len(body))
    for tag in _ends_of([tag for tag in tags if tag.kind != "think" and not tag.closes]):
        own_line = not body[max(0, body.rfind("\n", 0, tag.start)) : tag.start].strip()
        end = _end_of_action(body, tag, tags, whole, own_line)
        if end is None:
            continue
        last = not _TAG.sub("", body[end : end + 200]).strip()
        if last or whole:
            best = min(best, (_rank(tag, own_line, last), tag.start))
    return best[1]


def _ends_of(tags: Sequence[_Tag]) -> Sequence[_Tag]:
    half = _MAX_TRIES // 2
    return tags if len(tags) <= _MAX_TRIES else [*tags[:half], *tags[-half:]]


def _rank(tag: _Tag, own_line: bool, last: bool) -> int:
    if own_line:
        return 0 if tag.kind == "call" else 1
    if tag.kind == "answer":
        return 4
    return 2 if last else 3


def _end_of_action(body: str, tag: _Tag, tags: Sequence[_Tag], whole: bool, own_line: bool) -> int | None:
    """Where the action ends that `tag` opens in an unclosed thought; None if it is only mentioned."""
    if tag.kind == "call":
        decoded = decode_call(body, tag.end, whole, anywhere=False)
        return decoded.end if decoded and not isinstance(decoded.call, str) else None
    closing = _closing_answer(tag, tags)
    if closing is None:
        return len(body) if own_line and not _is_blank(body[tag.end :]) else None
    return None if _is_blank(body[tag.end : closing.start]) else closing.end


def _closing_answer(opening: _Tag, tags: Sequence[_Tag]) -> _Tag | None:
    return next((t for t in tags if t.kind == "answer" and t.closes and t.start >= opening.end), None)


def _is_blank(text: str) -> bool:
    return not text.strip(_BLANK_ANSWER)


# -- what it does -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Deed:
    """The action; for a call also where what stands in its tags ends, and where that starts if it has no tags."""

    action: ToolCall | Answer | Malformed
    end: int | None = None
    bare_start: int | None = None


def _deed(body: str, turn: _Turn, tags: Sequence[_Tag], whole: bool, final: bool) -> _Deed:
    """What the rest of the turn does: the first call that can be read, else the first answer that says something; in a
    final turn the other way round."""
    answer: Answer | None = None
    called: _Deed | None = None
    wrong = ""
    at = turn.rest
    for tag in [tag for tag in tags if tag.start >= at and tag.kind != "think" and not tag.closes][:_MAX_TRIES]:
        if tag.start < at:
            continue  # quoted in the answer
        if tag.kind == "answer":
            found, at = _answer(body, tag, tags, whole)
            answer = answer or found
            continue
        decoded = decode_call(body, tag.end, whole, anywhere=True)
        if decoded and not isinstance(decoded.call, str):
            called = called or _Deed(decoded.call, decoded.end)
            if not final:
                return called
            at = decoded.end  # what it quotes answers nothing
        elif decoded and not answer:
            wrong = wrong or str(decoded.call)
    if answer and (final or not wrong):
        return _Deed(answer)
    if called:
        return called
    bare = None if wrong else _bare_call(body, turn)
    if bare and not isinstance(bare.call, str):
        return _Deed(bare.call, bare.end, bare.start)
    return _Deed(Malformed(wrong or _why_nothing(body, turn, tags, whole), cut=not whole))


def _answer(body: str, tag: _Tag, tags: Sequence[_Tag], whole: bool) -> tuple[Answer | None, int]:
    """The answer that `tag` opens, None if it holds nothing or only a call; and where to look on."""
    closing = _closing_answer(tag, tags)
    text = _unnested(body[tag.end : closing.start if closing else len(body)])
    inner = _TAG.match(text)
    if _is_blank(text) or (inner and inner["call"]):
        return None, tag.end
    return Answer(text, cut=closing is None and not whole), closing.end if closing else tag.end


def _unnested(text: str) -> str:
    """An answer's text without answer tags on lines of their own inside it (one released turn has that), and without
    a wrong tag at its end."""
    text = re.sub(r"(?im)^[ \t]{0,8}</?answer>[ \t]{0,8}$\n?", "", text).strip()
    wrong = re.search(r"(?i)</?(?:answer|tool_call|tool_response)>\Z", text[-20:])
    return text[: -len(wrong.group())].rstrip() if wrong else text


def _bare_call(body: str, turn: _Turn) -> Decoded | None:
    """A call without its opening tag, where it is all that follows a closed thought."""
    lead = re.compile(r"(?:\s|```\w*)*+").match(body, turn.rest)
    at = lead.end() if lead else turn.rest
    decoded = decode_bare(body, at) if turn.closed else None
    return decoded if decoded and not re.sub(r"[\s`]|</tool_call>", "", body[decoded.end :]) else None


def _why_nothing(body: str, turn: _Turn, tags: Sequence[_Tag], whole: bool) -> str:
    if not whole:
        return "the reply was cut off before a call or an answer"
    if any(tag.kind == "answer" and tag.start >= turn.rest for tag in tags):
        return "the answer is empty"
    return "neither a call nor an answer" if body.strip() else "the reply is empty"


# -- what the conversation keeps --------------------------------------------------------------------------------------

_THINK = r"[<＜]\s{0,2}/?\s{0,2}think(?:ing)?\s{0,2}[>＞]"
_STRAY = re.compile(r"[<＜]\s{0,2}(/?)\s{0,2}(think(?:ing)?|tool_response)\s{0,2}[>＞]", re.IGNORECASE)
_STRAY_ON_ITS_LINE = re.compile(r"(?im)^([ \t]{0,8})" + _THINK + r"[ \t]{0,8}$")
_STRAY_AT_START = re.compile(r"(?i)\A\s*(?:" + _THINK + r"\s*)++")
_CLOSED = re.compile(r"[\s`}\]]{0,40}</tool_call>", re.IGNORECASE)


def _unpaired(thought: str) -> str:
    """`thought` without the think tags that open or close it once more; one among words is a word."""
    return _STRAY_ON_ITS_LINE.sub(r"\1", _STRAY_AT_START.sub("", thought))


def _worded(text: str) -> str:
    """`text` with the tags that only the template and the tools may write as words in square brackets."""
    return _STRAY.sub(r"[\1\2]", text)


def _kept(body: str, opened: str, turn: _Turn, deed: _Deed) -> str:
    """The turn as the conversation keeps it: one pair of think tags, and a call is the last thing in it and closed.
    Otherwise as generated, so that what the KV cache holds of it is still its prompt."""
    thought = _worded(_unpaired(body[: turn.thought_end]))
    rest = _worded(_kept_rest(body, turn.rest, deed))
    if turn.closed:
        return f"{opened}{thought}</think>{rest}"
    thought = thought.rstrip("\n")
    return f"{opened}{thought}\n</think>\n\n{rest}"


def _kept_rest(body: str, start: int, deed: _Deed) -> str:
    if deed.end is None:
        return body[start:]
    closed = _CLOSED.match(body, deed.end)
    if deed.bare_start is not None:
        return f"\n\n<tool_call>\n{body[deed.bare_start : deed.end]}\n</tool_call>"
    if not closed:
        return f"{body[start : deed.end].rstrip()}\n</tool_call>"
    return body[start : closed.end()] if body[closed.end() :].strip() else body[start:]
