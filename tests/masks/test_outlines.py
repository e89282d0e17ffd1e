"""Masks become few polygons that keep their place, their order and their area."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from photon.masks.outlines import MAX_POINTS, Polygon, bounds, outlines


def blank(height: int = 200, width: int = 200) -> NDArray[np.bool_]:
    return np.zeros((height, width), dtype=bool)


def disc(mask: NDArray[np.bool_], x: int, y: int, radius: int) -> None:
    rows, columns = np.ogrid[: mask.shape[0], : mask.shape[1]]
    mask |= (columns - x) ** 2 + (rows - y) ** 2 <= radius**2


def area(polygon: Polygon) -> float:
    x, y = np.asarray(polygon).T
    return 0.5 * abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))


def test_a_rectangle_has_its_four_corners() -> None:
    mask = blank(100, 400)
    mask[20:50, 100:300] = True
    (polygon,) = outlines(mask)
    assert sorted(map(tuple, polygon)) == [
        (pytest.approx(x), pytest.approx(y)) for x in (100.5 / 400, 299.5 / 400) for y in (20.5 / 100, 49.5 / 100)
    ]
    assert bounds([polygon]) == pytest.approx(
        {"x_min": 100.5 / 400, "y_min": 0.205, "x_max": 299.5 / 400, "y_max": 0.495}
    )


def test_a_disc_keeps_its_area() -> None:
    mask = blank()
    disc(mask, 90, 100, 60)
    (polygon,) = outlines(mask)
    assert 8 < len(polygon) <= MAX_POINTS
    assert area(polygon) == pytest.approx(mask.mean(), rel=0.03)


def test_the_largest_comes_first_and_specks_are_dropped() -> None:
    mask = blank()
    disc(mask, 40, 40, 20)
    disc(mask, 130, 130, 50)
    mask[5:8, 190:193] = True
    found = outlines(mask)
    assert len(found) == 2
    assert area(found[0]) > area(found[1])
    assert bounds(found[:1])["x_min"] == pytest.approx(80.5 / 200)


def filled(polygons: list[Polygon], turns: bool = False, side: int = 200) -> NDArray[np.bool_]:
    """What lies inside, by even and odd, or by counting the turns around it."""
    canvas = np.zeros((side, side), np.int32)
    for polygon in polygons:
        ring = np.zeros((side, side), np.uint8)
        points = np.asarray(polygon) * side - 0.5
        cv2.fillPoly(ring, [np.round(points).astype(np.int32)], 1)
        x, y = points.T
        way = np.sign(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
        canvas += ring.astype(np.int32) * (int(way) if turns else 1)
    return canvas != 0 if turns else canvas % 2 == 1


def ring() -> NDArray[np.bool_]:
    mask, hole = blank(), blank()
    disc(mask, 100, 100, 80)
    disc(hole, 100, 100, 40)
    return mask & ~hole


@pytest.mark.parametrize("turns", [False, True])
def test_a_hole_is_a_second_ring_by_either_rule(turns: bool) -> None:
    found = outlines(ring())
    assert len(found) == 2
    assert filled(found, turns).mean() == pytest.approx(ring().mean(), rel=0.05)
    assert not filled(found, turns)[100, 100]
    assert filled(found, turns)[100, 40]


def test_a_speck_in_an_object_is_no_hole() -> None:
    mask = blank()
    disc(mask, 100, 100, 80)
    mask[97:103, 97:103] = False
    assert len(outlines(mask)) == 1


def test_what_lies_in_a_hole_is_an_object_again() -> None:
    mask = ring()
    disc(mask, 100, 100, 25)
    found = outlines(mask)
    assert len(found) == 3
    assert filled(found).mean() == pytest.approx(mask.mean(), rel=0.06)
    assert filled(found)[100, 100]


def test_a_ragged_mask_is_simplified_to_few_points() -> None:
    noise = np.random.default_rng(0).random((256, 256)) > 0.45
    found = outlines(noise)
    assert found
    assert sum(map(len, found)) <= MAX_POINTS
    assert min(map(len, found)) >= 3


def test_many_equal_islands_are_bounded_too() -> None:
    mask = blank(256, 256)
    mask[::8, ::8] = mask[1::8, ::8] = mask[::8, 1::8] = mask[1::8, 1::8] = True
    found = outlines(mask, most=60)
    assert 0 < sum(map(len, found)) <= 60


def test_what_touches_the_border_stays_inside_the_picture() -> None:
    (polygon,) = outlines(~blank())
    assert bounds([polygon]) == pytest.approx({"x_min": 0.0025, "y_min": 0.0025, "x_max": 0.9975, "y_max": 0.9975})


@pytest.mark.parametrize("pixels", [0, 1, 2])
def test_nothing_and_next_to_nothing_have_no_outline(pixels: int) -> None:
    mask = blank()
    mask[10, 10 : 10 + pixels] = True
    assert outlines(mask) == []
