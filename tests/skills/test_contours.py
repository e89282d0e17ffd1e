"""Segment with a fixed number of vertices: its stages, the best object, references, sharpening, streaming."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from photon.core.request import ImageRef, Token
from photon.skills import Ask, SkillContext
from photon.skills.base import Plan, SideWork
from photon.skills.segment import segment_plan
from photon.skills.segment_contour import ContourState
from tests.skills.conftest import feed, finish

COORD, SIZE = 5, 6
BOX = [Token(COORD, coord=0.5), Token(COORD, coord=0.5), Token(SIZE, width=0.5, height=0.5)]
CORNERS = [(0.5, 0.0), (1.0, 1.0), (0.0, 1.0)]
"""In 0..1 of the box."""

FLAT = [[0.1, 0.5], [0.9, 0.5], [0.9, 0.6]]
VERTICES = [Token(COORD, coord=v) for corner in CORNERS for v in corner]


@pytest.fixture(scope="module")
def triangles(context: SkillContext) -> SkillContext:
    """The model of `context`, but its contours have three vertices."""
    tokenizer = dataclasses.replace(context.config.tokenizer, segment_vertices=3)
    return dataclasses.replace(context, config=dataclasses.replace(context.config, tokenizer=tokenizer))


def found(x: float, y: float, score: float) -> dict[str, float]:
    return {"x_min": x - 0.1, "y_min": y - 0.1, "x_max": x + 0.1, "y_max": y + 0.1, "score": score}


def sharpened_answer(plan: Plan, contours: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer of a plan that waits for its contours."""
    outside = plan.send(contours)
    assert isinstance(outside, SideWork)
    return finish(plan, outside.work())


def centres(requests: list[Any]) -> list[list[float]]:
    return [[t.coord for t in r.prompt if t.id == COORD] for r in requests]


def test_a_contour_walks_through_its_stages(triangles: SkillContext) -> None:
    state = ContourState(triangles.config.tokenizer)
    allowed = []
    for token in [*BOX, *VERTICES]:
        allowed.append(state.choice().allowed)
        state.advance(token)
    assert allowed == [(COORD,), (COORD,), (SIZE,), *[(COORD,)] * 6]
    assert state.done
    result = state.result()
    assert result["path"] == "M 0.5 0 L 1 1 L 0 1 Z"
    assert result["polygons"] == [[[0.5, 0.25], [0.75, 0.75], [0.25, 0.75]]], "in 0..1 of the image"
    assert result["bbox"] == {"x_min": 0.25, "y_min": 0.25, "x_max": 0.75, "y_max": 0.75}


def test_objects_are_detected_and_then_outlined(triangles: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = segment_plan(triangles, ask("segment", "cat", {"max_objects": 2}))
    (detect,) = next(plan)
    assert detect.limit == 6
    requests = plan.send([{"objects": [found(0.2, 0.3, 0.5), found(0.6, 0.7, 0.75)]}])
    assert centres(requests) == [pytest.approx([0.2, 0.3]), pytest.approx([0.6, 0.7])]
    assert [r.limit for r in requests] == [9, 9]
    contour = ContourState(triangles.config.tokenizer)
    feed(contour, [*BOX, *VERTICES])
    answer = sharpened_answer(plan, [contour.result(), contour.result() | {"polygons": [FLAT]}])
    assert [o["score"] for o in answer["objects"]] == [0.5, 0.75]
    assert answer["polygons"] == [FLAT]
    assert answer["path"] == "M 0 0 L 1 0 L 1 1 Z"
    assert set(answer) == {"path", "bbox", "polygons", "objects"}


def test_nothing_detected_is_nothing_segmented(triangles: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = segment_plan(triangles, ask("segment", "cat"))
    next(plan)
    assert finish(plan, [{"objects": []}]) == {"path": "", "bbox": None, "polygons": [], "objects": []}


def test_references_take_the_place_of_detection(triangles: SkillContext, ask: Callable[..., Ask]) -> None:
    """A point, and a box by its centre; the first one is the answer."""
    refs = (Token(COORD, coord=0.2), Token(COORD, coord=0.4), *BOX)
    plan = segment_plan(triangles, ask("segment", "cat", refs=refs))
    requests = next(plan)
    assert centres(requests) == [[0.2, 0.4], [0.5, 0.5]]
    contour = ContourState(triangles.config.tokenizer)
    feed(contour, [*BOX, *VERTICES])
    answer = sharpened_answer(plan, [contour.result(), contour.result() | {"polygons": [FLAT]}])
    assert answer["path"] == contour.result()["path"]
    assert answer["polygons"] == contour.result()["polygons"]
    assert [o["score"] for o in answer["objects"]] == [1.0, 1.0]


def test_the_best_contour_is_told_as_it_grows(triangles: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = segment_plan(triangles, ask("segment", "cat", stream=True))
    next(plan)
    requests = plan.send([{"objects": [found(0.2, 0.3, 0.5), found(0.6, 0.7, 0.75)]}])
    quiet, told = (feed(r.start(), [*BOX, *VERTICES]) for r in requests)
    assert quiet == []
    assert told == [
        {"bbox": {"x_min": 0.25, "y_min": 0.25, "x_max": 0.75, "y_max": 0.75}},
        {"chunk": "M 0.5 0"},
        {"chunk": " L 1 1"},
        {"chunk": " L 0 1 Z"},
    ]


def test_an_outline_is_sharpened_by_the_edges_of_the_picture(triangles: SkillContext, ask: Callable[..., Ask]) -> None:
    """The triangle in the picture lies a little to the right of the one that the model drew."""
    pixels = np.full((200, 200, 3), (20, 60, 20), np.uint8)
    corners = np.array([[106, 50], [156, 150], [56, 150]])
    cv2.fillPoly(pixels, [corners], (250, 250, 250))
    plan = segment_plan(triangles, ask("segment", "cat", image=ImageRef.of(pixels), refs=tuple(VERTICES[:2])))
    next(plan)
    contour = ContourState(triangles.config.tokenizer)
    feed(contour, [*BOX, *VERTICES])
    (found,) = sharpened_answer(plan, [contour.result()])["objects"]
    shown = {"x_min": 0.28, "y_min": 0.25, "x_max": 0.78, "y_max": 0.75}
    assert found["bbox"] == pytest.approx(shown, abs=0.015)
    assert cv2.contourArea(np.array(found["polygons"][0], np.float32)) == pytest.approx(0.125, rel=0.05)
