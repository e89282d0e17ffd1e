"""A CUDA device: two streams, timing events, page-locked buffers, decode steps captured as CUDA graphs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch

from photon.devices.base import Device, Event, Stream
from photon.errors import DeviceError

T = TypeVar("T")
FEW_CORES = 4


class CudaEvent(Event):
    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self.inner = torch.cuda.Event(enable_timing=True, blocking=device.blocking_waits)

    def synchronize(self) -> None:
        try:
            self.inner.synchronize()
        except RuntimeError as error:  # asynchronous errors surface here and stay
            raise DeviceError(f"The CUDA device failed: {error}") from error

    @property
    def time_s(self) -> float:
        return self._device.clock.time_s(self.inner)


class CudaClock:
    """Device times on the host's clock.

    The driver tells times as float32 milliseconds since another event: after a minute only to 4 us, after an hour to a
    quarter of a millisecond. So the event that times are told from moves on, and each time it is set right by the
    host's clock, from which the device's drifts.
    """

    RENEWED_S = 10.0

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._from = torch.cuda.Event(enable_timing=True)
        self._from.record(stream)
        self._from.synchronize()
        self._from_s = time.perf_counter()
        self._next: torch.cuda.Event | None = None
        self._next_after_s = 0.0

    def time_s(self, event: torch.cuda.Event) -> float:
        """When a finished event happened. May be asked for while the stream works: it waits for nothing."""
        happened_s = self._since(event)
        if self._next is None:
            if happened_s - self._from_s > self.RENEWED_S:
                self._next = torch.cuda.Event(enable_timing=True)
                self._next_after_s = time.perf_counter()
                self._next.record(self._stream)
        elif self._next.query():
            told_s = min(max(self._since(self._next), self._next_after_s), time.perf_counter())
            self._from, self._from_s, self._next = self._next, told_s, None
        return happened_s

    def _since(self, event: torch.cuda.Event) -> float:
        elapsed_ms: float = self._from.elapsed_time(event)
        return self._from_s + elapsed_ms / 1e3


class CudaStream(Stream):
    def __init__(self, device: torch.device) -> None:
        self.inner = torch.cuda.Stream(device)

    def run(self, work: Callable[[], None]) -> None:
        with torch.cuda.stream(self.inner), torch.inference_mode():
            work()

    def record(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        event.inner.record(self.inner)

    def wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        self.inner.wait_event(event.inner)


class CudaDevice(Device):
    """`blocking_waits`: whether the host sleeps while it waits. A spinning wait answers some microseconds sooner and
    takes a core meanwhile, which pictures and callers have to do without; None spins where there are cores to spare.

    Raises `DeviceError` where there is no CUDA device.
    """

    captures = True

    def __init__(self, blocking_waits: bool | None = None) -> None:
        if not torch.cuda.is_available():
            raise DeviceError("There is no CUDA device on this machine; allowed are auto and cpu.")
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        self.name = torch.cuda.get_device_name(self.torch_device)
        self.compute: CudaStream = CudaStream(self.torch_device)
        self.copy: CudaStream = CudaStream(self.torch_device)
        self.blocking_waits = (os.cpu_count() or 1) <= FEW_CORES if blocking_waits is None else blocking_waits
        self._graphs = torch.cuda.graph_pool_handle()
        self.clock = CudaClock(self.compute.inner)

    def event(self) -> CudaEvent:
        return CudaEvent(self)

    def now(self) -> float:
        return time.perf_counter()

    def settle(self) -> None:
        """Memory is made and zeroed, and weights are cast, on the default stream, which ours does not follow."""
        self.compute.inner.wait_stream(torch.cuda.default_stream(self.torch_device))

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, pin_memory=True)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory()

    def buckets(self, limit: int) -> tuple[int, ...]:
        """Powers of two, and the limit itself."""
        powers = [2**k for k in range(limit.bit_length()) if 2**k < limit]
        return (*powers, limit)

    def capture(self, key: tuple[int, ...], work: Callable[[], T]) -> Callable[[], T]:
        """A CUDA graph of `work`, run once before so that lazy set-up is not captured."""
        stream = self.compute.inner
        with torch.cuda.stream(stream), torch.inference_mode():
            work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with (
            torch.inference_mode(),
            torch.cuda.graph(graph, pool=self._graphs, stream=stream, capture_error_mode="thread_local"),
        ):
            outputs = work()

        def replay() -> T:
            graph.replay()
            return outputs

        return replay

    def close(self) -> None:
        with suppress(RuntimeError):  # an error that ended the engine comes again, and was told
            torch.cuda.synchronize(self.torch_device)
