"""The whole way of a pack, as a transcript: packed, moved away, installed by its own script without any network and in
an empty home, and the demo's question answered there. Needs a registry of packages once, and `unshare`.

python -m tests.bench.pack [FOLDER]      a new folder of its own for everything; a temporary one if none is named
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from venus_edge import demo

QUESTION = demo.questions()[0]
NOTHING_LEFT = "Connections: none; 0 bytes left this machine"


def show(command: list[str], home: Path, alone: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a command, alone in an empty network namespace with next to no environment, and prints what it says."""
    bare = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    given = ["unshare", "-n" if os.geteuid() == 0 else "-rn", *command] if alone else command
    where = home if alone else None  # never where the program's own sources lie: they would be what runs
    sys.stdout.write(f"$ {' '.join(given)}\n")
    began = time.monotonic()
    done = subprocess.run(
        given,
        cwd=where,
        env=bare if alone else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    sys.stdout.write(f"{done.stdout}(exit {done.returncode}, {time.monotonic() - began:.0f} s)\n\n")
    sys.stdout.flush()
    return done


def main(folder: Path) -> int:
    model = Path(shutil.copy(demo.HERE / "venus-tiny.gguf", folder / "venus-tiny.gguf"))
    kit, away, home = folder / "kit", folder / "away", folder / "home"
    away.mkdir()
    home.mkdir()
    venus = [sys.executable, "-m", "venus_edge"]
    carried = ["--model", str(model), "--corpus", str(demo.CORPUS), "--cache", "--wheels"]
    show([*venus, "pack", str(kit), *carried], home)
    model.unlink()
    kit.rename(away / "kit")
    show(["sh", str(away / "kit" / "install.sh"), str(away / "venus")], home, alone=True)
    asked = show([str(away / "venus" / "venus-edge"), QUESTION.text], home, alone=True)
    left = [path.name for path in home.iterdir()]
    proved = QUESTION.expect in asked.stdout and NOTHING_LEFT in asked.stdout and not left
    sys.stdout.write(
        f"answered without a network: {'yes' if proved else 'NO'}; left in the home: {left or 'nothing'}\n"
    )
    return 0 if proved else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True)
        sys.exit(main(Path(sys.argv[1]).absolute()))
    with tempfile.TemporaryDirectory(prefix="venus-bench-") as made:
        sys.exit(main(Path(made)))
