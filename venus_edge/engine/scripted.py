"""AN ENGINE WITHOUT A MODEL: replies from a list. For tests of whatever uses an engine, and for replays of sessions.

Same Protocol as the real one, and it keeps what it was asked (`requests`). A token is a byte, unless a tokenizer is
given; untrusted text is as harmless to it as to any: there are no special tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import cast, get_args

from venus_edge.engine import Finish, Request, Stats, Usage
from venus_edge.engine.kv import Cached
from venus_edge.engine.text import TextStream
from venus_edge.errors import ContextFull, EngineError
from venus_edge.protocol import Piece

Script = str | tuple[str, str]


def bytes_of(pieces: Sequence[Piece]) -> list[int]:
    """The simplest tokenization: the UTF-8 bytes of the rendered prompt."""
    return list("".join(piece.text for piece in pieces).encode("utf-8", "replace"))


class ScriptedEngine:
    """Gives its replies in order; a reply is its text, or the text and how it finishes (a `Finish`).

    Raises EngineError when asked for more than it has. `chunk` characters come at a time.
    """

    def __init__(
        self,
        replies: Iterable[Script],
        n_ctx: int = 131_072,
        chat_template: str = "",
        tokenizer: Callable[[Sequence[Piece]], list[int]] = bytes_of,
        chunk: int = 16,
    ) -> None:
        self.requests: list[Request] = []
        self.stats = Stats()
        self._replies = iter(replies)
        self._n_ctx = n_ctx
        self._chat_template = chat_template
        self._tokenizer = tokenizer
        self._chunk = chunk
        self._cached: dict[int, Cached] = {}
        self._running: ScriptedGeneration | None = None

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_ctx_reading(self) -> int:
        return self._n_ctx

    @property
    def chat_template(self) -> str:
        return self._chat_template

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._tokenizer(pieces)

    def generate(self, request: Request) -> ScriptedGeneration:
        self.requests.append(request)
        if len(request.prompt) >= self._n_ctx:
            raise ContextFull(f"the prompt takes {len(request.prompt):,} of the window's {self._n_ctx:,} tokens")
        try:
            reply = next(self._replies)
        except StopIteration:
            raise EngineError(f"the script has no reply number {len(self.requests)}") from None
        text, finish = (reply, "stop") if isinstance(reply, str) else reply
        if finish not in get_args(Finish):
            raise ValueError(f"a reply finishes by one of {get_args(Finish)}, not {finish!r}")
        usage = self._counted(request)
        self._running = ScriptedGeneration(text, cast(Finish, finish), request, usage, self.stats, self._chunk)
        return self._running

    def _counted(self, request: Request) -> Usage:
        """The prompt's counts, as a cache that keeps prompts would have them."""
        prompt = list(request.prompt)
        cached = self._cached.setdefault(request.sequence, Cached())
        reused = max(0, cached.reusable(prompt))
        cached.cut(reused)
        cached.extend(prompt[reused:])
        self.stats.reused_tokens += reused
        self.stats.prefill_tokens += len(prompt) - reused
        self.stats.evaluated_tokens += len(prompt) - reused
        return Usage(len(prompt), reused, len(prompt) - reused)

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()


class ScriptedGeneration:
    """One reply as it comes. A stop string ends it, as in the real engine, and `max_tokens`, a token being a byte."""

    def __init__(self, text: str, finish: Finish, request: Request, usage: Usage, stats: Stats, chunk: int) -> None:
        self.finish: Finish | None = None
        self.usage = usage
        self._planned: Finish = finish
        self._text = text
        self._stop = request.stop
        self._stats = stats
        self._chunk = chunk
        self._left = request.sampling.max_tokens
        self._cancelled = False
        self._texts = self._run()

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None:
        self._texts.close()
        self.finish = self.finish or "cancelled"

    def _run(self) -> Generator[str, None, None]:
        stream = TextStream(self._stop)
        finish = self._planned
        for at in range(0, len(self._text), self._chunk):
            data = self._text[at : at + self._chunk].encode("utf-8", "replace")
            if self._cancelled or self._left <= 0:
                finish = "cancelled" if self._cancelled else "length"
                break
            if len(data) > self._left:
                data, finish = data[: self._left], "length"
            self._count(len(data))
            if text := stream.feed(data):
                yield text
            if stream.stopped:
                finish = "stop"
                break
        if text := stream.end(cut=finish != "stop"):
            yield text
        self.finish = finish

    def _count(self, tokens: int) -> None:
        self._left -= tokens
        self.usage.generated_tokens += tokens
        self.usage.evaluated_tokens += tokens
        self._stats.generated_tokens += tokens
        self._stats.evaluated_tokens += tokens
