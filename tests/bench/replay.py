"""Every released run played again: tokens evaluated for each token of the final conversation.

    python -m tests.bench.replay ../shared [--llama [NAME]]

Without a model; with --llama through llama.cpp's own context, on a model of one small layer and the real vocabulary:
then the seconds are shown, and how far the logits behind the final cache are from those of the conversation evaluated
afresh. NAME takes only the runs whose file begins so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.engine.replay import replay
from tests.engine.vocabulary import FULL, Geometry, write_model, write_vocabulary
from tests.protocol.runs import Run, released
from venus_edge.engine.context import Context
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.vocabulary import Vocabulary, open_vocabulary

SMALL = Geometry(layers=1, width=32, heads=1, kv_heads=1, head=32, ffn=32, context=131_072)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--llama", nargs="?", const="", metavar="NAME")
    asked = parser.parse_args()
    runs = [run for run in released(asked.shared) if run.name.startswith(asked.llama or "")]
    sys.stdout.write("run      turns  retries  evaluated  conversation  ratio\n")
    with tempfile.TemporaryDirectory() as folder:
        if asked.llama is None:
            vocabulary = open_vocabulary(write_vocabulary(Path(folder) / "vocabulary.gguf"))
            sys.stdout.writelines(f"{line(run, vocabulary)}\n" for run in runs)
            return
        path = write_model(Path(folder) / "small.gguf", "", FULL, SMALL)
        options = EngineOptions(n_ctx=SMALL.context, n_ctx_reading=0)
        with closing(LlamaEngine(path, options)) as engine:
            for run in runs:
                sys.stdout.write(f"{line(run, engine.vocabulary, engine._context)}\n")
                sys.stdout.flush()


def line(run: Run, vocabulary: Vocabulary, context: Context | None = None) -> str:
    """The row of one run; where it went through a context, what that holds in the end."""
    began = time.perf_counter()
    if context is not None:
        context.keep(0, 0)
    engine, result = replay(vocabulary, run.messages, model=context)
    seconds = time.perf_counter() - began
    assert engine.is_true
    evaluated, held = engine.stats.evaluated_tokens, result.final_token_count
    retries = result.dedup_count + result.parse_error_count
    counts = f"{result.turns:5}  {retries:7}  {evaluated:9,}  {held:12,}  {evaluated / held:5.3f}"
    shown = f"{run.name.partition('.')[0]:9}{counts}"
    if context is None:
        return shown
    off = _off(context, engine.cached.ids, vocabulary.specials.control["<|im_end|>"])
    return f"{shown}  {seconds:5.1f} s, {context.held(0):,} positions, logits {off:.1e} off"


def _off(context: Context, ids: Sequence[int], ends: int) -> float:
    """The largest difference between the logits behind the cache and those behind the same ids evaluated afresh, as a
    share of the largest."""
    context.evaluate(0, len(ids), [ends])
    played = context.logits().copy()
    context.keep(0, 0)
    for at in range(0, len(ids), context.batch):
        context.evaluate(0, at, ids[at : at + context.batch])
    context.evaluate(0, len(ids), [ends])
    return float(abs(context.logits() - played).max() / abs(played).max())


if __name__ == "__main__":
    main()
