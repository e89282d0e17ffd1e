"""A slot owns what one step needs; two of them are allocated once and used in turn (docs/engine.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from photon.devices.base import Device
from photon.runtime.choices import MAX_ALLOWED, MAX_BANNED

ROW, FIRST, COUNT, ADAPTER, PAGES = range(5)
"""Columns of `Slot.rows`: batch row, first position, token count, adapter slot; from PAGES on the page table."""
VALUES = 5
"""Columns of a sampled value: coordinate, width, height, log-probability of the id, of the value."""


@dataclass(frozen=True)
class SlotSizes:
    """max_batch rows a step, max_tokens prompt tokens and max_images new images a prefill; pages a row, a prefix.

    `rows` may be seated at once: those of a launched step keep theirs when the next step has no place for them.
    """

    max_batch: int
    rows: int
    max_tokens: int
    max_images: int
    max_pages: int
    prefix_pages: int


class Staged:
    """A host buffer and its device mirror. The host writes `host`, then `upload` is enqueued on the compute stream."""

    def __init__(self, device: Device, *shape: int, dtype: torch.dtype) -> None:
        self.host = device.host_buffer(*shape, dtype=dtype)
        self.array = self.host.numpy()
        self.device = device.zeros(*shape, dtype=dtype)

    def upload(self, rows: int) -> torch.Tensor:
        """Copy the first `rows` rows; runs on the compute stream. Returns the device's view of them."""
        part = self.device[:rows]
        part.copy_(self.host[:rows], non_blocking=True)
        return part


class Slot:
    """Staging, outputs and events of one step.

    `rows`: int64 [max_batch, PAGES + max_pages], columns as above.
    `token_ids` int64 [max_tokens], `token_values` float32 [max_tokens, 3] (coordinate, width, height): prompts.
    `prefixes` int64 [max_images, 1 + prefix_pages]: adapter slot and pages of each prefix that a prefill computes.
    `tails` int64 [max_batch, 2]: partial tail pages, from the prefix's page to the row's own.
    `choice_ids` int64 [max_batch, 1 + MAX_ALLOWED + MAX_BANNED]: how many ids are allowed (0: all), these, the
    banned ones (-1: none). `choice_params` float32 [max_batch, 5]: temperature, top-p, three uniform draws.
    """

    def __init__(self, index: int, device: Device, sizes: SlotSizes) -> None:
        self.index = index
        batch, tokens = sizes.max_batch, sizes.max_tokens
        self.rows = Staged(device, batch, PAGES + sizes.max_pages, dtype=torch.int64)
        self.token_ids = Staged(device, tokens, dtype=torch.int64)
        self.token_values = Staged(device, tokens, 3, dtype=torch.float32)
        self.prefixes = Staged(device, sizes.max_images, 1 + sizes.prefix_pages, dtype=torch.int64)
        self.tails = Staged(device, batch, 2, dtype=torch.int64)
        self.choice_ids = Staged(device, batch, 1 + MAX_ALLOWED + MAX_BANNED, dtype=torch.int64)
        self.choice_params = Staged(device, batch, 5, dtype=torch.float32)
        self.out_ids = device.zeros(batch, dtype=torch.int64)
        self.out_values = device.zeros(batch, VALUES, dtype=torch.float32)
        self.host_ids = device.host_buffer(batch, dtype=torch.int64)
        self.host_values = device.host_buffer(batch, VALUES, dtype=torch.float32)
        self.host_ids_array, self.host_values_array = self.host_ids.numpy(), self.host_values.numpy()
        self.cohort: tuple[int, ...] | None = None
        """Ids of the sequences whose lasting fields are staged: not themselves, which hold their pictures. With them:
        has one an adapter, and which draw at random."""
        self.adapted = False
        self.drawn: list[int] = []
        self.hidden: torch.Tensor | None = None
        self.logits: torch.Tensor | None = None
        self.forward_start = device.event()
        self.forward_end = device.event()
        self.sampling_start = device.event()
        self.step_done = device.event()
        self.copy_start = device.event()
        self.copy_done = device.event()
        self.error: BaseException | None = None
        """The first error of the step's work on either stream; later work of the step is skipped."""

    def outputs(self, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Hidden states and logits of the first `rows` rows; no logits where sampling makes them."""
        assert self.hidden is not None
        return self.hidden[:rows], None if self.logits is None else self.logits[:rows]
