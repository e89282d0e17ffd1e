"""The modelled accelerator: its table, its clocks, and the arithmetic of its streams."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import photon.devices.pace_table
from photon import EngineConfig, Photon
from photon.devices import make_device
from photon.devices.pace_table import Curve, OutsideTableError, PaceTable
from photon.devices.paced import GivenClock, MeasuredClock, PacedDevice, RealClock
from photon.errors import DeviceError, InvalidRequestError
from photon.runtime.paced import PacedExecutor, timed
from tests.paths import PARITY

MS = 1e-3
MODEL = PARITY / "md2"


@pytest.fixture
def device() -> PacedDevice:
    return PacedDevice("b200", GivenClock())


# -- the table ----------------------------------------------------------------------------------------------------


def test_times_are_linear_between_the_given_sizes() -> None:
    curve = Curve("forward", [{"at": 1, "ms": 2.0}, {"at": 5, "ms": 4.0}, {"at": 9, "ms": 4.4}])
    assert curve(1) == pytest.approx(2.0 * MS)
    assert curve(2) == pytest.approx(2.5 * MS)
    assert curve(5) == pytest.approx(4.0 * MS)
    assert curve(7) == pytest.approx(4.2 * MS)
    assert curve(9) == pytest.approx(4.4 * MS)


@pytest.mark.parametrize("size", [0, 0.5, 33, 64])
def test_sizes_outside_the_table_are_refused_in_a_sentence(size: float) -> None:
    with pytest.raises(OutsideTableError, match=rf"size of {size:g}; the table has sizes 1 to 32\.$"):
        PaceTable.load("b200").forward_s(size)


def test_an_unknown_accelerator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OutsideTableError, match=r"'h100'; allowed are b200, 3090\."):
        PaceTable.load("h100")
    with pytest.raises(InvalidRequestError, match="paced:ACCELERATOR"):
        make_device("pace:b200")


def test_every_number_of_the_table_names_a_source_that_is_described() -> None:
    data = json.loads(Path(photon.devices.pace_table.__file__).with_name("paced.json").read_text())
    for entry in data["accelerators"].values():
        numbers = [*entry["forward_ms"], *entry["sampling_ms"], *entry["vision_ms"], entry["copy_ms"]]
        numbers += [*entry["published"], *entry["published_requests"]]
        for number in numbers:
            assert number["source"] in data["sources"], number


def test_vision_times_follow_from_the_published_request_rates() -> None:
    """An encoding, a prompt's forward, two decode forwards and a wasted one, each with sampling, fill the time."""
    table = PaceTable.load("b200")
    for published in table.published_requests[:3]:
        n = published["batch"]
        steps = 4 * (table.forward_s(n) + table.sampling_s(n))
        assert table.vision_s(n) + steps == pytest.approx(n / published["requests_per_s"], abs=0.01 * MS)


# -- streams and events on a virtual clock ------------------------------------------------------------------------


def test_work_starts_when_it_is_enqueued_or_when_the_work_before_it_ends(device: PacedDevice) -> None:
    first, second, late = device.event(), device.event(), device.event()
    start = device.now()
    device.compute.run(lambda: device.spend(3 * MS))
    device.compute.record(first)
    device.clock.charge(1 * MS)
    device.compute.run(lambda: device.spend(2 * MS))
    device.compute.record(second)
    second.synchronize()
    assert first.time_s == pytest.approx(start + 3 * MS)
    assert second.time_s == pytest.approx(start + 5 * MS)
    assert device.now() == pytest.approx(start + 5 * MS)
    device.clock.charge(4 * MS)
    device.compute.run(lambda: device.spend(1 * MS))
    device.compute.record(late)
    late.synchronize()
    assert late.time_s == pytest.approx(start + 10 * MS)


def test_waiting_for_what_is_past_costs_nothing(device: PacedDevice) -> None:
    event = device.event()
    device.compute.run(lambda: device.spend(1 * MS))
    device.compute.record(event)
    device.clock.charge(5 * MS)
    before = device.now()
    event.synchronize()
    assert device.now() == before


