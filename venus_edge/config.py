"""config.toml + VENUS_* + FLAGS -> Settings, each value with where it came from. Later ones weigh more.

In: a person's `config.toml` in the configuration directory, the environment, the flags given. Out: a Resolved.
Raises UsageError, naming file or variable, for a key that is not known (with the known ones) or a value that cannot be
meant. Nothing is read at import.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from venus_edge.errors import UsageError
from venus_edge.settings import Directories, Services, Settings, path_or_name
from venus_edge.values import KV_NAMES, DialectName, KvTypes

FILE = "config.toml"
DEFAULT, FLAG = "default", "flag"
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")

Reader = Callable[[Any, Path], Any]  # a value as written, the folder that relative paths begin from -> the setting


class _Wrong(Exception):
    """What a value should have been."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name in the file (and in `VENUS_NAME`), the field of Settings ("services.x" is one of its Services),
    how it is read, what it means. A `secret` is shown to nobody, whatever is wrong with it."""

    name: str
    field: str
    read: Reader
    meaning: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return f"VENUS_{self.name.upper()}"

    def of(self, settings: Settings) -> Any:
        """Its value in the settings."""
        return attrgetter(self.field)(settings)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings, and for every key where its value came from: `default`, a file, a variable or `flag`."""

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> list[tuple[str, Any, str]]:
        """Key, value, origin, as `config show` prints them."""
        return [(key.name, _shown(key, key.of(self.settings)), self.origins[key.name]) for key in KEYS]


# -- how values are read ----------------------------------------------------------------------------------------------


def _text(value: Any, _: Path) -> str:
    if not isinstance(value, str):
        raise _Wrong("text in quotes")
    return value


def _bare(value: Any, base: Path) -> str:
    return _text(value, base).strip()


def _one_of(*words: str) -> Reader:
    def read(value: Any, _: Path) -> str:
        if value not in words:
            raise _Wrong(f"one of {', '.join(words)}")
        return str(value)

    return read


