"""One-token attention on a CPU: the keys and values of the rows that decode, side by side.

Gathering pages costs a CPU more than attending to them (photon/bench/README.md), and the same rows mostly decode many
times in turn. So their pages are gathered once, heads outermost, and every further step adds one column for all rows:
attention does not ask in which order keys lie, only which a row may see. The pages are still written, once a step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.runtime.attention import PagedCache

_HEADROOM = 64
"""Columns that may be added before the pages are gathered anew."""


class Columns:
    """Decode attention for `cache`; takes at most `limit` bytes beside it.

    Use: `attend = start(pages, positions)`, the decoder's forward with `attend`, `attend.finish()`. `forget` must be
    called when anything else has written to pages: they may have a new owner.
    """

    def __init__(self, cache: PagedCache, limit: int) -> None:
        self.cache = cache
        layers, _, _, _, kv_heads, head_dim = cache.kv.shape
        self._row_column = 2 * layers * kv_heads * head_dim  # values that one row's column takes
        self._most = limit // cache.kv.itemsize
        self._memory = cache.kv.new_empty(0)
        self._pages: Tensor | None = None
        self._next = 0
        self._positions = self._memory
        self.kv = self._memory
        self.bias = self._memory

    def fits(self, pages: Tensor) -> bool:
        """Whether rows with page tables `pages` [B, n] may be laid out within the limit."""
        rows, count = pages.shape
        return rows * (count * self.cache.page_size + _HEADROOM) * self._row_column <= self._most

    def forget(self) -> None:
        self._pages = None

    def start(self, pages: Tensor, positions: Tensor) -> ColumnAttention:
        """pages int64 [B, n] cover positions int64 [B], where the step's tokens stand."""
        if not self._goes_on(pages, positions):
            self._gather(pages, positions)
        return ColumnAttention(self, pages, positions, self._next)

    def finished(self, positions: Tensor) -> None:
        """The step's column is complete in all layers."""
        self._next += 1
        self._positions = positions + 1

    def _goes_on(self, pages: Tensor, positions: Tensor) -> bool:
        """Whether these are the rows of the last step, one token further; a longer table begins like theirs."""
        known = self._pages
        return (
            known is not None
            and len(known) == len(pages)
            and self._next < self.kv.shape[-2]
            and torch.equal(known, pages[:, : known.shape[1]])
            and torch.equal(self._positions, positions)
        )

    def _gather(self, pages: Tensor, positions: Tensor) -> None:
        cache, (rows, count) = self.cache, pages.shape
        layers, _, _, size, kv_heads, head_dim = cache.kv.shape
        held = count * size
        shape = (layers, 2, rows, kv_heads, held + _HEADROOM, head_dim)
        needed = rows * (held + _HEADROOM) * self._row_column
        if self._memory.numel() < needed:
            self._memory = cache.kv.new_empty(needed)
        self.kv = self._memory[:needed].view(shape)
        flat = pages.flatten()
        for layer in range(layers):  # one layer at a time stays in the processor's cache
            found = cache.kv[layer].index_select(1, flat).view(2, rows, held, kv_heads, head_dim)
            self.kv[layer, ..., :held, :] = found.transpose(2, 3)
        hidden = torch.arange(held) >= positions.unsqueeze(1)
        self.bias = torch.zeros(rows, kv_heads, 1, held + _HEADROOM, dtype=cache.kv.dtype)
        self.bias[..., :held].masked_fill_(hidden[:, None, None], float("-inf"))
        self._pages, self._positions, self._next = pages.clone(), positions.clone(), held


class ColumnAttention:
    """The `attend` of one decode step, [B, 1, ...]; its tokens take column `at` of every row."""

    def __init__(self, columns: Columns, pages: Tensor, positions: Tensor, at: int) -> None:
        self._columns = columns
        self._positions = positions
        self._where = columns.cache.flat_positions(pages, positions.unsqueeze(1)).flatten()
        kv, end = columns.kv, at + 1
        self._new = kv[:, :, :, :, at]
        self._new_keys, self._new_values = self._new[:, 0].unbind(0), self._new[:, 1].unbind(0)
        self._keys = kv[:, 0, ..., :end, :].flatten(1, 2).transpose(2, 3).unbind(0)
        self._values = kv[:, 1, ..., :end, :].flatten(1, 2).unbind(0)
        self._bias = columns.bias[..., :end].flatten(0, 1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, _, kv_heads, head_dim = k.shape
        self._new_keys[layer].copy_(k[:, 0])
        self._new_values[layer].copy_(v[:, 0])
        grouped = q.reshape(rows * kv_heads, -1, head_dim)
        scores = torch.baddbmm(self._bias, grouped, self._keys[layer], alpha=head_dim**-0.5)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        return torch.bmm(weights, self._values[layer]).view(q.shape)

    def finish(self) -> None:
        """Write the step's keys and values of all layers to their pages."""
        self._columns.cache.write_all(self._where, self._new)
        self._columns.finished(self._positions)
