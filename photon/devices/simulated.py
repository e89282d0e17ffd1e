"""A deterministic, single-threaded device for tests: its streams are queues, and a `Lag` decides how far they trail.

Work runs when the lag lets it, or when the host waits for an event, and then no more than that event needs: the other
stream stays behind. So whatever the host must not touch yet is touched in vain, and the test sees it. Time is virtual:
work takes what it spends (`spend`), the host what the test gives it (`host`).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from photon.devices.base import Device, Event, Stream
from photon.errors import DeviceError

T = TypeVar("T")

_START_S = 1.0
_GARBAGE = 1 << 40
"""What is in new memory, unless it is of floats: an index that nothing has."""
_CALL_S = 1e-7
"""What reading the clock costs the host: times of one thread are never equal."""


@dataclass(frozen=True)
class Lag:
    """How eagerly each stream follows the host: 0 runs nothing until it must, 1 runs everything at once."""

    compute: float = 0.0
    copy: float = 0.0
    seed: int = 0


EAGER = Lag(1.0, 1.0)
LAZY = Lag(0.0, 0.0)


@dataclass(eq=False, slots=True)
class _Record:
    """One recording of an event: where it stands and when it happened."""

    stream: SimulatedStream
    happened: bool = False
    time_s: float = 0.0


class SimulatedEvent(Event):
    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.latest: _Record | None = None

    @property
    def current(self) -> _Record:
        if self.latest is None:
            raise DeviceError("An event was waited for before it was recorded.")
        return self.latest

    def synchronize(self) -> None:
        self._device.host_waits_for(self.current)

    @property
    def time_s(self) -> float:
        if not self.current.happened:
            raise DeviceError("The time of an event was asked for before it happened.")
        return self.current.time_s


@dataclass(frozen=True, slots=True)
class _Item:
    """Work, a record or a wait, and when the host enqueued it."""

    enqueued_s: float
    work: Callable[[], None] | None = None
    record: _Record | None = None
    wait: _Record | None = None


class SimulatedStream(Stream):
    def __init__(self, device: SimulatedDevice, name: str) -> None:
        self.name = name
        self.time_s = _START_S
        self._device = device
        self._items: deque[_Item] = deque()

    def run(self, work: Callable[[], None]) -> None:
        self._enqueue(_Item(self._device.host_s, work=work))

    def record(self, event: Event) -> None:
        assert isinstance(event, SimulatedEvent)
        event.latest = _Record(self)
        self._enqueue(_Item(self._device.host_s, record=event.latest))

    def wait(self, event: Event) -> None:
        assert isinstance(event, SimulatedEvent)
        self._enqueue(_Item(self._device.host_s, wait=event.current))

    def _enqueue(self, item: _Item) -> None:
        if self._device.failure is not None:
            raise self._device.failure
        self._items.append(item)
        self._device.follow()

    @property
    def can_step(self) -> bool:
        """Whether the next item runs without moving the other stream."""
        return bool(self._items) and (self._items[0].wait is None or self._items[0].wait.happened)

    @property
    def behind(self) -> int:
        """How many items the host has enqueued that have not run."""
        return len(self._items)

    def step(self) -> None:
        """Run the next item; one that waits moves the other stream as far as it needs."""
        item = self._items.popleft()
        self.time_s = max(self.time_s, item.enqueued_s)
        if item.wait is not None:
            reach(item.wait)
            self.time_s = max(self.time_s, item.wait.time_s)
        elif item.record is not None:
            item.record.happened, item.record.time_s = True, self.time_s
        elif item.work is not None:
            self._device.run_on(self, item.work)


def reach(record: _Record) -> None:
    while not record.happened:
        if not record.stream.behind:
            raise DeviceError("A stream waits for an event that nothing will bring.")
        record.stream.step()


class SimulatedDevice(Device):
    """`waits` counts how often the host had to wait, by kind; `fail` makes the device fail for good."""

    name = "simulated"
    torch_device = torch.device("cpu")

    def __init__(self, lag: Lag = LAZY, captures: bool = False) -> None:
        self.lag = lag
        self.host_s = _START_S
        self.failure: DeviceError | None = None
        self.waits: Counter[str] = Counter()
        self.compute: SimulatedStream = SimulatedStream(self, "compute")
        self.copy: SimulatedStream = SimulatedStream(self, "copy")
        self.default: SimulatedStream = SimulatedStream(self, "default")
        self.replays: Counter[tuple[int, ...]] = Counter()
        self.captures = captures
        self._settled = False
        self._random = random.Random(lag.seed)
        self._running: SimulatedStream | None = None
        self._locked: dict[int, torch.Tensor] = {}  # kept alive, so that no address is used twice

    # -- the interface --------------------------------------------------------------------------------------------

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self)

    def now(self) -> float:
        self.host_s += _CALL_S
        return self.host_s

    def zeros(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Garbage until the default stream has come to it, which only `settle` orders before the compute stream.

        After the first `settle` it counts as a wait: a device that gets more memory stops the host.
        """
        if self._settled:
            self.hidden_wait("allocation")
        memory = torch.full(shape, torch.nan if dtype.is_floating_point else _GARBAGE, dtype=dtype)
        self.default.run(lambda: _zero(memory))
        return memory

    def settle(self) -> None:
        made = self.event()
        self.default.record(made)
        self.compute.wait(made)
        self._settled = True

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return self.pinned(torch.zeros(*shape, dtype=dtype))

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        locked = tensor.clone()
        self._locked[_storage(locked)] = locked
        return locked

    def buckets(self, limit: int) -> tuple[int, ...]:
        """Powers of two and the limit, where steps are captured."""
        return (*(2**k for k in range(limit.bit_length()) if 2**k < limit), limit) if self.captures else ()

    def capture(self, key: tuple[int, ...], work: Callable[[], T]) -> Callable[[], T]:
        """Runs `work` once, as a device does that captures, and refuses a replay that would use other memory."""
        if not self.captures:
            return work
        while self.compute.behind:
            self.compute.step()
        self.hidden_wait("capture")
        with _Addresses() as captured:
            outputs = work()

        def replay() -> T:
            with _Addresses() as used:
                anew = work()
            _write(outputs, anew)
            if used.outside != captured.outside:
                raise DeviceError(f"The captured step {key} was replayed with other memory than it was captured with.")
            self.replays[key] += 1
            return outputs

        return replay

    def close(self) -> None:
        if self.failure is None:
            self.finish()

    # -- for tests ------------------------------------------------------------------------------------------------

    def host(self, seconds: float) -> None:
        """The host is busy for a while; the streams go on meanwhile."""
        self.host_s += seconds

    def spend(self, seconds: float) -> None:
        """Called by running work: what it takes on its stream."""
        if self._running is not None:
            self._running.time_s += seconds

    def fail(self, cause: str) -> None:
        """From now on whatever is asked of the device raises, as after an illegal memory access."""
        self.failure = DeviceError(cause)

    def finish(self) -> None:
        """Run all that is enqueued."""
        while behind := [s for s in (self.default, self.compute, self.copy) if s.behind]:
            behind[0].step()

    @contextmanager
    def watch_hidden_waits(self) -> Iterator[None]:
        """While this holds, whatever would stop the host on a real device counts as a wait of its own kind."""
        with _HiddenWaits(self):
            yield

    # -- what moves the streams -----------------------------------------------------------------------------------

    def follow(self) -> None:
        """After each enqueue the streams run on, as far as their lag lets them."""
        for stream, eagerness in ((self.compute, self.lag.compute), (self.copy, self.lag.copy)):
            while stream.can_step and self._random.random() < eagerness:
                stream.step()

    def run_on(self, stream: SimulatedStream, work: Callable[[], None]) -> None:
        outer, self._running = self._running, stream
        try:
            work()
        finally:
            self._running = outer

    def host_waits_for(self, record: _Record) -> None:
        if self.failure is not None:
            raise self.failure
        self.waits["event"] += 1
        reach(record)
        self.host_s = max(self.host_s, record.time_s)

    def hidden_wait(self, kind: str) -> None:
        """The host stops until the stream has come this far."""
        self.waits[kind] += 1
        stream = self._running or self.compute
        self.host_s = max(self.host_s, stream.time_s)

    def is_host_memory(self, tensor: torch.Tensor) -> bool:
        """Whether it is page-locked memory of the host."""
        return _storage(tensor) in self._locked


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _zero(memory: torch.Tensor) -> None:
    memory.zero_()


