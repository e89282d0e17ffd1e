"""Tile grids, crops, stitching and pooling of the public vision tower."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from photon.errors import InvalidRequestError
from photon.models.moondream.config import VisionConfig
from photon.models.moondream.preprocess import make_crops, tile_grid
from photon.models.moondream.published import MOONDREAM_2
from photon.models.moondream.vision import patchify, stitch

VISION: VisionConfig = MOONDREAM_2.vision


@pytest.mark.parametrize(
    ("height", "width", "grid"),
    [
        (100, 100, (1, 1)),
        (378, 378, (1, 1)),
        (379, 379, (3, 3)),
        (400, 600, (2, 4)),
        (480, 640, (2, 4)),
        (640, 640, (3, 3)),
        (800, 600, (4, 2)),
        (720, 1280, (2, 4)),
        (1000, 1000, (3, 3)),
        (1080, 1920, (2, 4)),
        (3000, 4000, (2, 4)),
        (200, 4000, (1, 1)),
        (378, 2000, (1, 1)),
        (1, 1, (1, 1)),
    ],
)
def test_tile_grid(height: int, width: int, grid: tuple[int, int]) -> None:
    assert tile_grid(height, width, VISION) == grid


def test_no_grid_holds_more_than_max_crops() -> None:
    for height in range(1, 6000, 137):
        for width in range(1, 6000, 149):
            rows, cols = tile_grid(height, width, VISION)
            assert rows >= 1
            assert cols >= 1
            assert rows * cols <= VISION.max_crops


def test_crops_overlap_by_the_margins() -> None:
    image = np.random.default_rng(0).integers(0, 256, (500, 700, 3), dtype=np.uint8)
    crops = make_crops(image, VISION)
    assert crops.pixels.shape == (9, 3, 378, 378)
    left, right = crops.pixels[1], crops.pixels[2]
    below = crops.pixels[1 + 4]
    assert torch.equal(left[:, :, 266:], right[:, :, :112])
    assert torch.equal(left[:, 266:, :], below[:, :112, :])


def test_a_small_image_is_its_own_local_crop() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 20, 3), dtype=np.uint8)
    crops = make_crops(image, VISION)
    assert crops.grid == (1, 1)
    assert torch.equal(crops.pixels[0], crops.pixels[1])


def test_an_image_of_crop_size_is_not_resampled() -> None:
    image = np.random.default_rng(0).integers(0, 256, (378, 378, 3), dtype=np.uint8)
    assert torch.equal(make_crops(image, VISION).pixels[0], torch.from_numpy(image).permute(2, 0, 1))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_other_arrays_are_refused(image: np.ndarray) -> None:
    with pytest.raises(InvalidRequestError, match="uint8 of shape"):
        make_crops(image, VISION)


def test_patches_are_row_major_and_channel_major_inside() -> None:
    pixels = torch.arange(2 * 3 * 28 * 42).view(2, 3, 28, 42)
    patches = patchify(pixels, 14)
    assert patches.shape == (2, 2 * 3, 588)
    patch_y, patch_x, channel, y, x = 1, 2, 2, 5, 9
    value = patches[1, patch_y * 3 + patch_x, channel * 196 + y * 14 + x]
    assert value == pixels[1, channel, patch_y * 14 + y, patch_x * 14 + x]


def test_stitching_restores_a_map_cut_into_tiles() -> None:
    side, margin, rows, cols = 27, 4, 2, 4
    step = side - 2 * margin
    whole = torch.rand(step * rows + 2 * margin, step * cols + 2 * margin, 3)
    tiles = torch.stack(
        [whole[i * step : i * step + side, j * step : j * step + side] for i in range(rows) for j in range(cols)]
    )
    assert torch.equal(stitch(tiles, (rows, cols), margin), whole)


def test_stitching_takes_seams_from_the_inner_patches() -> None:
    tiles = torch.stack([torch.full((27, 27, 1), float(i)) for i in range(4)])
    joined = stitch(tiles, (2, 2), 4).squeeze(-1)
    assert joined.shape == (46, 46)
    assert joined[:, 22].unique().tolist() == [0, 2]
    assert joined[:, 23].unique().tolist() == [1, 3]
    assert joined[22].unique().tolist() == [0, 1]
    assert joined[23].unique().tolist() == [2, 3]


@pytest.mark.parametrize("n", [27, 46, 84])
def test_pooling_windows_are_the_specified_ones(n: int) -> None:
    values = torch.rand(n, dtype=torch.float64)
    pooled = F.adaptive_avg_pool2d(values.view(1, n, 1), (27, 1)).flatten()
    wanted = [values[k * n // 27 : -((k + 1) * n // -27)].mean() for k in range(27)]
    torch.testing.assert_close(pooled, torch.stack(wanted))
