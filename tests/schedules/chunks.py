"""Chunks of numbered schedules, for worker processes."""

from __future__ import annotations

import logging

import torch

from photon.devices.simulated import SimulatedDevice
from tests.schedules.drawn import drawn
from tests.schedules.hanging import hang
from tests.schedules.schedule import Schedule

CHUNK = 500
HANGING = 1000


def run(first: int) -> list[str]:
    """A chunk from `first` on: a sentence for each schedule that failed."""
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)  # listeners that are made to fail say so
    failed = []
    for number in range(first, first + CHUNK):
        shape = drawn(number)
        try:
            if number % HANGING == HANGING - 1:
                hang(number)
            else:
                with torch.inference_mode():
                    Schedule(shape, SimulatedDevice(shape.device_lag, shape.captures)).run()
        except Exception as error:
            failed.append(f"schedule {number}: {type(error).__name__}: {error}\n    {shape}")
    return failed
