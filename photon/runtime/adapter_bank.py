"""LoRA on the device: the adapters of all slots stacked, so that rows of one batch may use different ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from photon.devices.base import Device
from photon.models.moondream.config import TextConfig
from photon.models.moondream.lora import SITE_NAMES, Adapter, Site, is_expert_site, site_rank, site_sizes


class AdapterBank:
    """For each site A [slots + 1, (experts,) rank, in] and B [slots + 1, (experts,) out, rank]; slot 0 is zero.

    A site's stack is allocated when the first adapter that has it is added; smaller ranks are padded with zeros.
    """

    def __init__(self, config: TextConfig, slots: int, max_rank: int, device: Device, dtype: torch.dtype) -> None:
        self._config = config
        self._slots = slots
        self._max_rank = max_rank
        self._device, self._dtype = device, dtype
        self._stacks: dict[Site, tuple[Tensor, Tensor]] = {}
        self._arrived: Tensor | None = None
        """Where the one copy of an adapter lands before it is spread over the stacks."""

    def add(self, adapter: Adapter) -> bool:
        """Allocate what the adapter needs, before any step uses it. Whether a site is new."""
        new = [site for site in adapter.sites if site not in self._stacks]
        made = {site: self._allocate(site) for site in new}
        if self._arrived is None:
            self._arrived = self._device.zeros(self._longest(), dtype=self._dtype)
        self._stacks |= made  # all of them or none: a step must not know half an adapter
        return bool(new)

    def load(self, slot: int, adapter: Adapter) -> None:
        """Replace the slot's content. Runs on the compute stream, after all work that used the slot before.

        One copy from page-locked memory, in the device's own type; what follows stays on the device.
        """
        assert adapter.flat is not None
        assert self._arrived is not None
        arrived = self._arrived[: len(adapter.flat)]
        arrived.copy_(adapter.flat, non_blocking=True)
        sites = adapter.views(arrived)
        for site, (a, b) in self._stacks.items():
            a[slot].zero_()
            b[slot].zero_()
            if site in sites:
                new_a, new_b = sites[site]
                rank = new_a.shape[-2]
                a[slot, ..., :rank, :] = new_a
                b[slot, ..., :rank] = new_b

    def batch(self, slots: Tensor | None) -> BatchAdapters | None:
        """`slots` int64 [B]: each row's adapter slot; None if no row has one."""
        return BatchAdapters(self._stacks, slots) if slots is not None else None

    def _allocate(self, site: Site) -> tuple[Tensor, Tensor]:
        a, b = self._shapes(site)
        return (
            self._device.zeros(self._slots + 1, *a, dtype=self._dtype),
            self._device.zeros(self._slots + 1, *b, dtype=self._dtype),
        )

    def _shapes(self, site: Site) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of A and B in one slot."""
        inputs, outputs = site_sizes(site, self._config)
        rank = site_rank(site, self._max_rank, self._config)
        moe = self._config.moe
        experts = (moe.num_experts,) if moe and is_expert_site(site, self._config) else ()
        return (*experts, rank, inputs), (*experts, outputs, rank)

    def _longest(self) -> int:
        """Elements of an adapter of the largest rank with every site."""
        sites = [(layer, name) for layer in range(self._config.n_layers) for name in SITE_NAMES]
        return sum(math.prod(a) + math.prod(b) for a, b in map(self._shapes, sites))


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
