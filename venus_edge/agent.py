"""THE LOOP: a question in, events out (PROTOCOL section 4, as the official solver plays it).

A turn samples a reply until one may enter the conversation, then does what it says: answers, calls a tool, or is told
that it was malformed. Limits end the research and ask for the answer, and so may a person; what gives way to keep room
is for `window` to say. Nothing here knows a model's file, a socket or a screen; what a run has said is in its events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import date

from venus_edge import guards, window
from venus_edge.engine import Engine, Finish, Request, Sampling, Triggered, Usage
from venus_edge.engine.lookup import common_prefix
from venus_edge.engine.sampling import turn_seed
from venus_edge.errors import ContextFull, VenusError
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    DropReason,
    Event,
    Failed,
    Finished,
    Folded,
    LimitKind,
    LimitReached,
    Replied,
    Streamed,
    ToolCalled,
    ToolReturned,
)
from venus_edge.protocol import Piece, Trust, grammar, parse, prompt, rendering, stream
from venus_edge.tools import Tools
from venus_edge.values import Answer, Malformed, Message, Reply, RunResult, Source, Termination, ToolCall

STOP = ("<tool_response>",)  # PROTOCOL 4.1
CALLS = Triggered(grammar.CALL_GRAMMAR, grammar.OPEN_CALL, (rendering.OPEN_THINK, rendering.CLOSE_THINK))
LATE_TRIES, LATE_TOKENS = 2, 4_000  # of an answer that is waited for; the longest released turn has 2,679 tokens
GREEDY_RETRY_TEMPERATURE = 0.7  # a greedy retry would write the same reply again
FORCED: dict[LimitKind, str] = {
    "tokens": prompt.TOKEN_LIMIT_TEXT,
    "turns": prompt.TURN_LIMIT_TEXT,
    "time": prompt.TIME_LIMIT_TEXT,
    "asked": prompt.TURN_LIMIT_TEXT,  # of the trained ones the one that is true: no more calls
}
ENDED: dict[LimitKind, tuple[Termination, Termination]] = {  # with an answer, without one (PROTOCOL 4.8)
    "tokens": ("answered_token_limit", "token_limit_no_answer"),
    "turns": ("answered_max_steps", "max_steps"),
    "time": ("timeout", "timeout"),
    "asked": ("answered_on_request", "no_answer_on_request"),
}
CUT: dict[LimitKind, tuple[DropReason, str]] = {  # what ends a turn in its middle
    "time": ("time limit", "the time ran out over it"),
    "asked": ("answer now", "the answer was asked for"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What a run is played by. `today` is the date the model is told; `template` "" is the packaged one; `grammar`
    binds what the model writes in a call to what a call is; `context_policy` None is the window's own (`window`)."""

    today: date
    sampling: Sampling = field(default_factory=Sampling)
    limits: guards.Limits = field(default_factory=guards.Limits)
    template: str = ""
    grammar: bool = True
    context_policy: window.Policy | None = None