def test_the_copy_stream_waits_for_its_event_and_not_for_later_compute_work(device: PacedDevice) -> None:
    done, copied = device.event(), device.event()
    start = device.now()
    device.compute.run(lambda: device.spend(2 * MS))
    device.compute.record(done)
    device.copy.wait(done)
    device.copy.run(lambda: None)
    device.copy.record(copied)
    device.compute.run(lambda: device.spend(50 * MS))
    copied.synchronize()
    assert copied.time_s == pytest.approx(start + 2 * MS)


def test_an_event_that_was_recorded_again_waits_for_its_last_record(device: PacedDevice) -> None:
    event = device.event()
    start = device.now()
    device.compute.record(event)
    device.compute.run(lambda: device.spend(2 * MS))
    device.compute.record(event)
    event.synchronize()
    assert event.time_s == pytest.approx(start + 2 * MS)


def test_nothing_runs_before_the_host_waits(device: PacedDevice) -> None:
    ran: list[str] = []
    event = device.event()
    device.compute.run(lambda: ran.append("work"))
    device.compute.record(event)
    assert ran == []
    event.synchronize()
    assert ran == ["work"]


def test_waiting_for_an_event_that_was_never_recorded_is_an_error(device: PacedDevice) -> None:
    with pytest.raises(DeviceError, match="before it was recorded"):
        device.event().synchronize()
    with pytest.raises(DeviceError, match="before it was recorded"):
        device.copy.wait(device.event())


def test_the_measured_clock_leaves_out_the_device_work_and_jumps_over_waits() -> None:
    """The work here burns host time; what passes on the clock is what it says that it takes."""
    device = PacedDevice("b200", MeasuredClock())
    event = device.event()

    def work() -> None:
        torch.randn(400, 400) @ torch.randn(400, 400)
        device.spend(1000.0)

    device.compute.run(work)
    device.compute.record(event)
    before = device.now()
    event.synchronize()
    assert event.time_s <= device.now() <= event.time_s + 1.0
    assert before + 999.0 < device.now() < before + 1001.0


def test_the_real_clock_sleeps_to_the_absolute_end() -> None:
    device = PacedDevice("b200", RealClock())
    event = device.event()
    start = device.now()
    for _ in range(3):
        device.compute.run(lambda: device.spend(2 * MS))
    device.compute.record(event)
    event.synchronize()
    assert event.time_s - start >= 6 * MS
    assert device.now() >= event.time_s


def test_an_executor_on_the_device_takes_the_times_of_the_table(device: PacedDevice) -> None:
    class Silent:
        def __getattr__(self, name: str) -> object:
            return lambda *_: (torch.zeros(8, 1), torch.zeros(8, 1))

    executor, table = timed(device, Silent()), device.table  # type: ignore[arg-type]
    assert isinstance(executor, PacedExecutor)
    rows, none = torch.zeros(8, dtype=torch.int64), torch.zeros(8, 1, dtype=torch.int64)
    spent = {
        "prefix": device.time_of(lambda: executor.prefix([1, 2, 3], none, None)),
        "prompt": device.time_of(lambda: executor.prompt(none, none, none, none, none, None)),
        "decode": device.time_of(lambda: executor.decode(rows, none, rows, none, None)),
        "sample": device.time_of(lambda: executor.sample(none, none, none, none, None)),  # type: ignore[arg-type]
        "copy_pages": device.time_of(lambda: executor.copy_pages(rows, rows)),
    }
    assert spent == {
        "prefix": table.vision_s(3),
        "prompt": table.forward_s(8),
        "decode": table.forward_s(8),
        "sample": table.sampling_s(8),
        "copy_pages": 0.0,
    }


def test_a_model_answers_on_the_device_as_on_the_cpu_in_modelled_time() -> None:
    picture = np.full((24, 24, 3), 90, np.uint8)
    answers = []
    for name in ("cpu", "paced:3090"):
        with Photon.load(str(MODEL), EngineConfig(device=name, threads=1)) as model:
            answers.append(model.detect(picture, "car", settings={"max_objects": 2}))
            assert model.describe()["modelled"] is (name != "cpu")
    assert answers[0] == answers[1]
    modelled, table = answers[1].metrics, PaceTable.load("3090")
    steps = modelled.tokens * (table.forward_s(1) + table.sampling_s(1))
    assert modelled.prefill_ms + modelled.decode_ms >= 1e3 * (table.vision_s(1) + steps) - 1e-6
