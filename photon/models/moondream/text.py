"""The text decoder: parallel-residual blocks with partial rotary positions (docs/model.md 4).

The decoder knows nothing of caches, pages, masks or batches: it hands queries, keys and values to `attend`.
Parameter names are those of the published checkpoints (naming family A).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.models.moondream.config import TextConfig
from photon.models.moondream.initial import normal
from photon.models.moondream.lora import Adapters, plus
from photon.models.moondream.moe import MoeMlp

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [..., h, d], k [..., h_kv, d], v [..., h_kv, d]) -> [..., h, d], all in the model's dtype.

Keys arrive rotated and values scaled, as they are to be cached; scores are scaled by d ** -0.5.
"""


class TauGain(nn.Module):
    """Moondream 3's gains on queries and values, from the token and its position (docs/model.md 4.6)."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.approximate = config.tau_gelu
        self.wq = nn.Parameter(torch.zeros(config.n_heads, config.qkv_dim))
        self.wv = nn.Parameter(torch.zeros(config.n_heads, config.qkv_dim))
        self.alpha = nn.Parameter(torch.zeros(config.n_heads))

    def forward(self, fused: Tensor, log_position: Tensor) -> tuple[Tensor, Tensor]:
        """fused [..., qkv_dim], log_position f32[..., 1] = ln(pos + 1) -> gains of q and v, [..., h, 1]."""
        u = F.gelu(fused, approximate=self.approximate)
        by_position = (0.5 + torch.sigmoid(self.alpha.float() * log_position)).to(fused.dtype)
        q_gain = torch.tanh(F.linear(u, self.wq)) + by_position
        v_gain = torch.tanh(F.linear(u, self.wv)) + by_position
        return q_gain.unsqueeze(-1), v_gain.unsqueeze(-1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, half: int) -> Tensor:
    """Rotate channel pairs (c, c + half) of x [..., heads, d] in float32; channels from 2 * half on pass.

    cos, sin: f32[..., 1, d], where sin carries the sign of its term and both are (1, 0) on passing channels.
    """
    swapped = torch.cat([x[..., half : 2 * half], x[..., :half], x[..., 2 * half :]], dim=-1)
    return torch.addcmul(x * cos, swapped, sin).to(x.dtype)


class Attention(nn.Module):
    """Fused projection, tau gains, rotary positions; the product itself is `attend`'s."""

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.rotary_half = config.rotary_dim // 2
        self.qkv = nn.Linear(config.dim, config.qkv_dim)
        self.proj = nn.Linear(config.dim, config.dim)
        self.tau = TauGain(config) if config.tau else None

    def forward(self, y: Tensor, where: Positions, attend: Attend, adapters: Adapters | None) -> Tensor:
        fused = self.qkv(y)
        if adapters is not None:
            fused = plus(fused, adapters.delta(self.layer, "qkv", y))
        heads = fused.unflatten(-1, (-1, self.head_dim))
        qk, v = heads.split([self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=-2)
        if self.tau is not None:
            q_gain, v_gain = self.tau(fused, where.log_position)
            q, k = qk.split([self.n_heads, self.n_kv_heads], dim=-2)
            qk, v = torch.cat([q * q_gain, k], dim=-2), v * v_gain
        q, k = rotate(qk, where.cos, where.sin, self.rotary_half).split([self.n_heads, self.n_kv_heads], dim=-2)
        mixed = attend(self.layer, q, k, v).flatten(-2)
        out: Tensor = self.proj(mixed)
        if adapters is not None:
            seen = mixed if getattr(adapters, "exact_proj", False) else y
            out = plus(out, adapters.delta(self.layer, "proj", seen))
        return out


class DenseMlp(nn.Module):
    """fc2(gelu_tanh(fc1(y))) (docs/model.md 4.4)."""

    def __init__(self, dim: int, inner: int, layer: int = -1, out: int | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.fc1 = nn.Linear(dim, inner)
        self.fc2 = nn.Linear(inner, dim if out is None else out)

    def forward(self, y: Tensor, adapters: Adapters | None = None) -> Tensor:
        inner: Tensor = self.fc1(y)
        if adapters is not None:
            inner = plus(inner, adapters.delta(self.layer, "fc1", y))
        inner = F.gelu(inner, approximate="tanh")
        out: Tensor = self.fc2(inner)
        if adapters is not None:
            out = plus(out, adapters.delta(self.layer, "fc2", inner))
        return out


class Block(nn.Module):
    """x + attn(ln(x)) + mlp(ln(x)), one norm for both (docs/model.md 4.2)."""

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(config.dim)
        self.attn = Attention(config, layer)
        self.mlp: nn.Module
        if config.moe is not None and config.is_moe(layer):
            self.mlp = MoeMlp(config.dim, config.moe, layer)
        else:
            self.mlp = DenseMlp(config.dim, config.ff_dim, layer)

    def forward(self, x: Tensor, where: Positions, attend: Attend, adapters: Adapters | None) -> Tensor:
        y = self.ln(x)
        # The small terms first: in bfloat16 the residual stream is then rounded once, not twice.
        out: Tensor = x + (self.attn(y, where, attend, adapters) + self.mlp(y, adapters))
        return out


class Positions:
    """What the blocks need to know of the positions int64[...] of one forward; float32, made once."""

    def __init__(self, decoder: TextDecoder, positions: Tensor) -> None:
        self.cos = decoder.rope_cos[positions].unsqueeze(-2)
        self.sin = decoder.rope_sin[positions].unsqueeze(-2)
        self._positions = positions

    @cached_property
    def log_position(self) -> Tensor:
        """ln(pos + 1), f32[..., 1]; only tau attention asks for it."""
        return torch.log((self._positions + 1).float()).unsqueeze(-1)


class TextDecoder(nn.Module):
    """Embeddings in, raw hidden states out; `post_ln` and `lm_head` belong to the language head only."""

    rope_cos: Tensor
    rope_sin: Tensor

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = normal(config.vocab_size, config.dim, std=0.02)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))
        self.post_ln = nn.LayerNorm(config.dim)
        self.lm_head = nn.Linear(config.dim, config.vocab_size)
        for name in ("rope_cos", "rope_sin"):
            self.register_buffer(name, None, persistent=False)
        self._make_tables(self.wte.device)

    def forward(self, x: Tensor, positions: Tensor, attend: Attend, adapters: Adapters | None = None) -> Tensor:
        """x [..., F] embeddings, positions int64[...] below max_context -> hidden [..., F], not normed."""
        where = Positions(self, positions)
        for block in self.blocks:
            x = block(x, where, attend, adapters)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., F] -> [..., V] (docs/model.md 4.5)."""
        out: Tensor = self.lm_head(self.post_ln(hidden))
        return out

    def _make_tables(self, device: torch.device) -> None:
        """Rotary tables f32[max_context, d]: pos * theta ** (-2c / rotary_dim) (docs/model.md 4.3)."""
        config = self.config
        if device.type == "meta":  # made anew with the storage
            self.rope_cos = self.rope_sin = torch.empty(config.max_context, config.head_dim, device=device)
            return
        half = config.rotary_dim // 2
        exponent = torch.arange(half, dtype=torch.float32, device=device) * (-2.0 / config.rotary_dim)
        positions = torch.arange(config.max_context, dtype=torch.float32, device=device)
        angle = torch.outer(positions, config.rope_theta**exponent)
        passing = torch.zeros(config.max_context, config.head_dim - config.rotary_dim, device=device)
        cos = torch.cat([angle.cos(), angle.cos(), passing + 1], dim=-1)
        sin = torch.cat([-angle.sin(), angle.sin(), passing], dim=-1)
        self.rope_cos, self.rope_sin = cos, sin

    def _apply(self, fn: Any, recurse: bool = True) -> TextDecoder:
        """Moves and casts; the tables are made anew, so that they hold numbers after `to_empty` and stay
        float32 after `.to(bfloat16)`."""
        super()._apply(fn, recurse)
        self._make_tables(self.wte.device)
        return self
