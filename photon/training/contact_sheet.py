"""Answers of a model side by side, right and wrong ones alike.

``python -m photon.training.contact_sheet --material DIR --out FILE.jpg`` draws the first question of the first test
scenes, in their order and unpicked: the boxes that the model gave, in green where they fit a thing of that name, else
in red; things that no box found, in yellow.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

from photon import Photon
from photon.training.answering import Sheet, answers
from photon.training.data.compose import compose
from photon.training.data.library import open_lexicon, open_library
from photon.training.evaluate import sheet_of
from photon.training.features import SEEDS
from photon.training.scoring import IOU, Answer, Question, box_iou, pair

GREEN, RED, YELLOW, INK = (60, 190, 90), (235, 70, 70), (250, 200, 40), (245, 245, 245)
TILE, STRIP = 256, 24


def tile(image: np.ndarray, question: Question, answer: Answer) -> np.ndarray:
    """uint8 [TILE + STRIP, TILE, 3]: the scene with the answer to one question, the name under it."""
    picture = np.zeros((TILE + STRIP, TILE, 3), np.uint8)
    picture[:TILE] = cv2.resize(image, (TILE, TILE), interpolation=cv2.INTER_AREA)
    fits = np.array([[box_iou(box, other) >= IOU for other in question.boxes] for box in answer.boxes], bool)
    fits = fits.reshape(len(answer.boxes), len(question.boxes))
    right = pair(fits)
    found = pair(fits.T)
    for number, box in enumerate(question.boxes):
        if number not in found:
            _draw(picture, box, YELLOW, 1)
    for number, box in enumerate(answer.boxes):
        _draw(picture, box, GREEN if number in right else RED, 2)
    words = f"{question.name}: {len(right)} of {len(question.boxes)}"
    cv2.putText(picture, words, (6, TILE + 17), cv2.FONT_HERSHEY_SIMPLEX, 0.45, INK, 1, cv2.LINE_AA)
    return picture


def _draw(picture: np.ndarray, box: np.ndarray, colour: tuple[int, int, int], width: int) -> None:
    x0, y0, x1, y1 = (round(float(value) * (TILE - 1)) for value in box)
    cv2.rectangle(picture, (x0, y0), (x1, y1), colour, width)


def sheet(model: Photon, material: Path, rows: int, columns: int) -> np.ndarray:
    """uint8 [rows * (TILE + STRIP), columns * TILE, 3]."""
    library, lexicon = open_library(material, "test"), open_lexicon(material)
    taught = lexicon.names[: lexicon.taught]
    tiles: list[np.ndarray] = []
    number = 0
    while len(tiles) < rows * columns:
        asked = sheet_of(compose(library, SEEDS["test"] + number), taught, np.random.default_rng(number))
        number += 1
        if asked.questions and len(asked.questions[0].boxes):
            one = Sheet(asked.image, asked.questions[:1])
            tiles.append(tile(asked.image, one.questions[0], answers(model, one)[0]))
    return np.concatenate([np.concatenate(tiles[row * columns : (row + 1) * columns], axis=1) for row in range(rows)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m photon.training.contact_sheet", description=__doc__)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="photon-tiny")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--columns", type=int, default=5)
    options = parser.parse_args()
    with Photon.load(options.model) as model:
        drawn = sheet(model, options.material, options.rows, options.columns)
    cv2.imwrite(str(options.out), drawn[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    return 0


if __name__ == "__main__":
    sys.exit(main())
