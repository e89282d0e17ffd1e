"""An executor whose work takes the times of a modelled accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from photon.devices.base import Device
from photon.devices.paced import PacedDevice
from photon.models.moondream.lora import Adapter
from photon.runtime.choices import SampleNeeds
from photon.runtime.executor import Executor, Outputs


class PacedExecutor:
    """Outputs of `inner`, times of the table."""

    def __init__(self, device: PacedDevice, inner: Executor) -> None:
        self._device = device
        self._table = device.table
        self._inner = inner

    def add_adapter(self, adapter: Adapter) -> bool:
        return self._inner.add_adapter(adapter)

    def load_adapter(self, slot: int, adapter: Adapter) -> None:
        self._inner.load_adapter(slot, adapter)

    def prefix(self, crops: Sequence[Any], pages: Tensor, adapters: Tensor | None) -> None:
        self._device.spend(self._table.vision_s(len(crops)))
        self._inner.prefix(crops, pages, adapters)

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        self._inner.copy_pages(source, target)

    def clear_pages(self, pages: Tensor) -> None:
        self._inner.clear_pages(pages)

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> Outputs:
        self._device.spend(self._table.prompt_s(len(ids)))
        return self._inner.prompt(ids, values, positions, valid, pages, adapters)

    def decode(self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None) -> Outputs:
        self._device.spend(self._table.forward_s(len(ids)))
        return self._inner.decode(ids, values, positions, pages, adapters)

    def sample(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        self._device.spend(self._table.sampling_s(len(hidden)))
        return self._inner.sample(hidden, logits, choice_ids, params, needs)


def timed(device: Device, executor: Executor) -> Executor:
    """The executor to run on `device`: on a modelled one its work takes the modelled times."""
    return PacedExecutor(device, executor) if isinstance(device, PacedDevice) else executor
