"""What an answer is worth: matching, ignored regions, ranking, and the figures over many."""

from __future__ import annotations

import numpy as np
import pytest

from photon.training.scoring import CENTRE, Answer, Count, Mark, Question, average_precision, figures, mark

LEFT, RIGHT = (0.1, 0.2, 0.3, 0.6), (0.6, 0.2, 0.9, 0.6)


def inside(box: tuple[float, float, float, float]) -> np.ndarray:
    mask = np.zeros((100, 200), bool)
    x0, y0, x1, y1 = (round(v * side) for v, side in zip(box, (200, 100, 200, 100), strict=True))
    mask[y0:y1, x0:x1] = True
    return mask


def two_cups(**changes: object) -> Question:
    told = {"masks": [inside(LEFT), inside(RIGHT)], "boxes": np.array([LEFT, RIGHT])}
    return Question("cup", (100, 200), **{**told, **changes})  # type: ignore[arg-type]


def points(*xy: tuple[float, float]) -> Answer:
    return Answer(points=np.array(xy).reshape(-1, 2))


def boxes(*corners: tuple[float, float, float, float], scores: tuple[float, ...] = ()) -> Answer:
    return Answer(boxes=np.array(corners).reshape(-1, 4), scores=np.array(scores or [1.0] * len(corners)))


def ring(box: tuple[float, float, float, float]) -> np.ndarray:
    x0, y0, x1, y1 = box
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ([(0.2, 0.4), (0.7, 0.4)], Count(2, 0, 0)),
        ([(0.2, 0.4), (0.25, 0.4)], Count(1, 1, 1)),
        ([(0.5, 0.9)], Count(0, 1, 2)),
        ([], Count(0, 0, 2)),
        ([(0.305, 0.4)], Count(0, 1, 2)),
        ([(0.999, 1.0)], Count(0, 1, 2)),
    ],
)
def test_a_point_is_right_inside_a_thing_of_its_own(given: list[tuple[float, float]], count: Count) -> None:
    assert mark(two_cups(), points(*given)).point == count


def test_a_point_may_lie_beside_the_mask_within_the_tolerance() -> None:
    assert mark(two_cups(tolerance=2), points((0.305, 0.4))).point.right == 1
    assert mark(two_cups(tolerance=2), points((0.32, 0.4))).point.right == 0
    assert mark(two_cups(tolerance=2, masks=[None, None]), points((0.305, 0.4))).point.right == 1


def test_as_many_answers_as_possible_get_a_thing() -> None:
    both, left = (0.1, 0.2, 0.9, 0.6), (0.1, 0.2, 0.7, 0.6)
    question = two_cups(masks=[inside(both), inside(left)], boxes=np.array([both, left]))
    assert mark(question, points((0.2, 0.4), (0.2, 0.4))).point == Count(2, 0, 0)
    assert mark(question, points((0.2, 0.4), (0.8, 0.4))).point == Count(2, 0, 0)


def test_a_box_is_right_from_half_of_the_joint_area() -> None:
    half, less = (0.1, 0.2, 0.2, 0.6), (0.1, 0.2, 0.19, 0.6)
    assert mark(two_cups(), boxes(half)).detect == Count(1, 0, 1)
    assert mark(two_cups(), boxes(less)).detect == Count(0, 1, 2)
    assert mark(two_cups(), boxes(LEFT, LEFT, RIGHT)).detect == Count(2, 1, 0)


def test_answers_in_an_ignored_region_are_neither_right_nor_wrong() -> None:
    region = np.array([[0.4, 0.5, 0.6, 1.0]])
    question = two_cups(ignored=region)
    assert mark(question, points((0.5, 0.8))).point == Count(0, 0, 2)
    assert mark(question, boxes((0.4, 0.6, 0.5, 0.9), LEFT)).detect == Count(1, 0, 1)
    assert mark(question, boxes((0.4, 0.0, 0.5, 0.9))).detect == Count(0, 1, 2)
    beyond = Answer(outlines=[[ring(LEFT)], [ring(RIGHT)], [ring((0.42, 0.61, 0.58, 0.95))]])
    assert mark(question, beyond).overlap == pytest.approx(mark(question, Answer(outlines=beyond.outlines[:2])).overlap)
    assert mark(two_cups(), beyond).overlap < mark(question, beyond).overlap  # type: ignore[operator]


