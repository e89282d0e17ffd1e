"""What every vision tower offers, and which tower a configuration names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True)
class Crops:
    """One image, cut up for the tower.

    pixels: uint8[n, 3, c, c] on the CPU, the whole image first; grid: (rows, columns) of local crops.
    """

    pixels: Tensor
    grid: tuple[int, int]


class Tower(nn.Module):
    """The contract of a vision tower."""

    def preprocess(self, image: NDArray[np.uint8]) -> Crops:
        """uint8[H, W, 3] upright RGB -> crops. Runs on any thread, touches no parameter."""
        raise NotImplementedError

    def forward(self, crops: list[Crops]) -> Tensor:
        """Crops of several images in one batch -> [len(crops), n_tokens, F] in the model's dtype."""
        raise NotImplementedError
