"""The command line: nouns as groups, `run` as the default verb, the answer on stdout and everything else on stderr.

Only click is imported here; what a command needs is imported when it runs, so that `--help` is quick.
"""

from __future__ import annotations

from venus_edge.cli.app import cli


def main() -> None:
    """Entry point of the `venus-edge` script."""
    try:
        cli()
    except KeyboardInterrupt:  # before a command had begun, or for the second time
        raise SystemExit(130) from None


__all__ = ["cli", "main"]
