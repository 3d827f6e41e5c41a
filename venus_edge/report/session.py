"""RECORDS -> REPORT: what the lines of a journal come to. Records of an older or a newer version lose what is unknown.

In: the records, header first, as JSON gives them; a run that did not finish has a report too. Out: a `Report`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from venus_edge.citations import Text
from venus_edge.citations.cite import cite
from venus_edge.report import Report, Turn

Record = dict[str, Any]

_SETTINGS_APART = ("event", "question", "model", "session")  # of RunStarted: they have a place of their own
_DROPPED = "attempt {} dropped ({}): {}"


def report(records: Iterable[Record]) -> Report:
    """The report of a session."""
    kept = [record for record in records if isinstance(record, dict)]
    header = next((record for record in kept if "venus_edge" in record), {})
    started, finished = _last(kept, "RunStarted"), _last(kept, "Finished")
    result = _dict(finished.get("result"))
    question, answer = _str(started.get("question")), _str(result.get("prediction"))
    texts = tuple(_texts(kept))
    turns = tuple(_turns(kept))
    return Report(
        question=question,
        answer=answer,
        state=_str(result.get("termination")) or "unfinished",
        created=_str(header.get("created")),
        model=_str(started.get("model")),
        citations=cite(answer, texts, question),
        texts=texts,
        turns=turns,
        counts=tuple(_counts(kept, result, turns)),
        settings=tuple(_settings(header, started)),
        is_cut=bool(result.get("answer_cut")),
        failure=_str(_last(kept, "Failed").get("error")),
    )


def _last(records: list[Record], event: str) -> Record:
    return next((record for record in reversed(records) if record.get("event") == event), {})


# -- what was read ----------------------------------------------------------------------------------------------------


def _texts(records: list[Record]) -> list[Text]:
    """Every page once, quotes of pages that were not kept, then the lines of search results."""
    found: dict[Text, None] = {}
    for record in records:
        if record.get("event") == "ToolReturned":
            found |= dict.fromkeys(_texts_of(_dict(record.get("result"))))
    return sorted(found, key=lambda text: text.origin == "snippet")


def _texts_of(result: Record) -> Iterator[Text]:
    for reading in _dicts(result.get("readings")):
        page, evidence = _dict(reading.get("page")), _str(_dict(reading.get("outcome")).get("evidence"))
        if page.get("text"):
            yield Text(_str(page.get("url")), _str(page.get("title")), _str(page["text"]))
        elif evidence:
            yield Text(_str(reading.get("url")), _str(page.get("title")), evidence, "evidence")
    for found in _dicts(result.get("found")):
        for hit in _dicts(found.get("hits")):
            if _str(hit.get("snippet")).strip():
                yield Text(_str(hit.get("url")), _str(hit.get("title")), _str(hit["snippet"]), "snippet")


# -- the turns --------------------------------------------------------------------------------------------------------


def _turns(records: list[Record]) -> Iterator[Turn]:
    of_turn: dict[int, list[Record]] = {}
    for record in records:
        if isinstance(number := record.get("turn"), int):
            of_turn.setdefault(number, []).append(record)
    for number, found in sorted(of_turn.items()):
        yield _turn(number, found)


def _turn(number: int, records: list[Record]) -> Turn:
    replied, returned = _last(records, "Replied"), _last(records, "ToolReturned")
    reply, usage = _dict(replied.get("reply")), _dict(replied.get("usage"))
    return Turn(
        number=number,
        thought=_str(reply.get("thought")),
        action=_action(_dict(reply.get("action"))),
        returned=_returned(_dict(returned.get("result"))),
        notes=tuple(note for record in records if (note := _note(record))),
        generated_tokens=_int(usage.get("generated_tokens")),
        seconds=_float(usage.get("seconds")) + _float(returned.get("seconds")),
    )


def _action(action: Record) -> str:
    """What a reply does, in one line."""
    if "queries" in action:
        return "search: " + " | ".join(_strs(action["queries"]))
    if "urls" in action:
        return f"visit: {' '.join(_strs(action['urls']))}  for: {_str(action.get('goal'))}"
    if "text" in action:
        return "answer"
    return f"malformed: {_str(action.get('reason'))}" if action else ""


def _returned(result: Record) -> str:
    """What came back: search results as a list for people, anything else as the model got it."""
    lines = [line for found in _dicts(result.get("found")) for line in _found_lines(found)]
    return "\n".join(lines) or _str(result.get("text"))


def _found_lines(found: Record) -> Iterator[str]:
    failure = _dict(found.get("failure"))
    if failure:
        yield f"{_str(failure.get('trouble'))}: {_str(failure.get('detail'))}"
    for number, hit in enumerate(_dicts(found.get("hits")), 1):
        yield f"{number}. {_str(hit.get('title'))}\n   {_str(hit.get('url'))}\n   {_str(hit.get('snippet'))}"


def _note(record: Record) -> str:
    match record.get("event"):
        case "AttemptDropped":
            return _DROPPED.format(record.get("attempt"), _str(record.get("reason")), _str(record.get("detail")))
        case "Folded":
            calls = (_action(_dict(fold.get("call"))) for fold in _dicts(record.get("folds")))
            again = f"{_int(record.get('refilled')):,} tokens read again"
            return f"window nearly full, replies folded to one line each ({again}): " + "; ".join(calls)
        case "LimitReached":
            return f"limit reached ({_str(record.get('limit'))}): the answer was asked for"
        case "Failed":
            return f"failed: {_str(record.get('error'))}"
    return ""


# -- counts and settings ----------------------------------------------------------------------------------------------


def _counts(records: list[Record], result: Record, turns: tuple[Turn, ...]) -> Iterator[tuple[str, str]]:
    """What the result counted; of a run that did not finish, what its records say."""
    usages = [_dict(record.get("usage")) for record in records if record.get("event") == "Replied"]
    calls = sum(record.get("event") == "ToolReturned" for record in records)
    prompts = [_int(usage.get("prompt_tokens")) + _int(usage.get("generated_tokens")) for usage in usages]
    yield "turns", f"{_int(result.get('turns')) or len(turns):,}"
    yield "tool calls", f"{_int(result.get('tool_call_count')) or calls:,}"
    yield "malformed replies", f"{_int(result.get('parse_error_count')):,}"
    yield "repeated calls", f"{_int(result.get('dedup_count')):,}"
    yield "tokens of conversation", f"{_int(result.get('final_token_count')) or max(prompts, default=0):,}"
    yield "tokens generated", f"{sum(_int(usage.get('generated_tokens')) for usage in usages):,}"
    yield "tokens evaluated", f"{sum(_int(usage.get('evaluated_tokens')) for usage in usages):,}"
    if folds := [record for record in records if record.get("event") == "Folded"]:
        yield "tokens read again after folding", f"{sum(_int(fold.get('refilled')) for fold in folds):,}"
    yield "tokens reused", f"{sum(_int(usage.get('reused_tokens')) for usage in usages):,}"
    seconds = _float(result.get("elapsed_seconds")) or sum(turn.seconds for turn in turns)
    yield "time", duration(seconds)
    if ledger := _last(records, "Ledger"):
        yield "left this machine", "; ".join(map(_traffic, _dicts(ledger.get("hosts")))) or "nothing: no connection"


def _traffic(host: Record) -> str:
    """What went to one host and came from it."""
    sent, received = _int(host.get("sent")), _int(host.get("received"))
    return f"{_str(host.get('host'))} ({_int(host.get('connections'))}): {sent:,} bytes up, {received:,} down"


def duration(seconds: float) -> str:
    """2.4 s, 12 min 5 s, 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _settings(header: Record, started: Record) -> Iterator[tuple[str, str]]:
    """Every setting that the journal holds, whatever it is called."""
    yield from _flat({key: value for key, value in started.items() if key not in _SETTINGS_APART})
    if header:
        yield "venus-edge", _str(header.get("venus_edge"))


def _flat(values: Record, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- JSON of others, read as what it should be ------------------------------------------------------------------------


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _dict(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Record]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _strs(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