@dataclass(slots=True)
class _State:
    """What a run keeps while it goes on. `standing`: the calls whose replies are in the conversation whole, by the
    reply's place; `seen`: how many tokens of the prompt the model has evaluated."""

    question: str
    messages: list[Message]
    started: float
    prompt: list[int] = field(default_factory=list)
    seen: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    standing: dict[int, ToolCall] = field(default_factory=dict)
    folded: list[Folded] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    answer: Answer = field(default_factory=lambda: Answer(""))
    turns: int = 0
    parse_errors: int = 0
    dedups: int = 0


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One sampled reply, before anybody has judged it. `cut`: what ended the turn while it was written."""

    text: str
    finish: Finish
    usage: Usage
    looped: bool = False
    cut: LimitKind | None = None


class Agent:
    """Plays runs on one engine with one set of tools. `clock` gives seconds and only ever grows."""

    def __init__(
        self, engine: Engine, tools: Tools, config: Config, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._tools = tools
        self._config = config
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may come in where this thread holds it already
        self._asked = self._answering = False

    def answer_now(self) -> None:
        """Ends the turn in hand and asks for the answer. From any thread or signal handler, while a run goes on; once
        the answer is being written it does nothing."""
        with self._lock:
            if not self._answering:
                self._asked = True
                self._engine.cancel()

    def run(self, question: str, *first: Event) -> Generator[Event, None, None]:
        """The events of one run, those given as `first` before its own; the last is `Finished`.

        KeyboardInterrupt, raised below or thrown in, gives a `Finished` too, and is raised again.
        """
        state = _State(question, list(prompt.opening(question, self._config.today)), self._clock())
        self._asked = self._answering = False
        try:
            yield from first
            termination = yield from self._research(state)
        except ContextFull as error:
            yield Failed(state.turns, str(error))
            termination = "token_limit_no_answer"
        except VenusError as error:
            yield Failed(state.turns, str(error))
            termination = "llm_error"
        except KeyboardInterrupt:
            yield Finished(self._result(state, "interrupted"))
            raise
        yield Finished(self._result(state, termination))

    def _research(self, state: _State) -> Generator[Event, None, Termination]:
        while (limit := (yield from self._limit(state))) is None:
            state.turns += 1
            reply = yield from self._reply(state)
            if reply is None:  # the turn was cut in its middle
                continue
            match reply.action:
                case Answer() as answer:
                    state.answer = answer
                    return "answered"
                case Malformed():
                    state.messages.append(prompt.tool_reply(prompt.MALFORMED_TEXT))
                case call:
                    yield from self._call(state, call)
        return (yield from self._last_answer(state, limit))

    def _limit(self, state: _State) -> Generator[Event, None, LimitKind | None]:
        """The limit that is reached now, if any; brings the prompt's token ids up to date, and folds what can be."""
        self._render(state)
        if self._asked:
            return "asked"
        if state.turns == 0:  # before the first turn there is nothing to answer from
            return None
        limit = self._passed(state)
        if limit == "tokens" and (yield from self._fold(state)):
            limit = self._passed(state)
        return limit

    def _passed(self, state: _State) -> LimitKind | None:
        return self._config.limits.passed(state.turns, self._seconds(state), len(state.prompt), self._engine.n_ctx)

    def _fold(self, state: _State) -> Generator[Event, None, bool]:
        """Whether the oldest tool replies gave way, so that there is room again."""
        limits, n_ctx, before = self._config.limits, self._engine.n_ctx, state.prompt
        if window.policy(self._config.context_policy, n_ctx) == "answer":
            return False
        if len(before) > limits.tokens or state.turns >= limits.turns:  # another limit, which no fold moves
            return False
        most = n_ctx - guards.reserve(n_ctx)
        folds = window.fold(state.messages, state.standing, len(before), most, self._count)
        if not folds:
            return False
        for fold in folds:
            state.messages[fold.message] = prompt.tool_reply(fold.text)
            del state.standing[fold.message]
        self._render(state)
        unread = max(0, len(before) - state.seen)
        refilled = len(state.prompt) - common_prefix(before, state.prompt) - unread
        state.folded.append(Folded(state.turns, folds, len(before), len(state.prompt), max(0, refilled)))
        yield state.folded[-1]
        return True

    def _last_answer(self, state: _State, limit: LimitKind) -> Generator[Event, None, Termination]:
        """One more turn is sampled, which is told to answer."""
        with self._lock:
            self._answering = True
        yield LimitReached(state.turns, limit)
        self._tell(state, limit)
        state.turns += 1
        reply = yield from self._reply(state, final=True)
        answered, unanswered = ENDED[limit]
        if reply and isinstance(reply.action, Answer):
            state.answer = reply.action
            return answered
        return unanswered

    def _tell(self, state: _State, limit: LimitKind) -> None:
        """The last message gives way to the limit's (PROTOCOL 4.7); to that of a person, who did not ask for room, it
        does not. Where too little room is left for the answer, the messages before it go too, the newest first; system
        prompt and question never."""
        if len(state.messages) > 2 and limit != "asked":
            state.messages.pop()
        told = prompt.tool_reply(FORCED[limit])
        while True:
            state.messages.append(told)
            self._render(state)
            if len(state.messages) == 3 or self._room(state, final=True):
                return
            del state.messages[-2:]

    def _reply(self, state: _State, final: bool = False) -> Generator[Event, None, Reply | None]:
        """The turn's reply, which is now in the conversation; None if the turn was cut in its middle.

        Up to `limits.tries` attempts (PROTOCOL 4.4 to 4.6). The last one stands whatever it is, save that of a reply
        that ran in circles only the beginning is kept.
        """
        tries = self._config.limits.tries
        if final and self._awaited(state):
            tries = min(LATE_TRIES, tries)
        for number in range(1, tries + 1):
            yield AttemptStarted(state.turns, number, len(state.prompt), self._engine.n_ctx)
            attempt = yield from self._sample(state, number, final)
            if attempt.cut is not None:
                yield AttemptDropped(state.turns, number, *CUT[attempt.cut], attempt.text)
                return None
            reply = self._parsed(attempt, final)
            objection = self._objection(state, attempt, reply, final)
            if objection is None or number == tries:
                state.messages.append(Message("assistant", reply.text))
                state.seen = attempt.usage.reused_tokens + attempt.usage.evaluated_tokens
                yield Replied(state.turns, reply, attempt.usage)
                return reply
            yield AttemptDropped(state.turns, number, *objection, attempt.text)
        raise AssertionError("a turn has at least one try")

    def _sample(self, state: _State, number: int, final: bool) -> Generator[Event, None, _Attempt]:
        triggered = CALLS if self._config.grammar else None
        request = Request(state.prompt, self._sampling(state, number, final), STOP, triggered=triggered)
        generation = self._engine.generate(request)
        watch, classifier = guards.LoopWatch(), stream.Splitter()
        parts: list[str] = []
        looped, cut = False, None
        if self._cut(state, final):  # asked for since the last look: what was cancelled then has been forgotten
            generation.close()
        try:
            for text in generation:
                parts.append(text)
                yield from (Streamed(kind, shown) for kind, shown in classifier.feed(text))
                looped = watch.feed(text)
                cut = self._cut(state, final)
                if looped or cut:
                    break
            yield from (Streamed(kind, shown) for kind, shown in classifier.end())
        finally:
            generation.close()
        whole = "".join(parts)
        looped = looped or guards.find_loop(whole) is not None
        finish = generation.finish or "cancelled"
        if finish == "cancelled":
            cut = cut or self._cut(state, final)
        return _Attempt(whole, finish, generation.usage, looped, cut)

    def _cut(self, state: _State, final: bool) -> LimitKind | None:
        """What ends the turn in its middle now, if anything; the one that is to answer goes on."""
        if final:
            return None
        return "asked" if self._asked else "time" if self._late(state) else None

    def _count(self, text: str) -> int:
        return len(self._engine.tokenize([Piece(text, Trust.OUTSIDE)]))

    def _room(self, state: _State, final: bool) -> int:
        most = self._config.sampling.max_tokens
        if final and self._awaited(state):
            most = min(most, LATE_TOKENS)
        return guards.room(self._engine.n_ctx, len(state.prompt), most, final)

    def _sampling(self, state: _State, number: int, final: bool) -> Sampling:
        """This attempt's sampling: its own seed, and no more tokens than the window has room for."""
        given, n_ctx = self._config.sampling, self._engine.n_ctx
        room = self._room(state, final)
        if not room:
            raise ContextFull(
                f"the prompt takes {len(state.prompt):,} of the window's {n_ctx:,} tokens: no room is left to think "
                "and answer: shorten the question, or open a larger window with --context"
            )
        greedy_retry = number > 1 and given.temperature == 0
        return replace(
            given,
            max_tokens=room,
            seed=turn_seed(given.seed, state.turns, number),
            temperature=GREEDY_RETRY_TEMPERATURE if greedy_retry else given.temperature,
        )

    @staticmethod
    def _parsed(attempt: _Attempt, final: bool) -> Reply:
        """The reply; of one that runs in circles what came before: a whole call or answer, or nothing that counts."""
        if not attempt.looped:
            return parse.parse(attempt.text, attempt.finish, final)
        kept = guards.before_loop(attempt.text)
        reply = parse.parse(kept, "length", final)
        if isinstance(reply.action, Malformed) or (isinstance(reply.action, Answer) and reply.action.cut):
            return parse.abandoned(kept, "the reply runs in circles")
        return reply

    def _objection(self, state: _State, attempt: _Attempt, reply: Reply, final: bool) -> tuple[DropReason, str] | None:
        """Why the reply may not enter the conversation, if there is a reason; counts what it finds."""
        match reply.action:
            case Malformed(reason, cut):
                state.parse_errors += 1
                return ("repetition" if attempt.looped else "output limit" if cut else "malformed"), reason
            case Answer():
                return None
            case call if final:
                state.parse_errors += 1
                return "malformed", "called a tool where the answer was asked for"
            case call if guards.is_repeated(call, state.standing.values()):
                state.dedups += 1
                return "repeated call", "the same call with the same arguments as before"
        return None

    def _call(self, state: _State, call: ToolCall) -> Generator[Event, None, None]:
        yield ToolCalled(state.turns, call)
        state.calls.append(call)
        began = self._clock()
        result = self._tools.call(call, state.question)
        state.standing[len(state.messages)] = call
        state.messages.append(prompt.tool_reply(result.text))
        state.sources.update({source.url: source for source in result.sources})
        yield ToolReturned(state.turns, call, result, self._clock() - began)

    def _render(self, state: _State) -> None:
        state.prompt = self._tokens(state, asking=True)

    def _tokens(self, state: _State, asking: bool) -> list[int]:
        """The conversation, every turn as it was written: so it extends what the engine's cache holds, also where the
        white space around a think tag is not the template's (in the released RL runs it is)."""
        pieces = rendering.render(state.messages, self._config.template, asking, as_generated=True)
        return self._engine.tokenize(pieces)

    def _awaited(self, state: _State) -> bool:
        """Whether somebody waits for the answer: it gets fewer tries and tokens."""
        return self._asked or self._late(state)

    def _late(self, state: _State) -> bool:
        return self._seconds(state) >= self._config.limits.seconds

    def _seconds(self, state: _State) -> float:
        return self._clock() - state.started

    def _result(self, state: _State, termination: Termination) -> RunResult:
        return RunResult(
            question=state.question,
            messages=tuple(state.messages),
            prediction=state.answer.text,
            termination=termination,
            turns=state.turns,
            parse_error_count=state.parse_errors,
            tool_call_count=len(state.calls),
            dedup_count=state.dedups,
            final_token_count=len(self._tokens(state, asking=False)),
            elapsed_seconds=self._seconds(state),
            sources=tuple(state.sources.values()),
            answer_cut=state.answer.cut,
            fold_count=len(state.folded),
            folded_reply_count=sum(len(folded.folds) for folded in state.folded),
            refilled_token_count=sum(folded.refilled for folded in state.folded),
        )
