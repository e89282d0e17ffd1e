"""LoRA on the device: the adapters of all slots stacked, so that rows of one batch may use different ones."""

from __future__ import annotations

import torch
from torch import Tensor

from photon.models.moondream.config import TextConfig
from photon.models.moondream.lora import Adapter, Site, is_expert_site, site_rank, site_sizes


class AdapterBank:
    """For each site A [slots + 1, (experts,) rank, in] and B [slots + 1, (experts,) out, rank]; slot 0 is zero.

    A site's stack is allocated when the first adapter that has it is loaded; smaller ranks are padded with zeros.
    """

    def __init__(self, config: TextConfig, slots: int, max_rank: int, device: torch.device, dtype: torch.dtype) -> None:
        self._config = config
        self._slots = slots
        self._max_rank = max_rank
        self._device, self._dtype = device, dtype
        self._stacks: dict[Site, tuple[Tensor, Tensor]] = {}

    def load(self, slot: int, adapter: Adapter) -> None:
        """Replace the slot's content. Runs on the compute stream, after all work that used the slot before."""
        for site in adapter.sites.keys() - self._stacks.keys():
            self._stacks[site] = self._allocate(site)
        for site, (a, b) in self._stacks.items():
            a[slot].zero_()
            b[slot].zero_()
            if site in adapter.sites:
                new_a, new_b = adapter.sites[site]
                rank = new_a.shape[-2]
                a[slot, ..., :rank, :].copy_(new_a, non_blocking=True)
                b[slot, ..., :rank].copy_(new_b, non_blocking=True)

    def batch(self, slots: Tensor | None) -> BatchAdapters | None:
        """`slots` int64 [B]: each row's adapter slot; None if no row has one."""
        return BatchAdapters(self._stacks, slots) if slots is not None else None

    def _allocate(self, site: Site) -> tuple[Tensor, Tensor]:
        inputs, outputs = site_sizes(site, self._config)
        rank = site_rank(site, self._max_rank, self._config)
        moe = self._config.moe
        experts = (moe.num_experts,) if moe and is_expert_site(site, self._config) else ()
        a = torch.zeros(self._slots + 1, *experts, rank, inputs, device=self._device, dtype=self._dtype)
        b = torch.zeros(self._slots + 1, *experts, outputs, rank, device=self._device, dtype=self._dtype)
        return a, b


class BatchAdapters:
    """The text decoder's `adapters` for one batch [B, T, ...]: delta(x) = B (A x) by each row's slot."""

    def __init__(self, stacks: dict[Site, tuple[Tensor, Tensor]], slots: Tensor) -> None:
        self._stacks = stacks
        self._slots = slots

    def delta(self, layer: int, site: str, x: Tensor) -> Tensor | None:
        """x [B, T, in] -> [B, T, out]."""
        found = self._stacks.get((layer, site))
        if found is None:
            return None
        a, b = found
        return torch.matmul(torch.matmul(x, a[self._slots].transpose(1, 2)), b[self._slots].transpose(1, 2))

    def expert_delta(self, layer: int, site: str, x: Tensor, experts: Tensor, rows: Tensor) -> Tensor | None:
        """x [n, in]: one row a (token, expert); experts and batch rows int64 [n] say whose -> [n, out]."""
        found = self._stacks.get((layer, site))
        if found is None:
            return None
        a, b = found
        slots = self._slots[rows]
        inner = torch.einsum("ni,nri->nr", x, a[slots, experts])
        return torch.einsum("nr,nor->no", inner, b[slots, experts])
