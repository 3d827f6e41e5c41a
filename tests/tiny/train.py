"""Train venus-tiny: 3.5 million Qwen3 parameters that play one search, one visit and one answer.

In: `episodes.py` (data without end), `tokenizer.py`, the system prompt and the chat template. Out: a checkpoint folder
as Hugging Face lays it out, a resumable state and log lines. Two cores and ninety minutes are enough; see README.md.
The system prompt is the same for a whole batch, so its keys and values are computed once and shared by its rows.

    python -m tests.tiny.train --work WORK                    trains and writes tests/data/venus-tiny
    python -m tests.tiny.train --work WORK --resume           goes on from WORK/state.pt
    python -m tests.tiny.train --work WORK --evaluate 64      only plays held-out episodes with WORK/state.pt
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import time
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from tests.tiny import tokenizer as vocabulary
from tests.tiny.episodes import HEADS, MATERIALS, TAILS, Episode, draw_episode, render
from tests.tiny.model import Past, Qwen3, config

HERE = Path(__file__).resolve().parent
COPIED, WRITTEN = 2.5, 1.0  # weights in the loss of what the assistant writes: values and names, other tokens
REPEATED, READ = 0.8, 0.2  # and of what it reads: a summary, which repeats the evidence, and the rest


def log(line: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# -- data -------------------------------------------------------------------------------------------------------------


class Text:
    """The tokenizer and the system prompt: conversations as ids and weights."""

    def __init__(self, tokens: Tokenizer, system_prompt: str) -> None:
        self.tokens, self.system_prompt = tokens, system_prompt
        tags = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>")
        self.start, self.end, self.pad, self.think = (int(tokens.token_to_id(tag) or 0) for tag in tags)
        self.summary, self.close = tokens.token_to_id("Summary"), tokens.token_to_id("</tool_response>")
        pieces = (*HEADS, *TAILS, *"0123456789", *(f"Ġ{m}" for m in MATERIALS))
        self.copied = {i for i in map(tokens.token_to_id, pieces) if i is not None}

    def ids(self, text: str) -> list[int]:
        """The text's tokens, tags read as tags."""
        return list(self.tokens.encode(text, add_special_tokens=False).ids)

    def prefix(self, rng: random.Random) -> list[int]:
        """The system message, under some date."""
        day = (date(2024, 1, 1) + timedelta(days=rng.randrange(1461))).isoformat()
        prompt = re.sub(r"\d{4}-\d\d-\d\d\n$", f"{day}\n", self.system_prompt)
        return self.ids(render([{"role": "system", "content": prompt}]))

    def weights(self, ids: list[int], outside: float, rng: random.Random) -> list[float]:
        """A weight per token: none in headers, and of what is only read a share `outside` has one."""
        result: list[float] = []
        inside, header, repeats = False, 0, False
        for i in ids:
            header = 3 if i == self.start else max(0, header - 1)
            repeats = (repeats or i == self.summary) and i != self.close
            if inside:
                result.append(COPIED if i in self.copied else WRITTEN)
            elif repeats and i in self.copied:
                result.append(REPEATED)
            else:
                silent = header or i == self.think or rng.random() >= outside
                result.append(0.0 if silent else READ)
            inside = (inside or i == self.think) and i != self.end
        return result


class Batch(NamedTuple):
    """Rows of ids and their weights, padded on the right; `prefix` (one row) stands before each of them."""

    ids: Tensor
    weights: Tensor
    prefix: Tensor | None


class Stage(NamedTuple):
    """What the data looks like until minute `until`."""

    name: str
    until: float
    short: bool
    prompted: float  # share of batches with the system prompt in front
    outside: float  # share of the tokens the assistant does not write that count in the loss


