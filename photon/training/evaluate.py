"""Measures photon-tiny through the engine: ``python -m photon.training.evaluate --material DIR [--json]``.

500 composed scenes whose backgrounds no training scene has (their cut-outs may have been seen). In each, names that
are there are asked for with every skill, and one name that is not there is asked for as well.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from photon import Photon
from photon.training.data.compose import SIDE, Scene, SceneObject, compose
from photon.training.data.geometry import fill
from photon.training.data.library import open_lexicon, open_library
from photon.training.data.names import INCLUDES
from photon.training.features import SEEDS

IOU = 0.5


@dataclass
class Count:
    """Right answers, answers given, things to find."""

    right: int = 0
    given: int = 0
    wanted: int = 0

    def add(self, right: int, given: int, wanted: int) -> None:
        self.right, self.given, self.wanted = self.right + right, self.given + given, self.wanted + wanted

    def merge(self, other: Count) -> None:
        self.add(other.right, other.given, other.wanted)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(self.given + self.wanted, 1)


@dataclass
class Score:
    """`point` and `detect` over names that are there; `alarms` over names that are not."""

    point: Count = field(default_factory=Count)
    detect: Count = field(default_factory=Count)
    overlaps: list[float] = field(default_factory=list)
    alarms: list[bool] = field(default_factory=list)
    centre: Count = field(default_factory=Count)
    centre_box: Count = field(default_factory=Count)

    def merge(self, other: Score) -> None:
        for mine, theirs in (
            (self.point, other.point),
            (self.detect, other.detect),
            (self.centre, other.centre),
            (self.centre_box, other.centre_box),
        ):
            mine.merge(theirs)
        self.overlaps += other.overlaps
        self.alarms += other.alarms

    def summary(self) -> dict[str, float]:
        return {
            "point_f1": self.point.f1,
            "detect_f1": self.detect.f1,
            "segment_miou": float(np.mean(self.overlaps)) if self.overlaps else 0.0,
            "false_alarm": float(np.mean(self.alarms)) if self.alarms else 0.0,
            "point_f1_of_always_the_centre": self.centre.f1,
            "detect_f1_of_a_centred_box": self.centre_box.f1,
            "questions": float(len(self.overlaps) + len(self.alarms)),
        }


def points_right(points: Iterable[Sequence[float]], masks: Sequence[np.ndarray]) -> int:
    """How many of `masks` get a point of their own; a point counts for one mask that it lies in."""
    free = list(masks)
    right = 0
    for x, y in points:
        for index, mask in enumerate(free):
            row, column = min(int(y * mask.shape[0]), SIDE - 1), min(int(x * mask.shape[1]), SIDE - 1)
            if mask[row, column]:
                free.pop(index)
                right += 1
                break
    return right


def boxes_right(boxes: Iterable[np.ndarray], wanted: Sequence[np.ndarray]) -> int:
    """How many of `wanted` get a box of their own with IoU of at least `IOU`."""
    free = list(wanted)
    right = 0
    for guess in boxes:
        overlap = [box_iou(guess, box) for box in free]
        if overlap and max(overlap) >= IOU:
            free.pop(int(np.argmax(overlap)))
            right += 1
    return right


def box_iou(a: np.ndarray, b: np.ndarray) -> float:
    width, height = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    inner = max(width, 0.0) * max(height, 0.0)
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return float(inner / max(area - inner, 1e-9))


def answers_to(name: str, scene: Scene) -> list[SceneObject]:
    """The things in a scene that are right answers to `name`."""
    return [thing for thing in scene.objects if thing.name == name or thing.name in INCLUDES.get(name, ())]


def present_names(scene: Scene) -> list[str]:
    """Names shown whose answers are beyond doubt, in alphabetical order."""
    names = sorted({thing.name for thing in scene.objects})
    return [name for name in names if not scene.doubtful & {name, *INCLUDES.get(name, ())}]


def ask_scene(model: Photon, scene: Scene, names: Sequence[str], absent: str | None) -> Score:
    """Asks all questions about one scene."""
    score = Score()
    handle = model.encode_image(scene.image)
    for name in names:
        things = answers_to(name, scene)
        masks, boxes = [thing.mask for thing in things], [thing.box for thing in things]
        points = [(p["x"], p["y"]) for p in model.point(handle, name)["points"]]
        score.point.add(points_right(points, masks), len(points), len(masks))
        found = [_corners(o) for o in model.detect(handle, name)["objects"]]
        score.detect.add(boxes_right(found, boxes), len(found), len(boxes))
        shape = np.zeros((SIDE, SIDE), bool)
        for thing in model.segment(handle, name)["objects"]:
            for polygon in thing["polygons"]:
                shape |= fill(np.asarray(polygon), SIDE, SIDE)
        wanted = np.any(masks, axis=0)
        score.overlaps.append(float((shape & wanted).sum() / (shape | wanted).sum()))
        score.centre.add(points_right([(0.5, 0.5)], masks), 1, len(masks))
        score.centre_box.add(boxes_right([np.array([0.25, 0.25, 0.75, 0.75])], boxes), 1, len(boxes))
    if absent is not None:
        score.alarms.append(bool(model.point(handle, absent)["points"]))
    return score


def _corners(box: dict[str, Any]) -> np.ndarray:
    return np.array([box["x_min"], box["y_min"], box["x_max"], box["y_max"]])


def evaluate(model: Photon, material: Path, scenes: int, split: str = "test", at_once: int = 4) -> Score:
    """Composes `scenes` scenes of `split` and asks about up to two names that are there and one that is not."""
    library, lexicon = open_library(material, split), open_lexicon(material)
    taught = lexicon.names[: lexicon.taught]

    def one(number: int) -> Score:
        scene = compose(library, SEEDS[split] + number)
        rng = np.random.default_rng(number)
        names = [str(name) for name in rng.permutation(present_names(scene))[:2]]
        absent = str(rng.choice(taught))
        shown = answers_to(absent, scene) or scene.doubtful & {absent, *INCLUDES.get(absent, ())}
        return ask_scene(model, scene, names, None if shown else absent)

    score = Score()
    with ThreadPoolExecutor(at_once) as pool:
        for part in tqdm(pool.map(one, range(scenes)), total=scenes, desc="scenes"):
            score.merge(part)
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--model", default="photon-tiny")
    parser.add_argument("--scenes", type=int, default=500)
    parser.add_argument("--split", choices=SEEDS, default="test")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    model = Photon.load(arguments.model)
    try:
        summary = evaluate(model, arguments.material, arguments.scenes, arguments.split).summary()
    finally:
        model.close()
    if arguments.json:
        print(json.dumps(summary))
    else:
        for name, value in summary.items():
            print(f"{name:32} {value:.3f}")


if __name__ == "__main__":
    main()
