"""The CPU device: a worker in order, events that hold their record, and no host wait but the one asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from photon.devices.cpu import CpuDevice, CpuStream
from photon.errors import DeviceError


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    device = CpuDevice()
    yield device
    device.close()


def test_work_of_a_stream_runs_in_order_while_the_host_goes_on(device: CpuDevice) -> None:
    gate, done, end = threading.Event(), list[int](), device.event()
    device.compute.run(lambda: gate.wait() and None)
    for n in range(5):
        device.compute.run(lambda n=n: done.append(n))
    device.compute.record(end)
    assert done == []
    gate.set()
    end.synchronize()
    assert done == [0, 1, 2, 3, 4]


def test_a_copy_follows_what_was_enqueued_before_it_and_waits_for_nothing_after_it(device: CpuDevice) -> None:
    gate, done = threading.Event(), list[str]()
    ready, copied = device.event(), device.event()
    device.compute.run(lambda: done.append("sampling"))
    device.compute.record(ready)
    device.copy.wait(ready)
    device.copy.run(lambda: done.append("copy"))
    device.copy.record(copied)
    device.compute.run(lambda: gate.wait() and None)
    copied.synchronize()
    assert done == ["sampling", "copy"]
    gate.set()


def test_a_waiter_holds_on_to_the_record_that_it_saw(device: CpuDevice) -> None:
    first, second = threading.Event(), threading.Event()
    event, copied, other = device.event(), device.event(), CpuStream("other")
    device.compute.run(lambda: first.wait() and None)
    device.compute.record(event)
    other.wait(event)
    other.record(copied)
    device.compute.run(lambda: second.wait() and None)
    device.compute.record(event)
    first.set()
    copied.synchronize()  # although the second record has not happened
    second.set()
    event.synchronize()
    other.close()


def test_times_of_events_are_on_the_clock_of_the_device_and_in_order(device: CpuDevice) -> None:
    events = [device.event() for _ in range(3)]
    before = device.now()
    for event in events:
        device.compute.record(event)
    events[-1].synchronize()
    times = [before, *(event.time_s for event in events), device.now()]
    assert times == sorted(times)


def test_waiting_for_an_event_that_was_never_recorded_is_an_error(device: CpuDevice) -> None:
    with pytest.raises(DeviceError):
        device.event().synchronize()
    with pytest.raises(DeviceError):
        device.copy.wait(device.event())


def test_workers_compute_without_gradients(device: CpuDevice) -> None:
    found, end = list[bool](), device.event()
    device.compute.run(lambda: found.append(torch.is_inference_mode_enabled()))
    device.compute.record(end)
    end.synchronize()
    assert found == [True]


def test_closing_finishes_what_is_enqueued() -> None:
    device, done = CpuDevice(), list[int]()
    for n in range(100):
        device.compute.run(lambda n=n: done.append(n))
    device.close()
    assert done == list(range(100))
