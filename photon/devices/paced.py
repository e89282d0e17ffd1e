"""A modelled accelerator: a step takes the time that a table gives; the host's work is real.

Work is put off until the host waits for it, as on a device that lags behind, and runs off the clock: only the time
that it asks for with `spend` passes. A stream's work starts at the later of its enqueueing and the end of the work
before it (docs/engine.md "paced").
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from photon.devices.base import Device, Event, Stream
from photon.devices.pace_table import PaceTable
from photon.errors import DeviceError

_START_S = 1.0
"""Virtual clocks begin here: a time of 0 means "not reached" elsewhere."""


class HostClock(ABC):
    """What the host's work costs, in seconds."""

    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    def wait(self, entered: float, until: float) -> None:
        """The host began to wait at `entered` and goes on at `until`, or at once if that has passed."""

    @abstractmethod
    def charge(self, seconds: float) -> None:
        """Let the host work for `seconds`."""


class MeasuredClock(HostClock):
    """Virtual: the host's own work as `perf_counter` measures it, its waits jumped over."""

    def __init__(self) -> None:
        self._offset = _START_S - time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() + self._offset

    def wait(self, entered: float, until: float) -> None:
        self._offset += max(entered, until) - self.now()

    def charge(self, seconds: float) -> None:
        self._offset += seconds


class GivenClock(HostClock):
    """Virtual and deterministic: the host's own work costs nothing but what it is charged."""

    def __init__(self) -> None:
        self._now = _START_S

    def now(self) -> float:
        return self._now

    def wait(self, entered: float, until: float) -> None:
        self._now = max(entered, until)

    def charge(self, seconds: float) -> None:
        self._now += seconds


class RealClock(HostClock):
    """Real time: waits sleep until the absolute end, so that one late wake-up does not delay the next."""

    def now(self) -> float:
        return time.perf_counter()

    def wait(self, entered: float, until: float) -> None:
        if (left := until - time.perf_counter()) > 0:
            time.sleep(left)

    def charge(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass  # the host is busy, not idle


class PacedEvent(Event):
    def __init__(self, device: PacedDevice) -> None:
        self._device = device
        self.recorded = False
        self.happened_s = 0.0

    def synchronize(self) -> None:
        if not self.recorded:
            raise DeviceError("An event was waited for before it was recorded.")
        entered = self._device.now()
        self._device.catch_up()
        self._device.clock.wait(entered, self.happened_s)

    @property
    def time_s(self) -> float:
        return self.happened_s


class PacedStream(Stream):
    """Each piece of work takes what it spends, and `each_s` more."""

    def __init__(self, device: PacedDevice, each_s: float = 0.0) -> None:
        self._device = device
        self._each_s = each_s
        self._free_s = 0.0
        self._now = device.clock.now
        self._enqueue = device.queue.append

    def run(self, work: Callable[[], None]) -> None:
        self._enqueue((self._run, work, self._now()))

    def record(self, event: Event) -> None:
        assert isinstance(event, PacedEvent)
        event.recorded = True
        self._enqueue((self._record, event, self._now()))

    def wait(self, event: Event) -> None:
        assert isinstance(event, PacedEvent)
        if not event.recorded:
            raise DeviceError("An event was waited for before it was recorded.")
        self._enqueue((self._hold, event, self._now()))

    def span(self, start: Event, work: Callable[[], None], end: Event) -> None:
        assert isinstance(start, PacedEvent)
        assert isinstance(end, PacedEvent)
        start.recorded = end.recorded = True
        self._enqueue((self._span, (start, work, end), self._now()))

    def _span(self, what: tuple[PacedEvent, Callable[[], None], PacedEvent], at: float) -> None:
        start, work, end = what
        self._record(start, at)
        self._run(work, at)
        self._record(end, at)

    def _run(self, work: Callable[[], None], at: float) -> None:
        start = max(at, self._free_s)
        self._free_s = start + self._device.time_of(work) + self._each_s

    def _record(self, event: PacedEvent, at: float) -> None:
        event.happened_s = max(at, self._free_s)

    def _hold(self, event: PacedEvent, at: float) -> None:
        self._free_s = max(self._free_s, event.happened_s)


class PacedDevice(Device):
    """`accelerator` names an entry of paced.json, or is a table of one's own."""

    modelled = True

    def __init__(self, accelerator: str | PaceTable, clock: HostClock | None = None) -> None:
        self.table = PaceTable.load(accelerator) if isinstance(accelerator, str) else accelerator
        self.clock = clock or MeasuredClock()
        self.name = f"paced:{self.table.key}"
        self.torch_device = torch.device("cpu")
        self.queue: deque[tuple[Callable[[Any, float], None], Any, float]] = deque()
        self.compute: PacedStream = PacedStream(self)
        self.copy: PacedStream = PacedStream(self, self.table.copy_s)
        self._spent = 0.0

    def event(self) -> PacedEvent:
        return PacedEvent(self)

    def now(self) -> float:
        return self.clock.now()

    def spend(self, seconds: float) -> None:
        """Called by work while it runs: it takes so long."""
        self._spent += seconds

    def time_of(self, work: Callable[[], None]) -> float:
        """Run `work` and return what it spent."""
        self._spent = 0.0
        work()
        return self._spent

    def catch_up(self) -> None:
        """Run all that is enqueued, in order: whatever an event waits for was enqueued before it."""
        with torch.inference_mode():
            while self.queue:
                do, what, enqueued = self.queue.popleft()
                do(what, enqueued)

    def close(self) -> None:
        self.catch_up()
