"""PASSAGES THAT NOBODY WROTE, as many as wanted: English as far as an index can tell. The same for the same seed.

How they are made: word ranks by Zipf and Mandelbrot, 1/(rank + 2.7)^1.05, over 400,000 words; the first ranks are
English stopwords in the order of their use, the others invented of syllables, longer as they get rarer. Passages are
log-normal in length, 100 words in the middle (Wikipedia cut for retrieval is that), sentences of 8 to 25 words. Each
passage has a topic: a third of its content words are of 40 that go with it, so that words keep company as in texts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from venus_edge import terms

WORDS, CHUNK = 400_000, 5_000
_FREQUENT = """
the of and to in a is that for it as was with be by on not he i this are or his from at which but have an had they you
were their one all we can her has there been if more when will would who so no she other its may these what them than
some him time into only do such my new about out also two any up first could our then most see me should after
"""
_FIRST = _FREQUENT.split()
_STARTS = "b c d f g h l m n p r s t v w br ch cl dr fl gr pl pr sh sl st str th tr qu"
_VOWELS = "a e i o u ai ea ee ie oa ou"
_ONSETS, _NUCLEI = _STARTS.split(), _VOWELS.split()
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "nd", "nt", "st", "ck", "ng", "rd"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Passages:
    """`count` passages of a seed."""

    count: int
    seed: int = 7

    @cached_property
    def vocabulary(self) -> list[str]:
        made = random.Random(self.seed)
        words = list(dict.fromkeys(_FIRST))
        known = set(words)
        while len(words) < WORDS:
            syllables = 1 + (len(words) > 400) + (made.random() < len(words) / WORDS)
            word = "".join(made.choice(_ONSETS) + made.choice(_NUCLEI) for _ in range(syllables)) + made.choice(_CODAS)
            word = word if word not in known else word + made.choice(_ONSETS) + made.choice(_NUCLEI)
            if word not in known:
                known.add(word)
                words.append(word)
        return words

    @cached_property
    def _shares(self) -> npt.NDArray[np.float64]:
        weights = 1 / (np.arange(WORDS) + 3.7) ** 1.05
        return np.asarray(np.cumsum(weights / weights.sum()), dtype=np.float64)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Title and text, one passage after the other."""
        for start in range(0, self.count, CHUNK):
            yield from self._chunk(start, min(CHUNK, self.count - start))

    def _chunk(self, start: int, size: int) -> Iterator[tuple[str, str]]:
        drawn = np.random.default_rng((self.seed, start))
        lengths = np.clip(drawn.lognormal(np.log(100), 0.4, size), 20, 380).astype(np.int64)
        ranks = np.searchsorted(self._shares, drawn.random(int(lengths.sum())))
        topics = np.repeat(drawn.integers(0, WORDS // 8, size), lengths)
        kept = (ranks > len(_FIRST)) & (drawn.random(len(ranks)) < 1 / 3)
        ranks[kept] = (len(_FIRST) + topics[kept] * 7 + (ranks[kept] % 40) ** 2) % WORDS
        ends = np.cumsum(drawn.integers(8, 26, len(ranks) // 8 + 2))
        vocabulary = self.vocabulary
        words = [vocabulary[rank] for rank in ranks]
        for end in ends[ends < len(words)]:
            words[end - 1] += "."
            words[end] = words[end].capitalize()
        at = 0
        for length in lengths:
            text = " ".join(words[at : at + length])
            yield " ".join(words[at + length - 3 : at + length]).title().replace(".", ""), text
            at += length

    def queries(self, count: int) -> list[str]:
        """Of passages that are there, in turn: six words that are no stopwords, a question with nine words in their
        order, a title."""
        made = random.Random(self.seed + 1)
        chunks = sorted({made.randrange(0, self.count, CHUNK) for _ in range(12)})
        texts = [pair for start in chunks for pair in self._chunk(start, min(CHUNK, self.count - start))]
        found = []
        for number, (title, text) in enumerate(made.sample(texts, count)):
            words = text.replace(".", "").split()
            content = [word for word in words if word.lower() not in terms.STOPWORDS] or words
            at = made.randrange(max(1, len(words) - 9))
            kinds = (made.sample(content, min(6, len(content))), ["what", "is", *words[at : at + 9]], title.split())
            found.append(" ".join(kinds[number % 3]))
        return found