def _write(outputs: Any, anew: Any) -> None:
    """Give captured outputs, a tensor or a tuple of some, the values of another run."""
    if isinstance(outputs, torch.Tensor):
        outputs.copy_(anew)
    elif isinstance(outputs, tuple):
        for one, other in zip(outputs, anew, strict=True):
            _write(one, other)


_READS = frozenset({"item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__"})
_DATA_DEPENDENT = frozenset({"nonzero", "unique", "masked_select"})
_FROM_PAGEABLE = frozenset({"tensor", "as_tensor", "from_numpy", "asarray"})


class _HiddenWaits(TorchFunctionMode):
    """Host reads of device memory, copies from memory that is not page-locked, copies that ask to block."""

    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._kind(getattr(func, "__name__", ""), args, kwargs or {})
        if kind:
            self._device.hidden_wait(kind)
        return func(*args, **(kwargs or {}))

    def _kind(self, name: str, args: Any, kwargs: dict[str, Any]) -> str | None:
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if name in _READS and not self._device.is_host_memory(tensors[0]):
            return "host read"
        if name in _DATA_DEPENDENT:
            return "size that depends on data"
        if name in _FROM_PAGEABLE:
            return "pageable copy"
        if name in ("to", "cuda") and kwargs.get("non_blocking"):
            return None if self._device.is_host_memory(tensors[0]) else "pageable copy"
        if name == "copy_":
            locked = any(map(self._device.is_host_memory, tensors))
            if kwargs.get("non_blocking"):
                return None if locked else "pageable copy"  # asked not to block, it does
            return "blocking copy" if locked else None
        if name in ("__getitem__", "__setitem__") and any(
            isinstance(a, torch.Tensor) and a.dtype is torch.bool for a in args[1:2]
        ):
            return "size that depends on data"
        return None


class _Addresses(TorchFunctionMode):
    """The memory that captured work uses and did not itself make."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: set[int] = set()
        self._made: list[torch.Tensor] = []  # kept alive, so that no address is used twice
        self._inside: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            if isinstance(value, torch.Tensor) and _storage(value) not in self._inside:
                self.outside.add(_storage(value))
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and _storage(result) not in self.outside:
            self._made.append(result)
            self._inside.add(_storage(result))
        return result