def batches(text: Text, rng: random.Random, budget: int, stage: Stage) -> list[Batch]:
    """About 16 batches of at most `budget` tokens, each of rows of about one length."""
    drawn = (draw_episode(rng, short=stage.short) for _ in range(256))
    rows = sorted((text.ids(render(episode.messages)) for episode in drawn), key=len)
    result: list[Batch] = []
    while rows:
        count = min(len(rows), budget // len(rows[-1]))
        if count < 4:
            break
        chunk, rows = rows[-count:], rows[:-count]
        width = len(chunk[-1])
        ids = [row + [text.pad] * (width - len(row)) for row in chunk]
        weights = [text.weights(row, stage.outside, rng) + [0.0] * (width - len(row)) for row in chunk]
        prefix = torch.tensor([text.prefix(rng)]) if rng.random() < stage.prompted else None
        result.append(Batch(torch.tensor(ids), torch.tensor(weights), prefix))
    rng.shuffle(result)
    return result


# -- learning ---------------------------------------------------------------------------------------------------------


def loss_of(model: Qwen3, batch: Batch) -> tuple[Tensor, float]:
    """The weighted loss, and the plain loss over what the assistant writes."""
    past = model(batch.prefix)[1] if batch.prefix is not None else None
    hidden, _ = model(batch.ids, past)
    target, weight = batch.ids[:, 1:], batch.weights[:, 1:]
    chosen = weight > 0
    logits = model.logits(hidden[:, :-1][chosen]).float()
    each, weight = F.cross_entropy(logits, target[chosen], reduction="none"), weight[chosen]
    written = each.detach()[weight >= WRITTEN]
    return (each * weight).sum() / weight.sum(), float(written.mean())


def optimizers(model: Qwen3, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside, AdamW for embeddings and norms."""
    inner = [p for n, p in model.named_parameters() if p.ndim == 2 and not n.startswith("embed")]
    outer = [p for n, p in model.named_parameters() if p.ndim == 1 or n.startswith("embed")]
    muon = torch.optim.Muon(inner, lr=lr, momentum=0.95, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(outer, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adam]


def schedule(done: float, warm: float, decay: float) -> float:
    """The learning rate's factor when this share of the time is over: warm-up, plateau, linear decay to a hundredth."""
    if done < warm:
        return done / warm
    return max(0.01, (1 - done) / decay) if done > 1 - decay else 1.0


class Trainer:
    """The model, its optimizers and how far they are."""

    def __init__(self, args: argparse.Namespace, text: Text) -> None:
        torch.manual_seed(args.seed)
        self.args, self.text = args, text
        self.model = Qwen3()
        self.groups = optimizers(self.model, args.lr)
        self.step, self.seen, self.minutes, self.average = 0, 0, 0.0, 0.0
        if args.resume:
            self._load(args.work / "state.pt")
        for layer in self.model.layers:
            layer.compile(dynamic=True)

    def run(self) -> None:
        """Train until the minutes are over; save, evaluate and export on the way."""
        args = self.args
        rng = random.Random(args.seed + self.step)
        began, saved, tested = time.time() - 60 * self.minutes, self.minutes, self.minutes
        queue: list[Batch] = []
        stage = self._stage()
        while self.minutes < args.minutes:
            if stage != self._stage():
                stage, queue = self._stage(), []
            queue = queue or batches(self.text, rng, args.budget, stage)
            self._learn(queue.pop())
            self.minutes = (time.time() - began) / 60
            if self.step % 20 == 0:
                log(
                    f"{stage.name} step {self.step} minute {self.minutes:.1f} tokens {self.seen / 1e6:.2f}M"
                    f" lr {self._rate():.2g} assistant {self.average:.4f}"
                )
            if self.minutes - saved > 5:
                saved = self.minutes
                self._save(args.work / "state.pt")
            if self.minutes - tested > args.every:
                tested = self.minutes
                export(self.model, self.text, args.out, args.protocol)
                log(f"minute {self.minutes:.1f}: {evaluate(self.model, self.text, 24, seed=1)}")
        self._save(args.work / "state.pt")
        export(self.model, self.text, args.out, args.protocol)
        log(f"{self.step} steps, {self.seen / 1e6:.2f}M tokens: {evaluate(self.model, self.text, 64, seed=2)}")

    def _stage(self) -> Stage:
        stages = (
            Stage("short", self.args.short, short=True, prompted=0.0, outside=1.0),
            Stage("full", self.args.full, short=False, prompted=0.0, outside=self.args.outside),
            Stage("prompted", float("inf"), short=False, prompted=self.args.prompted, outside=self.args.outside),
        )
        return next(stage for stage in stages if self.minutes < stage.until)

    def _rate(self) -> float:
        total = self.args.minutes
        return float(self.args.lr * schedule(self.minutes / total, self.args.warm / total, self.args.decay))

    def _learn(self, batch: Batch) -> None:
        for group in self.groups:
            for settings in group.param_groups:
                settings["lr"] = self._rate()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, plain = loss_of(self.model, batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.groups:
            group.step()
            group.zero_grad(set_to_none=True)
        self.average = 0.95 * self.average + 0.05 * plain if self.step else plain
        self.step, self.seen = self.step + 1, self.seen + batch.ids.numel()

    def _save(self, path: Path) -> None:
        counts = {"step": self.step, "seen": self.seen, "minutes": self.minutes}
        groups = [group.state_dict() for group in self.groups]
        torch.save({"model": self.model.state_dict(), "groups": groups, **counts}, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def _load(self, path: Path) -> None:
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        for group, kept in zip(self.groups, state["groups"], strict=True):
            group.load_state_dict(kept)
        self.step, self.seen, self.minutes = state["step"], state["seen"], state["minutes"]


# -- playing ----------------------------------------------------------------------------------------------------------


def write(model: Qwen3, text: Text, past: Past | None, ids: list[int], limit: int = 150) -> tuple[str, Past]:
    """One greedy turn after `ids`, and the keys and values up to its end."""
    out: list[int] = []
    with torch.no_grad():
        hidden, past = model(torch.tensor([ids]), past)
        while len(out) < limit and text.end not in out[-1:]:
            out.append(int(model.logits(hidden[:, -1]).argmax()))
            hidden, past = model(torch.tensor([out[-1:]]), past)
    written = out[:-1] if out[-1] == text.end else out
    return str(text.tokens.decode(written, skip_special_tokens=False)), past


def play(model: Qwen3, text: Text, episode: Episode, rng: random.Random) -> tuple[bool, ...]:
    """An episode played freely, the tools answering as if every call were right: which of the three turns were.

    A turn is right when what follows its thinking is, character by character, what the episode has.
    """
    past: Past | None = None
    ids = text.prefix(rng)
    right: list[bool] = []
    for told, expected in zip(episode.messages[::2], episode.messages[1::2], strict=True):
        ids += text.ids(render([told]) + "<|im_start|>assistant\n<think>\n")
        reply, past = write(model, text, past, ids)
        right.append(reply.rpartition("</think>")[2] == expected["content"].rpartition("</think>")[2])
        if not right[-1]:
            log(f"  wrote  {reply!r}\n  wanted {expected['content']!r}\n  page   {episode.page.text!r}")
        ids = text.ids("\n")
    return tuple(right)


def evaluate(model: Qwen3, text: Text, count: int, seed: int) -> str:
    """How many of `count` held-out episodes had the right search, visit and answer."""
    rng = random.Random(seed)
    plain = Qwen3()  # not compiled: every length here is new
    plain.load_state_dict(model.state_dict())
    played = [play(plain, text, draw_episode(rng, held=True), rng) for _ in range(count)]
    searches, visits, answers = (sum(turn) for turn in zip(*played, strict=True))
    return f"searches {searches}/{count} visits {visits}/{count} answers {answers}/{count}"


# -- the checkpoint ---------------------------------------------------------------------------------------------------


def export(model: Qwen3, text: Text, out: Path, protocol: Path) -> None:
    """Write the checkpoint folder; each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    part = out.parent / f".{out.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    tensors = {f"model.{n}": p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
    vocabulary.save(text.tokens, part)
    ends = {"bos_token_id": text.pad, "eos_token_id": [text.end, text.pad], "pad_token_id": text.pad}
    described = {
        "config.json": config(end=text.end, pad=text.pad),
        "generation_config.json": {**ends, "do_sample": False, "transformers_version": "4.51.0"},
    }
    for name, value in described.items():
        (part / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(protocol / "chat_template.jinja", part / "chat_template.jinja")
    for path in sorted(part.iterdir()):
        path.chmod(0o644)
        os.replace(path, out / path.name)
    part.rmdir()


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train venus-tiny.")
    parser.add_argument("--work", type=Path, required=True, help="folder of state.pt")
    parser.add_argument("--out", type=Path, default=HERE.parent / "data" / "venus-tiny")
    parser.add_argument("--protocol", type=Path, default=HERE.parents[1] / "venus_edge" / "protocol")
    parser.add_argument("--minutes", type=float, default=88)
    parser.add_argument("--short", type=float, default=4, help="minute at which whole episodes come in")
    parser.add_argument("--full", type=float, default=32, help="minute at which the system prompt comes in")
    parser.add_argument("--prompted", type=float, default=0.9, help="share of batches that then have it")
    parser.add_argument("--outside", type=float, default=0.25, help="share of merely read tokens that are learnt too")
    parser.add_argument("--warm", type=float, default=1.5, help="minutes of warm-up")
    parser.add_argument(
        "--decay", type=float, default=0.25, help="share of the time in which the rate falls to nothing"
    )
    parser.add_argument("--every", type=float, default=10, help="minutes between evaluations")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--budget", type=int, default=6144, help="tokens a batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--evaluate", type=int, default=0, metavar="EPISODES")
    return parser.parse_args()


def main() -> None:
    """Train, go on training, or evaluate. A kept tokenizer is used again: ids must not move under trained weights."""
    args = arguments()
    torch.set_num_threads(args.threads)
    system_prompt = (args.protocol / "system_prompt.txt").read_text(encoding="utf-8")
    if not (args.resume or args.evaluate):
        Trainer(args, Text(vocabulary.build(system_prompt), system_prompt)).run()
        return
    text = Text(Tokenizer.from_file(str(args.out / "tokenizer.json")), system_prompt)
    if not args.evaluate:
        Trainer(args, text).run()
        return
    model = Qwen3()
    model.load_state_dict(torch.load(args.work / "state.pt")["model"])
    log(evaluate(model, text, args.evaluate, seed=3))


if __name__ == "__main__":
    main()
