"""Masks from boxes, for models that find objects but cannot outline them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Box = dict[str, float]
"""Keys x_min, y_min, x_max, y_max in 0..1 of the image; others are not looked at."""


class Masks(Protocol):
    """What segmenting by boxes asks for."""

    def missing(self) -> str | None:
        """Why no masks can be made here, in a sentence; None if they can. Cheap."""

    def masks(self, image: NDArray[np.uint8], boxes: Sequence[Box]) -> Iterable[NDArray[np.bool_]]:
        """uint8 [H, W, 3] -> one bool [side, side] a box, each over the whole picture.

        May load a model and takes its time. Raises ModelLoadError.
        """
