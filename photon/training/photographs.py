"""Photographs with hand-made truth: a folder with ``annotations.json`` (COCO-like) and ``images``.

Each picture lists the `names` that it shows, all of whose things are annotated, and `absent` ones. Annotations with
`ignore` set are regions with further, unclear things of their name. Not all have a mask.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from photon.training.answering import Sheet
from photon.training.scoring import Question, filled

TOLERANCE = 0.01
"""How far beside its hand-made mask a point may lie, as a share of the picture's longer side."""


class PhotographSet:
    """The pictures of one folder, each with its questions."""

    def __init__(self, folder: Path) -> None:
        listed: dict[str, Any] = json.loads((folder / "annotations.json").read_text("utf-8"))
        self._folder = folder / "images"
        self._images: list[dict[str, Any]] = listed["images"]
        self._things: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for thing in listed["annotations"]:
            self._things.setdefault((thing["image_id"], thing["name"]), []).append(thing)

    def __len__(self) -> int:
        return len(self._images)

    def sheet(self, number: int) -> Sheet:
        """The picture and all names to ask: those that are there, then those that are not."""
        listed = self._images[number]
        with Image.open(self._folder / listed["file_name"]) as image:
            pixels = np.asarray(image.convert("RGB"))
        shape = (listed["height"], listed["width"])
        present = [question(name, shape, self._things[listed["id"], name]) for name in listed["names"]]
        return Sheet(pixels, [*present, *(Question(name, shape) for name in listed["absent"])])


def question(name: str, shape: tuple[int, int], annotated: list[dict[str, Any]]) -> Question:
    """The question after `name`; `shape`: (height, width) in pixels, in which the annotations are given."""
    things = [one for one in annotated if not one["ignore"]]
    return Question(
        name,
        shape,
        [_mask(one, shape) for one in things],
        _boxes(things, shape),
        _boxes([one for one in annotated if one["ignore"]], shape),
        round(TOLERANCE * max(shape)),
    )


def _boxes(annotated: list[dict[str, Any]], shape: tuple[int, int]) -> np.ndarray:
    """COCO's [x, y, width, height] in pixels -> f64 [n, 4], corners in 0..1."""
    boxes = np.array([one["bbox"] for one in annotated], float).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    height, width = shape
    return boxes / [width, height, width, height]


def _mask(annotated: dict[str, Any], shape: tuple[int, int]) -> np.ndarray | None:
    """Outer rings joined, inner rings cut out; None where nobody drew a mask."""
    if not annotated["segmentation"]:
        return None
    height, width = shape
    outer, inner = (
        [filled([np.reshape(ring, (-1, 2)) / [width, height]], height, width) for ring in annotated.get(key, ())]
        for key in ("segmentation", "holes")
    )
    mask: np.ndarray = np.any(outer, axis=0) & ~np.any([np.zeros(shape, bool), *inner], axis=0)
    return mask
