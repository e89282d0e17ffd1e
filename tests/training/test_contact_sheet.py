"""The contact sheet: right boxes green, wrong ones red, missed things yellow."""

from __future__ import annotations

import numpy as np

from photon.training.contact_sheet import GREEN, RED, TILE, YELLOW, tile
from photon.training.scoring import Answer, Question


def colours(picture: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in picture[:TILE].reshape(-1, 3).tolist()} - {(0, 0, 0)}


def test_boxes_are_coloured_by_whether_they_fit() -> None:
    image = np.zeros((384, 384, 3), np.uint8)
    thing, other = [0.1, 0.1, 0.4, 0.4], [0.6, 0.6, 0.9, 0.9]
    question = Question("cat", (384, 384), [None, None], np.array([thing, other]))
    assert colours(tile(image, question, Answer(boxes=np.array([thing, other])))) == {GREEN}
    assert colours(tile(image, question, Answer(boxes=np.array([thing])))) == {GREEN, YELLOW}
    twice = Answer(boxes=np.array([thing, thing, other]) + np.array([[0], [0.01], [0]]))
    assert colours(tile(image, question, twice)) == {GREEN, RED}
    assert colours(tile(image, question, Answer())) == {YELLOW}