def _whole(value: Any, _: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _Wrong("a whole number")
    try:
        return int(value)
    except ValueError:
        raise _Wrong("a whole number") from None


def _number(value: Any, _: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _Wrong("a number")
    try:
        return float(value)
    except ValueError:
        raise _Wrong("a number") from None


def _minutes(value: Any, base: Path) -> float:
    return 60 * _number(value, base)


def _switch(value: Any, _: Path) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*_YES, *_NO):
        return value.lower() in _YES
    raise _Wrong("true or false")


def _layers(value: Any, _: Path) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _Wrong("auto, all or a number")
    return str(value)


def _kv(value: Any, _: Path) -> str:
    try:
        return str(KvTypes.of(_text(value, _)))
    except ValueError:
        raise _Wrong(f"one of {', '.join(KV_NAMES)}, or two of them for K and V as q8_0,f16") from None


def _shares(value: Any, base: Path) -> tuple[float, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts:
        raise _Wrong("a share for each card, like 3,1")
    return tuple(_number(part, base) for part in parts)


def _list(value: Any, _: Path) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise _Wrong("a list of texts")


def _paths(value: Any, base: Path) -> tuple[Path, ...]:
    parts = value.split(os.pathsep) if isinstance(value, str) else _list(value, base)
    return tuple(path_or_name(part, base) for part in parts if part)


KEYS = (
    Key("model", "model", _text, "a name of `venus-edge models list`, or the path of a .gguf file"),
    Key("corpus", "corpus", _paths, "folders to search instead of the web"),
    Key("dense", "dense", _text, "embedding model (name or .gguf) by which corpora are searched too"),
    Key("dialect", "dialect", _one_of(*get_args(DialectName)), "wording of tool replies"),
    Key("context", "n_ctx", _whole, "tokens of the window"),
    Key("kv_type", "kv_type", _kv, "type of the KV cache, or of K and of V: q8_0,f16"),
    Key("gpu_layers", "gpu_layers", _layers, "layers on the GPU: auto, all or a number"),
    Key("main_gpu", "main_gpu", _whole, "the one card that gets layers, counted from 0"),
    Key("tensor_split", "tensor_split", _shares, "shares of the layers, one for each card: 3,1"),
    Key("flash_attention", "flash_attention", _one_of("auto", "on", "off"), "auto, on or off; on where V is quantized"),
    Key("threads", "threads", _whole, "threads of llama.cpp"),
    Key("seed", "seed", _whole, "random seed"),
    Key("temperature", "temperature", _number, "0 is greedy"),
    Key("reader", "reader", _one_of("extractive", "model"), "who reads pages"),
    Key("results", "results", _whole, "hits of a search"),
    Key("max_turns", "max_turns", _whole, "turns before the answer is asked for"),
    Key("max_minutes", "max_seconds", _minutes, "minutes before the answer is asked for"),
    Key("max_tokens", "max_tokens", _whole, "tokens of conversation before the answer is asked for"),
    Key("context_policy", "context_policy", _one_of("answer", "fold"), "before the window is full: answer or fold"),
    Key("grammar", "grammar", _switch, "keep tool calls well formed while they are written"),
    Key("read_tokens", "read_tokens", _whole, "tokens of a page that the model reads for a goal"),
    Key("engine", "engine", _text, "address of the llama-server or vLLM that runs the model"),
    Key("engine_key", "engine_key", _bare, "the key that this server asks for", secret=True),
    Key("offline", "offline", _switch, "open no connection whatever"),
    Key("allow_hosts", "allow_hosts", _list, "private hosts that visits may reach"),
    Key("search", "search", _text, "order of search services; corpus in it: the corpora beside them"),
    Key("search_seconds", "search_seconds", _number, "seconds for all queries of a call"),
    Key("searxng_url", "services.searxng", _bare, "address of a SearXNG of one's own"),
    Key("serper_key", "services.serper", _bare, "key of serper.dev", secret=True),
    Key("brave_key", "services.brave", _bare, "key of Brave's search API", secret=True),
    Key("tavily_key", "services.tavily", _bare, "key of Tavily", secret=True),
    Key("region", "region", _text, "market of searches, like de-de"),
    Key("language", "language", _text, "language of searches and pages, like zh-CN"),
    Key("proxy", "proxy", _bare, "proxy of searches and pages: an address, none, or what the environment says"),
    Key("robots", "robots", _switch, "leave out pages that a site's robots.txt names"),
    Key("user_agent", "user_agent", _text, "what pages are told of who asks"),
    Key("cache_mb", "cache_mb", _whole, "megabytes that the page cache may take"),
    Key("date", "date", _text, "the date the model is told"),
)  # fmt: skip
_NAMES = {key.name: key for key in KEYS}


# -- the three sources ------------------------------------------------------------------------------------------------


def resolve(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Resolved:
    """The settings of a command. `flags` are fields of Settings; None is one that was not given."""
    directories = Directories.from_environment(environment)
    values: dict[str, Any] = {}
    origins = {key.name: DEFAULT for key in KEYS}
    for key, value in from_file(directories.config / FILE).items():
        values[key.field], origins[key.name] = value, str(directories.config / FILE)
    for key in KEYS:
        if environment.get(key.variable, "").strip():  # an empty one is as none
            values[key.field] = _read(key, environment[key.variable], Path(), key.variable)
            origins[key.name] = key.variable
    given = {name: value for name, value in flags.items() if value is not None}
    for key in KEYS:
        if key.field in given:
            origins[key.name] = FLAG
            if key.read in (_kv, _shares) and isinstance(given[key.field], str):  # click gives their text
                given[key.field] = _read(key, given[key.field], Path(), f"--{key.name.replace('_', '-')}")
    services = {name.partition(".")[2]: values.pop(name) for name in [*values] if name.startswith("services.")}
    found = Settings(directories=directories, services=Services(**services), **{**values, **given})
    return Resolved(found, origins)


def settings(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a command, without their origins."""
    return resolve(flags, environment).settings


def written(found: Settings) -> dict[str, Any]:
    """What settings say beyond the defaults, as config.toml would have it; no secret, no address with a password."""
    usual = Settings(directories=found.directories, services=Services())
    rows = ((key, _shown(key, key.of(found)), _shown(key, key.of(usual))) for key in KEYS if not key.secret)
    return {key.name: value for key, value, default in rows if value != default and "***@" not in str(value)}


def again(record: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that were `written`; what is never written (secrets, services, directories) is as it is now, and
    what is offline now stays so. Raises UsageError for a key that is not known or a value that cannot be meant."""
    now = settings({}, environment)
    unknown = sorted(record.keys() - _NAMES.keys())
    if unknown:
        raise UsageError(f"the session has a setting that this version does not know: {', '.join(unknown)}")
    values = {key.field: key.of(now) for key in KEYS if (key.secret or key.name == "proxy") and "." not in key.field}
    for name, value in record.items():
        if "." not in (key := _NAMES[name]).field:
            values[key.field] = _read(key, value, Path(), f"the session's {name}")
    values["offline"] = values.get("offline", False) or now.offline
    return Settings(directories=now.directories, services=now.services, **values)


def from_file(path: Path) -> dict[Key, Any]:
    """What a config.toml says; nothing if it is not there."""
    if not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}") from error
    unknown = sorted(table.keys() - _NAMES.keys())
    if unknown:
        raise UsageError(f"{path}: unknown key {', '.join(unknown)}; known: {', '.join(_NAMES)}")
    return {key: _read(key, table[key.name], path.parent, f"{path}: {key.name}") for key in KEYS if key.name in table}


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Variables that look like ours and are not: a typing error, or another program's."""
    ours = {key.variable for key in KEYS} | {f"VENUS_{f.name.upper()}_DIR" for f in fields(Directories)}
    return sorted(name for name in environment if name.startswith("VENUS_") and name not in ours)


def _read(key: Key, value: Any, base: Path, where: str) -> Any:
    try:
        return key.read(value, base)
    except _Wrong as should:
        given = "what it is" if key.secret else repr(value)
        raise UsageError(f"{where} should be {should}, not {given}") from None


def _shown(key: Key, value: Any) -> Any:
    if key.read is _minutes and value is not None:
        return value / 60
    if key.secret and value:
        return "***"
    if key.name in ("engine", "searxng_url", "proxy"):
        return re.sub(r"(^|//)[^/@]*@", r"\1***@", value)  # a password in an address is shown to nobody
    return [part if isinstance(part, float) else str(part) for part in value] if isinstance(value, tuple) else value
