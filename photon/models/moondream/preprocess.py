"""An image as the crops that the public vision tower reads (docs/model.md 3.2, 3.3)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from photon.errors import InvalidRequestError
from photon.models.moondream.config import VisionConfig
from photon.models.moondream.tower import Crops


def tile_grid(height: int, width: int, config: VisionConfig) -> tuple[int, int]:
    """(rows, columns) of local crops for an image of height x width pixels, at most `max_crops` together."""
    window = (config.grid - 2 * config.overlap_margin) * config.enc_patch_size
    margins = 2 * config.overlap_margin * config.enc_patch_size
    inner_h, inner_w = max(1, height - margins), max(1, width - margins)
    if inner_h <= window or inner_w <= window:
        return 1, 1
    most = config.max_crops
    rows, cols = math.ceil(inner_h / window), math.ceil(inner_w / window)
    if rows * cols > most:
        shrink = math.sqrt(most / (rows * cols))
        return max(1, math.floor(rows * shrink)), max(1, math.floor(cols * shrink))
    rows = max(math.floor(math.sqrt(most * inner_h / inner_w)), rows)
    cols = max(math.floor(math.sqrt(most * inner_w / inner_h)), cols)
    if rows * cols > most:
        rows, cols = (rows, most // rows) if cols > rows else (most // cols, cols)
    return max(1, rows), max(1, cols)


def make_crops(image: NDArray[np.uint8], config: VisionConfig) -> Crops:
    """uint8[H, W, 3] -> the whole image resized to one crop, then the local crops in row-major order."""
    check_image(image)
    rows, cols = tile_grid(image.shape[0], image.shape[1], config)
    size = config.crop_size
    margin = config.overlap_margin * config.enc_patch_size
    window = size - 2 * margin
    large = resized(image, rows * window + 2 * margin, cols * window + 2 * margin)
    crops = [resized(image, size, size)]
    for top in range(0, rows * window, window):
        crops += [large[top : top + size, left : left + size] for left in range(0, cols * window, window)]
    pixels = np.ascontiguousarray(np.stack(crops).transpose(0, 3, 1, 2))
    return Crops(torch.from_numpy(pixels), (rows, cols))


def resized(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Lanczos (a = 3, antialiased) to height x width, whatever the aspect ratio."""
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))


def check_image(image: NDArray[np.uint8]) -> None:
    """Raise InvalidRequestError unless image is uint8[H, W, 3] with at least one pixel."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise InvalidRequestError(
            f"An image must be uint8 of shape [height, width, 3]; this one is {image.dtype} of shape "
            f"{list(image.shape)}."
        )
