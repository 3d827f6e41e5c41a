"""A MODEL THAT RUNS ELSEWHERE: an Engine on llama-server or vLLM.

In: the address of a server and an HTTP client. Out: an Engine like the local one: token ids go out, raw text comes in.
What the servers are sent is `servers`, how waiting ends and errors read `wire`, the safety of text `tokens`. Where the
server differs from the local engine: `servers` tells of the presence penalty and of grammars; a character that the
model leaves unfinished at its end is not shown as U+FFFD; vLLM tells no times, so they are taken here.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from venus_edge.engine import Finish, Request, Stats, Usage
from venus_edge.engine.servers import (
    CONTROL,
    ENDS,
    USER,
    Delta,
    Dialect,
    LlamaServer,
    Stretch,
    Timings,
    Vllm,
    bound,
    ids_of,
)
from venus_edge.engine.sse import Events
from venus_edge.engine.text import TextStream
from venus_edge.engine.tokens import Specials, Tokenizer, disarmed
from venus_edge.engine.wire import (
    Answer,
    Cancelled,
    Client,
    Lost,
    Mailbox,
    Missing,
    Patience,
    Server,
    message_of,
    parsed,
    refusal,
)
from venus_edge.errors import ContextFull, EngineError
from venus_edge.protocol import Piece, Trust

_RESERVE = 2_000  # tokens that must be free for a reply, as locally; of a small window a 16th


class RemoteEngine:
    """An Engine on a server. `notes` are lines for the person: where the text goes, what differs there.

    Raises UsageError for an address that is none, EngineError if nothing answers there or its vocabulary is not Qwen's.
    One generation at a time: a new one ends the one before. `key` goes into the Authorization header and nowhere else.
    """

    def __init__(self, url: str, client: Client, *, key: str = "", patience: Patience = Patience()) -> None:  # noqa: B008 (frozen)
        self.stats = Stats()
        self._running: RemoteGeneration | None = None
        self._closed = False
        self._server = Server(url, client, key, patience)
        self._dialect, self._n_ctx, self._chat_template, self.description = _known(self._server)
        self._vocabulary = _Vocabulary(self._server, self._dialect)
        self.notes = tuple(self._noted())

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_ctx_reading(self) -> int:
        """The whole window: a server gives each request the one that it has."""
        return self.n_ctx

    @property
    def chat_template(self) -> str:
        return self._chat_template

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._vocabulary.tokenizer.ids(pieces)

    def generate(self, request: Request) -> RemoteGeneration:
        if self._running is not None:
            self._running.close()
        self._check(request)
        room = self._n_ctx - len(request.prompt)
        self._running = RemoteGeneration(self._server, self._dialect, self._vocabulary, request, self.stats, room)
        return self._running

    def _check(self, request: Request) -> None:
        """Raises ContextFull if the prompt leaves less than a reply needs; as the local engine."""
        if self._closed:
            raise EngineError("the engine is closed")
        if not request.prompt:
            raise EngineError("there is nothing to go on from: the prompt is empty")
        least = min(_RESERVE, self._n_ctx // 16)
        if self._n_ctx - len(request.prompt) < max(1, min(least, request.sampling.max_tokens)):
            raise ContextFull(
                f"the prompt takes {len(request.prompt):,} of the window's {self._n_ctx:,} tokens, which leaves no "
                f"room to think and answer: shorten the question, or start {self._server} with a larger window"
            )

    def _noted(self) -> Iterator[str]:
        if self._server.place != "this machine":
            yield f"the model runs at {self._server.url} ({self._server.place}): questions and pages are sent there"
        if isinstance(self._dialect, LlamaServer) and self._dialect.slots < 2:
            yield "llama-server has one slot: reading pages with the model pushes the conversation out of its cache"

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def close(self) -> None:
        self._closed = True
        if self._running is not None:
            self._running.close()


def _known(server: Server) -> tuple[Dialect, int, str, str]:
    """What answers there: how it is spoken to, its window, its chat template, its model. Raises EngineError."""
    try:
        props = server.ask("GET", "/props")
    except Missing:
        return _known_vllm(server)
    settings = props.get("default_generation_settings")
    window = settings.get("n_ctx") if isinstance(settings, dict) else None
    if type(window) is not int or window < 1:
        raise EngineError(f"{server} does not tell its window: is it llama-server, and not an old one?")
    slots, template = props.get("total_slots"), props.get("chat_template")
    dialect = LlamaServer(slots if type(slots) is int else 1)
    return dialect, window, template if isinstance(template, str) else "", _name(props.get("model_alias"))


def _known_vllm(server: Server) -> tuple[Dialect, int, str, str]:
    models = server.ask("GET", "/v1/models").get("data")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    name, window = first.get("id"), first.get("max_model_len")
    if not isinstance(name, str) or type(window) is not int or window < 1:
        raise EngineError(f"{server} is neither llama-server nor vLLM: start one of them, and give its address")
    return Vllm(name), window, "", _name(name)


def _name(found: object) -> str:
    return found.rpartition("/")[2] if isinstance(found, str) else ""  # llama-server gives its file if it has no alias


class _Vocabulary:
    """The token side of the server's model. What is asked is kept by the Tokenizer."""

    def __init__(self, server: Server, dialect: Dialect) -> None:
        self._server = server
        self._dialect = dialect
        known = self._special_ids()
        if not {"<|im_start|>", "<|im_end|>"} <= known.keys():
            raise EngineError(f"the model of {server} has not Qwen3's tokens: serve a DR-Venus or Qwen3 model there")
        self._first = min(known.values())
        self.ends = {known[text]: text for text in ENDS if text in known}
        specials = Specials(
            control={text: known[text] for text in CONTROL if text in known},
            user={text: known[text] for text in USER if text in known},
        )
        self._structure = tuple(known)
        self.tokenizer = Tokenizer(specials, self._plain)

    def _special_ids(self) -> dict[str, int]:
        """Qwen3's added tokens, as far as the model has them: all in one question, or one by one if some are none."""
        every = (*CONTROL, *USER)
        ids = self._encode("".join(every), special=True)
        if len(ids) == len(every):
            return dict(zip(every, ids, strict=True))
        found = {text: self._encode(text, special=True) for text in every}
        return {text: ids[0] for text, ids in found.items() if len(ids) == 1}

    def _plain(self, text: str) -> list[int]:
        """Ordinary text, none of which becomes a special token. vLLM has no switch for that, so there a string that
        spells one is cut inside; and whatever the server does, the ids are looked at."""
        parts = disarmed(text, self._structure) if isinstance(self._dialect, Vllm) else [text]
        return [token for part in parts for token in self._harmless(part)]

    def _harmless(self, text: str) -> list[int]:
        ids = self._encode(text, special=False)
        if all(token < self._first for token in ids):
            return ids
        if len(text) < 2:
            raise EngineError(f"{self._server} makes a special token of {text!r}, so pages could speak as the model")
        middle = len(text) // 2
        return self._harmless(text[:middle]) + self._harmless(text[middle:])

    def _encode(self, text: str, special: bool) -> list[int]:
        answer = self._server.ask("POST", "/tokenize", self._dialect.tokenize_body(text, special))
        try:
            return list(ids_of(answer))
        except ValueError as error:
            raise EngineError(f"{self._server} answers /tokenize with {error}") from error

    def is_quiet(self, request: Request) -> bool:
        """Whether the prompt ends in a stretch where the request's grammar does not trigger."""
        tags = request.triggered.quiet if request.triggered is not None else ()
        opens, closes = (self.tokenizer.specials.user.get(tag, -1) for tag in tags or ("", ""))
        return next((token == opens for token in reversed(request.prompt) if token in (opens, closes)), False)

    def text_of(self, ids: Sequence[int]) -> str:
        answer = self._server.ask("POST", "/detokenize", self._dialect.detokenize_body(ids))
        return str(answer.get("content", answer.get("prompt", "")))


