"""Devices that the engine runs on; `make_device` chooses one by name."""

from __future__ import annotations

import torch

from photon.devices.base import Device
from photon.errors import InvalidRequestError

__all__ = ["Device", "make_device"]


def make_device(name: str, blocking_waits: bool | None = None) -> Device:
    """`auto` takes a CUDA device where there is one, else the CPU. Raises `InvalidRequestError` for other names.

    `blocking_waits`: see `CudaDevice`.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        from photon.devices.cpu import CpuDevice

        return CpuDevice()
    if name == "cuda":
        from photon.devices.cuda import CudaDevice

        return CudaDevice(blocking_waits)
    if name.startswith("paced:"):
        from photon.devices.paced import PacedDevice

        return PacedDevice(name.removeprefix("paced:"))
    raise InvalidRequestError(
        f"The device {name!r} is not known; allowed are auto, cuda, cpu and paced:ACCELERATOR (modelled)."
    )
