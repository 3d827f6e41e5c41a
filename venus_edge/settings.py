"""Directories and switches -> one frozen Settings.

The environment is read here and in `cli/` only. Directories are the platform's own (XDG on Linux, Library on macOS,
AppData on Windows) unless VENUS_DATA_DIR, VENUS_CACHE_DIR or VENUS_CONFIG_DIR name others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import platformdirs

from venus_edge.errors import UsageError

APP = "venus-edge"


@dataclass(frozen=True, slots=True)
class Directories:
    """Where things are kept: `data` sessions, models and corpora; `cache` pages; `config` a person's own tables."""

    config: Path
    data: Path
    cache: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Directories:
        def place(name: str, default: Path) -> Path:
            given = environment.get(f"VENUS_{name}_DIR", "")
            return Path(given).expanduser().absolute() if given else default

        return cls(
            config=place("CONFIG", platformdirs.user_config_path(APP, appauthor=False)),
            data=place("DATA", platformdirs.user_data_path(APP, appauthor=False)),
            cache=place("CACHE", platformdirs.user_cache_path(APP, appauthor=False)),
        )

    @property
    def sessions(self) -> Path:
        return self.data / "sessions"

    @property
    def models(self) -> Path:
        return self.data / "models"

    @property
    def corpora(self) -> Path:
        return self.data / "corpora"


def path_or_name(text: str, base: Path = Path()) -> Path:
    """What may be a path or the name of a corpus: whole where it is written as a path (with a separator, `.`, `..` or
    `~`), so that nothing takes ./papers for the corpus papers; otherwise as it is, from `base`."""
    path = base / Path(text).expanduser()
    is_path = text in (".", "..") or text.startswith("~") or os.sep in text or (os.altsep or os.sep) in text
    return path.absolute() if is_path else path


@dataclass(frozen=True, slots=True)
class Services:
    """The search services that are configured: an address of one's own, and keys; in no `repr`."""

    searxng: str = field(default="", repr=False)
    serper: str = field(default="", repr=False)
    brave: str = field(default="", repr=False)
    tavily: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Services:
        def given(name: str) -> str:
            return environment.get(name, "").strip()

        return cls(
            given("VENUS_SEARXNG_URL"),
            given("VENUS_SERPER_KEY"),
            given("VENUS_BRAVE_KEY"),
            given("VENUS_TAVILY_KEY"),
        )

    def of(self, name: str) -> str:
        """What configures a service, "" if nothing does or needs to."""
        return str(getattr(self, name, ""))


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run may be told. None means: as the model's entry in models.toml says.

    `model` is a name in models.toml or the path of a .gguf file, "" the default model; `corpus` folders or index files,
    none for the web; `dense` the embedding model by which their passages are found too, "" for none;
    `kv_type` one type or that of K and that of V ("q8_0,f16"); `main_gpu` the one card that gets
    layers, `tensor_split` the share of each card;
    `search` the order of search services ("corpus" among them: the corpora beside the web), `region` their market
    ("cn-zh"), `language` that of searches and pages ("zh-CN"), "" by the query's script; `proxy` an address, "none", or
    "" for what the environment says; `read_tokens` the tokens of a page that the model reads, None what the plan has
    room for;
    `max_seconds`, `max_turns` and `max_tokens` end the research and ask for the answer; `context_policy` says what
    happens before the window is full ("answer", "fold"; None: by its size); `grammar` keeps tool calls well
    formed while they are written.
    """

    directories: Directories = field(default_factory=Directories.from_environment)
    model: str = ""
    corpus: tuple[Path, ...] = ()
    dense: str = ""
    dialect: str | None = None
    n_ctx: int | None = None
    kv_type: str | None = None
    gpu_layers: str = "auto"
    main_gpu: int | None = None
    tensor_split: tuple[float, ...] = ()
    flash_attention: str = "auto"
    threads: int | None = None
    seed: int | None = None
    temperature: float | None = None
    reader: str | None = None
    results: int | None = None
    max_turns: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    context_policy: str | None = None
    grammar: bool = True
    engine: str = ""  # address of the llama-server or vLLM that runs the model; "" this process does
    engine_key: str = field(default="", repr=False)
    offline: bool = False
    allow_hosts: tuple[str, ...] = ()
    search: str = "auto"
    search_seconds: float = 20.0
    services: Services = field(default_factory=Services.from_environment)
    region: str = ""
    language: str = ""
    proxy: str = field(default="", repr=False)
    robots: bool = False
    user_agent: str = ""
    cache_mb: int = 500
    read_tokens: int | None = None
    date: str | None = None


def is_host(text: str) -> bool:
    """Whether a text can name a host ("searx.lan", "127.0.0.1:8888", "*.lan") or a network ("10.0.0.0/8")."""
    if "/" in text:
        try:
            ip_network(re.sub(r":\d+$", "", text.strip()) if text.count(":") == 1 else text.strip(), strict=False)
        except ValueError:
            return False
        return True
    return bool(text.strip()) and not re.search(r"\s", text.strip())


def check(settings: Settings) -> None:
    """Raises UsageError for a number that cannot be meant."""
    for name, least in (("n_ctx", 512), ("threads", 1), ("results", 1), ("max_turns", 1), ("max_tokens", 1)):
        value = getattr(settings, name)
        if value is not None and value < least:
            flag = "context" if name == "n_ctx" else name.replace("_", "-")
            raise UsageError(f"--{flag} must be at least {least}, not {value}")
    for name, least in (("search_seconds", 1), ("cache_mb", 1), ("read_tokens", 200)):
        value = getattr(settings, name)
        if value is not None and not value >= least:
            raise UsageError(f"{name} must be at least {least}, not {value:g}")
    for host in settings.allow_hosts:
        if not is_host(host):
            raise UsageError(f"--allow-host {host!r} is no host: give a name, an address or a network, like 10.0.0.0/8")
    if settings.max_seconds is not None and not settings.max_seconds > 0:
        raise UsageError(f"the time limit must be more than 0 seconds, not {settings.max_seconds}")
    if settings.temperature is not None and not 0 <= settings.temperature <= 5:
        raise UsageError(f"temperature must lie between 0 and 5, not {settings.temperature}")
