"""RANKING IN A ZIM ARCHIVE, whose own index finds only what has every word.

In: an open archive and a query. Out: paths, best first. The rarest words are asked for alone and in pairs; what any of
them finds is fused by reciprocal rank, weighted by how rare the words are, and the best of that are ranked again by
BM25 over their texts, the title weighing more. Without a full-text index titles are searched word by word.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from venus_edge import terms

if TYPE_CHECKING:
    from libzim.reader import Archive
    from libzim.search import Searcher
    from libzim.suggestion import SuggestionSearcher

WORDS = 8  # the rarest words that are asked for
DEEP = 100  # results of each question that count
AGAIN = 60  # entries that are ranked again by their text
_K = 60  # of reciprocal rank (Cormack et al. 2009)
_K1, _B = 1.5, 0.75  # of BM25
_TITLE = 3  # a word of the title counts so often more
_LARGEST = 400_000  # bytes of an entry that are looked at
_KEPT = 3_000  # entries whose words are kept in memory
_HIDDEN = re.compile(r"<(script|style|head|nav|footer|svg)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(r"</(?:p|div|h\d|li|tr|table|section|td|th)\s*>|<br[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")


class Ranker:
    """Asks the indexes of an archive. Not for several threads."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._searcher: Searcher | None = None
        self._suggester: SuggestionSearcher | None = None
        self._words: dict[str, Counter[str]] = {}

    def best(self, query: str, limit: int) -> list[str]:
        """The best entries for any of the words of a query; where there is no full-text index, by their titles."""
        if not self._archive.has_fulltext_index:
            return self.by_title(query, limit)
        asked = _asked(query)
        weights = {word: _weight(self._matches(word), self._archive.entry_count) for word in asked}
        rarest = sorted((word for word in asked if weights[word] > 0), key=lambda word: -weights[word])[:WORDS]
        fused = self._fused(rarest, weights)
        return self._ranked_again(query, sorted(fused, key=lambda path: -fused[path]), limit)

    def by_title(self, query: str, limit: int) -> list[str]:
        """The entries whose titles have most of the words."""
        scores: dict[str, float] = {}
        for word in _asked(query):
            for form in dict.fromkeys((word, word[:1].upper() + word[1:], terms.stem(word))):
                for rank, path in enumerate(self._suggested(form, DEEP), 1):
                    scores[path] = scores.get(path, 0.0) + 1 / (_K + rank)
        wanted = frozenset(terms.content_terms(query))

        def key(path: str) -> tuple[float, float, str]:
            title = frozenset(terms.terms(self._archive.get_entry_by_path(path).title))
            return (-len(wanted & title) / (1 + 0.1 * len(title)), -scores[path], path)

        return sorted(scores, key=key)[:limit]

    def text(self, path: str) -> str:
        """The text of an entry, quickly and roughly: what `open` gives is better."""
        item = self._archive.get_entry_by_path(path).get_item()
        if not item.mimetype.startswith(("text/", "application/xhtml")):
            return ""
        return _rough(bytes(item.content[:_LARGEST]).decode("utf-8", "replace"))

    # -- questions

    def _matches(self, words: str) -> int:
        return int(self._search(words).getEstimatedMatches())

    def _search(self, words: str):  # type: ignore[no-untyped-def]  # libzim's Search
        from libzim.search import Query, Searcher

        if self._searcher is None:
            self._searcher = Searcher(self._archive)
        return self._searcher.search(Query().set_query(words))

    def _results(self, words: str) -> list[str]:
        """The entries that have all of the words, redirects followed, each once."""
        return self._ends(self._search(words).getResults(0, DEEP))

    def _suggested(self, word: str, limit: int) -> list[str]:
        from libzim.suggestion import SuggestionSearcher

        if self._suggester is None:
            self._suggester = SuggestionSearcher(self._archive)
        return self._ends(self._suggester.suggest(word).getResults(0, limit))

    def _ends(self, paths: Iterable[str]) -> list[str]:
        found: dict[str, None] = {}
        for path in paths:
            entry = self._archive.get_entry_by_path(path)
            for _ in range(10):
                if not entry.is_redirect:
                    found[entry.path] = None
                    break
                entry = entry.get_redirect_entry()
        return list(found)

    # -- ranking

    def _fused(self, words: Sequence[str], weights: dict[str, float]) -> dict[str, float]:
        """Reciprocal rank over the words alone and in pairs, and all of them together."""
        asked: list[tuple[str, ...]] = [(word,) for word in words]
        asked += combinations(words, 2)
        if len(words) > 2:
            asked.append(tuple(words))
        fused: dict[str, float] = {}
        for together in asked:
            weight = sum(weights[word] for word in together) * len(together)
            for rank, path in enumerate(self._results(" ".join(together)), 1):
                fused[path] = fused.get(path, 0.0) + weight / (_K + rank)
        return fused

    def _ranked_again(self, query: str, paths: Sequence[str], limit: int) -> list[str]:
        """The first of `paths` by BM25 over their words."""
        first, rest = paths[:AGAIN], paths[AGAIN:]
        wanted = list(dict.fromkeys(terms.content_terms(query)))
        counts = {path: self._counted(path) for path in first}
        weights = {word: _weight(self._matches(word), self._archive.entry_count) for word in _asked(query)}
        stems = {
            term: max((weights[w] for w in weights if term in terms.content_terms(w)), default=0.0) for term in wanted
        }
        mean = sum(count.total() for count in counts.values()) / max(len(counts), 1) or 1.0
        scores = {path: _bm25(count, stems, mean) for path, count in counts.items()}
        order = sorted(first, key=lambda path: -scores[path])  # a tie stays as it was fused
        return [*order, *rest][:limit]

    def _counted(self, path: str) -> Counter[str]:
        """The words of an entry, those of its title several times."""
        count = self._words.get(path)
        if count is None:
            count = Counter(terms.content_terms(self.text(path)))
            for word in terms.terms(self._archive.get_entry_by_path(path).title):
                count[word] += _TITLE
            if len(self._words) >= _KEPT:
                self._words.clear()
            self._words[path] = count
        return count


def _asked(query: str) -> list[str]:
    """The words and unspaced runs of a query, without stopwords and marks."""
    units = [part for unit in terms.units(query[:2_000]) for part in re.split(r"[^\w]+", unit) if part]
    return [u for u in dict.fromkeys(units) if u not in terms.STOPWORDS] or list(dict.fromkeys(units))


def _weight(matches: int, total: int) -> float:
    """How much a word says; 0 if no entry has it."""
    return math.log(1 + (max(total, matches) - matches + 0.5) / (matches + 0.5)) if matches else 0.0


def _bm25(count: Counter[str], weights: dict[str, float], mean: float) -> float:
    norm = _K1 * (1 - _B + _B * count.total() / mean)
    return sum(weight * count[term] * (_K1 + 1) / (count[term] + norm) for term, weight in weights.items())


def _rough(markup: str) -> str:
    text = _TAG.sub(" ", _BLOCK.sub("\n", _HIDDEN.sub(" ", markup)))
    return re.sub(r"[ \t]*\n\s*", "\n", re.sub(r"[ \t]+", " ", html.unescape(text))).strip()
