"""THE LOOP: a question in, events out (PROTOCOL section 4, as the official solver plays it).

A turn samples a reply until one may enter the conversation, then does what it says: answers, calls a tool, or is told
that it was malformed. Limits end the research and ask for the answer. Nothing here knows a model's file, a socket or a
screen; what a run has said is in its events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import date

from venus_edge import guards
from venus_edge.engine import Engine, Finish, Request, Sampling, Triggered, Usage
from venus_edge.engine.sampling import turn_seed
from venus_edge.errors import ContextFull, VenusError
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    DropReason,
    Event,
    Failed,
    Finished,
    LimitKind,
    LimitReached,
    Replied,
    Streamed,
    ToolCalled,
    ToolReturned,
)
from venus_edge.protocol import grammar, parse, prompt, rendering, stream
from venus_edge.tools import Tools
from venus_edge.values import Answer, Malformed, Message, Reply, RunResult, Source, Termination, ToolCall

STOP = ("<tool_response>",)  # PROTOCOL 4.1
CALLS = Triggered(grammar.CALL_GRAMMAR, grammar.OPEN_CALL, (rendering.OPEN_THINK, rendering.CLOSE_THINK))
LATE_TRIES, LATE_TOKENS = 2, 4_000  # of the answer after the time limit; the longest released turn has 2,679 tokens
GREEDY_RETRY_TEMPERATURE = 0.7  # a greedy retry would write the same reply again
FORCED: dict[LimitKind, str] = {
    "tokens": prompt.TOKEN_LIMIT_TEXT,
    "turns": prompt.TURN_LIMIT_TEXT,
    "time": prompt.TIME_LIMIT_TEXT,
}
ENDED: dict[LimitKind, tuple[Termination, Termination]] = {  # with an answer, without one (PROTOCOL 4.8)
    "tokens": ("answered_token_limit", "token_limit_no_answer"),
    "turns": ("answered_max_steps", "max_steps"),
    "time": ("timeout", "timeout"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What a run is played by. `today` is the date the model is told; `template` "" is the packaged one; `grammar`
    binds what the model writes in a call to what a call is."""

    today: date
    sampling: Sampling = field(default_factory=Sampling)
    limits: guards.Limits = field(default_factory=guards.Limits)
    template: str = ""
    grammar: bool = True


@dataclass(slots=True)
class _State:
    """What a run keeps while it goes on."""

    question: str
    messages: list[Message]
    started: float
    prompt: list[int] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    answer: Answer = field(default_factory=lambda: Answer(""))
    turns: int = 0
    parse_errors: int = 0
    dedups: int = 0


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One sampled reply, before anybody has judged it. `late`: the time limit passed while it was written."""

    text: str
    finish: Finish
    usage: Usage
    looped: bool = False
    late: bool = False


class Agent:
    """Plays runs on one engine with one set of tools. `clock` gives seconds and only ever grows."""

    def __init__(
        self, engine: Engine, tools: Tools, config: Config, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._tools = tools
        self._config = config
        self._clock = clock

    def run(self, question: str, *first: Event) -> Generator[Event, None, None]:
        """The events of one run, those given as `first` before its own; the last is `Finished`.

        KeyboardInterrupt, raised below or thrown in, gives a `Finished` too, and is raised again.
        """
        state = _State(question, list(prompt.opening(question, self._config.today)), self._clock())
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
        while (limit := self._limit(state)) is None:
            state.turns += 1
            reply = yield from self._reply(state)
            if reply is None:  # out of time in the middle of the turn
                continue
            match reply.action:
                case Answer() as answer:
                    state.answer = answer
                    return "answered"
                case Malformed():
                    state.messages.append(prompt.tool_reply(prompt.MALFORMED_TEXT))
                case call:
                    yield from self._call(state, call)
        yield LimitReached(state.turns, limit)
        return (yield from self._last_answer(state, limit))

    def _limit(self, state: _State) -> LimitKind | None:
        """The limit that is reached now, if any; brings the prompt's token ids up to date."""
        self._render(state)
        if state.turns == 0:  # before the first turn there is nothing to answer from
            return None
        return self._config.limits.passed(state.turns, self._seconds(state), len(state.prompt), self._engine.n_ctx)

    def _last_answer(self, state: _State, limit: LimitKind) -> Generator[Event, None, Termination]:
        """The last message gives way to the limit's, and one more turn is sampled (PROTOCOL 4.7)."""
        if len(state.messages) > 2:  # the question itself never gives way
            state.messages.pop()
        state.messages.append(prompt.tool_reply(FORCED[limit]))
        self._render(state)
        state.turns += 1
        reply = yield from self._reply(state, final=True)
        answered, unanswered = ENDED[limit]
        if reply and isinstance(reply.action, Answer):
            state.answer = reply.action
            return answered
        return unanswered

    def _reply(self, state: _State, final: bool = False) -> Generator[Event, None, Reply | None]:
        """The turn's reply, which is now in the conversation; None if the time ran out over it.

        Up to `limits.tries` attempts (PROTOCOL 4.4 to 4.6). The last one stands whatever it is, save that of a reply
        that ran in circles only the beginning is kept.
        """
        tries = min(LATE_TRIES, self._config.limits.tries) if final and self._late(state) else self._config.limits.tries
        for number in range(1, tries + 1):
            yield AttemptStarted(state.turns, number, len(state.prompt), self._engine.n_ctx)
            attempt = yield from self._sample(state, number, final)
            if attempt.late:
                return None
            reply = self._parsed(attempt, final)
            objection = self._objection(state, attempt, reply, final)
            if objection is None or number == tries:
                state.messages.append(Message("assistant", reply.text))
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
        looped = late = False
        try:
            for text in generation:
                parts.append(text)
                yield from (Streamed(kind, shown) for kind, shown in classifier.feed(text))
                looped = watch.feed(text)
                late = not final and self._late(state)
                if looped or late:
                    break
            yield from (Streamed(kind, shown) for kind, shown in classifier.end())
        finally:
            generation.close()
        whole = "".join(parts)
        looped = looped or guards.find_loop(whole) is not None
        return _Attempt(whole, generation.finish or "cancelled", generation.usage, looped, late)

    def _sampling(self, state: _State, number: int, final: bool) -> Sampling:
        """This attempt's sampling: its own seed, and no more tokens than the window has room for."""
        given, n_ctx = self._config.sampling, self._engine.n_ctx
        most = min(given.max_tokens, LATE_TOKENS) if final and self._late(state) else given.max_tokens
        room = guards.room(n_ctx, len(state.prompt), most, final)
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
            case call if guards.is_repeated(call, state.calls):
                state.dedups += 1
                return "repeated call", "the same call with the same arguments as before"
        return None

    def _call(self, state: _State, call: ToolCall) -> Generator[Event, None, None]:
        yield ToolCalled(state.turns, call)
        state.calls.append(call)
        began = self._clock()
        result = self._tools.call(call, state.question)
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
        )
