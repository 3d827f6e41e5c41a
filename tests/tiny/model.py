"""Qwen3 in plain torch: the network of venus-tiny and the config.json that describes it.

In: token ids. Out: hidden states, logits, keys and values. Parameter names and layouts are Hugging Face's, so a state
dict is a checkpoint. This module knows nothing about tokens or training.
"""

# mypy: disable-error-code="misc,no-any-return"
# (without the train extra torch is Any, and so is every Module)

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The geometry, in Hugging Face's words."""

    vocab_size: int = 1536
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 768
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    max_position_embeddings: int = 4096


SHAPE = Shape()
Pair = tuple[Tensor, Tensor]  # keys and values, or cosines and sines
Past = list[Pair]


class Norm(nn.Module):
    """RMSNorm over the last dimension."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), SHAPE.rms_norm_eps)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in Qwen's half-split layout."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    """Grouped-query attention with a norm on every query and key head."""

    def __init__(self) -> None:
        super().__init__()
        width, heads, kv, dim = SHAPE.hidden_size, SHAPE.num_attention_heads, SHAPE.num_key_value_heads, SHAPE.head_dim
        self.q_proj = nn.Linear(width, heads * dim, bias=False)
        self.k_proj = nn.Linear(width, kv * dim, bias=False)
        self.v_proj = nn.Linear(width, kv * dim, bias=False)
        self.o_proj = nn.Linear(heads * dim, width, bias=False)
        self.q_norm = Norm(dim)
        self.k_norm = Norm(dim)

    def forward(self, x: Tensor, turn: Pair, mask: Tensor | None, past: Pair | None) -> tuple[Tensor, Pair]:
        rows, length, _ = x.shape
        split = (rows, length, -1, SHAPE.head_dim)
        q = rotate(self.q_norm(self.q_proj(x).view(split)).transpose(1, 2), *turn)
        k = rotate(self.k_norm(self.k_proj(x).view(split)).transpose(1, 2), *turn)
        v = self.v_proj(x).view(split).transpose(1, 2)
        if past is not None:
            k = torch.cat((past[0].expand(rows, -1, -1, -1), k), dim=2)
            v = torch.cat((past[1].expand(rows, -1, -1, -1), v), dim=2)
        group = SHAPE.num_attention_heads // SHAPE.num_key_value_heads
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=mask, is_causal=mask is None
        )
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1)), (k, v)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(SHAPE.hidden_size, SHAPE.intermediate_size, bias=False)
        self.up_proj = nn.Linear(SHAPE.hidden_size, SHAPE.intermediate_size, bias=False)
        self.down_proj = nn.Linear(SHAPE.intermediate_size, SHAPE.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    """One block, norms first."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = Norm(SHAPE.hidden_size)
        self.self_attn = Attention()
        self.post_attention_layernorm = Norm(SHAPE.hidden_size)
        self.mlp = Mlp()

    def forward(self, x: Tensor, turn: Pair, mask: Tensor | None, past: Pair | None) -> tuple[Tensor, Pair]:
        y, kept = self.self_attn(self.input_layernorm(x), turn, mask, past)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), kept


def _deviation(name: str, fan_in: int) -> float:
    if name.startswith("embed"):
        return 0.02
    share = 0.5 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
    return share * float(fan_in) ** -0.5


class Qwen3(nn.Module):
    """The stack up to the final norm; logits are `hidden @ embed_tokens.weight.T`. Names are Hugging Face's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(SHAPE.vocab_size, SHAPE.hidden_size)
        self.layers = nn.ModuleList(Layer() for _ in range(SHAPE.num_hidden_layers))
        self.norm = Norm(SHAPE.hidden_size)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=_deviation(name, weight.shape[1]))

    def forward(self, ids: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """Rows of ids after what `past` holds -> hidden states, and keys and values with theirs added.

        A `past` of one row stands before every row.
        """
        length, before = ids.shape[1], past[0][0].shape[2] if past else 0
        position = torch.arange(before, before + length, dtype=torch.float32)
        wave = SHAPE.rope_theta ** (-torch.arange(0, SHAPE.head_dim, 2, dtype=torch.float32) / SHAPE.head_dim)
        angle = position[:, None] * wave
        x = self.embed_tokens(ids)
        x = x.bfloat16() if torch.is_autocast_enabled("cpu") else x
        turn = (angle.cos().to(x.dtype), angle.sin().to(x.dtype))
        mask = torch.ones(length, before + length, dtype=torch.bool).tril(before) if before else None
        kept: Past = []
        for i, layer in enumerate(self.layers):
            x, pair = layer(x, turn, mask, past[i] if past else None)
            kept.append(pair)
        return self.norm(x), kept

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed_tokens.weight)


def config(end: int, pad: int) -> dict[str, object]:
    """config.json, with every field that Hugging Face's and llama.cpp's readers look for."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": pad,
        "eos_token_id": end,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_window_layers": SHAPE.num_hidden_layers,
        "model_type": "qwen3",
        "rope_scaling": None,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0",
        "use_cache": True,
        "use_sliding_window": False,
        **asdict(SHAPE),
    }
