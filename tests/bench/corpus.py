"""A corpus beside other search engines on public collections, and large ones of passages that nobody wrote.

    python -m tests.bench.corpus [quality] [scale] [--peers PYTHON] [--embedder MODEL.gguf] [--data DIR]
                                 [--only cranfield,npl,cisi,zh] [--passages 300000,1000000] [--engines fts5,tantivy]
                                 [--keep DIR]

`quality`: nDCG@10 on Cranfield, NPL and the judged part of CISI, success@10 on known Chinese passages, where they lie
in DIR (else it says so); PYTHON is an interpreter that has tantivy and bm25s, MODEL an embedding model. `scale`:
documents a second of one core, without the making of the passages; sizes; the peak of memory; queries of three kinds,
each asked once, nothing warm but what the ones before it left; wanted of FTS5. Corpora in the folder of --keep are used
again: their vectors, too, which are the longest part. Ends with 1 if something falls short of what is wanted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, quantiles

from tests.bench.passages import Passages
from tests.corpus.collections import Collection, Known, Rank, chinese, cisi, cranfield, npl
from venus_edge.corpus import dense, tantivy_index
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.engine.embedding import LlamaEmbedder

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "tests" / "bench" / "peers.py"
COLLECTIONS = {"cranfield": cranfield, "npl": npl, "cisi": cisi}
WITH_DENSE = {"Cranfield": 0.564, "NPL": 0.497}
CHINESE = {"frag": 0.957, "words3": 0.911, "word1": 0.230, "mixed": 0.934}
RATE, MEMORY = 12_000, 200  # documents a second, MB
P95 = ((300_000, 100), (1_000_000, 200))  # passages, ms
BATCH = 5_000
short: list[str] = []


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def check(right: bool, what: str) -> str:
    if not right:
        short.append(what)
    return "" if right else "   <- SHORT"


# -- quality ---------------------------------------------------------------------------------------------------------


def write(path: Path, documents: Sequence[tuple[int, str, str]], engine: str = "fts5") -> Path:
    """A corpus of these; one that is there already stays."""
    if not path.exists():
        with Writer(path, engine) as writer, writer.batch():
            for number, title, text in documents:
                writer.put(Document(f"https://x.example/{number}", title, text))
    return path


def ranking(corpus: Corpus) -> Rank:
    return lambda query: [int(hit.url.rpartition("/")[2]) for hit in corpus.search(query).hits]


def peers(python: str, collection: Collection) -> dict[str, float | str]:
    """nDCG@10 by engine, or why it is not there."""
    numbers = list(collection.queries)
    given = {"documents": list(collection.documents), "queries": [collection.queries[n] for n in numbers]}
    done = subprocess.run([python, PEERS], input=json.dumps(given), capture_output=True, text=True, check=True)
    found: dict[str, float | str] = {}
    for said in map(json.loads, done.stdout.splitlines()):
        if "lacks" in said:
            found[said["name"]] = f"{said['lacks']} is not installed"
        else:
            ranked = dict(zip((collection.queries[n] for n in numbers), said["ranked"], strict=True))
            found[said["name"]] = collection.ndcg(ranked.__getitem__)
    return found


def quality(data: Path, python: str, embedder: Path | None, only: Sequence[str], work: Path) -> None:
    if not data.is_dir():
        say(f"The test collections are not at {data}.")
        return
    model = LlamaEmbedder(embedder) if embedder else None
    columns = {}
    for name, read in COLLECTIONS.items():
        if name in only:
            collection = read(data)
            columns[collection.name] = _column(collection, python, model, work)
    if columns:
        _quality_table(columns)
    if "zh" in only:
        _chinese(chinese(data), model, work)


def _column(collection: Collection, python: str, model: LlamaEmbedder | None, work: Path) -> dict[str, float | str]:
    column: dict[str, float | str] = {}
    path = write(work / f"{collection.name}.sqlite", collection.documents)
    with Corpus(path) as corpus:
        column["a corpus"] = collection.ndcg(ranking(corpus))
    with Corpus(write(work / f"{collection.name}-t.sqlite", collection.documents, "tantivy")) as corpus:
        column["a corpus, --engine tantivy"] = collection.ndcg(ranking(corpus))
    column |= peers(python, collection)
    if model:
        embed(path, model)
        with Corpus(path, embedder=model) as corpus:
            column["a corpus, dense"] = collection.ndcg(ranking(corpus))
    return column


def _chinese(known: Known, model: LlamaEmbedder | None, work: Path) -> None:
    path = write(work / "zh.sqlite", known.documents)
    ways = {"": Corpus(path)}
    ways[", --engine tantivy"] = Corpus(write(work / "zh-t.sqlite", known.documents, "tantivy"))
    if model:
        embed(path, model)
        ways[", dense"] = Corpus(path, embedder=model)
    for way, corpus in ways.items():
        success = known.success(ranking(corpus))
        corpus.close()
        say(f"\nsuccess@10 of {len(known.documents):,} Chinese passages{way}")
        for kind, least in CHINESE.items():
            say(f"  {kind:<26} {success[kind]:.3f}{check(success[kind] >= least, f'Chinese, {kind}{way}')}")


def embed(path: Path, model: LlamaEmbedder) -> None:
    start = time.perf_counter()
    count = dense.fill(path, model)
    say(f"{path.stem}: {count:,} passages embedded, {count / (time.perf_counter() - start):.0f} a second")


def _quality_table(columns: Mapping[str, Mapping[str, float | str]]) -> None:
    say(f"\n{'nDCG@10':<28}" + "".join(f"{name:>12}" for name in columns) + f"{'mean':>12}")
    rows = {name: [column[name] for column in columns.values()] for name in next(iter(columns.values()))}
    scores = {name: [v for v in row if isinstance(v, float)] for name, row in rows.items()}
    others = [row for name, row in scores.items() if not name.startswith("a corpus") and row]
    for name, row in rows.items():
        if not scores[name]:
            say(f"{name:<28}  {row[0]}")
            continue
        say(f"{name:<28}" + "".join(f"{score:>12.4f}" for score in scores[name]) + f"{mean(scores[name]):>12.4f}")
    ours = scores["a corpus"]
    for place, collection in enumerate(columns):
        if collection not in WITH_DENSE:  # of few judged queries: to be looked at only
            continue
        best = max(row[place] for row in others)
        say(f"  {collection}: the best other {best:.4f}{check(round(ours[place], 3) >= round(best, 3), collection)}")
        if "a corpus, dense" in scores:
            found = scores["a corpus, dense"][place]
            least = WITH_DENSE[collection]
            say(f"  {collection}, dense: wanted {least}{check(round(found, 3) >= least, f'{collection}, dense')}")
    if all(collection in columns for collection in WITH_DENSE):
        wanted = [place for place, collection in enumerate(columns) if collection in WITH_DENSE]
        best_mean = max(mean(row[place] for place in wanted) for row in others)
        is_better = mean(ours[place] for place in wanted) > best_mean
        say(f"  mean of both: the best other {best_mean:.4f}{check(is_better, 'the mean')}")


# -- scale -----------------------------------------------------------------------------------------------------------


def scale(counts: Sequence[int], engines: Sequence[str], folder: Path) -> None:
    for count in counts:
        for engine in engines:
            _scale(count, engine, folder)


def _scale(count: int, engine: str, folder: Path) -> None:
    path = folder / f"{count}{'' if engine == 'fts5' else '-' + engine}.sqlite"
    passages = Passages(count)
    if not path.exists():
        _build(path, passages, engine)
    queries = passages.queries(300)
    with Corpus(path, check=False) as corpus:
        seconds = [_seconds(corpus, query) for query in queries]
    say(f"  {'query, ms':<22}" + f"{'p50':>9}{'p95':>9}{'worst':>9}")
    for kind, name in enumerate(("six words", "a question", "a title")):
        _times(name, [1e3 * spent for spent in seconds[kind::3]])
    p95 = _times("all", [1e3 * spent for spent in seconds])
    wanted = next((most for least, most in P95 if count <= least), None)
    if wanted and engine == "fts5":
        say(f"  wanted under {wanted} ms{check(p95 < wanted, f'p95 of {count:,}')}")


def _build(path: Path, passages: Passages, engine: str) -> None:
    source, taken = iter(passages), 0.0
    number = size = 0
    next(iter(Passages(1))), passages.vocabulary
    start = time.process_time()
    with Writer(path, engine) as writer:
        while True:
            made = time.process_time()
            batch = list(itertools.islice(source, BATCH))
            taken += time.process_time() - made
            if not batch:
                break
            with writer.batch():
                for title, text in batch:
                    writer.put(Document(f"https://x.example/{number}", title, text))
                    number += 1
                    size += len(text)
    spent = time.process_time() - start - taken
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    rate = number / spent
    is_free = engine != "fts5"
    say(f"\n{number:,} passages of {size / number:.0f} characters, {engine}: {spent:.1f} s of one core")
    say(f"  {'documents a second':<22} {rate:>8,.0f}{check(is_free or rate >= RATE, f'rate of {number:,}')}")
    say(f"  {'text, file, MB':<22} {size / 1e6:>8,.0f}{(path.stat().st_size + tantivy_index.size(path)) / 1e6:>9,.0f}")
    told = "peak of memory, MB"
    fits = check(is_free or memory < MEMORY, f"memory of {number:,}")
    say(f"  {told:<22} {memory:>8,.0f} (the passages' maker in it){fits}")


def _seconds(corpus: Corpus, query: str) -> float:
    start = time.perf_counter()
    corpus.search(query)
    return time.perf_counter() - start


def _times(name: str, spent: Sequence[float]) -> float:
    p95 = quantiles(spent, n=20)[-1]
    say(f"  {name:<22}{median(spent):>9.1f}{p95:>9.1f}{max(spent):>9.1f}")
    return p95


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["quality", "scale"])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--embedder", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", default="cranfield,npl,cisi,zh")
    parser.add_argument("--passages", default="300000,1000000")
    parser.add_argument("--engines", default="fts5")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        parts: dict[str, Callable[[], None]] = {
            "quality": lambda: quality(
                given.data, given.peers, given.embedder, given.only.split(","), given.keep or work
            ),
            "scale": lambda: scale(
                [int(count) for count in given.passages.split(",")], given.engines.split(","), given.keep or work
            ),
        }
        for part in given.parts:
            parts[part]()
    say(f"\nshort of what is wanted: {', '.join(short) or 'nothing'}")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
