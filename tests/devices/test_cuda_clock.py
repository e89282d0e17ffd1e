"""Times of CUDA events, with a driver that rounds as the real one does and a device clock that drifts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from photon.devices import cuda

DRIFT = 20e-6


class Driver:
    now_s = 1000.0


class FakeEvent:
    def __init__(self, enable_timing: bool = False) -> None:
        self.at_s = 0.0

    def record(self, stream: object) -> None:
        self.at_s = Driver.now_s * (1 + DRIFT)

    def synchronize(self) -> None:
        return

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: FakeEvent) -> float:
        return float(np.float32(1e3 * (end.at_s - self.at_s)))


def test_times_stay_fine_and_near_the_hosts_clock_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(cuda.time, "perf_counter", lambda: Driver.now_s)
    monkeypatch.setattr(Driver, "now_s", 1000.0)
    clock = cuda.CudaClock(None)  # type: ignore[arg-type]
    worst = off = 0.0
    for step in range(20_000):
        Driver.now_s += 3600.0 if step == 10_000 else 1.0  # an idle hour in between
        first, second = FakeEvent(), FakeEvent()
        first.record(None)
        begun_s, Driver.now_s = Driver.now_s, Driver.now_s + 100e-6
        second.record(None)
        took = clock.time_s(second) - clock.time_s(first)  # type: ignore[arg-type]
        if step not in (10_000, 10_001):
            worst, off = max(worst, abs(took - 100e-6)), max(off, abs(clock.time_s(first) - begun_s))  # type: ignore[arg-type]
    assert worst < 2e-6
    assert off < 2e-3
