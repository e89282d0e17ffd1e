"""The forwards of one model over its paged cache, free of slots, streams and scheduling."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any, Protocol

import torch
from torch import Tensor

from photon.core.config import EngineConfig
from photon.devices.base import Device
from photon.models.moondream.lora import Adapter
from photon.models.moondream.model import Moondream
from photon.runtime.adapter_bank import AdapterBank
from photon.runtime.attention import PagedAttention, PagedCache, PrefixAttention
from photon.runtime.backends import Chosen, Heads, choose
from photon.runtime.choices import SampleNeeds
from photon.runtime.encoding import image_tokens
from photon.runtime.sampling import Sampler

Outputs = tuple[Tensor, Tensor | None]
"""Hidden states [B, F] of a step, and its logits [B, V], or None where `sample` makes those that it needs."""


class Executor(Protocol):
    """What the runner asks for. All tensors are on the device; every call runs on the compute stream.

    `pages` are page tables int64 [B, n]; `adapters` int64 [B] are adapter slots, None if no row has one. Prompts
    are padded: ids, positions and valid [B, T], values [B, T, 3].
    """

    def add_adapter(self, adapter: Adapter) -> bool:
        """Make room for an adapter's weights. Called between ticks; whether captured steps must be captured anew."""

    def load_adapter(self, slot: int, adapter: Adapter) -> None:
        """Put an adapter that has been added into a slot that no launched work uses any more."""

    def prefix(self, crops: SequenceOf[Any], pages: Tensor, adapters: Tensor | None) -> None:
        """Encode images, unless that was done ahead, and write their prefixes (BOS + image tokens) to their pages."""

    def copy_pages(self, source: Tensor, target: Tensor) -> None: ...

    def clear_pages(self, pages: Tensor) -> None:
        """Zero them. int64 [n]."""

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> Outputs:
        """Write prompts to their pages; returns the outputs of each last valid position."""

    def decode(self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None) -> Outputs:
        """One token a row: ids and positions [B], values [B, 3]."""

    def sample(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        """Returns ids int64 [B] and values float32 [B, VALUES]."""


def attention_for(model: Moondream, device: Device, page_size: int | None) -> Chosen:
    """The way to attend, and the page size, that suit the model on this device. Raises `DeviceError`."""
    text = model.config.text
    heads = Heads(text.n_heads, text.n_kv_heads, text.head_dim)
    return choose(device.torch_device, model.dtype, heads, page_size)


class ModelExecutor:
    """Runs a `Moondream` model.

    `eager`: for steps that are not captured. Logits are then left to sampling, which knows whether any row chooses
    between ids. `attention`: None chooses what suits the device.
    """

    def __init__(
        self,
        model: Moondream,
        config: EngineConfig,
        kv_pages: int,
        device: Device,
        eager: bool = False,
        attention: Chosen | None = None,
    ) -> None:
        text, dtype = model.config.text, model.dtype
        chosen = attention or attention_for(model, device, config.page_size)
        self._model = model
        self.cache = PagedCache(
            text.n_layers, kv_pages, chosen.page_size, text.n_kv_heads, text.head_dim, device, dtype
        )
        self._eager = eager
        self._backend = chosen.backend
        self._adapters = AdapterBank(text, config.max_adapters, config.max_adapter_rank, device, dtype)
        self.sample = Sampler(model, continue_over_vocabulary=config.parity)

    def add_adapter(self, adapter: Adapter) -> bool:
        return self._adapters.add(adapter)

    def load_adapter(self, slot: int, adapter: Adapter) -> None:
        self._adapters.load(slot, adapter)

    def prefix(self, crops: SequenceOf[Any], pages: Tensor, adapters: Tensor | None) -> None:
        x = self._model.prefix(image_tokens(self._model, crops))
        attend = PrefixAttention(self.cache, pages, x.shape[1])
        self._model.text(x, torch.arange(x.shape[1], device=x.device), attend, self._adapters.batch(adapters))

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        self.cache.copy_pages(source, target)

    def clear_pages(self, pages: Tensor) -> None:
        self.cache.clear_pages(pages)

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> Outputs:
        x = self._model.embed(ids, values[..., 0], values[..., 1:])
        attend = PagedAttention(self.cache, self._backend, pages, positions, valid)
        hidden = self._model.text(x, positions, attend, self._adapters.batch(adapters))
        last = valid.sum(dim=1) - 1
        hidden = hidden[torch.arange(len(last), device=last.device), last]
        return self._outputs(hidden)

    def decode(self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None) -> Outputs:
        x = self._model.embed(ids, values[:, 0], values[:, 1:])
        at = positions.unsqueeze(1)
        attend = PagedAttention(self.cache, self._backend, pages, at)
        hidden = self._model.text(x.unsqueeze(1), at, attend, self._adapters.batch(adapters)).squeeze(1)
        return self._outputs(hidden)

    def _outputs(self, hidden: Tensor) -> Outputs:
        return hidden, None if self._eager else self._model.logits(hidden)
