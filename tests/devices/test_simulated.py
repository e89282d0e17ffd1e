"""The simulated device: order, lag, waits and its clock."""

from __future__ import annotations

import pytest
import torch

from photon.devices.simulated import EAGER, LAZY, Lag, SimulatedDevice
from photon.errors import DeviceError


@pytest.mark.parametrize(("lag", "at_once"), [(LAZY, []), (EAGER, [1, 2])])
def test_nothing_runs_before_it_must_when_lazy_and_all_at_once_when_eager(lag: Lag, at_once: list[int]) -> None:
    device, done = SimulatedDevice(lag), list[int]()
    device.compute.run(lambda: done.append(1))
    device.compute.run(lambda: done.append(2))
    assert done == at_once
    device.finish()
    assert done == [1, 2]


def test_waiting_for_an_event_runs_what_it_needs_and_no_more() -> None:
    device, done = SimulatedDevice(LAZY), list[str]()
    ready, copied = device.event(), device.event()
    device.compute.run(lambda: done.append("forward"))
    device.compute.record(ready)
    device.compute.run(lambda: done.append("next forward"))
    device.copy.wait(ready)
    device.copy.run(lambda: done.append("copy"))
    device.copy.record(copied)
    device.copy.run(lambda: done.append("next copy"))
    copied.synchronize()
    assert done == ["forward", "copy"]
    assert dict(device.waits) == {"event": 1}


def test_a_stream_that_waits_is_not_pushed_by_its_lag() -> None:
    device, done = SimulatedDevice(Lag(compute=0, copy=1)), list[str]()
    ready = device.event()
    device.compute.run(lambda: done.append("forward"))
    device.compute.record(ready)
    device.copy.wait(ready)
    device.copy.run(lambda: done.append("copy"))
    assert done == []
    ready.synchronize()
    device.follow()
    assert done == ["forward", "copy"]


def test_an_event_is_waited_for_as_it_was_last_recorded() -> None:
    device, done = SimulatedDevice(LAZY), list[int]()
    event = device.event()
    for n in range(2):
        device.compute.run(lambda n=n: done.append(n))
        device.compute.record(event)
        if n == 0:
            device.copy.wait(event)
            device.copy.run(lambda: done.append(10))
    device.copy.step()
    device.copy.step()
    assert done == [0, 10]


def test_the_same_seed_gives_the_same_lag() -> None:
    def course(seed: int) -> list[int]:
        device = SimulatedDevice(Lag(0.5, 0.5, seed))
        behind = []
        for _ in range(40):
            device.compute.run(lambda: None)
            behind.append(device.compute.behind)
        return behind

    assert course(1) == course(1) != course(2)


def test_events_without_a_record_or_before_they_happen_are_errors() -> None:
    device = SimulatedDevice(LAZY)
    event = device.event()
    with pytest.raises(DeviceError):
        event.synchronize()
    with pytest.raises(DeviceError):
        device.copy.wait(event)
    device.compute.record(event)
    with pytest.raises(DeviceError):
        _ = event.time_s
    event.synchronize()
    assert event.time_s > 0


def test_work_starts_when_it_is_enqueued_and_the_work_before_it_has_ended() -> None:
    device = SimulatedDevice(LAZY)
    events = [device.event() for _ in range(3)]
    start = device.host_s
    for event in events[:2]:
        device.compute.run(lambda: device.spend(1.0))
        device.compute.record(event)
    device.host(5.0)
    device.compute.run(lambda: device.spend(1.0))
    device.compute.record(events[2])
    events[2].synchronize()
    assert [round(e.time_s - start) for e in events] == [1, 2, 6]
    assert round(device.host_s - start) == 6


def test_a_stream_that_waits_starts_after_the_event() -> None:
    device = SimulatedDevice(LAZY)
    ready, copied = device.event(), device.event()
    start = device.host_s
    device.compute.run(lambda: device.spend(3.0))
    device.compute.record(ready)
    device.copy.wait(ready)
    device.copy.record(copied)
    copied.synchronize()
    assert round(copied.time_s - start) == 3


