"""Things that look photographed without being known: the silhouette of a cut-out, filled with a piece of a photograph.

Where photographs are only ever backgrounds, whatever looks photographed is taken for background, and the boxes of real
things are lost. What a dressed thing is cannot be seen in it; it has to be told (see `photon.training.telling`).
"""

from __future__ import annotations

import cv2
import numpy as np

PIECE = (0.1, 0.7)
"""How much of the photograph's shorter side the piece takes."""

SHINES_THROUGH = 0.4
"""The most that stays of the cut-out's own colours."""


def dress(cutout: np.ndarray, photograph: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """uint8 RGBA [h, w, 4] with the alpha of `cutout` and the colours of a random square of `photograph` [H, W, 3]."""
    height, width = photograph.shape[:2]
    side = max(2, int(min(height, width) * np.exp(rng.uniform(*np.log(PIECE)))))
    top, left = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
    piece = cv2.resize(photograph[top : top + side, left : left + side], cutout.shape[1::-1])
    own = float(rng.uniform(0, SHINES_THROUGH))
    colours = cv2.addWeighted(np.ascontiguousarray(cutout[..., :3]), own, piece, 1 - own, 0)
    return np.dstack([colours, cutout[..., 3]])