@dataclass(slots=True)
class _Turn:
    """What a turn has so far: its text, its ids, whether the server told all of them, the tokens it counted."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    complete: bool = True
    held: list[int] = field(default_factory=list)  # of text that the server keeps back: it may begin a stop string
    generated: int = 0


class RemoteGeneration:
    """A Generation (see the Protocol) from a server. `room` is how many tokens the window has left."""

    def __init__(
        self, server: Server, dialect: Dialect, vocabulary: _Vocabulary, request: Request, stats: Stats, room: int
    ) -> None:
        self.finish: Finish | None = None
        self.usage = Usage(prompt_tokens=len(request.prompt))
        self._server = server
        self._dialect = dialect
        self._vocabulary = vocabulary
        self._request = request
        self._stats = stats
        self._limit = min(request.sampling.max_tokens, room)
        self._cut_by: Finish = "length" if request.sampling.max_tokens <= room else "context"
        self._begins_quiet = vocabulary.is_quiet(request)
        self._mailbox = Mailbox()
        self._turn = _Turn()
        self._answer: Answer | None = None
        self._texts = self._run()

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def cancel(self) -> None:
        self._mailbox.cancel()

    def close(self) -> None:
        """Ends it by closing the connection, at which the server stops."""
        self._texts.close()
        self.finish = self.finish or "cancelled"

    def _run(self) -> Generator[str, None, None]:
        began, stream = time.perf_counter(), TextStream(self._request.stop)
        try:
            for number in count():
                for text in self._stretch(stream, number):
                    self.usage.seconds = time.perf_counter() - began
                    yield text
                if self.finish is not None:
                    return
        except Cancelled:
            self.finish = "cancelled"
            if rest := stream.end(cut=True):
                yield rest
        finally:
            self.finish = self.finish or "cancelled"
            self.usage.seconds = time.perf_counter() - began
            if self._answer is not None:
                self._answer.close()

    def _stretch(self, stream: TextStream, number: int) -> Iterator[str]:
        """The text of one stretch; sets `finish` if the turn ends with it."""
        left = self._limit - self._turn.generated
        stretch = self._dialect.stretch(self._request, self._ids(), left, number)
        if self._request.triggered is not None:
            quiet, call = bound(self._request.triggered, self._turn.text, self._begins_quiet)
            stretch = replace(stretch, quiet=quiet, call=call)
        end: Finish | None = None
        for delta in self._deltas(stretch):
            end = delta.finish or end
            if text := self._fed(stream, delta.text):
                yield text
            if stream.stopped:
                self.finish = "stop"
                return
        if end != "stop":
            if text := self._fed(stream, self._kept_back()):
                yield text
            more = end == "length" and stretch.count < left and self._turn.generated < self._limit
            end = None if more else self._cut_by if end == "length" else end
        if end is not None and (rest := stream.end(cut=end != "stop")):
            yield rest
        self.finish = "stop" if stream.stopped else end

    def _fed(self, stream: TextStream, text: str) -> str:
        self._turn.text += text
        return stream.feed(text.encode("utf-8", "replace"))

    def _ids(self) -> list[int]:
        """The turn's token ids. llama-server does not tell all of them where a character took several tokens; there
        the text is tokenized again."""
        if not self._turn.complete:
            self._turn.ids = self._vocabulary.tokenizer.ids([Piece(self._turn.text, Trust.MODEL)])
            self._turn.complete = True
        return self._turn.ids

    def _kept_back(self) -> str:
        """The text that the server did not send, because it may begin a stop string, when it came to its limit."""
        held, self._turn.held = self._turn.held, []
        return self._vocabulary.text_of(held) if held else ""

    # -- one connection --

    def _deltas(self, stretch: Stretch) -> Iterator[Delta]:
        """The server's events. A connection that is lost before the first token is made again."""
        for pause in (*self._server.patience.pauses, None):
            try:
                yield from self._once(stretch)
                return
            except Lost as lost:
                if self._turn.generated:
                    raise EngineError(f"{lost}; it broke after {self._turn.generated} tokens of the reply") from lost
                if pause is None:
                    raise EngineError(str(lost)) from lost
            self._mailbox.pause(pause)

    def _once(self, stretch: Stretch) -> Iterator[Delta]:
        account = _Account(self.usage, self._stats, is_first=stretch.number == 0)
        body, ended = self._dialect.body(self._request, stretch), False
        until = time.monotonic() + self._server.patience.first
        answer = self._answer = self._server.open(self._mailbox, "POST", self._dialect.path, body, until)
        events = Events()
        try:
            while chunk := self._chunk(answer, until, ended):
                for data in events.feed(chunk):
                    if data == "[DONE]":
                        break
                    delta = self._noted(self._dialect.delta(self._event(data)), account)
                    ended = ended or delta.finish is not None
                    yield delta
                if account.generated:
                    until = time.monotonic() + self._server.patience.between
        except ValueError as error:
            raise EngineError(f"{self._server} sent an event that cannot be read ({error})") from error
        finally:
            answer.close()
            account.close()
        if not ended:
            raise Lost(f"{self._server} ended the reply in the middle: its log may say why")

    @staticmethod
    def _chunk(answer: Answer, until: float, ended: bool) -> bytes:
        try:
            return answer.chunk(until)
        except Lost:
            if ended:  # all has come that matters
                return b""
            raise

    def _event(self, data: str) -> dict[str, Any]:
        event: dict[str, Any] = parsed(data, f"{self._server}{self._dialect.path}")
        error = event.get("error")
        if error:
            code = error.get("code") if isinstance(error, dict) else None
            status = code if type(code) is int else 500
            raise refusal(status, str(self._server), self._dialect.path, message_of(event))
        return event

    def _noted(self, delta: Delta, account: _Account) -> Delta:
        """Keeps the account of the turn, and takes away the text of a token that ends it."""
        turn, ids = self._turn, delta.tokens
        new = account.take(delta)
        turn.generated += new
        turn.complete = turn.complete and new <= len(ids)
        turn.ids.extend(ids)
        turn.held = [] if delta.text else [*turn.held, *ids]
        if ids and ids[-1] in self._vocabulary.ends:
            turn.held.clear()
            return replace(delta, text=delta.text.removesuffix(self._vocabulary.ends[ids[-1]]))
        return delta