def test_outlines_count_together_and_a_ring_in_a_ring_is_a_hole() -> None:
    whole = Answer(outlines=[[ring(LEFT)], [ring(RIGHT)]])
    assert mark(two_cups(), whole).overlap == pytest.approx(1.0, abs=0.06)
    assert mark(two_cups(), Answer(outlines=[[ring(RIGHT)]])).overlap == pytest.approx(0.6, abs=0.03)
    hollow = Answer(outlines=[[ring(LEFT)], [ring(RIGHT), ring((0.65, 0.3, 0.85, 0.5))]])
    assert mark(two_cups(), hollow).overlap == pytest.approx(0.8, abs=0.05)
    assert mark(two_cups(), Answer()).overlap == 0.0
    assert mark(two_cups(masks=[inside(LEFT), None]), whole).overlap is None


def test_off_centre_things_are_those_that_no_fixed_box_finds() -> None:
    middle = Question("cup", (100, 200), [inside((0.2, 0.2, 0.8, 0.8))], np.array([[0.2, 0.2, 0.8, 0.8]]))
    assert mark(two_cups(), Answer()).off_centre
    assert not mark(middle, Answer()).off_centre
    assert mark(middle, CENTRE).point.right == mark(middle, CENTRE).detect.right == 1
    assert mark(middle, CENTRE).overlap == pytest.approx(0.36 / 0.49, abs=0.02)


def absent(name: str = "cup") -> Question:
    return Question(name, (100, 200))


def test_average_precision_ranks_the_boxes_of_all_pictures_by_score() -> None:
    def precision(*marks: Mark) -> float:
        return average_precision(marks)

    sure = mark(two_cups(), boxes(LEFT, RIGHT, scores=(0.9, 0.8)))
    assert precision(sure) == pytest.approx(1.0)
    assert precision(sure, mark(absent(), boxes(LEFT, scores=(0.1,)))) == pytest.approx(1.0)
    assert precision(sure, mark(absent(), boxes(LEFT, scores=(0.85,)))) == pytest.approx((1 + 2 / 3) / 2)
    assert precision(sure, mark(absent(), boxes(LEFT, scores=(1.0,)))) == pytest.approx(2 / 3)
    assert precision(mark(two_cups(), boxes(LEFT))) == pytest.approx(0.5)
    twice = mark(two_cups(), boxes(LEFT, LEFT, RIGHT, scores=(0.9, 0.8, 0.7)))
    assert precision(twice) == pytest.approx((1 + 2 / 3) / 2)
    assert precision(sure, mark(absent("dog"), boxes(LEFT))) == pytest.approx(1.0)
    other = mark(Question("dog", (100, 200), [inside(LEFT)], np.array([LEFT])), Answer())
    assert precision(sure, other) == pytest.approx(0.5)


def test_refusing_is_no_false_alarm_and_finds_nothing() -> None:
    asked = [(two_cups(), Answer(refused=True)), (absent(), Answer(refused=True)), (absent(), points((0.5, 0.5)))]
    found = figures([mark(*one) for one in [*asked, (absent(), Answer()), (two_cups(), boxes(LEFT, RIGHT))]])
    assert found["false_alarm"] == 0.5
    assert found["false_alarm_by_skill"] == {"point": 0.5, "detect": 0.0, "segment": 0.0}
    assert found["refused"] == pytest.approx(2 / 5)
    assert found["refused_present"] == 0.5
    assert found["detect_f1"] == pytest.approx(2 / 3)
    assert found["mean_over_queries"]["detect_f1"] == 0.5  # type: ignore[index]
    assert (found["queries"], found["absent_queries"]) == (2, 3)


def test_figures_over_queries_off_centre_are_apart() -> None:
    middle = Question("dog", (100, 200), [inside((0.2, 0.2, 0.8, 0.8))], np.array([[0.2, 0.2, 0.8, 0.8]]))
    found = figures([mark(middle, CENTRE), mark(two_cups(), CENTRE)])
    assert found["point_f1"] == pytest.approx(2 / 5)
    assert found["off_centre"]["point_f1"] == 0.0  # type: ignore[index]
    assert found["off_centre"]["queries"] == 1  # type: ignore[index]
    assert figures([])["point_f1"] == 0.0
