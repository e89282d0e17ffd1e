"""Sharper outlines from rough ones: the picture's own edges decide where a thing ends.

GrabCut (Rother, Kolmogorov and Blake, 2004) on a small copy of what lies around the outline: well inside it is taken
for the thing, well outside for the background, and what lies between goes to the side that its colours resemble.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from photon.masks.outlines import Polygon, outlines

AROUND = 0.2
"""How much of its size a thing's surroundings are, on each side."""

DOUBT = 0.12
"""Width of the band on both sides of a rough outline that may go either way, as a share of the copy's short side."""

LEAST_AGREEMENT = 0.5
"""Overlap of the sharp with the rough inside below which the colours have misled and the rough outline stays."""

_SIDE, _SMALLEST, _ROUNDS = 128, 8, 1
_SURE_BACKGROUND, _SURE_THING, _MAYBE_BACKGROUND, _MAYBE_THING = cv2.GC_BGD, cv2.GC_FGD, cv2.GC_PR_BGD, cv2.GC_PR_FGD


def sharpen(image: NDArray[np.uint8], rough: Polygon) -> list[Polygon]:
    """uint8 [H, W, 3] and a rough outline in 0..1 of it -> sharper outlines in 0..1, the largest first.

    The same picture and outline always give the same result; `rough` alone comes back where nothing sharper is found.
    """
    size = np.array([image.shape[1], image.shape[0]])
    points = np.asarray(rough) * size
    margin = AROUND * np.ptp(points, axis=0)
    low = np.floor(points.min(0) - margin).clip(0, size).astype(int)
    high = np.ceil(points.max(0) + margin).clip(0, size).astype(int)
    extent = high - low
    if extent.min() < _SMALLEST:
        return [rough]
    small = np.maximum(np.round(extent * min(1.0, _SIDE / extent.max())), _SMALLEST).astype(int)
    copy = cv2.resize(image[low[1] : high[1], low[0] : high[0]], small.tolist(), interpolation=cv2.INTER_AREA)
    inside = np.zeros(small[::-1], np.uint8)
    cv2.fillPoly(inside, [np.round((points - low) / extent * small - 0.5).astype(np.int32)], 1)
    sharp = _cut(copy, inside)
    if sharp is None:
        return [rough]
    found = [((low + np.asarray(outline) * extent) / size).tolist() for outline in outlines(sharp)]
    return found or [rough]


def _cut(picture: NDArray[np.uint8], inside: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """The thing's pixels, or None where GrabCut has no say."""
    width = max(1, round(min(inside.shape) * DOUBT))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * width + 1, 2 * width + 1))
    core, reach = cv2.erode(inside, disc), cv2.dilate(inside, disc)
    labels = np.where(inside > 0, _MAYBE_THING, _MAYBE_BACKGROUND).astype(np.uint8)
    labels[core > 0], labels[reach == 0] = _SURE_THING, _SURE_BACKGROUND
    if not inside.any() or reach.all():
        return None
    cv2.setRNGSeed(0)  # its clusters start at random
    cv2.grabCut(picture, labels, None, np.zeros((1, 65)), np.zeros((1, 65)), _ROUNDS, cv2.GC_INIT_WITH_MASK)
    sharp: NDArray[np.bool_] = (labels == _SURE_THING) | (labels == _MAYBE_THING)
    both, either = (sharp & (inside > 0)).sum(), (sharp | (inside > 0)).sum()
    return sharp if both >= LEAST_AGREEMENT * either else None
