"""From a mask to polygons, and from polygons to the public form of an outline."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 300
"""Of all outlines of an object together: what a page can draw smoothly."""

_SMALLEST_SHARE = 0.02
"""Islands and holes below this share of the largest island's area are specks of the mask, not parts of the object."""

_POINTS_EACH = 8
"""How few points an outline is simplified to at worst, so that small islands do not vanish for the sake of many."""

Polygon = list[list[float]]


def outlines(mask: NDArray[np.bool_], most: int = MAX_POINTS) -> list[Polygon]:
    """bool [H, W] -> outlines [[x, y], ...] in 0..1 of the mask, largest first, at most `most` points in all.

    Holes are outlines too: what lies inside an odd number of them is the object. They run the other way round, so that
    rules which count turns agree.
    """
    found, above = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    if above is None:
        return []
    found = [_turned(ring, is_hole=parent >= 0) for ring, parent in zip(found, above[0, :, 3], strict=True)]
    rings = sorted(((cv2.contourArea(c), i) for i, c in enumerate(found) if len(c) > 2), reverse=True)
    kept = [found[i] for area, i in rings[: most // _POINTS_EACH] if area >= _SMALLEST_SHARE * rings[0][0]]
    size = np.array([mask.shape[1], mask.shape[0]], dtype=np.float64)
    return [((c.reshape(-1, 2) + 0.5) / size).tolist() for c in _simplified(kept, most)]


def _turned(ring: NDArray[np.int32], is_hole: bool) -> NDArray[np.int32]:
    """Clockwise as it is seen, and holes the other way round."""
    clockwise = cv2.contourArea(ring, oriented=True) > 0
    return ring[::-1] if clockwise == is_hole else ring


def _simplified(contours: Sequence[NDArray[np.int32]], most: int) -> list[NDArray[np.int32]]:
    """Coarser and coarser until few enough points are left; half a pixel is lost in any case."""
    tolerance = 0.5
    while True:
        simple = [cv2.approxPolyDP(c, tolerance, True) for c in contours]
        simple = [c for c in simple if len(c) > 2]
        if sum(map(len, simple)) <= most:
            return simple
        tolerance *= 1.5


def bounds(polygons: Sequence[Polygon]) -> dict[str, float]:
    """The box around all points; there is at least one."""
    points = np.concatenate([np.asarray(p) for p in polygons])
    (x_min, y_min), (x_max, y_max) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return {"x_min": x_min, "y_min": y_min, "x_max": x_max, "y_max": y_max}
