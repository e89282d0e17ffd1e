"""A machine without an accelerator: an in-order worker is the compute stream, and the copy stream as well."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import torch

from photon.devices.base import Device, Event, Stream
from photon.devices.heap import keep_freed_memory
from photon.errors import DeviceError


class CpuEvent(Event):
    """Each record is a lock that is held until the record happens: a tenth of the cost of a `threading.Event`."""

    def __init__(self) -> None:
        self._gate: threading.Lock | None = None
        self._time_s = 0.0

    def arm(self) -> Callable[[], None]:
        """Begin a new record; the worker calls what is returned. Waiters hold on to the record that they saw."""
        gate = self._gate = threading.Lock()
        gate.acquire()

        def fire() -> None:
            self._time_s = time.perf_counter()
            gate.release()

        return fire

    @property
    def current(self) -> Callable[[], None]:
        """Waits for the record that is the last one now."""
        gate = self._gate
        if gate is None:
            raise DeviceError("An event was waited for before it was recorded.")

        def wait() -> None:
            with gate:
                pass

        return wait

    def synchronize(self) -> None:
        self.current()

    @property
    def time_s(self) -> float:
        return self._time_s


class CpuStream(Stream):
    """One worker thread. It sleeps in the queue's lock while idle: no spinning beside the forward."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with torch.inference_mode():
            while (work := self._queue.get()) is not None:
                work()
                del work  # while the stream waits for more it holds on to nothing of the last step

    def run(self, work: Callable[[], None]) -> None:
        self._queue.put(work)

    def record(self, event: Event) -> None:
        assert isinstance(event, CpuEvent)
        self._queue.put(event.arm())

    def wait(self, event: Event) -> None:
        assert isinstance(event, CpuEvent)
        self._queue.put(event.current)

    def span(self, start: Event, work: Callable[[], None], end: Event) -> None:
        """The worker is woken once for all three."""
        assert isinstance(start, CpuEvent)
        assert isinstance(end, CpuEvent)
        started, ended = start.arm(), end.arm()

        def run() -> None:
            started()
            work()
            ended()

        self._queue.put(run)

    def close(self) -> None:
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


class CpuDevice(Device):
    def __init__(self) -> None:
        self.name = "cpu"
        self.torch_device = torch.device("cpu")
        keep_freed_memory()  # before the workers start: each would take a heap of its own
        self.compute: CpuStream = CpuStream("photon-compute")
        self.copy = self.compute  # a few numbers: handing them to another thread would take longer than to copy them

    def event(self) -> CpuEvent:
        return CpuEvent()

    def now(self) -> float:
        return time.perf_counter()

    def close(self) -> None:
        self.compute.close()