def test_a_failed_device_refuses_work_and_waits() -> None:
    device = SimulatedDevice(LAZY)
    event = device.event()
    device.compute.record(event)
    device.fail("gone")
    with pytest.raises(DeviceError, match="gone"):
        event.synchronize()
    with pytest.raises(DeviceError, match="gone"):
        device.compute.run(lambda: None)


def waits(work: object) -> dict[str, int]:
    device = SimulatedDevice(EAGER)
    locked, memory = device.host_buffer(4, dtype=torch.float32), torch.zeros(4)
    with device.watch_hidden_waits():
        device.compute.run(lambda: work(locked, memory))  # type: ignore[operator]
    return dict(device.waits)


def test_copies_that_stop_the_host_are_waits() -> None:
    assert waits(lambda locked, memory: memory.copy_(locked, non_blocking=True)) == {}
    assert waits(lambda locked, memory: locked.copy_(memory, non_blocking=True)) == {}
    assert waits(lambda locked, memory: memory.copy_(locked)) == {"blocking copy": 1}
    assert waits(lambda locked, memory: locked.copy_(memory)) == {"blocking copy": 1}
    assert waits(lambda locked, memory: memory.copy_(torch.tensor([1.0] * 4))) == {"pageable copy": 1}
    assert waits(lambda locked, memory: memory.copy_(locked.clone(), non_blocking=True)) == {"pageable copy": 1}
    assert waits(lambda locked, memory: memory.copy_(memory * 2)) == {}


def test_reading_device_memory_on_the_host_is_a_wait() -> None:
    assert waits(lambda locked, memory: locked.tolist()) == {}
    assert waits(lambda locked, memory: memory.tolist()) == {"host read": 1}
    assert waits(lambda locked, memory: memory.sum().item()) == {"host read": 1}
    assert waits(lambda locked, memory: bool((memory > 0).any())) == {"host read": 1}
    assert waits(lambda locked, memory: memory[memory > 0]) == {"size that depends on data": 1}
    assert waits(lambda locked, memory: memory[torch.arange(2)]) == {}


def test_copies_through_to_count_too_unless_their_memory_is_page_locked() -> None:
    device = SimulatedDevice()
    plain = torch.zeros(3)
    locked = device.pinned(plain)
    with device.watch_hidden_waits():
        locked.to("cpu", non_blocking=True)
        locked[1:].to("cpu", non_blocking=True)
        assert not device.waits
        plain.to("cpu", non_blocking=True)
    assert device.waits == {"pageable copy": 1}


def test_lasting_memory_is_garbage_until_the_default_stream_comes_to_it() -> None:
    device = SimulatedDevice(LAZY)
    words, numbers = device.zeros(3, dtype=torch.int64), device.zeros(3, dtype=torch.float32)
    assert words.min() > 1 << 30
    assert numbers.isnan().all()
    seen: list[bool] = []
    device.compute.run(lambda: seen.append(bool((words == 0).all())))
    device.settle()
    device.compute.run(lambda: seen.append(bool((words == 0).all() and (numbers == 0).all())))
    device.finish()
    assert seen[-1], "what is settled is there"
    done, late = device.event(), device.zeros(1, dtype=torch.int64)
    device.compute.run(lambda: seen.append(bool((late == 0).all())))
    device.compute.record(done)
    done.synchronize()
    assert not seen[-1], "no order with the default stream is implied"
    assert device.waits["allocation"] == 1, "memory that is got later stops the host"


def test_a_captured_step_gives_the_same_tensors_written_anew() -> None:
    device = SimulatedDevice(captures=True)
    value = torch.ones(2)
    replay = device.capture((0, 1, 1, 0), lambda: (value * 2, None))
    first, nothing = replay()
    kept = first.clone()
    value += 1
    second, _ = replay()
    assert first is second
    assert nothing is None
    assert (kept.tolist(), second.tolist()) == ([2, 2], [4, 4])


def test_a_hidden_wait_costs_the_host_the_time_until_the_stream_is_there() -> None:
    device = SimulatedDevice(EAGER)
    memory = torch.zeros(1)

    def work() -> None:
        device.spend(2.0)
        memory.item()

    start = device.host_s
    with device.watch_hidden_waits():
        device.compute.run(work)
    assert round(device.host_s - start) == 2
