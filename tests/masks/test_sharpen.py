"""Rough outlines that the picture's edges make sharp."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from photon.masks.sharpen import sharpen

HEIGHT, WIDTH = 240, 320
CENTRE, RADII = (150, 130), (70, 50)


@pytest.fixture
def picture() -> NDArray[np.uint8]:
    """A red ellipse on noisy grass."""
    rng = np.random.default_rng(0)
    pixels = np.clip(rng.normal((60, 110, 50), 12, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
    cv2.ellipse(pixels, CENTRE, RADII, 0, 0, 360, (200, 40, 40), -1)
    return pixels


def ring(radii: tuple[float, float], centre: tuple[float, float] = CENTRE, corners: int = 8) -> list[list[float]]:
    angle = np.arange(corners) * 2 * np.pi / corners
    x, y = centre[0] + radii[0] * np.cos(angle), centre[1] + radii[1] * np.sin(angle)
    return np.stack([(x + 0.5) / WIDTH, (y + 0.5) / HEIGHT], axis=1).tolist()


def overlap(polygons: list[list[list[float]]]) -> float:
    """IoU with the ellipse."""
    truth, found = np.zeros((2, HEIGHT, WIDTH), np.uint8)
    cv2.ellipse(truth, CENTRE, RADII, 0, 0, 360, 1, -1)
    cv2.fillPoly(found, [np.round(np.asarray(p) * (WIDTH, HEIGHT) - 0.5).astype(np.int32) for p in polygons], 1)
    return float((truth & found).sum() / (truth | found).sum())


@pytest.mark.parametrize(
    "rough", [ring((62, 44)), ring((80, 58)), ring(RADII, (156, 134)), ring((60, 44), corners=5)], ids=str
)
def test_a_rough_outline_becomes_that_of_the_thing(picture: NDArray[np.uint8], rough: list[list[float]]) -> None:
    assert overlap([rough]) < 0.9
    assert overlap(sharpen(picture, rough)) > 0.94


def test_the_same_outline_comes_out_every_time_and_in_every_thread(picture: NDArray[np.uint8]) -> None:
    rough = ring((64, 52), (154, 128))
    once = sharpen(picture, rough)
    cv2.setRNGSeed(7)
    assert sharpen(picture, rough) == once
    with ThreadPoolExecutor(2) as pool:
        assert all(found == once for found in pool.map(lambda _: sharpen(picture, rough), range(4)))


def test_where_the_picture_shows_no_edge_the_outline_stays_near_the_rough_one() -> None:
    flat, rough = np.full((HEIGHT, WIDTH, 3), 128, np.uint8), ring((60, 40))
    (found,) = sharpen(flat, rough)
    assert cv2.contourArea(np.array(found, np.float32)) > 0.5 * cv2.contourArea(np.array(rough, np.float32))


def test_an_outline_that_would_become_quite_another_stays(
    picture: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = ring((62, 44))
    monkeypatch.setattr("photon.masks.sharpen.LEAST_AGREEMENT", 0.99)
    assert sharpen(picture, rough) == [rough]


@pytest.mark.parametrize(
    "rough",
    [
        [[0.5, 0.5]] * 8,
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        [[0.2, 0.5], [0.8, 0.5], [0.5, 0.5]],
        ring((6, 6), (1, 1)),
    ],
    ids=["a point", "everything", "a line", "cut by the corner"],
)
def test_outlines_at_their_limits_give_something_inside_the_picture(
    picture: NDArray[np.uint8], rough: list[list[float]]
) -> None:
    for polygon in sharpen(picture, np.clip(rough, 0, 1).tolist()):
        points = np.asarray(polygon)
        assert points.min() >= 0
        assert points.max() <= 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (3, 3)])
def test_pictures_of_any_shape(shape: tuple[int, int]) -> None:
    assert sharpen(np.zeros((*shape, 3), np.uint8), ring((60, 40))) == [ring((60, 40))]
