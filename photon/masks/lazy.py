"""The mask model of an engine: named at start, loaded at its first use, used by one thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from photon.errors import ModelLoadError
from photon.masks import Box
from photon.masks.sam2 import Sam2
from photon.models.hub import Repo, find

MASK_MODELS: Mapping[str, Repo] = {
    "sam2.1-small": Repo("facebook/sam2.1-hiera-small", "ee5bba1d82bb8749febdf90f45e84b687142ba03"),
    "sam2.1-large": Repo("facebook/sam2.1-hiera-large", "665f8e2ad61cf5f53d65644ff27c8ee525124610"),
}
FILES = ("config.json", "model.safetensors")


def mask_folder(name_or_path: str) -> Path:
    """Where the files of a mask model lie. Raises ModelLoadError if they do not, without touching the network."""
    if repo := MASK_MODELS.get(name_or_path):
        found = [find(repo, file) for file in FILES]
        if all(found) and found[0]:
            return found[0].parent
        raise ModelLoadError(
            f"Outlines need the mask model {name_or_path}, which is not on this machine; fetch it with: "
            f"python -m photon download {name_or_path}"
        )
    folder = Path(name_or_path).expanduser()
    if all((folder / file).is_file() for file in FILES):
        return folder
    raise ModelLoadError(
        f"There is no mask model {name_or_path!r}. Known names are {', '.join(MASK_MODELS)}; a folder with "
        f"{' and '.join(FILES)} works too."
    )


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

    def masks(self, image: NDArray[np.uint8], boxes: Sequence[Box]) -> Iterator[NDArray[np.bool_]]:
        with self._lock:
            if self._model is None:
                self._model = Sam2.load(mask_folder(self._name), self._device)
            yield from self._model.masks(image, boxes)
