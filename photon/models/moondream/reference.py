"""Plain attention, written to be read: the measure for every faster one, and what training uses.

All products and the softmax run in float32; results return in the model's dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.models.moondream.config import TextConfig


def visible(start: int, queries: int, keys: int, prefix_len: int, device: torch.device) -> Tensor:
    """bool[queries, keys]: which key positions the queries at start.. may see (docs/model.md 4.3).

    Key j is seen by query i if j <= i, or if both lie in the bidirectional block 0..prefix_len - 1.
    """
    i = torch.arange(start, start + queries, device=device).unsqueeze(1)
    j = torch.arange(keys, device=device)
    return (j <= i) | ((i < prefix_len) & (j < prefix_len))


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """q [B, T, h, d], k and v [B, S, h_kv, d], mask bool[T, S] or None for all -> [B, T, h, d]."""
    repeats = q.shape[-2] // k.shape[-2]
    queries = q.transpose(1, 2).float()
    keys = k.transpose(1, 2).float().repeat_interleave(repeats, dim=1)
    values = v.transpose(1, 2).float().repeat_interleave(repeats, dim=1)
    scores = queries @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ values).transpose(1, 2).to(q.dtype)


class FullAttention:
    """`attend` without a cache, for whole sequences [B, T, ...] that start with BOS (and the image)."""

    def __init__(self, prefix_len: int) -> None:
        """prefix_len: positions of the bidirectional block; 0 for text only."""
        self.prefix_len = prefix_len

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        length = q.shape[1]
        return attention(q, k, v, visible(0, length, length, self.prefix_len, q.device))


class ContiguousCache:
    """`attend` over one contiguous cache of `capacity` positions for a batch of equally long sequences.

    Takes [B, T, ...] and appends T positions, or [B, ...] and appends one. `length` moves on after the last
    layer, so one forward of the decoder is one append.
    """

    def __init__(
        self,
        config: TextConfig,
        capacity: int,
        prefix_len: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        shape = (config.n_layers, batch, capacity, config.n_kv_heads, config.head_dim)
        self.prefix_len = prefix_len
        self.length = 0
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if q.dim() == 3:
            return self(layer, q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)
        start, end = self.length, self.length + q.shape[1]
        self.keys[layer, :, start:end] = k
        self.values[layer, :, start:end] = v
        if layer == len(self.keys) - 1:
            self.length = end
        mask = visible(start, end - start, end, self.prefix_len, q.device)
        return attention(q, self.keys[layer, :, :end], self.values[layer, :, :end], mask)

    def rewind(self, length: int) -> None:
        """Forget the positions from `length` on."""
        self.length = length
