"""The tokenizer of venus-tiny: Qwen's byte-level BPE with 1510 entries of its own and Qwen3's 26 added tokens.

In: a sample of episodes and the system prompt. Out: a `tokenizers.Tokenizer` and the JSON files beside it. The merges
are chosen so that every name is head + tail whatever stands before it: those merges come first, and no later one may
join what is left of a name. A plain BPE trainer cannot be told that, hence the forty lines of one here.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.tiny.episodes import HEADS, TAILS, draw_episode, render

VOCAB = 1536
CONTROL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
USER_DEFINED = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

Pair = tuple[str, str]


def _alphabet() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, in byte order of appearance as Qwen's vocabulary has them."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]


def _name_merges() -> list[Pair]:
    """First consonant + vowel, then what completes a head or a tail; unambiguous since no rime is ever merged."""
    open_pairs = {(s[i], s[i + 1]) for s in (*HEADS, *TAILS) for i in range(0, len(s) - 1, 2)}
    closed = [(h[:2], h[2]) for h in HEADS] + [(t[:2], t[2:]) for t in TAILS]
    return sorted(open_pairs) + closed


def _merge(parts: list[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _pretokenizer() -> pre_tokenizers.PreTokenizer:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), level])


def _word_counts(texts: Iterable[str]) -> Counter[str]:
    split, counts = _pretokenizer(), Counter[str]()
    tags = re.compile("|".join(re.escape(tag) for tag in (*CONTROL, *USER_DEFINED)))
    for text in texts:
        for piece in tags.split(text):
            counts.update(word for word, _ in split.pre_tokenize_str(piece))
    return counts


def _is_name(word: str) -> bool:
    return any(word[i : i + 3] in HEADS and word[i + 3 :] in TAILS for i in (0, 1))


def learn_merges(counts: Counter[str], size: int) -> list[Pair]:
    """BPE by frequency after the name merges, leaving out any pair that could meet inside or before a name."""
    merges = _name_merges()
    words = {word: list(word) for word in counts if not _is_name(word)}
    for pair in merges:
        words = {word: _merge(parts, pair) for word, parts in words.items()}
    heads, tails = set(HEADS), set(TAILS)
    while len(merges) < size:
        pairs = Counter[Pair]()
        for word, parts in words.items():
            for left, right in pairwise(parts):
                in_name = (right in heads and len(left) == 1) or (left in heads and right in tails)
                if not in_name:
                    pairs[left, right] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        words = {word: _merge(parts, best) for word, parts in words.items()}
    return merges


def build(system_prompt: str, episodes: int = 600) -> Tokenizer:
    """The tokenizer, always the same for the same generator and prompt."""
    rng = random.Random(0)
    texts = [render(draw_episode(rng).messages) for _ in range(episodes)]
    counts = _word_counts([*texts, *[system_prompt] * 30])
    room = VOCAB - len(CONTROL) - len(USER_DEFINED) - 256
    merges = learn_merges(counts, room)
    entries = dict.fromkeys([*_alphabet(), *(a + b for a, b in merges)])
    spare = (f"<|unused_{i}|>" for i in range(room))
    while len(entries) < room + 256:
        entries[next(spare)] = None
    vocab = {entry: i for i, entry in enumerate(entries)}
    assert len(vocab) == room + 256, len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _pretokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in USER_DEFINED])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    tokenizer.save(str(folder / "tokenizer.json"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = {
        str(tokenizer.token_to_id(t)): {"content": t, **flags, "special": t in CONTROL}
        for t in (*CONTROL, *USER_DEFINED)
    }
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": list(CONTROL[1:]),
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 4096,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
