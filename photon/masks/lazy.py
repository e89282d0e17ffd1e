"""The mask model of an engine: named at start, loaded at its first use, used by one thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from photon.errors import ModelLoadError
from photon.masks import Box
from photon.masks.mask_files import mask_folder
from photon.masks.sam2 import Sam2


class LazyMasks:
    """Loads once, whoever asks first; a failure is tried again at the next request."""

    def __init__(self, name_or_path: str, device: torch.device) -> None:
        self._name = name_or_path
        self._device = device
        self._lock = threading.Lock()
        self._model: Sam2 | None = None

    def missing(self) -> str | None:
        if self._model is None:
            try:
                mask_folder(self._name)
            except ModelLoadError as error:
                return str(error)
        return None

    def masks(self, image: NDArray[np.uint8], boxes: Sequence[Box]) -> list[NDArray[np.bool_]]:
        """All at once: whoever reads them one by one may fail half-way, and must not keep the lock then."""
        with self._lock:
            if self._model is None:
                self._model = Sam2.load(mask_folder(self._name), self._device)
            return list(self._model.masks(image, boxes))