class _Account:
    """The counts and seconds of one stretch, into those of the generation and of the engine as they come. Only the
    first stretch has a prompt that is reused; of a later one nearly all is."""

    def __init__(self, usage: Usage, stats: Stats, is_first: bool) -> None:
        self.generated = 0
        self._usage = usage
        self._stats = stats
        self._is_first = is_first
        self._counted = Timings(0, 0, 0.0, 0.0)
        self._began = time.perf_counter()
        self._first: float | None = None

    def take(self, delta: Delta) -> int:
        """The tokens that are new with this event."""
        if delta.timings is not None:
            self._time(delta.timings)
        total = delta.generated if delta.generated >= 0 else self.generated + bool(delta.text)
        new = max(0, total - self.generated)
        self.generated += new
        self._first = self._first or (time.perf_counter() if new else None)
        self._usage.generated_tokens += new
        self._usage.evaluated_tokens += new
        self._stats.generated_tokens += new
        self._stats.evaluated_tokens += new
        return new

    def _time(self, now: Timings) -> None:
        cached, prompt = now.cached - self._counted.cached, now.prompt - self._counted.prompt
        if self._is_first:
            self._usage.reused_tokens += cached
            self._stats.reused_tokens += cached
        self._usage.evaluated_tokens += prompt
        self._stats.evaluated_tokens += prompt
        self._stats.prefill_tokens += prompt
        self._counted = now

    def close(self) -> None:
        """The seconds: the server's, or if it told none those that passed here."""
        over = time.perf_counter()
        first = self._first or over
        self._stats.prefill_seconds += self._counted.prompt_seconds or first - self._began
        self._stats.decode_seconds += self._counted.generated_seconds or over - first
