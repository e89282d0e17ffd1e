"""app.drawing.overlay: only checked numbers reach the drawing, and names keep colour and number."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from app.drawing.overlay import COLOURS, clip_box, colours, contour_path, scene, shapes_of, summary
from app.pictures.store import Picture
from app.questions.question import Answer, Question
from photon import Result

PICTURE = Picture("token", "p.png", 400, 200, 1.0)


def answer(name: str = "cat", **result: Any) -> Answer:
    return Answer(name, Result(result))


def box(x0: Any, y0: Any, x1: Any, y1: Any) -> dict[str, Any]:
    return {"x_min": x0, "y_min": y0, "x_max": x1, "y_max": y1}


def test_a_point_is_placed_in_pixels_of_the_picture() -> None:
    (shape,) = shapes_of(answer(points=[{"x": 0.25, "y": 0.75, "score": 0.5}]), "point", "#fff", 400, 200)
    assert (shape["kind"], shape["x"], shape["y"], shape["d"]) == ("point", 100.0, 150.0, "M100.0 150.0h0")
    assert (shape["name"], shape["index"], shape["score"]) == ("cat", 1, 0.5)
    assert shape["certainty"] == pytest.approx(0.5**0.5, abs=1e-4)


def test_a_box_is_placed_in_pixels_of_the_picture() -> None:
    (shape,) = shapes_of(answer(objects=[box(0.25, 0.5, 0.75, 1)]), "detect", "#fff", 400, 200)
    assert shape["box"] == [100.0, 100.0, 300.0, 200.0]
    assert shape["d"] == "M100.0 100.0H300.0V200.0H100.0Z"
    assert shape["tiny"] is False
    assert (shape["score"], shape["certainty"]) == (None, None)


@pytest.mark.parametrize("task", ["detect", "segment"])
@pytest.mark.parametrize(("score", "certainty"), [(0.0016, 0.2), (1.0, 1.0), (0.0, 0.0), (1.5, 1.0), ("x", None)])
def test_the_certainty_of_a_box_is_the_mean_of_its_four_numbers(task: str, score: Any, certainty: float | None) -> None:
    found = box(0.25, 0.25, 0.75, 0.75) | {"score": score}
    found |= {"polygons": [[[0.25, 0.25], [0.75, 0.25], [0.5, 0.75]]]} if task == "segment" else {}
    (shape,) = shapes_of(answer(objects=[found]), task, "#fff", 400, 200)
    assert shape["certainty"] == certainty


def test_a_contour_is_drawn_with_its_box_as_frame() -> None:
    polygon = [[0.25, 0.25], [0.75, 0.25], [0.5, 0.75]]
    found = {"bbox": box(0.25, 0.25, 0.75, 0.75), "polygons": [polygon], "path": "M0 0Z"}
    (shape,) = shapes_of(answer(objects=[found]), "segment", "#fff", 400, 200)
    assert shape["kind"] == "contour"
    assert shape["d"] == "M100.0 50.0L300.0 50.0L200.0 150.0Z"
    assert shape["frame"] == "M100.0 50.0H300.0V150.0H100.0Z"


def test_an_empty_contour_falls_back_to_the_box() -> None:
    found = {"bbox": box(0.25, 0.25, 0.75, 0.75), "polygons": []}
    (shape,) = shapes_of(answer(objects=[found]), "segment", "#fff", 400, 200)
    assert shape["d"] == shape["frame"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (box(0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4)),
        (box(-0.5, -0.5, 0.5, 0.5), (0, 0, 0.5, 0.5)),
        (box(0.5, 0.5, 1.5, 1.5), (0.5, 0.5, 1, 1)),
        (box(0.5, 0.5, 0.5, 0.5), (0.5, 0.5, 0.5, 0.5)),
        (box(0.6, 0.2, 0.4, 0.4), None),
        (box(0.2, 0.6, 0.4, 0.4), None),
        (box(1.1, 0, 1.2, 1), None),
        (box(-0.2, 0, -0.1, 1), None),
        (box(0, 1.1, 1, 1.2), None),
        (box(math.nan, 0, 1, 1), None),
        (box(0, 0, math.inf, 1), None),
        (box("<b>", 0, 1, 1), None),
        (box(None, 0, 1, 1), None),
        ({}, None),
    ],
)
def test_boxes_are_clipped_or_dropped(given: dict[str, Any], kept: tuple[float, ...] | None) -> None:
    assert clip_box(given) == kept


@pytest.mark.parametrize("point", [{"x": math.nan, "y": 0}, {"x": 1.01, "y": 0}, {"x": 0, "y": -0.01}, {}])
def test_points_outside_or_not_finite_are_dropped(point: dict[str, Any]) -> None:
    assert shapes_of(answer(points=[point]), "point", "#fff", 9, 9) == []


def test_the_number_of_an_object_is_its_place_in_the_answer() -> None:
    objects = [box(0, 0, 1, 1), box(0.9, 0, 0.1, 1), box(0, 0, 0.5, 0.5)]
    assert [s["index"] for s in shapes_of(answer(objects=objects), "detect", "#fff", 9, 9)] == [1, 3]


def test_an_object_of_one_pixel_is_marked_as_tiny() -> None:
    objects = [box(0.5, 0.5, 0.501, 0.501), box(0.5, 0.5, 0.5, 0.5), box(0.2, 0.2, 0.6, 0.21)]
    shapes = shapes_of(answer(objects=objects), "detect", "#fff", 1000, 1000)
    assert [shape["tiny"] for shape in shapes] == [True, True, False]


def test_contours_keep_at_most_300_points_a_polygon_and_drop_bad_ones() -> None:
    circle = [[0.5 + 0.4 * math.cos(t / 100), 0.5 + 0.4 * math.sin(t / 100)] for t in range(1000)]
    path = contour_path([circle, [[0, 0], [1, 1]], [[math.nan, 0]] * 5 + [[0, 0], [2, 0], [1, 1]]], 100, 100)
    first, second = path.removesuffix("Z").split("Z")
    assert 150 < len(re.findall("[ML]", first)) <= 300
    assert second == "M0.0 0.0L100.0 0.0L100.0 100.0"


def test_only_path_characters_reach_a_path() -> None:
    objects = [{"bbox": box(0, 0, 1e-9, 1), "polygons": [[[1e-12, 0], [1, 1e-12], [0.3, 1 / 3]]]}]
    for shape in shapes_of(answer(objects=objects), "segment", "#fff", 4096, 4096):
        assert re.fullmatch(r"[MLHVZh0-9., -]*", shape["d"] + shape["frame"])


def test_a_name_has_the_same_colour_in_every_request() -> None:
    alone, together = colours(["cat"]), colours(["dog", "cat"])
    assert alone["cat"] == together["cat"] == colours(["Cat"])["Cat"]


def test_names_of_one_request_have_different_colours_while_there_are_enough() -> None:
    names = [f"thing {index}" for index in range(len(COLOURS))]
    assert len(set(colours(names).values())) == len(COLOURS)
    assert len(colours([*names, "one more"])) == len(COLOURS) + 1


def test_what_was_found_is_said_in_words() -> None:
    two, none = answer("cat", points=[{}, {}]), answer("dog", points=[])
    assert summary([two, none]) == "Found 2 × cat, no dog."
    assert summary([none]) == "Found no dog."
    assert summary([Answer("x", problem="Not known.")]) == ""


@pytest.mark.parametrize("name", ["قطة", "חתול", "cat \u202egod", "\u2067cat"])
def test_a_name_that_is_written_from_right_to_left_is_set_apart(name: str) -> None:
    assert summary([answer(name, points=[{}]), answer("dog", points=[])]) == f"Found 1 × \u2068{name}\u2069, no dog."


def test_the_scene_is_plain_json_with_the_picture_in_it() -> None:
    value = scene(PICTURE, Question("point", ("cat",)), [answer(points=[{"x": 0.5, "y": 0.5}])])
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert (value["src"], value["width"], value["height"]) == ("pictures/token.jpg", 400, 200)
    assert len(value["shapes"]) == 1


def test_the_same_object_again_and_again_is_drawn_once_and_said() -> None:
    jitter = [box(0.25 + i * 0.0001, 0.5, 0.75, 1) for i in range(10)]
    value = scene(PICTURE, Question("detect", ("cat",)), [answer(objects=[*jitter, box(0.27, 0.5, 0.75, 1)])])
    assert [shape["index"] for shape in value["shapes"]] == [1, 11]
    assert value["note"] == "Found 11 × cat. 9 of them in the place of another, drawn once."
    again = [{"x": 0.5, "y": 0.5}] * 3
    two = [answer("cat", points=again), answer("dog", points=again)]
    value = scene(PICTURE, Question("point", ("cat", "dog")), two)
    assert [(shape["name"], shape["index"]) for shape in value["shapes"]] == [("cat", 1), ("dog", 1)]


def test_a_text_is_its_own_summary_and_an_empty_one_is_said() -> None:
    assert summary([answer("caption", caption=" Two cats. ")]) == "Two cats."
    assert summary([answer("How many?", answer="")]) == "The model answered without a word."
