"""Point, detect and contours: what may come next, when they are done, what they answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from photon.core.request import Token
from photon.skills import Ask, SkillContext
from photon.skills.detect import DetectState, box, detect_plan
from photon.skills.point import PointState, point_plan
from tests.skills.conftest import feed, finish

EOS, COORD, SIZE = 0, 5, 6
X, Y, END = Token(COORD, coord=0.25, value_logprob=-0.5), Token(COORD, coord=0.75, value_logprob=-1.0), Token(EOS)
WH = Token(SIZE, width=0.5, height=0.25, value_logprob=-0.25)


@pytest.mark.parametrize(
    ("tokens", "allowed", "points"),
    [
        ([], {COORD, EOS}, 0),
        ([X], {COORD}, 0),
        ([X, Y], {COORD, EOS}, 1),
        ([X, Y, X], {COORD}, 1),
        ([X, Y, X, Y], {COORD, EOS}, 2),
    ],
)
def test_point_walks_through_its_stages(
    context: SkillContext, tokens: list[Token], allowed: set[int], points: int
) -> None:
    state = PointState(context.config.tokenizer)
    feed(state, tokens)
    assert set(state.choice().allowed or ()) == allowed
    assert state.result()["points"] == [{"x": 0.25, "y": 0.75, "score": pytest.approx(2.718281828**-1.5)}] * points
    assert not state.done


@pytest.mark.parametrize(
    ("tokens", "allowed", "boxes"),
    [
        ([], {COORD, EOS}, 0),
        ([X], {COORD}, 0),
        ([X, Y], {SIZE}, 0),
        ([X, Y, WH], {COORD, EOS}, 1),
        ([X, Y, WH, X, Y], {SIZE}, 1),
    ],
)
def test_detect_walks_through_its_stages(
    context: SkillContext, tokens: list[Token], allowed: set[int], boxes: int
) -> None:
    state = DetectState(context.config.tokenizer)
    feed(state, tokens)
    assert set(state.choice().allowed or ()) == allowed
    expected = {"x_min": 0, "y_min": 0.625, "x_max": 0.5, "y_max": 0.875, "score": pytest.approx(2.718281828**-1.75)}
    assert state.result()["objects"] == [expected] * boxes


@pytest.mark.parametrize("state", [PointState, DetectState])
def test_eos_ends(context: SkillContext, state: Callable[..., PointState]) -> None:
    ended = state(context.config.tokenizer)
    ended.advance(END)
    assert ended.done
    assert list(ended.result().values()) == [[]]


@pytest.mark.parametrize(
    ("x", "y", "width", "height", "expected"),
    [
        (0.5, 0.5, 0.5, 0.5, (0.25, 0.25, 0.75, 0.75)),
        (0.1, 0.9, 0.5, 0.5, (0.0, 0.65, 0.35, 1.0)),
        (0.5, 0.5, 1.0, 1.0, (0.0, 0.0, 1.0, 1.0)),
        (0.0, 0.0, 0.001, 0.001, (0.0, 0.0, 0.0005, 0.0005)),
    ],
)
def test_boxes_are_clipped_to_the_image(
    x: float, y: float, width: float, height: float, expected: tuple[float, ...]
) -> None:
    found = box(Token(COORD, coord=x), Token(COORD, coord=y), Token(SIZE, width=width, height=height))
    assert tuple(found.values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "point", "detect"),
    [
        ({}, 100, 150),
        ({"max_objects": 3}, 6, 9),
        ({"max_objects": 150, "max_tokens": 7}, 7, 7),
        ({"max_tokens": 400}, 100, 150),
    ],
)
def test_limits_count_no_eos(
    context: SkillContext, ask: Callable[..., Ask], settings: dict[str, int], point: int, detect: int
) -> None:
    assert next(point_plan(context, ask("point", "cat", settings)))[0].limit == point
    assert next(detect_plan(context, ask("detect", "cat", settings)))[0].limit == detect


def test_prompts_have_one_space_before_the_name(context: SkillContext, ask: Callable[..., Ask]) -> None:
    (request,) = next(point_plan(context, ask("point", "cat", refs=(X, Y))))
    assert [t.id for t in request.prompt] == [1, 17, 2, COORD, COORD, *(32 + b for b in b" cat"), 3]
    assert request.prompt[3:5] == (X, Y)
    (request,) = next(detect_plan(context, ask("detect", "cat")))
    assert [t.id for t in request.prompt] == [1, 15, 16, 2, *(32 + b for b in b" cat"), 3]


def test_a_plan_answers_with_its_state(context: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = point_plan(context, ask("point", "cat"))
    (request,) = next(plan)
    state = request.start()
    feed(state, [X, Y, END])
    assert len(finish(plan, [state.result()])["points"]) == 1
