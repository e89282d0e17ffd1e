"""The forwards of one model over its paged cache, free of slots, streams and scheduling."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any, Protocol

import torch
from torch import Tensor

from photon.models.moondream.model import Moondream
from photon.runtime.attention import PagedAttention, PagedCache, PrefixAttention
from photon.runtime.sampling import SampleNeeds, Sampler


class Executor(Protocol):
    """What the runner asks for. All tensors are on the device; every call runs on the compute stream.

    `pages` are page tables int64 [B, n]. Prompts are padded: ids, positions and valid [B, T], values [B, T, 3].
    """

    def prefix(self, crops: SequenceOf[Any], pages: Tensor) -> None:
        """Encode images and write their prefixes (BOS + image tokens) to their pages."""

    def copy_pages(self, source: Tensor, target: Tensor) -> None: ...

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write prompts to their pages; returns hidden [B, F] and logits [B, V] of each last valid position."""

    def decode(
        self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One token a row: ids and positions [B], values [B, 3]; returns hidden [B, F] and logits [B, V]."""

    def sample(
        self, hidden: Tensor, logits: Tensor, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        """Returns ids int64 [B] and values float32 [B, VALUES]."""


class ModelExecutor:
    """Runs a `Moondream` model."""

    def __init__(
        self,
        model: Moondream,
        pages: int,
        page_size: int,
        device: torch.device,
        dtype: torch.dtype,
        parity: bool = False,
    ) -> None:
        text = model.config.text
        self._model = model
        self._dtype = dtype
        self.cache = PagedCache(text.n_layers, pages, page_size, text.n_kv_heads, text.head_dim, device, dtype)
        self.sample = Sampler(model, continue_over_vocabulary=parity)

    def prefix(self, crops: SequenceOf[Any], pages: Tensor) -> None:
        x = self._model.prefix(self._model.vision(list(crops)))
        attend = PrefixAttention(self.cache, pages, x.shape[1])
        self._model.text(x, torch.arange(x.shape[1], device=x.device), attend)

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        self.cache.copy_pages(source, target)

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = self._model.embed(ids, values[..., 0], values[..., 1:])
        hidden = self._model.text(x, positions, PagedAttention(self.cache, pages, positions, valid))
        last = valid.sum(dim=1) - 1
        hidden = hidden[torch.arange(len(last), device=last.device), last]
        return hidden, self._model.logits(hidden)

    def decode(
        self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = self._model.embed(ids, values[:, 0], values[:, 1:])
        at = positions.unsqueeze(1)
        hidden = self._model.text(x.unsqueeze(1), at, PagedAttention(self.cache, pages, at)).squeeze(1)
        return hidden, self._model.logits(hidden)
