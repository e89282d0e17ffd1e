"""A running engine whose device stops in the middle: whoever waits must be told by the thread that closes it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from unittest.mock import patch

from photon.devices.cpu import CpuDevice
from photon.errors import EngineStoppedError
from tests.engine.running import PATIENCE_S, Engine
from tests.rig import image, request


class Stopping:
    """Lets so many pieces of a stream's work run; the next waits until `go`."""

    def __init__(self, device: CpuDevice, pieces: int) -> None:
        self.go, self.stopped = threading.Event(), threading.Event()
        self._left, self._span = pieces, device.compute.span
        device.compute.span = self._held  # type: ignore[method-assign,assignment]

    def _held(self, start: object, work: Callable[[], None], end: object) -> None:
        self._left -= 1
        held = self._left < 0

        def run() -> None:
            if held:
                self.stopped.set()
                self.go.wait(PATIENCE_S)
            work()

        self._span(start, run, end)  # type: ignore[arg-type]


def hang(number: int) -> None:
    """Raises `AssertionError` if anybody is left waiting, or told twice."""
    r = random.Random(number)
    device = CpuDevice()
    engine = Engine(device, eos_share=0.1, rows=r.randint(1, 4))
    stopping = Stopping(device, r.randint(0, 12))
    engine.loop.start()
    calls = [
        engine.ask(request(limit=r.randint(4, 20), seed=n, image=image(n) if r.random() < 0.5 else None))
        for n in range(r.randint(2, 8))
    ]
    assert stopping.stopped.wait(PATIENCE_S), "the device never hung"
    with patch("photon.engine.loop._ABANDON_S", 0.1):
        assert not engine.loop.stop(0.05), "a device that hangs was not noticed"
    for call in calls:
        error = call.future.exception(0)
        assert error is None or isinstance(error, EngineStoppedError)
    stopping.go.set()
    assert engine.loop.stop(PATIENCE_S), "the engine's thread goes on although its device has woken up"
    device.close()
