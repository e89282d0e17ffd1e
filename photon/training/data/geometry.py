"""Exact ground truth of a visible mask: its box, the point to answer, its contour.

All coordinates are 0..1 of the image, x before y.
"""

from __future__ import annotations

import cv2
import numpy as np

VERTICES = 16


def box_of(mask: np.ndarray) -> np.ndarray:
    """bool [height, width] -> f32 [4] (x_min, y_min, x_max, y_max), the outer edges of the outermost pixels."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    height, width = mask.shape
    edges = [columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height]
    return np.array(edges, np.float32)


def point_of(mask: np.ndarray) -> np.ndarray:
    """bool [height, width] -> f32 [2]: the centre of the pixel farthest from the mask's border and the frame."""
    framed = np.pad(mask.astype(np.uint8), 1)
    distance = cv2.distanceTransform(framed, cv2.DIST_L2, 3)[1:-1, 1:-1]
    row, column = np.unravel_index(int(distance.argmax()), mask.shape)
    return np.array([(column + 0.5) / mask.shape[1], (row + 0.5) / mask.shape[0]], np.float32)


def contour_of(mask: np.ndarray, vertices: int = VERTICES) -> np.ndarray:
    """bool [height, width] -> f32 [vertices, 2]: the outline of the largest part, clockwise as seen, from its top.

    Vertices are equally far apart along the outline, which runs through the centres of the border pixels.
    """
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(outlines, key=len if len(outlines) == 1 else cv2.contourArea)[:, 0].astype(np.float64)
    x, y = outline[:, 0], outline[:, 1]
    if (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() < 0:
        outline = outline[::-1]
    start = np.lexsort((outline[:, 0], outline[:, 1]))[0]
    closed = np.concatenate([outline[start:], outline[: start + 1]])
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    wanted = np.arange(vertices) * along[-1] / vertices
    points = np.stack([np.interp(wanted, along, closed[:, axis]) for axis in (0, 1)], axis=1)
    return ((points + 0.5) / [mask.shape[1], mask.shape[0]]).astype(np.float32)


def fill(contour: np.ndarray, height: int, width: int) -> np.ndarray:
    """The inside of a contour [n, 2] as bool [height, width]."""
    mask = np.zeros((height, width), np.uint8)
    pixels = np.round(np.asarray(contour) * [width, height] - 0.5).astype(np.int32)
    cv2.fillPoly(mask, [pixels], 1)
    return mask.astype(bool)
