"""WHAT A RUN IS PLAYED BY, AS ITS SESSION RECORDS IT; and back again, for a run that goes on or is played anew.

In: settings, the model's entry and file, the loop's configuration. Out: plain names and values in three groups:
`model_file` and `played_by`, which must be the same for a run to go on, and `asked`, what the person set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from venus_edge import config, modelfiles
from venus_edge.agent import Config
from venus_edge.engine import Engine, Sampling, snapshot
from venus_edge.errors import StorageError
from venus_edge.events import RunStarted
from venus_edge.guards import Limits
from venus_edge.registry import ModelSpec
from venus_edge.sessions.reading import Session
from venus_edge.settings import Settings

_SMALL = 100_000_000  # bytes that are hashed in a moment
_HELD = ("model_file.bytes", "model_file.content", "model_file.server", "dialect", "n_ctx", "seed", "played_by.")


def recorded(
    settings: Settings, spec: ModelSpec, path: Path | None, engine: Engine, played_by: Config
) -> dict[str, Any]:
    """The settings of `RunStarted`. `path` is the model's file, None where a server runs the model."""
    return {
        "model_file": _file(spec, path) if path is not None else _server(settings),
        "played_by": {
            "sampling": asdict(played_by.sampling),
            "limits": asdict(played_by.limits),
            "context_policy": played_by.context_policy or "by the window",
            "grammar": played_by.grammar,
            "date": played_by.today.isoformat(),
            "template": sha256(played_by.template.encode()).hexdigest()[:16],
            "reader": spec.reader,
            "results": spec.results,
            "kv_type": _kv(engine),
        },
        "asked": config.written(_absolute(settings, spec)),
    }


def _file(spec: ModelSpec, path: Path) -> dict[str, Any]:
    """Name, size and hashes: `content` of some places of the file, `sha256` of all where it is known or soon had."""
    size = path.stat().st_size
    whole = spec.sha256 or modelfiles.listed_sha256(path) or (modelfiles.sha256(path) if size < _SMALL else "")
    return {"name": path.name, "bytes": size, "content": snapshot.content(path).hex()[:32], "sha256": whole}


def _server(settings: Settings) -> dict[str, Any]:
    return {"server": config.written(Settings(settings.directories, engine=settings.engine)).get("engine", "")}


def _kv(engine: Engine) -> str:
    options = getattr(engine, "options", None)
    return f"{options.type_k},{options.type_v}" if options is not None else ""


def _absolute(settings: Settings, spec: ModelSpec) -> Settings:
    """The same from every directory."""
    model = spec.file if spec.file and spec.name != settings.model else settings.model
    return replace(settings, model=model, corpus=tuple(_place(path, settings) for path in settings.corpus))


def _place(path: Path, settings: Settings) -> Path:
    """A folder or file that is there, whole; the name of a corpus as it is."""
    is_name = len(path.parts) == 1 and (settings.directories.corpora / f"{path}.sqlite").is_file()
    return path if is_name or not path.expanduser().exists() else path.expanduser().absolute()


# -- and back ---------------------------------------------------------------------------------------------------------


def settings_of(session: Session) -> Settings:
    """The settings that the session's run began with, its seed, window and date among them. Raises UsageError for what
    this version does not know, StorageError for a session that never began."""
    started = session.started
    asked, played_by = _group(started, "asked"), _group(started, "played_by")
    found = config.again(asked)
    return replace(
        found,
        model=found.model or started.model,
        seed=started.seed,
        n_ctx=found.n_ctx if "server" in _group(started, "model_file") else started.n_ctx,
        kv_type=str(played_by.get("kv_type", "")) or found.kv_type,
        date=str(played_by.get("date", "")) or found.date,
    )


def config_of(session: Session) -> Config:
    """What the session's run was played by, with the packaged template. Raises StorageError where that is not there."""
    played_by = _group(session.started, "played_by")
    policy = played_by.get("context_policy")
    try:
        return Config(
            today_of(session),
            Sampling(**played_by["sampling"]),
            Limits(**played_by["limits"]),
            grammar=bool(played_by["grammar"]),
            context_policy=policy if policy in ("answer", "fold") else None,
        )
    except (KeyError, TypeError) as error:
        raise StorageError(f"session {session.path.stem} does not say what it was played by: {error}") from error


def today_of(session: Session) -> date:
    """The date that the session's model was told."""
    try:
        return date.fromisoformat(str(_group(session.started, "played_by").get("date")))
    except ValueError:
        return date.today()


def differences(then: RunStarted, now: RunStarted) -> str:
    """What a run that goes on would be played by otherwise than it began, in one line; "" if nothing."""
    before, after = dict(_flat(then)), dict(_flat(now))
    names = [name for name in {**before, **after} if name.startswith(_HELD) and before.get(name) != after.get(name)]
    return "; ".join(f"{name.split('.', 1)[-1]} was {before.get(name)}, is {after.get(name)}" for name in names)


def _group(started: RunStarted, name: str) -> Mapping[str, Any]:
    group = started.settings.get(name)
    return group if isinstance(group, Mapping) else {}


def _flat(started: RunStarted) -> Iterator[tuple[str, Any]]:
    yield from (("dialect", started.dialect), ("n_ctx", started.n_ctx), ("seed", started.seed))
    yield from _names(started.settings, "")


def _names(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
