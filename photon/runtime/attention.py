"""Attention over the paged KV cache: the only code that knows where keys and values lie.

Every class here is an `attend` of the text decoder: `attend(layer, q, k, v)` with q [..., h, d], k and v
[..., h_kv, d] returns [..., h, d].
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.devices.base import Device
from photon.runtime.backends import Backend, Reads, full_attention


class PagedCache:
    """K and V of all layers: `kv` [layers, 2, pages, page_size, h_kv, d]. Page 0 is scratch for padding."""

    def __init__(
        self,
        layers: int,
        pages: int,
        page_size: int,
        kv_heads: int,
        head_dim: int,
        device: Device,
        dtype: torch.dtype,
    ) -> None:
        self.page_size = page_size
        self.kv = device.zeros(layers, 2, pages + 1, page_size, kv_heads, head_dim, dtype=dtype)
        # Views made once: on a CPU a small model's step would spend a few per cent of its time on making them anew.
        self._layers = [layer.unbind(0) for layer in self.kv.unbind(0)]
        self._flat = [layer.unbind(0) for layer in self.kv.flatten(2, 3).unbind(0)]

    def write(self, layer: int, where: Tensor, k: Tensor, v: Tensor) -> None:
        """`where` int64 [n]: flat positions; k, v [n, h_kv, d]."""
        keys, values = self._flat[layer]
        keys.index_copy_(0, where, k)
        values.index_copy_(0, where, v)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer: [pages, page_size, h_kv, d] each."""
        keys, values = self._layers[layer]
        return keys, values

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        """Copy whole pages, all layers. int64 [n] each."""
        self.kv.index_copy_(2, target, self.kv.index_select(2, source))

    def clear_pages(self, pages: Tensor) -> None:
        """Zero whole pages, all layers. int64 [n]."""
        self.kv.index_fill_(2, pages, 0)

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
        return full_attention(q, k, v)


class PagedAttention:
    """Causal attention of new tokens over all that their rows' pages hold: prompts [B, T] and decode steps [B, 1].

    `positions` int64 [B, T]; `valid` bool [B, T] marks padding (False), whose keys go to the scratch page;
    `pages` int64 [B, n] covers every position up to the last.
    """

    def __init__(
        self, cache: PagedCache, backend: Backend, pages: Tensor, positions: Tensor, valid: Tensor | None = None
    ) -> None:
        self._cache = cache
        where = cache.flat_positions(pages, positions)
        if valid is not None:
            where = where.where(valid, where % cache.page_size)
        self._padding = None if valid is None else ~valid.unsqueeze(-1).unsqueeze(-1)
        self._where = where.flatten()
        self._backend = backend
        self._plan = backend.plan(Reads(pages, positions, cache.page_size))

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self._padding is not None:  # all short rows read the scratch page: no row's overflow may stay there
            k, v = k.masked_fill(self._padding, 0), v.masked_fill(self._padding, 0)
        self._cache.write(layer, self._where, k.flatten(0, 1), v.flatten(0, 1))
        return self._backend.attend(self._plan, q, *self._cache.read(layer))
