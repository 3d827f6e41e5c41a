"""models.toml -> ModelSpec.

In: the package's table of models and, laid over it, a person's own `models.toml` in the configuration directory.
Out: one frozen ModelSpec a model. It opens no model file and asks no hub (that is `hub`).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from venus_edge.engine import Sampling
from venus_edge.errors import UsageError
from venus_edge.values import DialectName

PACKAGE = Path(__file__).resolve().parent
EMBEDDING = "embedding"  # the table of models that give vectors, not text
READERS = ("extractive", "model")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What is known of a model before its file is opened.

    `file` is a GGUF file (relative to the package), `repo` the checkpoint's hub name and `gguf_repo` that of its GGUF
    files; `revision` the checkpoint's, `rope_theta` and `template` (its name) what a right file has; `quants` the
    quantizations worth having, most fitting first (`fit.planner` knows their sizes); `n_ctx` the window to open where
    it fits, in tokens; `kv_type` "" is what the plan finds best; `results` how many hits a search gives it; `sha256`
    what the file had when it was added.
    """

    name: str
    title: str
    dialect: DialectName
    reader: str
    n_ctx: int
    n_ctx_train: int
    results: int = 10
    repo: str = ""
    revision: str = "main"
    gguf_repo: str = ""
    rope_theta: float = 0.0
    template: str = ""
    quants: str = ""
    file: str = ""
    quant: str = "Q4_K_M"
    kv_type: str = ""
    size_gb: float = 0.0
    sha256: str = ""
    sampling: Sampling = field(default_factory=Sampling)


def load(config_dir: Path | None = None) -> dict[str, ModelSpec]:
    """The known models by name. Raises UsageError, naming file, model and key, for a table that is not right."""
    tables = _read(_shipped())
    own = config_dir / "models.toml" if config_dir else None
    if own and own.is_file():
        for name, table in _read(own).items():
            tables[name] = {**tables.get(name, {}), **table}
    return {name: _spec(name, table) for name, table in tables.items() if name != EMBEDDING}


def embedders(config_dir: Path | None = None) -> dict[str, str]:
    """The embedding models by name, each with its file in the directory of models. Raises UsageError."""
    own = config_dir / "models.toml" if config_dir else None
    tables = dict(_read(_shipped()).get(EMBEDDING, {}))
    if own and own.is_file():
        tables |= _read(own).get(EMBEDDING, {})
    wrong = [name for name, table in tables.items() if not isinstance(table, dict) or "file" not in table]
    if wrong:
        raise UsageError(f'models.toml, [{EMBEDDING}.{wrong[0]}]: it needs a file, like file = "{wrong[0]}.gguf"')
    return {name: str(table["file"]) for name, table in tables.items()}


def find(name: str, specs: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model of that name, or of that repository; the error for a miss lists the hits."""
    by_repository = {repo: spec for spec in specs.values() for repo in (spec.repo, spec.gguf_repo) if repo}
    found = specs.get(name) or by_repository.get(name)
    if found is None:
        known = ", ".join(specs)
        raise UsageError(f"unknown model {name!r}; known: {known}; or give the path of a .gguf file")
    return found


def named(name: str, specs: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model of that name or repository, or that of the file at that path, be it a right one or not."""
    is_path = name.endswith(".gguf") or name.startswith((".", "~", "/")) or os.path.lexists(name)
    if name in specs or not is_path:
        return find(name, specs)
    return for_file(Path(name).expanduser().absolute(), specs)


def for_file(path: Path, specs: Mapping[str, ModelSpec]) -> ModelSpec:
    """The spec for a person's own GGUF file: that of the model whose name the file's name holds, else DR-Venus RL's."""
    stem = path.stem.lower().replace("_", "-")
    named = next((spec for name, spec in specs.items() if name in stem), None)
    spec = named or next(iter(specs.values()))
    return replace(spec, name=path.stem, title=path.name, file=str(path), repo="", gguf_repo="")


def _shipped() -> Path:
    """models.toml: inside the package in a wheel, at the root of the repository beside it in a checkout."""
    inside = PACKAGE / "models.toml"
    return inside if inside.is_file() else PACKAGE.parent / "models.toml"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name!r} should be a table, [{name}], of a model")
    return tables


def _spec(name: str, table: Mapping[str, Any]) -> ModelSpec:
    values = dict(table)
    sampling = values.pop("sampling", {})
    _refuse(f"models.toml, [{name}]", values, ModelSpec, {"name", "sampling"})
    _refuse(f"models.toml, [{name}] sampling", sampling, Sampling, set())
    try:
        spec = ModelSpec(name=name, sampling=Sampling(**sampling), **values)
    except TypeError as error:
        missing = sorted({"title", "dialect", "reader", "n_ctx", "n_ctx_train"} - values.keys())
        raise UsageError(f"models.toml, [{name}]: missing {', '.join(missing)}") from error
    if spec.dialect not in get_args(DialectName):
        raise UsageError(
            f"models.toml, [{name}]: dialect {spec.dialect!r} is none of {', '.join(get_args(DialectName))}"
        )
    if spec.reader not in READERS:
        raise UsageError(f"models.toml, [{name}]: reader {spec.reader!r} is none of {', '.join(READERS)}")
    return spec


_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float)}  # all other fields are texts


def _refuse(where: str, given: Mapping[str, Any], values: type[ModelSpec | Sampling], not_here: set[str]) -> None:
    """Raises UsageError for a key that there is not, or a value of another kind than the field's."""
    known = {f.name: str(f.type) for f in fields(values) if f.name not in not_here}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise UsageError(f"{where}: unknown key {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, _KINDS.get(known[key], (str,))):
            raise UsageError(f"{where}: {key} should be of the kind {known[key]}, not {value!r}")
