"""Questions put to the engine, several pictures at a time, and the marks that its answers get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from photon import Photon, UnknownWordError
from photon.training.scoring import Answer, Mark, Question, mark

AT_ONCE = 4


@dataclass(frozen=True)
class Sheet:
    """A picture, uint8 [height, width, 3], and what is asked about it."""

    image: np.ndarray
    questions: Sequence[Question]


def answers(model: Photon, sheet: Sheet) -> list[Answer]:
    """The model's answer to each question with every skill."""
    handle = model.encode_image(sheet.image)
    return [_answer(model, handle, question.name) for question in sheet.questions]


def _answer(model: Photon, handle: Any, name: str) -> Answer:
    try:
        points = model.point(handle, name)["points"]
    except UnknownWordError:
        return Answer(refused=True)
    boxes = model.detect(handle, name)["objects"]
    outlined = model.segment(handle, name)["objects"]
    corners = [[box[key] for key in ("x_min", "y_min", "x_max", "y_max")] for box in boxes]
    return Answer(
        np.array([[point["x"], point["y"]] for point in points]).reshape(-1, 2),
        np.array(corners).reshape(-1, 4),
        np.array([box["score"] for box in boxes]),
        [[np.array(ring) for ring in thing["polygons"]] for thing in outlined],
    )


def marks_of(model: Photon, count: int, sheet: Callable[[int], Sheet], about: str) -> list[Mark]:
    """Asks sheets 0..`count` - 1, `AT_ONCE` at a time; a progress bar says what it is `about`."""

    def one(number: int) -> list[Mark]:
        made = sheet(number)
        return [mark(q, a) for q, a in zip(made.questions, answers(model, made), strict=True)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = tqdm(pool.map(one, range(count)), total=count, desc=about, unit="picture")
        return [each for marks in done for each in marks]
