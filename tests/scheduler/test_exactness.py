"""Invariant 8: for any schedule the same tokens, values and log-probabilities as alone in blocking mode.

Every schedule is also checked, at every tick, for one owner of every page, row and adapter slot, for counted
references and for slots; and at its end for order, for allow-lists that follow from the committed tokens, for wasted
row-steps, for ends that were told once, and for everything being back. `--schedules N` sets their number.

A failing schedule prints its `Shape`; `Schedule(Shape(...), SimulatedDevice(...)).run()` repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from photon.devices.base import Device
from photon.devices.cpu import CpuDevice
from photon.devices.paced import GivenClock, PacedDevice
from photon.devices.simulated import SimulatedDevice
from tests.rig import Rig
from tests.schedules import Schedule, Shape
from tests.scripted import generate

SHARDS = 16
ON_REAL_DEVICES = 300
SHRINKS = os.environ.get("PHOTON_SHRINK", "1") != "0"
"""Whether a schedule that fails is made smaller first: worth minutes when one is to be understood."""

shapes = st.builds(
    Shape,
    seed=st.integers(0, 2**32 - 1),
    requests=st.integers(1, 10),
    rows=st.integers(1, 5),
    slack=st.integers(0, 12),
    images=st.integers(0, 3),
    adapters=st.sampled_from((0, 0, 1, 2, 3)),
    spread=st.sampled_from((0, 0, 4, 12, 30)),
    cancels=st.sampled_from((0, 0, 1, 2, 5)),
    pauses=st.sampled_from((0, 0, 0, 1, 2)),
    row_faults=st.sampled_from((0, 0, 1, 3)),
    step_faults=st.sampled_from((0, 0, 0, 1, 2)),
    blocking=st.sampled_from((0, 0, 0, 2, 4, 8)),
    longest=st.integers(1, 14),
    eos=st.sampled_from((0, 1, 2, 5, 9)),
    lag=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    captures=st.sampled_from((False, False, False, True)),
    lost=st.sampled_from((0,) * 45 + (1, 3, 6, 10, 20)),
)


def all_hold(make: Callable[[Shape], Device], count: int, shard: int, thorough: bool) -> None:
    """Runs `count` schedules. Without `thorough` they are the same ones in every run."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if SHRINKS else (Phase.generate,),
    )
    @given(shapes)
    def holds(shape: Shape) -> None:
        with torch.inference_mode():
            device = make(shape)
            if not isinstance(device, SimulatedDevice):
                shape = replace(shape, lost=0)
            Schedule(shape, device).run()

    (holds if thorough else seed(shard)(holds))()


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--thorough"))


@pytest.fixture
def schedules(request: pytest.FixtureRequest, thorough: bool) -> int:
    return int(request.config.getoption("--schedules")) * (5 if thorough else 1)


QUICK_SHARDS = 1


@pytest.mark.parametrize(
    "shard", [pytest.param(n, marks=[pytest.mark.slow] if n >= QUICK_SHARDS else []) for n in range(SHARDS)]
)
def test_any_schedule_gives_the_answers_of_one_request_at_a_time(shard: int, schedules: int, thorough: bool) -> None:
    count = max(1, schedules // SHARDS)
    all_hold(lambda shape: SimulatedDevice(shape.device_lag, shape.captures), count, shard, thorough)


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuDevice]:
    device = CpuDevice()
    yield device
    device.close()


def test_any_schedule_is_exact_on_the_threads_of_a_cpu(cpu: CpuDevice, schedules: int, thorough: bool) -> None:
    all_hold(lambda shape: cpu, _fewer(schedules), 0, thorough)


def test_any_schedule_is_exact_on_a_paced_device_with_a_virtual_clock(schedules: int, thorough: bool) -> None:
    all_hold(lambda shape: PacedDevice("b200", GivenClock()), _fewer(schedules), 0, thorough)


@pytest.mark.cuda
def test_any_schedule_is_exact_on_the_streams_of_a_gpu(schedules: int, thorough: bool) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    from photon.devices.cuda import CudaDevice

    device = CudaDevice()
    all_hold(lambda shape: device, _fewer(schedules), 0, thorough)
    device.close()


def _fewer(schedules: int) -> int:
    return min(ON_REAL_DEVICES, schedules)


def test_the_function_that_schedules_are_compared_with_is_what_a_request_alone_gives_in_blocking_mode() -> None:
    for number in range(200):
        shape = Shape(number, requests=1, adapters=2, longest=14, eos=1, blocking=8)
        schedule = Schedule(shape, SimulatedDevice(shape.device_lag))
        (asked,) = schedule.asked
        assert asked.request.mode == "blocking"
        rig: Rig = schedule.rig
        sequence = rig.submit(asked.request, asked.listener)
        rig.run()
        answer: Any = asked.listener.result
        assert answer["tokens"] == generate(asked.request, schedule.prefix_length, 0.1)
        assert sequence.steps == len(answer["tokens"])
