"""THE LOOP: a question in, events out (PROTOCOL section 4, as the official solver plays it).

A turn samples a reply until one may enter the conversation; then what it says is due: the result of its call, the next
turn, or nothing more. Limits end the research and ask for the answer, and so may a person; what gives way to keep room
is for `window` to say. Where a run stands is for `state` to say, out of the run's own events: so one that was killed
goes on from them. Nothing here knows a model's file, a socket or a screen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TypeVar

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
from venus_edge.state import State, rebuilt
from venus_edge.tools import Tools
from venus_edge.values import Answer, Malformed, Message, Reply, RunResult, Termination, ToolCall

_E = TypeVar("_E", bound=Event)
STOP = ("<tool_response>",)  # PROTOCOL 4.1
CALLS = Triggered(grammar.CALL_GRAMMAR, grammar.OPEN_CALL, (rendering.OPEN_THINK, rendering.CLOSE_THINK))
LATE_TRIES, LATE_TOKENS = 2, 4_000  # of an answer that is waited for; the longest released turn has 2,679 tokens
GREEDY_RETRY_TEMPERATURE = 0.7  # a greedy retry would write the same reply again
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
class _Run:
    """A run that is played: where it stands, when it began by the agent's clock, and the prompt's token ids."""

    state: State
    started: float
    prompt: list[int] = field(default_factory=list)

    def said(self, event: _E) -> _E:
        """The event, after it has been taken in."""
        self.state.add(event)
        return event


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
        yield from self._played(self._opening(question, 0.0), first)

    def resume(
        self, question: str, earlier: Iterable[Event], seconds: float, *first: Event
    ) -> Generator[Event, None, None]:
        """The events that follow the `earlier` ones of a run that took `seconds` up to there: turns, counters, limits,
        seeds and what was called go on. Raises OutOfOrder, before the first, where those are not a run's."""
        run = self._opening(question, seconds)
        rebuilt(run.state, earlier)
        yield from self._played(run, first)

    def _opening(self, question: str, seconds: float) -> _Run:
        return _Run(State(question, list(prompt.opening(question, self._config.today))), self._clock() - seconds)

    def _played(self, run: _Run, first: Iterable[Event]) -> Generator[Event, None, None]:
        state = run.state
        self._asked, self._answering = state.asked, state.limit is not None
        try:
            yield from first
            termination = yield from self._research(run)
        except ContextFull as error:
            yield Failed(state.begun, str(error))
            termination = "token_limit_no_answer"
        except VenusError as error:
            yield Failed(state.begun, str(error))
            termination = "llm_error"
        except KeyboardInterrupt:
            yield Finished(self._result(run, "interrupted"))
            raise
        yield Finished(self._result(run, termination))

    def _research(self, run: _Run) -> Generator[Event, None, Termination]:
        """Does what is due until nothing is."""
        state = run.state
        while (termination := state.termination) is None:
            if state.call is not None:
                yield from self._call(run, state.call)
            elif state.limit is None and (limit := (yield from self._limit(run))) is not None:
                yield self._last_turn(run, limit)
            else:
                yield from self._turn(run)
        return termination

    def _limit(self, run: _Run) -> Generator[Event, None, LimitKind | None]:
        """The limit that is reached now, if any; brings the prompt's token ids up to date, and folds what can be."""
        run.prompt = self._tokens(run.state.messages)
        if self._asked:
            return "asked"
        if run.state.done == 0:  # before the first turn there is nothing to answer from
            return None
        limit = self._passed(run)
        if limit == "tokens" and (yield from self._fold(run)):
            limit = self._passed(run)
        return limit

    def _passed(self, run: _Run) -> LimitKind | None:
        return self._config.limits.passed(run.state.done, self._seconds(run), len(run.prompt), self._engine.n_ctx)

    def _fold(self, run: _Run) -> Generator[Event, None, bool]:
        """Whether the oldest tool replies gave way, so that there is room again."""
        limits, n_ctx, before, state = self._config.limits, self._engine.n_ctx, run.prompt, run.state
        if window.policy(self._config.context_policy, n_ctx) == "answer":
            return False
        if len(before) > limits.tokens or state.done >= limits.turns:  # another limit, which no fold moves
            return False
        most = n_ctx - guards.reserve(n_ctx)
        folds = window.fold(state.messages, state.standing, len(before), most, self._count)
        if not folds:
            return False
        messages = list(state.messages)
        for fold in folds:
            messages[fold.message] = prompt.tool_reply(fold.text)
        run.prompt = self._tokens(messages)
        unread = max(0, len(before) - state.seen)
        refilled = len(run.prompt) - common_prefix(before, run.prompt) - unread
        yield run.said(Folded(state.done, folds, len(before), len(run.prompt), max(0, refilled)))
        return True

    def _last_turn(self, run: _Run, limit: LimitKind) -> LimitReached:
        """One more turn will be sampled, which is told to answer.

        The last message gives way to the limit's (PROTOCOL 4.7); to that of a person, who did not ask for room, it does
        not. Where too little room is left for the answer, the messages before it go too, the newest first; system
        prompt and question never."""
        with self._lock:
            self._answering = True
        state, before = run.state, len(run.prompt)
        gone = 1 if len(state.messages) > 2 and limit != "asked" else 0
        while True:
            told = state.told(limit, gone)
            run.prompt = self._tokens(told)
            if len(told) == 3 or self._room(run, final=True):
                return run.said(LimitReached(state.begun, limit, gone, before))
            gone += 1

    def _turn(self, run: _Run) -> Generator[Event, None, None]:
        """The turn's reply enters the conversation, unless the turn is cut in its middle.

        Up to `limits.tries` attempts (PROTOCOL 4.4 to 4.6). The last one stands whatever it is, save that of a reply
        that ran in circles only the beginning is kept.
        """
        state, turn = run.state, run.state.done + 1
        final, first = state.limit is not None, state.attempts + 1
        run.prompt = run.prompt or self._tokens(state.messages)
        tries = self._config.limits.tries
        if final and self._awaited(run):
            tries = min(LATE_TRIES, tries)
        for number in range(first, max(first, tries) + 1):
            yield run.said(AttemptStarted(turn, number, len(run.prompt), self._engine.n_ctx))
            attempt = yield from self._sample(run, number, final)
            if attempt.cut is not None:
                yield run.said(self._dropped(turn, number, CUT[attempt.cut], attempt))
                return
            reply = self._parsed(attempt, final)
            objection = self._objection(state, attempt, reply, final)
            if objection is None or number >= tries:
                yield run.said(Replied(turn, reply, attempt.usage, attempt.text, attempt.finish))
                return
            yield run.said(self._dropped(turn, number, objection, attempt))

    @staticmethod
    def _dropped(turn: int, number: int, why: tuple[DropReason, str], attempt: _Attempt) -> AttemptDropped:
        return AttemptDropped(turn, number, *why, attempt.text, attempt.finish, attempt.usage)

    def _sample(self, run: _Run, number: int, final: bool) -> Generator[Event, None, _Attempt]:
        triggered = CALLS if self._config.grammar else None
        request = Request(run.prompt, self._sampling(run, number, final), STOP, triggered=triggered)
        generation = self._engine.generate(request)
        watch, classifier = guards.LoopWatch(), stream.Splitter()
        parts: list[str] = []
        looped, cut = False, None
        if self._cut(run, final):  # asked for since the last look: what was cancelled then has been forgotten
            generation.close()
        try:
            for text in generation:
                parts.append(text)
                yield from (Streamed(kind, shown) for kind, shown in classifier.feed(text))
                looped = watch.feed(text)
                cut = self._cut(run, final)
                if looped or cut:
                    break
            yield from (Streamed(kind, shown) for kind, shown in classifier.end())
        finally:
            generation.close()
        whole = "".join(parts)
        looped = looped or guards.find_loop(whole) is not None
        finish = generation.finish or "cancelled"
        if finish == "cancelled":
            cut = cut or self._cut(run, final)
        return _Attempt(whole, finish, generation.usage, looped, cut)

    def _cut(self, run: _Run, final: bool) -> LimitKind | None:
        """What ends the turn in its middle now, if anything; the one that is to answer goes on."""
        if final:
            return None
        return "asked" if self._asked else "time" if self._late(run) else None

    def _count(self, text: str) -> int:
        return len(self._engine.tokenize([Piece(text, Trust.OUTSIDE)]))

    def _room(self, run: _Run, final: bool) -> int:
        most = self._config.sampling.max_tokens
        if final and self._awaited(run):
            most = min(most, LATE_TOKENS)
        return guards.room(self._engine.n_ctx, len(run.prompt), most, final)

    def _sampling(self, run: _Run, number: int, final: bool) -> Sampling:
        """This attempt's sampling: its own seed, and no more tokens than the window has room for."""
        given, n_ctx = self._config.sampling, self._engine.n_ctx
        room = self._room(run, final)
        if not room:
            raise ContextFull(
                f"the prompt takes {len(run.prompt):,} of the window's {n_ctx:,} tokens: no room is left to think "
                "and answer: shorten the question, or open a larger window with --context"
            )
        greedy_retry = number > 1 and given.temperature == 0
        return replace(
            given,
            max_tokens=room,
            seed=turn_seed(given.seed, run.state.begun, number),
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

    @staticmethod
    def _objection(state: State, attempt: _Attempt, reply: Reply, final: bool) -> tuple[DropReason, str] | None:
        """Why the reply may not enter the conversation, if there is a reason."""
        match reply.action:
            case Malformed(reason, cut):
                return ("repetition" if attempt.looped else "output limit" if cut else "malformed"), reason
            case Answer():
                return None
            case call if final:
                return "malformed", "called a tool where the answer was asked for"
            case call if guards.is_repeated(call, state.standing.values()):
                return "repeated call", "the same call with the same arguments as before"
        return None

    def _call(self, run: _Run, call: ToolCall) -> Generator[Event, None, None]:
        turn = run.state.done
        yield run.said(ToolCalled(turn, call))
        began = self._clock()
        result = self._tools.call(call, run.state.question)
        yield run.said(ToolReturned(turn, call, result, self._clock() - began))

    def _tokens(self, messages: list[Message], asking: bool = True) -> list[int]:
        """The conversation, every turn as it was written: so it extends what the engine's cache holds, also where the
        white space around a think tag is not the template's (in the released RL runs it is)."""
        pieces = rendering.render(messages, self._config.template, asking, as_generated=True)
        return self._engine.tokenize(pieces)

    def _awaited(self, run: _Run) -> bool:
        """Whether somebody waits for the answer: it gets fewer tries and tokens."""
        return self._asked or self._late(run)

    def _late(self, run: _Run) -> bool:
        return self._seconds(run) >= self._config.limits.seconds

    def _seconds(self, run: _Run) -> float:
        return self._clock() - run.started

    def _result(self, run: _Run, termination: Termination) -> RunResult:
        state = run.state
        answer = state.answer or Answer("")
        return RunResult(
            question=state.question,
            messages=tuple(state.messages),
            prediction=answer.text,
            termination=termination,
            turns=state.begun,
            parse_error_count=state.parse_errors,
            tool_call_count=state.tool_calls,
            dedup_count=state.dedups,
            final_token_count=len(self._tokens(state.messages, asking=False)),
            elapsed_seconds=self._seconds(run),
            sources=tuple(state.sources.values()),
            answer_cut=answer.cut,
            fold_count=len(state.folded),
            folded_reply_count=sum(len(folded.folds) for folded in state.folded),
            refilled_token_count=sum(folded.refilled for folded in state.folded),
        )
