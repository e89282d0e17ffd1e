"""Right, wrong and missed: what one answer is worth, and the figures over many.

A point is right inside the thing's mask, or near it within a tolerance; a box at IoU of at least `IOU`; each thing
takes one. An outline counts by IoU of all outlines with all things of the name. What falls into an ignored region is
neither right nor wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from photon import OBJECT_SKILLS
from photon.training.data.geometry import fill

IOU = 0.5
FIXED_BOX = (0.15, 0.15, 0.85, 0.85)
"""What an answer without looking would be: most things are large and near the middle."""

WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Question:
    """A name asked about one picture, and the truth: no things where the name is absent.

    shape: (height, width) in pixels; masks: bool [height, width] or None where nobody drew one, one for each of
    boxes: f32 [things, 4] in 0..1 (x_min, y_min, x_max, y_max); ignored: the same of ignored regions; tolerance: how
    far beside its mask or box a point may lie, in pixels.
    """

    name: str
    shape: tuple[int, int]
    masks: Sequence[np.ndarray | None] = ()
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    ignored: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    tolerance: int = 0


@dataclass(frozen=True)
class Answer:
    """points [n, 2]; boxes [m, 4] with their scores [m]; outlines: a list of rings [k, 2] for each thing, in 0..1."""

    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    outlines: Sequence[Sequence[np.ndarray]] = ()
    refused: bool = False


CENTRE = Answer(
    np.array([[0.5, 0.5]]), np.array([FIXED_BOX]), np.ones(1), [[np.array(FIXED_BOX)[[[0, 1], [2, 1], [2, 3], [0, 3]]]]]
)
"""The same answer to everything."""


@dataclass(frozen=True)
class Count:
    """Answers that are right, answers that are wrong, things that no answer found."""

    right: int
    wrong: int
    missed: int

    @property
    def f1(self) -> float:
        return 2 * self.right / max(2 * self.right + self.wrong + self.missed, 1)


@dataclass(frozen=True)
class Mark:
    """What one answer is worth. `ranked`: score and rightness of each box; `overlap` None where a mask lacks."""

    question: Question
    answer: Answer
    point: Count
    detect: Count
    ranked: list[tuple[float, bool]]
    overlap: float | None

    @property
    def present(self) -> bool:
        return len(self.question.boxes) > 0

    @property
    def off_centre(self) -> bool:
        """Whether neither the whole picture nor `FIXED_BOX` would be a right box."""
        fixed = [box_iou(np.array(box), other) for box in (WHOLE, FIXED_BOX) for other in self.question.boxes]
        return self.present and max(fixed) < IOU


def mark(question: Question, answer: Answer) -> Mark:
    """Compares an answer with the truth."""
    return Mark(
        question,
        answer,
        _mark_points(question, answer.points),
        _mark_boxes(question, answer.boxes),
        _ranked(question, answer),
        _overlap(question, answer.outlines),
    )


def box_iou(a: np.ndarray, b: np.ndarray) -> float:
    """Shared area over joint area of two boxes."""
    inner = _shared(a, b)
    return inner / max(_area(a) + _area(b) - inner, 1e-12)


def _area(box: np.ndarray) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def _shared(a: np.ndarray, b: np.ndarray) -> float:
    width, height = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    return float(max(width, 0.0) * max(height, 0.0))


def pair(fits: np.ndarray) -> set[int]:
    """Rows that get a column of their own when as many as possible do. fits: bool [rows, columns]."""
    owner: dict[int, int] = {}

    def settle(row: int, tried: set[int]) -> bool:
        for column in np.flatnonzero(fits[row]).tolist():
            if column not in tried:
                tried.add(column)
                if column not in owner or settle(owner[column], tried):
                    owner[column] = row
                    return True
        return False

    for row in range(len(fits)):
        settle(row, set())
    return set(owner.values())


def _count(fits: np.ndarray, ignored: np.ndarray) -> Count:
    """fits: bool [answers, things]; ignored: bool [answers], counted only where an answer is not right."""
    right = pair(fits)
    wrong = sum(1 for row in range(len(fits)) if row not in right and not ignored[row])
    return Count(len(right), wrong, fits.shape[1] - len(right))


def _mark_points(question: Question, points: np.ndarray) -> Count:
    height, width = question.shape
    near = [_widened(mask, question.tolerance) for mask in question.masks]
    reach = question.tolerance / np.array([width, height, width, height]) * [-1, -1, 1, 1]
    fits = np.zeros((len(points), len(near)), bool)
    for row, (x, y) in enumerate(points):
        for column, mask in enumerate(near):
            if mask is None:
                fits[row, column] = _inside(x, y, question.boxes[column] + reach)
            else:
                fits[row, column] = mask[min(int(y * height), height - 1), min(int(x * width), width - 1)]
    return _count(fits, np.array([any(_inside(x, y, box) for box in question.ignored) for x, y in points], bool))


def _widened(mask: np.ndarray | None, pixels: int) -> np.ndarray | None:
    if mask is None or pixels == 0:
        return mask
    side = 2 * pixels + 1
    return np.asarray(cv2.dilate(mask.astype(np.uint8), np.ones((side, side), np.uint8))).astype(bool)


def _inside(x: float, y: float, box: np.ndarray) -> bool:
    return bool(box[0] <= x <= box[2] and box[1] <= y <= box[3])


def _ignored_boxes(question: Question, boxes: np.ndarray) -> np.ndarray:
    """Which boxes lie at least half in one ignored region."""
    half = [any(_shared(box, region) >= 0.5 * _area(box) for region in question.ignored) for box in boxes]
    return np.array(half, bool)


def _overlaps(question: Question, boxes: np.ndarray) -> np.ndarray:
    overlaps = [[box_iou(box, other) for other in question.boxes] for box in boxes]
    return np.array(overlaps).reshape(len(boxes), len(question.boxes))


def _mark_boxes(question: Question, boxes: np.ndarray) -> Count:
    return _count(_overlaps(question, boxes) >= IOU, _ignored_boxes(question, boxes))


def _ranked(question: Question, answer: Answer) -> list[tuple[float, bool]]:
    """Boxes by falling score, each right if it fits a thing that no surer box has."""
    overlaps, ignored = _overlaps(question, answer.boxes), _ignored_boxes(question, answer.boxes)
    found = []
    for row in np.argsort(-answer.scores, kind="stable").tolist():
        best = int(overlaps[row].argmax()) if len(question.boxes) else 0
        right = len(question.boxes) > 0 and overlaps[row, best] >= IOU
        if right:
            overlaps[:, best] = 0.0
        if right or not ignored[row]:
            found.append((float(answer.scores[row]), bool(right)))
    return found


def _overlap(question: Question, outlines: Sequence[Sequence[np.ndarray]]) -> float | None:
    drawn = [mask for mask in question.masks if mask is not None]
    if not drawn or len(drawn) < len(question.masks):
        return None
    height, width = question.shape
    wanted = np.any(drawn, axis=0)
    given = np.any([np.zeros_like(wanted), *(filled(rings, height, width) for rings in outlines)], axis=0)
    for x0, y0, x1, y1 in np.round(question.ignored * [width, height, width, height]).astype(int):
        given[y0:y1, x0:x1] &= wanted[y0:y1, x0:x1]
    return float((given & wanted).sum() / max((given | wanted).sum(), 1))


def filled(rings: Sequence[np.ndarray], height: int, width: int) -> np.ndarray:
    """bool [height, width]; a ring inside another is a hole."""
    mask = np.zeros((height, width), bool)
    for ring in rings:
        if len(ring) > 2:
            mask ^= fill(np.asarray(ring), height, width)
    return mask


def figures(marks: Sequence[Mark]) -> dict[str, float | int | dict[str, float | int]]:
    """All figures. Names that the model refuses count as not found where they are there, and as no false alarm.

    false_alarm: the share of absent names that it knows which got any answer; refused: the share of all names.
    """
    asked = [mark for mark in marks if mark.present]
    absent = [mark.answer for mark in marks if not mark.present and not mark.answer.refused]
    alarms = [(len(a.points) > 0, len(a.boxes) > 0, len(a.outlines) > 0) for a in absent]
    return {
        **_found(asked),
        "detect_map50": average_precision(marks),
        "false_alarm": _mean(any(kinds) for kinds in alarms),
        "false_alarm_by_skill": {skill: _mean(kinds[i] for kinds in alarms) for i, skill in enumerate(OBJECT_SKILLS)},
        "refused": _mean(mark.answer.refused for mark in marks),
        "refused_present": _mean(mark.answer.refused for mark in asked),
        "mean_over_queries": {
            "point_f1": _mean(mark.point.f1 for mark in asked),
            "detect_f1": _mean(mark.detect.f1 for mark in asked),
            "segment_miou": _mean(mark.overlap for mark in asked if mark.overlap is not None),
        },
        "off_centre": _found([mark for mark in asked if mark.off_centre]),
        "absent_queries": len(marks) - len(asked),
    }


def _found(asked: Sequence[Mark]) -> dict[str, float | int]:
    return {
        "point_f1": _total(asked, lambda mark: mark.point).f1,
        "detect_f1": _total(asked, lambda mark: mark.detect).f1,
        "segment_miou": _mean(mark.overlap for mark in asked if mark.overlap is not None),
        "queries": len(asked),
    }


def _total(marks: Sequence[Mark], of: Callable[[Mark], Count]) -> Count:
    counts = [of(mark) for mark in marks]
    return Count(sum(c.right for c in counts), sum(c.wrong for c in counts), sum(c.missed for c in counts))


def _mean(values: Iterable[float | bool]) -> float:
    listed = [float(value) for value in values]
    return sum(listed) / len(listed) if listed else 0.0


def average_precision(marks: Sequence[Mark]) -> float:
    """Area under precision over recall of each name that is there somewhere, by falling score; the mean over names."""
    ranked: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    things: dict[str, int] = defaultdict(int)
    for one in marks:
        ranked[one.question.name] += one.ranked
        things[one.question.name] += len(one.question.boxes)
    return _mean(_area_under(ranked[name], count) for name, count in things.items() if count)


def _area_under(ranked: Sequence[tuple[float, bool]], things: int) -> float:
    hits = np.array([right for _, right in sorted(ranked, key=lambda one: -one[0])], float)
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best_from_here * hits).sum() / things)
