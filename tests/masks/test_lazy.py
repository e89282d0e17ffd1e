"""photon.masks.lazy: one model, used by one thread at a time; a reader that fails keeps nobody else waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from photon.masks.lazy import LazyMasks
from photon.masks.sam2 import Sam2
from photon.skills import segment_box

BOX = {"x_min": 0.1, "y_min": 0.1, "x_max": 0.9, "y_max": 0.9}
IMAGE = np.zeros((8, 8, 3), np.uint8)
PATIENCE_S = 30


class OneMaskABox:
    def masks(self, image: Any, boxes: Any) -> Iterator[Any]:
        for _ in boxes:
            yield np.ones((8, 8), dtype=bool)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> LazyMasks:
    monkeypatch.setattr("photon.masks.lazy.mask_folder", lambda name: name)
    monkeypatch.setattr(Sam2, "load", lambda folder, device: OneMaskABox())
    return LazyMasks("scripted", torch.device("cpu"))


def test_a_failed_outline_does_not_keep_the_model_locked(lazy: LazyMasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is kept, as a call's future or a log keeps it: with it its frames, and what they hold."""
    outlines, failed = segment_box.outlines, []

    def fails_once(mask: Any) -> Any:
        if not failed:
            failed.append(True)
            raise MemoryError("no memory")
        return outlines(mask)

    monkeypatch.setattr(segment_box, "outlines", fails_once)
    made: list[Any] = []

    def outline() -> None:
        masks = lazy.masks(IMAGE, [BOX, BOX])
        made.extend(segment_box.outlines(mask) for mask in masks)

    with pytest.raises(MemoryError) as kept:
        outline()
    second = threading.Thread(target=outline, daemon=True)
    second.start()
    second.join(PATIENCE_S)
    assert not second.is_alive(), "the model is still locked"
    assert len(made) == 2
    assert kept.value.args == ("no memory",)
