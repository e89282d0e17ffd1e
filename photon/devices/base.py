"""What the engine asks of a device: ordered streams, events, host buffers and one clock.

The scheduler and the runner know no device by name; everything that differs between a GPU, a plain CPU, the
simulated device of the tests and a modelled accelerator stands behind these three classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


class Event(ABC):
    """A point in the work of a stream. Recorded anew for every step; waiting before a record is an error."""

    @abstractmethod
    def synchronize(self) -> None:
        """Block the host until the work before the record is done. Raises `DeviceError` if the device failed."""

    @property
    @abstractmethod
    def time_s(self) -> float:
        """When it happened, in seconds of `Device.now`; valid after `synchronize`."""


class Stream(ABC):
    """Work in order. `run` returns before the work is done."""

    @abstractmethod
    def run(self, work: Callable[[], None]) -> None:
        """Enqueue `work`. It must not raise: whoever enqueues it catches and keeps its errors."""

    @abstractmethod
    def record(self, event: Event) -> None:
        """Let `event` happen when all work enqueued so far is done."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Hold later work of this stream until `event`, as last recorded, has happened."""

    def span(self, start: Event, work: Callable[[], None], end: Event) -> None:
        """Enqueue `work` between records of `start` and `end`."""
        self.record(start)
        self.run(work)
        self.record(end)


class Device(ABC):
    """Two streams, a clock and memory. `compute` runs forwards and sampling, `copy` brings values to the host."""

    name: str
    torch_device: torch.device
    compute: Stream
    copy: Stream
    modelled: bool = False
    captures: bool = False
    """Whether `capture` makes a step cheaper, and costs so much that it is done while nothing runs."""

    @abstractmethod
    def event(self) -> Event: ...

    @abstractmethod
    def now(self) -> float:
        """Seconds on the clock that all events and step records share."""

    def zeros(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeroed memory of the device that lasts. The compute stream may use it after `settle`."""
        return torch.zeros(*shape, dtype=dtype, device=self.torch_device)

    def settle(self) -> None:
        """Let the compute stream wait for what has been made outside of it so far."""
        return

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeroed host memory from which, and into which, the device copies without stopping the host."""
        return torch.zeros(*shape, dtype=dtype)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in memory from which the device copies without stopping the host; called on any thread."""
        return tensor

    def buckets(self, limit: int) -> tuple[int, ...]:
        """Ascending sizes up to `limit` that decode steps are padded to; empty if any size runs as it is."""
        return ()

    def capture(self, key: tuple[int, ...], work: Callable[[], T]) -> Callable[[], T]:
        """Make `work` cheap to repeat. `key` is (slot, batch, pages, adapted): a captured step serves only its own.

        Where steps are captured, what is returned always gives the same tensors, written anew. Call it while nothing
        runs: it stops the host.
        """
        return work

    @abstractmethod
    def close(self) -> None:
        """Finish enqueued work and free what the device holds."""
