"""WHEN THE WINDOW NEARS ITS END: which tool replies give way to one line each, or that the answer is asked for.

In: the conversation, the calls whose replies stand in it, token counts. Out: the folds to make, or none. Pure: nothing
here renders, tokenizes or evaluates. Thinking and calls, the system prompt and the question are never folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from venus_edge.protocol.prompt import CLOSE_RESPONSE, OPEN_RESPONSE
from venus_edge.values import Fold, Message, SearchCall, ToolCall

Policy = Literal["answer", "fold"]

WIDE = 131_072  # tokens: windows that the published runs (up to 130,000 tokens) fit into as they are
_SHOWN = 300  # characters of a call that its line repeats


def policy(asked: Policy | None, n_ctx: int) -> Policy:
    """What is done in a window of `n_ctx` tokens where nobody asked for either: as trained where a run fits in."""
    return asked or ("answer" if n_ctx >= WIDE else "fold")


def fold(
    messages: Sequence[Message], calls: Mapping[int, ToolCall], used: int, most: int, count: Callable[[str], int]
) -> tuple[Fold, ...]:
    """The replies that give way, oldest first, so that a prompt of `used` tokens fits into `most` again; none if that
    does not help, which means that the answer is to be asked for.

    `calls` are those whose replies stand in `messages`, by the reply's place; `count` gives the tokens of a text. The
    last message is never folded: nobody has read it yet.

    Why down to half. A fold changes the prompt at the first reply that gives way, so all behind that one is evaluated
    again: at most `most/2` tokens where the prompt comes down to half, and then `most/2` new ones fit in before the
    next fold. That is one token again for each new one at worst, and a run evaluates at most twice its own tokens.
    Folding only what the next turn needs, some 1,500 tokens, would evaluate nearly all of `most` again for them: in a
    window of 24,576, about 14 tokens for each new one. Down to a quarter would cost a third as much as half, and give
    up half as much again of what was read.
    Where half cannot be reached, three quarters will do (three again for each new one at worst); beyond that the run
    would mostly read itself again, and has little left to fold: then the answer is asked for.
    """
    freed = 0
    folds: list[Fold] = []
    for place in sorted(place for place in calls if place < len(messages) - 1):
        if used - freed <= most // 2:
            break
        reply = said(messages[place])
        tokens = count(reply)
        line = folded_text(calls[place], tokens)
        left = count(line)
        if left < tokens:
            folds.append(Fold(place, calls[place], tokens, line, left))
            freed += tokens - left
    return tuple(folds) if used - freed <= most * 3 // 4 else ()


def folded_text(call: ToolCall, tokens: int) -> str:
    """The line that stands in a reply's place, of a visit in the words that its replies begin with (PROTOCOL 5)."""
    if isinstance(call, SearchCall):
        what = f"The search results for {_listed(call.queries)} were"
    else:
        what = f"The useful information in {_listed(call.urls)} for user goal {_shortened(call.goal)} was"
    return f"{what} left out here to save room ({tokens:,} tokens)."


def said(message: Message) -> str:
    """What stands between the tags of a tool reply."""
    return message.content.removeprefix(f"{OPEN_RESPONSE}\n").removesuffix(f"\n{CLOSE_RESPONSE}")


def _listed(texts: Sequence[str]) -> str:
    return _shortened("; ".join(texts)) or "nothing"


def _shortened(text: str) -> str:
    """On one line, whatever it holds, and not longer than what it stands for."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[:_SHOWN].rstrip() + "..."
