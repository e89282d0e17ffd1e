"""Composed scenes: exact ground truth, and the same scene for the same seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from photon.training.data.compose import KINDS, SIDE, Canvas, Library, compose
from photon.training.data.dressing import SHINES_THROUGH, dress
from photon.training.data.geometry import VERTICES, box_of, contour_of, fill, point_of
from tests.training.material import disc, shapes_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return shapes_library(Path(tmp_path_factory.mktemp("material")))


def test_a_seed_fixes_the_scene(library: Library) -> None:
    one, again, other = compose(library, 5), compose(library, 5), compose(library, 6)
    assert np.array_equal(one.image, again.image)
    assert [o.box.tolist() for o in one.objects] == [o.box.tolist() for o in again.objects]
    assert not np.array_equal(one.image, other.image)


@pytest.mark.parametrize("kind", ["ordinary", "dense", "big"])
def test_boxes_points_and_contours_match_the_masks(library: Library, kind: str) -> None:
    seen = 0
    for seed in range(6):
        for thing in compose(library, seed, kind).objects:
            rows, columns = np.nonzero(thing.mask)
            edges = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert thing.box * SIDE == pytest.approx(edges)
            assert thing.mask[int(thing.point[1] * SIDE), int(thing.point[0] * SIDE)]
            assert thing.contour.min() >= 0
            assert thing.contour.max() <= 1
            seen += 1
    assert seen > 5


def test_masks_do_not_overlap_and_lie_where_the_picture_shows_the_thing(library: Library) -> None:
    scene = compose(library, 3, "dense")
    assert len(scene.objects) > 4
    assert np.sum([thing.mask for thing in scene.objects], axis=0).max() == 1
    for thing in scene.objects:
        colour = scene.image[thing.mask].mean(0)
        strongest = {"ball": 0, "post": 1}[thing.name]
        assert colour.argmax() == strongest


def test_empty_scenes_have_no_named_thing_and_doubt_what_the_photograph_shows(library: Library) -> None:
    scene = compose(library, 1, "empty")
    assert scene.objects == []
    assert scene.doubtful == {"house"}
    assert "empty" in KINDS


def test_dressed_things_have_their_shape_and_the_colours_of_a_photograph(library: Library) -> None:
    scene = compose(replace(library, dressed=True), 3, "big")
    assert scene.objects
    for thing in scene.objects:
        colour = scene.image[thing.mask].astype(float).mean(0)
        assert np.abs(colour - 128).max() < SHINES_THROUGH * 128 + 50
        assert contour_of(thing.mask) == pytest.approx(thing.contour)


def test_what_is_dressed_keeps_its_outline_and_shows_a_piece_of_the_photograph() -> None:
    photograph = np.random.default_rng(1).integers(0, 255, (90, 120, 3), np.uint8)
    dressed = dress(disc((255, 0, 0)), photograph, np.random.default_rng(0))
    assert (dressed[..., 3] == disc((255, 0, 0))[..., 3]).all()
    inside = dressed[dressed[..., 3] > 0][:, 1:3]
    assert inside.std() > 10
    assert inside.mean() >= 120 * (1 - SHINES_THROUGH)


def test_pasting_keeps_count_of_what_stays_visible() -> None:
    canvas = Canvas(np.zeros((SIDE, SIDE, 3), np.uint8))
    assert canvas.paste(disc((255, 0, 0)), 10, 10, most_hidden=0.3)
    assert not canvas.paste(disc((0, 255, 0)), 20, 10, most_hidden=0.3)
    assert canvas.paste(disc((0, 255, 0)), 85, 10, most_hidden=0.3)
    assert canvas.visible.tolist() == [(canvas.owner == 0).sum(), (canvas.owner == 1).sum()]
    assert canvas.visible[0] < canvas.areas[0]


def test_a_contour_runs_clockwise_from_the_top_in_equal_steps() -> None:
    mask = np.zeros((100, 200), bool)
    mask[20:61, 50:131] = True
    contour = contour_of(mask) * [200, 100]
    assert contour.shape == (VERTICES, 2)
    assert contour[0] == pytest.approx([50.5, 20.5])
    assert contour[1][0] > contour[0][0]
    steps = np.abs(np.diff(contour, axis=0)).sum(1)
    assert steps == pytest.approx(np.full(VERTICES - 1, 2 * (80 + 40) / VERTICES), abs=1e-3)
    assert box_of(mask).tolist() == pytest.approx([0.25, 0.2, 0.655, 0.61])


def test_the_contour_of_several_parts_is_that_of_the_largest() -> None:
    mask = np.zeros((64, 64), bool)
    mask[2:6, 2:6] = True
    mask[20:50, 20:50] = True
    assert contour_of(mask).min() * 64 > 19


def test_filling_a_contour_gives_the_mask_back() -> None:
    rows, columns = np.mgrid[:96, :96]
    mask = (rows - 50) ** 2 + (columns - 40) ** 2 < 30**2
    back = fill(contour_of(mask), 96, 96)
    assert (back & mask).sum() / (back | mask).sum() > 0.95


def test_the_point_is_the_middle_of_the_widest_part() -> None:
    mask = np.zeros((100, 100), bool)
    mask[10:51, 10:51] = True
    mask[30:32, 50:99] = True
    assert point_of(mask) * 100 == pytest.approx([30.5, 30.5], abs=1.1)
