"""Attention over the paged KV cache: the only code that knows where keys and values lie.

Every class here is an `attend` of the text decoder: `attend(layer, q, k, v)` with q [..., h, d], k and v
[..., h_kv, d] returns [..., h, d]. Softmax is computed in float32; on a CPU a plain product, softmax, product is
several times faster than the fused operator for one-token steps (design: engine 6).
"""

from __future__ import annotations

import torch
from torch import Tensor


def scaled_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """q [B, T, h, d], k and v [B, L, h_kv, d], bias float32 broadcastable to [B, 1, T, L] -> [B, T, h, d]."""
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        k = k.repeat_interleave(groups, dim=2)
        v = v.repeat_interleave(groups, dim=2)
    scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)).float() * q.shape[-1] ** -0.5
    if bias is not None:
        scores = scores + bias
    weights = torch.softmax(scores, dim=-1).to(v.dtype)
    return torch.matmul(weights, v.transpose(1, 2)).transpose(1, 2)


class PagedCache:
    """K and V of all layers: `kv` [layers, 2, pages, page_size, h_kv, d]. Page 0 is scratch for padding."""

    def __init__(
        self,
        layers: int,
        pages: int,
        page_size: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.page_size = page_size
        self.kv = torch.zeros(layers, 2, pages + 1, page_size, kv_heads, head_dim, device=device, dtype=dtype)
        self._flat = self.kv.flatten(2, 3)  # [layers, 2, positions, h_kv, d]

    def write(self, layer: int, where: Tensor, k: Tensor, v: Tensor) -> None:
        """`where` int64 [n]: flat positions; k, v [n, h_kv, d]."""
        self._flat[layer, 0].index_copy_(0, where, k)
        self._flat[layer, 1].index_copy_(0, where, v)

    def gather(self, layer: int, pages: Tensor) -> tuple[Tensor, Tensor]:
        """`pages` int64 [B, n] -> K and V [B, n * page_size, h_kv, d]."""
        found = self.kv[layer].index_select(1, pages.flatten())
        keys, values = found.view(2, pages.shape[0], -1, *found.shape[-2:]).unbind(0)
        return keys, values

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        """Copy whole pages, all layers. int64 [n] each."""
        self.kv.index_copy_(2, target, self.kv.index_select(2, source))

    def flat_positions(self, pages: Tensor, positions: Tensor) -> Tensor:
        """Where `positions` [B, T] of rows with page tables `pages` [B, n] lie: int64 [B, T]."""
        return pages.gather(1, positions // self.page_size) * self.page_size + positions % self.page_size


class PrefixAttention:
    """The image prefix: one bidirectional block from position 0, written to its pages and read from nowhere else."""

    def __init__(self, cache: PagedCache, pages: Tensor, length: int) -> None:
        self._cache = cache
        positions = torch.arange(length, device=pages.device).expand(pages.shape[0], -1)
        self._where = cache.flat_positions(pages, positions).flatten()

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._cache.write(layer, self._where, k.flatten(0, 1), v.flatten(0, 1))
        return scaled_attention(q, k, v, None)


class PagedAttention:
    """Causal attention of new tokens over all that their rows' pages hold: prompts [B, T] and decode steps [B, 1].

    `positions` int64 [B, T]; `valid` bool [B, T] marks padding (False), whose keys go to the scratch page;
    `pages` int64 [B, n] covers every position up to the last.
    """

    def __init__(self, cache: PagedCache, pages: Tensor, positions: Tensor, valid: Tensor | None = None) -> None:
        self._cache = cache
        self._pages = pages
        where = cache.flat_positions(pages, positions)
        if valid is not None:
            where = where.where(valid, where % cache.page_size)
        self._where = where.flatten()
        slots = torch.arange(pages.shape[1] * cache.page_size, device=pages.device)
        hidden = slots > positions.unsqueeze(-1)  # [B, T, L]
        self._bias = torch.zeros(hidden.shape, device=pages.device).masked_fill_(hidden, float("-inf")).unsqueeze(1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._cache.write(layer, self._where, k.flatten(0, 1), v.flatten(0, 1))
        keys, values = self._cache.gather(layer, self._pages)
        return scaled_attention(q, keys, values, self._bias)
