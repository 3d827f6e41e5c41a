"""What a person installs: the wheel holds both packages, the table of models and everything that the demo needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_both_packages(names: set[str]) -> None:
    packages = [ROOT / "venus_edge", ROOT / "convert" / "venus_convert"]
    files = (path for package in packages for path in package.rglob("*") if path.is_file())
    expected = {
        str(path.relative_to(ROOT / "convert" if "venus_convert" in path.parts else ROOT))
        for path in files
        if "__pycache__" not in path.parts
    }
    assert expected <= names


def test_the_wheel_holds_the_table_of_models_the_demo_and_the_licence(names: set[str]) -> None:
    wanted = {"venus_edge/models.toml", "venus_edge/demo/venus-tiny.gguf", "venus_edge/demo/questions.toml"}
    assert wanted <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in names} == {"venus_edge", "venus_convert"}
