"""The import table of the design, held: a part imports what it may, and a library has one door."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = {
    "values", "errors", "abreast", "protocol", "guards", "window", "terms", "engine", "tools", "sources", "corpus",
    "events", "state", "agent", "sessions", "citations", "report", "registry", "modelfiles", "hub", "settings",
    "config", "runtime", "model", "world", "corpora", "meaning", "recorded", "replay", "demo", "fit", "pack", "cli",
}  # fmt: skip

MAY_IMPORT = {
    "values": set(),
    "errors": set(),
    "terms": set(),
    "abreast": set(),
    "protocol": {"values"},
    "guards": {"values"},
    "window": {"values", "protocol"},
    "engine": {"values", "errors", "protocol"},
    "tools": {"values", "protocol", "terms", "engine", "abreast"},
    "sources": {"values", "errors", "settings", "abreast"},
    "corpus": {"values", "errors", "terms", "abreast"},
    "events": {"values", "engine"},
    "state": {"values", "protocol", "guards", "events"},
    "agent": {"values", "errors", "protocol", "guards", "window", "events", "state", "engine", "tools"},
    "sessions": {"values", "errors", "events", "state"},
    "citations": {"values", "terms"},
    "report": {"values", "events", "citations", "terms"},
    "registry": {"values", "errors", "engine"},
    "modelfiles": {"registry", "errors"},
    "hub": {"registry", "modelfiles", "errors", "sources"},
    "settings": {"errors"},
    "config": {"settings", "errors", "values"},
    "demo": set(),
    "meaning": {"corpus", "engine", "registry", "settings", "errors"},
    "corpora": {"meaning", "corpus", "sources", "sessions", "settings", "errors", "values"},  # all kinds of sources
    "replay": {"values", "errors", "protocol", "window", "events", "state", "engine", "tools", "agent"},
    "recorded": {
        "config",
        "modelfiles",
        "agent",
        "engine",
        "errors",
        "events",
        "guards",
        "registry",
        "sessions",
        "settings",
    },
    "model": {"values", "errors", "engine", "protocol", "registry", "settings", "fit", "sources"},
    "world": {"values", "errors", "events", "sessions", "settings", "tools", "sources", "corpus", "corpora", "meaning"},
    "runtime": EVERYTHING - {"cli"},
    "fit.sizes": set(),
    "fit.planner": {"values", "fit"},
    "fit": {"engine", "errors", "config", "registry", "modelfiles", "hub", "settings", "protocol", "values"},
    "fit.doctor": EVERYTHING - {"cli"},
    "cli": {
        "fit",
        "sessions",
        "registry",
        "modelfiles",
        "hub",
        "config",
        "settings",
        "demo",
        "errors",
        "events",
        "values",
        "report",
    }
    | {"runtime", "model", "world", "corpora", "corpus", "recorded", "replay", "pack"},
    "pack": {"registry", "errors"},
    "venus_convert": {"registry", "errors"},
}

ONE_DOOR = {  # library -> the only files that may import it
    "llama_cpp": {
        "venus_edge/engine/library.py",
        "convert/venus_convert/quantize.py",
        "convert/venus_convert/verify.py",
    },
    "huggingface_hub": {"venus_edge/hub.py"},
    "httpx2": {"venus_edge/sources/", "venus_edge/hub.py"},  # the hub library's client, whose errors it passes on
    "ddgs": {"venus_edge/sources/"},
    "duckduckgo_search": {"venus_edge/sources/"},
    "readability": {"venus_edge/sources/reader.py"},
    "lxml": {"venus_edge/sources/"},
    "socket": {"venus_edge/sources/"},
    "sqlite3": {"venus_edge/corpus/", "venus_edge/sources/cache.py"},
    "libzim": {"venus_edge/corpus/"},
    "tantivy": {"venus_edge/corpus/tantivy_index.py"},
    "brotli": {"venus_edge/corpus/message.py"},
    "zstandard": {"venus_edge/corpus/message.py", "venus_edge/corpus/warc.py"},  # bodies, and whole archives
    "click": {"venus_edge/cli/", "convert/venus_convert/cli.py"},
    "packaging": {"venus_edge/pack/wheels.py"},
    "jinja2": {"venus_edge/protocol/rendering.py"},
    "gguf": {"convert/venus_convert/"},
    "torch": set[str](),
}


def sources() -> list[Path]:
    return sorted([*(ROOT / "venus_edge").rglob("*.py"), *(ROOT / "convert" / "venus_convert").rglob("*.py")])


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(path: Path) -> str:
    inside = path.relative_to(ROOT)
    if inside.parts[0] == "convert":
        return "venus_convert"
    if ".".join(inside.parts[1:]).removesuffix(".py") in MAY_IMPORT:  # a file with a rule of its own: fit.planner
        return ".".join(inside.parts[1:]).removesuffix(".py")
    return inside.parts[1].removesuffix(".py")


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_part_imports_only_what_the_design_allows(path: Path) -> None:
    here = part(path)
    if here in ("__init__", "__main__"):
        return
    named = {name.split(".")[1] for name in imports(path) if name.startswith("venus_edge.")}
    assert named & EVERYTHING <= MAY_IMPORT[here] | ({here} if here in EVERYTHING else set())
    if here == "fit.planner":  # pure: of its own part it knows the sizes alone
        assert all("fit" not in name or name.startswith("venus_edge.fit.sizes.") for name in imports(path))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_library_is_imported_behind_its_own_door_only(path: Path) -> None:
    inside = str(path.relative_to(ROOT))
    wrong = {
        library
        for library in (name.split(".")[0] for name in imports(path))
        if library in ONE_DOOR and not any(inside.startswith(door) for door in ONE_DOOR[library])
    }
    assert wrong == set()
