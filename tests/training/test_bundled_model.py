"""photon-tiny on the committed scenes, through the engine: not worse than when it was released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from photon import EngineConfig, Photon
from photon.training.data.geometry import fill
from tests.paths import DATA

FOLDER = DATA / "scenes"
SCENES: list[dict[str, Any]] = json.loads((FOLDER / "scenes.json").read_text())
POINT_F1 = 0.4


@pytest.fixture(scope="module")
def model() -> Iterator[Photon]:
    loaded = Photon.load("photon-tiny", EngineConfig(device="cpu", threads=1))
    yield loaded
    loaded.close()


def picture(scene: dict[str, Any]) -> np.ndarray:
    return np.ascontiguousarray(cv2.imread(str(FOLDER / scene["file"]))[..., ::-1])


def test_the_truth_of_the_scenes_is_sound() -> None:
    assert len(SCENES) >= 4
    for scene in SCENES:
        height, width = picture(scene).shape[:2]
        for thing in scene["objects"]:
            x0, y0, x1, y1 = thing["box"]
            contour = np.array(thing["contour"])
            assert contour.shape == (24, 2)
            assert (contour.min(0) >= [x0 - 0.01, y0 - 0.01]).all()
            assert (contour.max(0) <= [x1 + 0.01, y1 + 0.01]).all()
            assert x0 <= thing["point"][0] <= x1
            assert fill(contour, height, width).any()


def test_points_are_found_above_the_floor(model: Photon) -> None:
    right = given = wanted = centre = 0
    for scene in SCENES:
        image = picture(scene)
        handle = model.encode_image(image)
        for name in sorted({thing["name"] for thing in scene["objects"]}):
            things = [thing for thing in scene["objects"] if thing["name"] == name]
            masks = [fill(np.array(thing["contour"]), *image.shape[:2]) for thing in things]
            points = model.point(handle, name)["points"]
            right += hits([(p["x"], p["y"]) for p in points], masks)
            centre += hits([(0.5, 0.5)], masks)
            given, wanted = given + len(points), wanted + len(things)
    f1 = 2 * right / (given + wanted)
    assert f1 >= POINT_F1, f"point F1 is {f1:.2f}: {right} right of {given} given and {wanted} wanted"
    assert right > 2 * centre


def hits(points: list[tuple[float, float]], masks: list[np.ndarray]) -> int:
    free = list(masks)
    for x, y in points:
        inside = [
            m for m in free if m[min(int(y * m.shape[0]), m.shape[0] - 1), min(int(x * m.shape[1]), m.shape[1] - 1)]
        ]
        if inside:
            free = [mask for mask in free if mask is not inside[0]]
    return len(masks) - len(free)


def test_the_same_question_gets_the_same_answer(model: Photon) -> None:
    image = picture(SCENES[0])
    name = SCENES[0]["objects"][0]["name"]
    assert model.detect(image, name) == model.detect(image, name)
