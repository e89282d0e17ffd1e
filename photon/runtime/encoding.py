"""Pictures that are encoded before their prefill, on a core that decoding leaves free.

A small decoder keeps one thread of the CPU busy; the vision tower of the next picture then runs beside it, instead of
standing between two of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from photon.core.request import Rgb
from photon.devices.base import Device
from photon.models.moondream.model import Moondream
from photon.models.moondream.tower import Crops


@dataclass(frozen=True)
class Encoded:
    """tokens: [1, n_tokens, F], what the vision tower makes of one picture."""

    tokens: Tensor


def cut(model: Moondream, device: Device, image: Rgb) -> Crops:
    """uint8 [H, W, 3] -> crops in memory from which the device copies without stopping the host. On any thread."""
    crops = model.vision.preprocess(image)
    return Crops(device.pinned(crops.pixels), crops.grid)


@torch.inference_mode()
def encode(model: Moondream, crops: Crops) -> Encoded:
    """On any thread; the tower's parameters are only read."""
    return Encoded(model.vision([crops]))


def image_tokens(model: Moondream, prepared: Sequence[Crops | Encoded]) -> Tensor:
    """[n, n_tokens, F]: those of pictures that are all encoded, or of all the others in one batch."""
    encoded = [one.tokens for one in prepared if isinstance(one, Encoded)]
    if encoded:
        return torch.cat(encoded)
    tokens: Tensor = model.vision([one for one in prepared if isinstance(one, Crops)])
    return tokens
