"""Pictures become crops away from the tick, and those that are ready together are encoded together."""

from __future__ import annotations

from typing import Any

from photon.devices.simulated import EAGER, SimulatedDevice
from tests.rig import Rig, image, request
from tests.scripted import Picture


class CountedRig(Rig):
    def __init__(self, **config: Any) -> None:
        self.prepared: list[int] = []
        super().__init__(SimulatedDevice(EAGER), rows=8, pages=64, **config)

    def _preprocess(self, pixels: Any) -> Picture:
        self.prepared.append(int(pixels[0, 0, 0]))
        return super()._preprocess(pixels)


def test_ticks_prepare_nothing_themselves() -> None:
    rig = CountedRig()
    for n in range(3):
        rig.submit(request(image=image(n)))
    for _ in range(5):
        rig.tick()
    assert rig.prepared == []
    assert len(rig.pool.waiting) == 3
    rig.run()
    assert sorted(rig.prepared) == [0, 1, 2]
    rig.check_at_rest()


def test_pictures_of_requests_that_are_prefilled_together_are_one_batch_within_the_bound() -> None:
    rig = CountedRig(max_prefill_images=3)
    for n in range(5):
        rig.submit(request(image=image(n)))
    rig.run()
    assert [step.crops for step in rig.core.trace.since(0) if step.crops] == [3, 2]
    rig.check_at_rest()


def test_pictures_of_requests_that_are_cancelled_are_not_prepared_and_nobody_waits_behind_them() -> None:
    rig = CountedRig()
    gone = [rig.submit(request(image=image(n))) for n in range(6)]
    rig.tick()
    rig.pool.run(1)
    for sequence in gone:
        rig.scheduler.cancel(sequence)
    rig.submit(request(image=image(7)))
    rig.tick()
    rig.run()
    assert rig.prepared == [0, 7]
    rig.check_at_rest()


def test_a_picture_that_one_of_two_requests_still_wants_is_prepared() -> None:
    rig = CountedRig()
    gone = rig.submit(request(image=image(3)))
    rig.submit(request(image=image(3)))
    rig.tick()
    rig.scheduler.cancel(gone)
    rig.tick()
    rig.run()
    assert rig.prepared == [3]
    rig.check_at_rest()
