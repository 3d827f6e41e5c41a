"""RANKING IN A ZIM ARCHIVE, whose own index finds only what has every word.

In: an open archive and a query. Out: paths, best first. The rarest words are asked for alone and in pairs; what any of
them finds is fused by reciprocal rank, weighted by how rare the words are, and the best of that are ranked again by
BM25 over their texts, the title weighing more. First come an entry that is called as the query is, and those that have
all of its words. Without a full-text index titles are searched word by word, in the archive's index of them or, where
it has none, one after the other.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge import terms
from venus_edge.corpus import page
from venus_edge.corpus.zimindex import IndexDamagedError, Indexes

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

# What libzim raises for damage and for what is not there: its own errors, and those of the C++ library beneath it.
ERRORS = (RuntimeError, LookupError, ValueError, OSError, MemoryError, ArithmeticError, TypeError)
WORDS = 8  # the rarest words that are asked for
DEEP = 100  # results of each question that count
AGAIN = 60  # entries that are ranked again by their text
_K = 60  # of reciprocal rank (Cormack et al. 2009)
_K1, _B = 1.5, 0.75  # of BM25
_TITLE = 3  # a word of the title counts so often more
_LARGEST = 400_000  # bytes of an entry that are looked at
_KEPT = 3_000  # entries whose words are kept in memory
_MOST_TITLES = 500_000  # that are looked through where they have no index: half a second, 50 MB
_MOST_NAMED = 1_000  # titles with some of the words that are compared with the query
_MOST_REDIRECTS = 10
NAMESPACE = re.compile(r"^[A-Z-]/(?=.)")
_PROGRAM = re.compile(r"\.(?!html?$|te?xt$|md$)\w{1,5}$")  # the end of a path behind which anything may be
_OWN = re.compile(r"^[-BMVWXZ]/")  # of an older layout: the archive's looks, data about it, its indexes
_READ = ("text/", "application/xhtml", "application/pdf", "application/epub", "officedocument", "opendocument")
_HIDDEN = re.compile(
    r"<!--\s*htdig_noindex\s*-->.*?<!--\s*/htdig_noindex\s*-->|<!--.*?-->"
    r"|<(script|style|head|nav|footer|svg)\b.*?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_BLOCK = re.compile(
    r"</?(?:p|div|h\d|li|[uod]l|d[td]|tr|t[dh]|table|caption|section|article|blockquote|pre|option)\b[^>]*>|<br[^>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Ranked:
    """Paths, best first; whether they are all by their titles because the full-text index cannot be read."""

    paths: list[str]
    is_damaged: bool = False


def followed(entry: Entry) -> Entry | None:
    """Where an entry leads; None for a circle."""
    for _ in range(_MOST_REDIRECTS):
        if not entry.is_redirect:
            return entry
        entry = entry.get_redirect_entry()
    return None


def is_document(archive: Archive, entry: Entry) -> bool:
    """Whether an entry, which is no redirect, is one to be found: no picture, script or style, nothing of the archive's
    own. Scrapers put scripts in as plain text, which have no title then, and an ending that says so, or as pages."""
    item = entry.get_item()
    kind = item.mimetype.lower()
    if not any(part in kind for part in _READ) or re.search("css|javascript|json", kind):
        return False
    if kind.startswith("text/") and _PROGRAM.search(entry.path) and page.is_script(bytes(item.content)):
        return False
    if not archive.has_new_namespace_scheme and _OWN.match(entry.path):
        return False
    return kind != "text/plain" or entry.title != entry.path or not _PROGRAM.search(entry.path)


class Ranker:
    """Asks the indexes of an archive. Not for several threads."""

    def __init__(self, archive: Archive, file: Path) -> None:
        self._archive = archive
        self._indexes = Indexes(file)
        self.has_text = bool(archive.has_fulltext_index)
        self._words: dict[str, Counter[str]] = {}
        self._ends: dict[str, str] = {}

    def close(self) -> None:
        self._indexes.close()

    def best(self, query: str, quoted: Sequence[str] = ()) -> Ranked:
        """The entries for any of the words of a query, and where there are such, those with the `quoted` phrases only;
        where there is no full-text index, by their titles."""
        if not self.has_text:
            return Ranked(self.by_title(query, DEEP))
        try:
            found = self._by_text(query, quoted)
        except IndexDamagedError:
            return Ranked(self.by_title(query, DEEP), is_damaged=True)
        return Ranked(list(dict.fromkeys([*self._called(query), *found])) if found else [])

    def by_title(self, query: str, limit: int) -> list[str]:
        """The entries whose titles, or those of redirects to them, have most of the words."""
        words = _pieces(_whole(query))
        found: list[str] = []
        if self._archive.has_title_index or self._archive.entry_count > _MOST_TITLES:
            with suppress(IndexDamagedError):
                forms = [form for word in words for form in _written(word)]
                found = self._by_names(query, self._indexes.ask(titles=forms, limit=DEEP).titles)
        return (found or self._by_names(query, [self._looked_through(words)]))[:limit]

    def text(self, path: str) -> str | None:
        """The text of an entry, quickly and roughly: what `open` gives is better. None for a kind that is no text."""
        item = self._archive.get_entry_by_path(path).get_item()
        if not item.mimetype.startswith(("text/", "application/xhtml")):
            return None
        return _rough(bytes(item.content[:_LARGEST]).decode("utf-8", "replace"))

    def title(self, path: str) -> str:
        return title_of(self._archive.get_entry_by_path(path))

    # -- titles

    def _called(self, query: str) -> list[str]:
        """The entries with a title that is the query, or to which one leads, whatever its case, accents and endings."""
        try:
            (suggested,) = self._indexes.ask(titles=[query], limit=20).titles
        except IndexDamagedError:
            return []
        wanted, plain = sorted(terms.terms(query)), terms.fold(query)
        same = [path for path in suggested if self._end(path) and sorted(terms.terms(self.title(path))) == wanted]
        same.sort(key=lambda path: terms.fold(NAMESPACE.sub("", path)).replace("_", " ") != plain)
        return [self._end(path) for path in same]

    def _by_names(self, query: str, rankings: Iterable[Sequence[str]]) -> list[str]:
        """What these paths lead to, by how much of the query is in their titles."""
        scores: dict[str, float] = {}
        names: dict[str, float] = {}
        wanted = frozenset(terms.content_terms(query))
        for ranking in rankings:
            for rank, path in enumerate(ranking, 1):
                if end := self._end(path):
                    scores[end] = scores.get(end, 0.0) + 1 / (_K + rank)
                    names[end] = max(names.get(end, 0.0), self._likeness(path, wanted))
        return sorted(scores, key=lambda path: (-names[path], -scores[path], path))

    def _likeness(self, path: str, wanted: frozenset[str]) -> float:
        """How many of the words the title has; a short one says more of each. One character may be of any piece."""
        named = self.title(path)
        title = frozenset(terms.terms(named))
        single = sum(len(word) == 1 and terms.is_unspaced(word) and word in named for word in wanted - title)
        return (len(wanted & title) + single) / (1 + 0.1 * len(title))

    @cached_property
    def _titles(self) -> list[tuple[str, str]]:
        """All titles, folded, with their paths."""
        found: list[tuple[str, str]] = []
        if self._archive.entry_count > _MOST_TITLES:
            return found
        for number in range(self._archive.all_entry_count):
            try:
                entry = self._archive._get_entry_by_id(number)
                found.append((terms.fold(entry.title), entry.path))
            except ERRORS:
                continue  # the others are there
        return found

    def _looked_through(self, words: Sequence[str]) -> list[str]:
        forms = dict.fromkeys(form for word in words for form in (word, terms.stem(word)))
        found = ((sum(form in title for form in forms), path) for title, path in self._titles)
        most = nlargest(_MOST_NAMED, (pair for pair in found if pair[0]), key=lambda pair: pair[0])
        wanted = frozenset(terms.content_terms(" ".join(words)))
        return [path for _, path in most if self._end(path) and self._likeness(path, wanted)]

    def _end(self, path: str) -> str:
        """The document that a path leads to, "" if to none."""
        end = self._ends.get(path)
        if end is None:
            try:
                entry = followed(self._archive.get_entry_by_path(path))
                end = entry.path if entry is not None and is_document(self._archive, entry) else ""
            except ERRORS:
                end = ""  # it leads nowhere, or is damaged: the others are told
            if len(self._ends) >= 20 * _KEPT:
                self._ends.clear()
            self._ends[path] = end
        return end

    # -- the full text

    def _by_text(self, query: str, quoted: Sequence[str]) -> list[str]:
        """Those with all of the words first. Raises IndexDamagedError."""
        whole = _whole(query)
        words = _pieces(whole)
        found = dict(zip(words, self._indexes.ask(words, limit=DEEP).text, strict=True))
        total = self._archive.entry_count
        weights = {word: _weight(matches, total) for word, (matches, _) in found.items()}
        rarest = sorted((word for word in words if weights[word] > 0), key=lambda word: -weights[word])[:WORDS]
        together = [*combinations(rarest, 2), *([tuple(rarest)] if len(rarest) > 2 else [])]
        *answers, (_, every) = self._indexes.ask([" ".join(each) for each in (*together, whole)], limit=DEEP).text
        rankings: list[tuple[tuple[str, ...], list[str]]] = [((word,), found[word][1]) for word in rarest]
        rankings += [(each, paths) for each, (_, paths) in zip(together, answers, strict=True)]
        fused = self._fused(rankings, weights)
        paths = sorted(fused, key=lambda path: -fused[path])
        if quoted:
            paths = [path for path in paths[: 2 * DEEP] if self._has(path, quoted)] or paths
        ranked = self._ranked_again(paths, weights)
        have_all = {self._end(path) for path in every}
        return sorted(ranked, key=lambda path: path not in have_all)

    def _fused(
        self, rankings: Iterable[tuple[tuple[str, ...], list[str]]], weights: dict[str, float]
    ) -> dict[str, float]:
        """Reciprocal rank over the words alone, in pairs, and all of them together."""
        fused: dict[str, float] = {}
        for words, paths in rankings:
            weight = sum(weights[word] for word in words) * len(words)
            ends = dict.fromkeys(end for path in paths if (end := self._end(path)))
            for rank, end in enumerate(ends, 1):
                fused[end] = fused.get(end, 0.0) + weight / (_K + rank)
        return fused

    def _ranked_again(self, paths: Sequence[str], weights: dict[str, float]) -> list[str]:
        """The first of `paths` by BM25 over their words."""
        first, rest = paths[:AGAIN], paths[AGAIN:]
        counts = {path: self._counted(path) for path in first}
        stems: dict[str, float] = {}
        for word, weight in weights.items():
            for term in terms.content_terms(word):
                stems[term] = max(stems.get(term, 0.0), weight)
        mean = sum(count.total() for count in counts.values()) / max(len(counts), 1) or 1.0
        scores = {path: _bm25(count, stems, mean) for path, count in counts.items()}
        return [*sorted(first, key=lambda path: -scores[path]), *rest]  # a tie stays as it was fused

    def _has(self, path: str, quoted: Sequence[str]) -> bool:
        try:
            said = " ".join(["", *terms.words(self.title(path)), "|", *terms.words(self.text(path) or ""), ""])
        except ERRORS:
            return False
        return all(f" {phrase} " in said for phrase in quoted)

    def _counted(self, path: str) -> Counter[str]:
        """The words of an entry, those of its title several times."""
        count = self._words.get(path)
        if count is None:
            try:
                count = Counter(terms.content_terms(self.text(path) or ""))
            except ERRORS:
                count = Counter()  # it is damaged: its title is there
            for word in terms.terms(self.title(path)):
                count[word] += _TITLE
            if len(self._words) >= _KEPT:
                self._words.clear()
            self._words[path] = count
        return count


def title_of(entry: Entry, otherwise: str = "") -> str:
    """The title; for an entry whose title is its path `otherwise`, or else the words of the path."""
    bare = NAMESPACE.sub("", entry.path)
    try:
        title = " ".join(entry.title.split())
    except ValueError:  # damaged: no UTF-8
        title = ""
    return title if title not in ("", entry.path, bare) else otherwise or bare.replace("_", " ").strip("/")


def _whole(query: str) -> list[str]:
    """The words of a query, without stopwords and marks; a run of unspaced writing is one."""
    units = [part for unit in terms.units(query[:2_000]) for part in re.split(r"[^\w]+", unit) if part]
    return [u for u in dict.fromkeys(units) if u not in terms.STOPWORDS] or list(dict.fromkeys(units))


def _pieces(words: Iterable[str]) -> list[str]:
    """The words, and the pieces of those that are runs of unspaced writing."""
    found = (each for word in words for each in (word, *(terms.pieces(word) if terms.is_unspaced(word) else ())))
    return list(dict.fromkeys(found))


def _written(word: str) -> list[str]:
    return list(dict.fromkeys((word, word[:1].upper() + word[1:], terms.stem(word))))


def _weight(matches: int, total: int) -> float:
    """How much a word says; 0 if no entry has it."""
    return math.log(1 + (max(total, matches) - matches + 0.5) / (matches + 0.5)) if matches else 0.0


def _bm25(count: Counter[str], weights: dict[str, float], mean: float) -> float:
    norm = _K1 * (1 - _B + _B * count.total() / mean)
    return sum(weight * count[term] * (_K1 + 1) / (count[term] + norm) for term, weight in weights.items())


def _rough(markup: str) -> str:
    text = _TAG.sub("", _BLOCK.sub("\n", _HIDDEN.sub(" ", markup)))
    return re.sub(r"[ \t]*\n\s*", "\n", re.sub(r"[ \t]+", " ", html.unescape(text))).strip()
