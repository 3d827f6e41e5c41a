"""Passages found by meaning: real llama.cpp on an embedding model made by hand, in which some words mean the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.support import bert
from venus_edge import meaning, world
from venus_edge.cli.app import cli
from venus_edge.corpus import dense
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.engine.embedding import LlamaEmbedder
from venus_edge.errors import ModelError, UsageError
from venus_edge.settings import Directories, Settings

MEANINGS = (
    ("lighthouse", "pharos", "灯"), ("high", "tall", "高"), ("bread", "loaf"), ("flour", "meal"), ("tide", "flood"),
)  # fmt: skip
DOCUMENTS = (
    Document("https://x.example/light", "", "lighthouse high"),
    Document("https://y.example/bread", "", "bread flour"),
    Document("https://x.example/tide", "", "tide flood tide high"),
)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaEmbedder]:
    path = tmp_path_factory.mktemp("bert") / "by-hand.gguf"
    bert.by_hand(path, MEANINGS)
    made = LlamaEmbedder(path, threads=1)
    yield made
    made.close()


def corpus_of(path: Path, documents: Sequence[Document]) -> Path:
    with Writer(path) as writer, writer.batch():
        for document in documents:
            writer.put(document)
    return path


def urls(corpus: Corpus, query: str) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in corpus.search(query).hits]


def test_rows_are_of_length_one_and_the_same_whatever_is_embedded_beside(embedder: LlamaEmbedder) -> None:
    texts = ["lighthouse high", "bread", "tide " * 500, "灯", "tide loaf meal flood " * 5 + "[SEP]"]
    together = embedder.embed(texts)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, row in zip(texts, together, strict=True):
        assert np.allclose(embedder.embed([text])[0], row, atol=1e-3)
    assert embedder.embed(["pharos tall"])[0] @ together[0] > 0.99
    assert embedder.embed([]).shape == (0, 32)


@pytest.mark.parametrize(("query", "first"), [("pharos", "light"), ("tall pharos", "light"), ("loaf meal", "bread"),
                                              ("灯 高", "light")])  # fmt: skip
def test_a_page_is_found_that_has_none_of_the_words(
    embedder: LlamaEmbedder, tmp_path: Path, query: str, first: str
) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    assert dense.fill(path, embedder) == 3
    with Corpus(path) as words_only, Corpus(path, embedder=embedder) as both:
        assert urls(words_only, query) == []
        assert urls(both, query)[0] == first


def test_words_and_meaning_are_joined_and_site_and_quotes_stay_as_they_are(
    embedder: LlamaEmbedder, tmp_path: Path
) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    dense.fill(path, embedder)
    with Corpus(path, embedder=embedder) as corpus:
        assert urls(corpus, "flood lighthouse")[:2] in (["tide", "light"], ["light", "tide"])
        assert urls(corpus, "site:y.example tall pharos") == []
        assert urls(corpus, '"bread flour"') == ["bread"]
        assert corpus.search("?!").failure is not None


def test_what_the_model_cannot_read_is_found_by_its_words_alone(embedder: LlamaEmbedder, tmp_path: Path) -> None:
    unread = ["克雷翁灯塔于1916年首次点亮", "潮位观测", "tide маяк", "[SEP] [CLS]", ""]
    assert [row.any() for row in embedder.embed(["tide", *unread, "bread"])] == [True, *[False] * 5, True]
    texts = ["克雷翁灯塔于1916年首次点亮", "lighthouse high", "潮位观测 lighthouse"]
    path = corpus_of(tmp_path / "x.sqlite", [Document(f"https://x.example/{n}", "", t) for n, t in enumerate(texts)])
    assert dense.fill(path, embedder) == 3
    with Corpus(path) as by_words, Corpus(path, embedder=embedder) as both:
        for query in ("灯塔", "潮位 lighthouse", "1916年", "观测 克雷翁"):
            assert urls(both, query) == urls(by_words, query) != []
        assert urls(both, "pharos tall") == ["1"]


def test_a_page_with_all_the_words_stays_before_one_that_is_only_alike(embedder: LlamaEmbedder, tmp_path: Path) -> None:
    alike = [
        Document(f"https://x.example/{n}", "", f"lighthouse lighthouse high {'flour' * (n % 2)}") for n in range(9)
    ]
    whole = Document("https://x.example/whole", "", f"high tide bread {'meal loaf flour ' * 9} lighthouse")
    path = corpus_of(tmp_path / "x.sqlite", [*alike, whole])
    dense.fill(path, embedder)
    with Corpus(path, embedder=embedder) as corpus:
        assert urls(corpus, "lighthouse high bread")[0] == "whole"
        assert urls(corpus, "pharos high lighthouse")[0] != "whole"


def test_only_what_has_no_vector_is_embedded_and_what_is_dropped_loses_it(
    embedder: LlamaEmbedder, tmp_path: Path
) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS[:2])
    seen: list[tuple[int, int]] = []
    assert dense.fill(path, embedder, lambda *count: seen.append(count)) == 2
    with Corpus(path, embedder=embedder) as corpus:
        assert urls(corpus, "pharos")[0] == "light"
        with Writer(path) as writer, writer.batch():
            found = writer.find(DOCUMENTS[0].url)
            assert found is not None
            writer.drop(found[0])
            writer.put(DOCUMENTS[2])
        assert "light" not in urls(corpus, "pharos")
        assert dense.fill(path, embedder, lambda *count: seen.append(count)) == 1
        assert urls(corpus, "flood")[0] == "tide"
    assert (dense.fill(path, embedder), seen) == (0, [(2, 2), (1, 1)])


def test_vectors_of_another_model_are_not_compared_and_made_again(embedder: LlamaEmbedder, tmp_path: Path) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    dense.fill(path, embedder)
    other = tmp_path / "other.gguf"
    bert.by_hand(other, [*MEANINGS, ("zebra",)])
    another = LlamaEmbedder(other, threads=1)
    with Corpus(path, embedder=another) as corpus:
        assert urls(corpus, "pharos") == []
        assert dense.fill(path, another) == 3
        assert urls(corpus, "pharos")[0] == "light"
    another.close()


def test_more_vectors_than_are_kept_in_memory_give_the_same(
    embedder: LlamaEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word for group in MEANINGS for word in group]
    texts = [f"{words[n % 12]} {words[n * 7 % 11]} {words[n * 5 % 12]}" for n in range(90)]
    path = corpus_of(tmp_path / "x.sqlite", [Document(f"https://x.example/{n}", "", t) for n, t in enumerate(texts)])
    dense.fill(path, embedder)
    with Corpus(path, embedder=embedder) as corpus:
        kept = [urls(corpus, query) for query in ("pharos", "loaf", "pharos")]
    monkeypatch.setattr(dense, "_KEPT", 0)
    monkeypatch.setattr(dense, "_ROWS", 16)
    with Corpus(path, embedder=embedder) as corpus:
        assert [urls(corpus, query) for query in ("pharos", "loaf", "pharos")] == kept


def test_a_model_that_is_no_embedder_is_told_so() -> None:
    tiny = Path(__file__).resolve().parents[2] / "venus_edge" / "demo" / "venus-tiny.gguf"
    with pytest.raises(ModelError, match="is no embedding model: use one that pools its tokens"):
        LlamaEmbedder(tiny)


def test_vectors_are_those_of_the_same_computation_in_numpy(tmp_path: Path) -> None:
    words = ["tide", "gauge", "lighthouse", "##s", "灯", "塔", "41"]
    tensors = bert.by_chance(tmp_path / "by-chance.gguf", words)
    texts = ("tide gauges", "Lighthouse 41, lighthouse", "灯塔", "tide gauge " * 62)
    pieces = ([0, 1, 3], [2, 6, -4, 2], [4, 5], [0, 1] * 31)  # "," is [UNK]; the last text is twice what a window holds
    embedder = LlamaEmbedder(tmp_path / "by-chance.gguf", threads=1)
    rows = embedder.embed(texts)
    embedder.close()
    for row, numbers in zip(rows, pieces, strict=True):
        ids = [bert.CONTROL.index("[CLS]"), *(len(bert.CONTROL) + n for n in numbers), bert.CONTROL.index("[SEP]")]
        assert row @ bert.forward(tensors, 2, ids) > 0.999


def test_the_end_of_a_text_counts_that_is_longer_than_the_window(embedder: LlamaEmbedder) -> None:
    assert embedder.window == 64
    bread, long, tide = embedder.embed(["bread", "tide " * 300 + "bread " * 300, "tide"])
    assert long @ bread == pytest.approx(long @ tide, abs=0.05)
    assert long @ bread > 0.5


def test_a_published_model_knows_what_is_near() -> None:
    path = os.environ.get("VENUS_TEST_EMBEDDER", "")
    if not path:
        pytest.skip("VENUS_TEST_EMBEDDER names no embedding model (all-MiniLM-L6-v2 in GGUF)")
    embedder = LlamaEmbedder(Path(path), threads=1)
    rows = embedder.embed(["How high is the lighthouse?", "The tower is 41 metres tall.", "Bread is baked of flour."])
    embedder.close()
    assert rows[0] @ rows[1] > 0.3 > rows[0] @ rows[2]


def test_a_run_with_an_embedding_model_finds_pages_of_its_corpus_by_meaning(tmp_path: Path) -> None:
    folder, model = tmp_path / "notes", tmp_path / "data" / "models" / "all-minilm-l6-v2.gguf"
    folder.mkdir()
    model.parent.mkdir(parents=True)
    bert.by_hand(model, MEANINGS)
    for document in DOCUMENTS:
        (folder / f"{document.url[-5:].strip('/')}.txt").write_text(document.text)
    directories = Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    told: list[str] = []
    for dense_, expected in (("", []), ("all-minilm-l6-v2", ["lighthouse high"]), (str(model), ["lighthouse high"])):
        with closing(world.open_corpus(folder, Settings(directories, dense=dense_, threads=1), told.append)) as opened:
            assert [hit.snippet for hit in opened.search("pharos").hits[:1]] == expected
    assert [line for line in told if "embedded" in line] == [told[1]]
    assert "3 of 3 passages embedded, " in told[1]


def test_an_embedding_model_that_is_not_there_is_one_line_with_the_names_there_are(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    with pytest.raises(UsageError, match=r"no embedding model at .*give --dense FILE\.gguf; known by name: all-minilm"):
        meaning.model_file(Settings(directories, dense="all-minilm-l6-v2"))


# -- as a person asks for it -------------------------------------------------------------------------------------------


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    bert.by_hand(tmp_path / "by-hand.gguf", MEANINGS)
    return tmp_path / "by-hand.gguf"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    for name, text in (("light", "lighthouse high"), ("bread", "bread flour"), ("灯塔", "灯 高 flood")):
        (tmp_path / "notes" / f"{name}.txt").write_text(text)
    assert run("corpus", "create", "notes", tmp_path / "notes").exit_code == 0
    return tmp_path / "notes"


def test_a_corpus_is_embedded_searched_and_says_how_far_it_is(notes: Path, model: Path) -> None:
    assert "passages embedded" not in run("corpus", "info", "notes").stdout
    made = run("corpus", "embed", "notes", "--dense", model)
    assert (made.exit_code, made.stdout) == (0, ""), made.output
    assert made.stderr.splitlines()[-1] == "3 passages embedded, all of them have vectors now"
    assert "3 of 3 passages embedded by by hand" in run("corpus", "info", "notes").stdout
    found = run("corpus", "search", "notes", "tall pharos", "--dense", model)
    assert {line.strip() for line in found.stdout.splitlines()[:6]} >= {"lighthouse high", "灯 高 flood"}
    assert "embedded" not in found.stderr
    by_words = run("corpus", "search", "notes", "pharos")
    assert by_words.exit_code == 1
    assert "notes: searched by its words alone; its vectors of by hand serve --dense NAME|FILE" in by_words.stderr
    (notes / "tide.txt").write_text("tide flood")
    told = run("corpus", "update", "notes").stderr
    assert "3 of 4 passages embedded by by hand; the others with: venus-edge corpus embed notes --dense" in told
    assert "1 of 1 passages embedded" in run("corpus", "embed", "notes", "--dense", model).stderr
    assert run("corpus", "embed", "notes", "--dense", model).stderr.startswith("0 passages embedded")


def test_another_model_replaces_no_vectors_but_where_it_is_told_to(notes: Path, model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    bert.by_hand(other, [*MEANINGS, ("zebra",)])
    assert run("corpus", "embed", "notes", "--dense", model).exit_code == 0
    refused = run("corpus", "search", "notes", "pharos", "--dense", other)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"Error: notes has vectors of by hand, not of {other}: name that model, or have them made again: "
        f"venus-edge corpus embed notes --dense {other}\n"
    )
    assert run("corpus", "search", "notes", "pharos", "--dense", model).exit_code == 0
    again = run("corpus", "embed", "notes", "--dense", other).stderr
    assert "notes: the vectors of by hand go" in again
    assert "3 passages embedded" in again
    assert run("corpus", "search", "notes", "pharos", "--dense", other).exit_code == 0


def test_an_embedding_that_was_stopped_goes_on_and_a_rebuild_keeps_what_is_the_same(
    notes: Path, model: Path, embedder: LlamaEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    path = Path(run("corpus", "path", "notes").stdout.strip())
    monkeypatch.setattr(dense, "_TOGETHER", 1)
    with pytest.raises(KeyboardInterrupt):
        dense.fill(path, embedder, stop)
    assert "1 of 3 passages embedded" in run("corpus", "info", "notes").stdout
    assert run("corpus", "embed", "notes", "--dense", model).stderr.endswith(
        "2 passages embedded, all of them have vectors now\n"
    )
    (notes / "bread.txt").write_text("loaf meal")
    (notes / "tide.txt").write_text("tide flood")
    (notes / "light.txt").rename(notes / "lamp.txt")
    assert run("corpus", "rebuild", "notes").exit_code == 0
    assert "1 of 4 passages embedded" in run("corpus", "info", "notes").stdout
    assert "3 of 3 passages embedded" in run("corpus", "embed", "notes", "--dense", model).stderr
    with Corpus(path, embedder=embedder) as corpus:
        assert urls(corpus, "loaf")[0] == "bread.txt"


def test_nothing_is_written_where_every_passage_has_its_vector(embedder: LlamaEmbedder, tmp_path: Path) -> None:
    path = corpus_of(tmp_path / "x.sqlite", DOCUMENTS)
    dense.fill(path, embedder)
    path.chmod(0o400)
    before = path.read_bytes()
    (tmp_path / "x.sqlite-wal").unlink(missing_ok=True)
    assert dense.fill(path, embedder) == 0
    assert path.read_bytes() == before


def test_no_model_named_is_one_line_with_the_names_there_are(notes: Path) -> None:
    refused = run("corpus", "embed", "notes")
    line = "name an embedding model: --dense NAME or --dense FILE.gguf; known by name: all-minilm-l6-v2"
    assert (refused.exit_code, refused.stderr) == (2, f"Error: {line}\n")
