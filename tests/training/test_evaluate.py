"""The evaluation's report: what is asked, and its form through the engine."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from photon import UnknownWordError
from photon.training import evaluate
from photon.training.answering import Sheet, marks_of
from photon.training.data.backgrounds import Background
from photon.training.data.compose import compose
from photon.training.data.lexicon import Lexicon
from photon.training.data.library import HELD_OUT_STYLE, RENDERED, cutouts_of, open_library
from photon.training.data.store import Cutout, read_entries, write_cutouts
from photon.training.evaluate import present_names, sheet_of
from photon.training.photographs import PhotographSet
from photon.training.scoring import Question, figures
from tests.training.material import bar, disc

WORD = "glumph"


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apples and clocks of each part of the cut-outs, on one plain test background."""
    folder = tmp_path_factory.mktemp("material")
    things = []
    for part, source in {"seen": "drawn", "style": HELD_OUT_STYLE, "objects": RENDERED}.items():
        for name, pixels in (("apple", disc((220, 30, 30))), ("clock", bar((30, 200, 40)))):
            labels = [name, *(f"{letter} {name}" for letter in "abcdefghijklmnopqrstuvwxyz")]
            made = [Cutout(label, pixels, source, "CC0", real=False) for label in labels]
            write_cutouts(folder / "one.bin", made)
            fitting = [i for i, entry in enumerate(read_entries(folder / "one.bin")) if cutouts_of(entry) == part]
            things.append(made[fitting[0]])
    (folder / "one.bin").unlink()
    write_cutouts(folder / "drawings.bin", things)
    grey = Background("grey", np.full((200, 300, 3), 128, np.uint8), (), "drawn", "test")
    (folder / "backgrounds.pickle").write_bytes(pickle.dumps([grey]))
    (folder / "lexicon.json").write_text(json.dumps(asdict(Lexicon(["apple", "clock", "dog"], 3, {}, [[], [], []]))))
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """One picture with a red square, which shows an apple; some annotations of every kind."""
    folder = tmp_path / "photos" / "tiny"
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (200, 100), (90, 90, 90)).save(folder / "images" / "a.jpg")
    square = {
        "image_id": 1,
        "name": "apple",
        "bbox": [20, 20, 40, 40],
        "ignore": 0,
        "holes": [[30, 30, 50, 30, 50, 50]],
    }
    things = [
        square | {"segmentation": [[20, 20, 60, 20, 60, 60, 20, 60]]},
        {"image_id": 1, "name": "apple", "bbox": [100, 0, 50, 50], "ignore": 1, "segmentation": []},
        {"image_id": 1, "name": WORD, "bbox": [0, 0, 200, 100], "ignore": 0, "segmentation": []},
    ]
    image = {"id": 1, "file_name": "a.jpg", "width": 200, "height": 100, "names": ["apple", WORD], "absent": ["dog"]}
    (folder / "annotations.json").write_text(json.dumps({"images": [image], "annotations": things}))
    return tmp_path / "photos"


class Scripted:
    """In place of a model: sees one box everywhere, knows no `WORD`, and notes how many ask at once."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0
        self.gate = threading.Barrier(4, timeout=20)

    def encode_image(self, image: np.ndarray) -> np.ndarray:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait()
        return image

    def point(self, image: np.ndarray, name: str) -> dict[str, Any]:
        if name == WORD:
            raise UnknownWordError(name, ())
        return {"points": [{"x": 0.2, "y": 0.4, "score": 0.5}] if name == "apple" else []}

    def detect(self, image: np.ndarray, name: str) -> dict[str, Any]:
        box = {"x_min": 0.1, "y_min": 0.2, "x_max": 0.3, "y_max": 0.6, "score": 0.5}
        return {"objects": [box] if name == "apple" else []}

    def segment(self, image: np.ndarray, name: str) -> dict[str, Any]:
        rings = [[[0.1, 0.2], [0.3, 0.2], [0.3, 0.6], [0.1, 0.6]]]
        return {"objects": [{"polygons": rings}] if name == "apple" else []}


def test_answers_become_marks_and_four_pictures_are_asked_at_once() -> None:
    model, grey = Scripted(), np.zeros((100, 200, 3), np.uint8)
    mask = np.zeros((100, 200), bool)
    mask[20:61, 20:61] = True
    asked = [
        Question("apple", (100, 200), [mask], np.array([[0.1, 0.2, 0.3, 0.6]])),
        Question("dog", (100, 200)),
        Question(WORD, (100, 200)),
    ]
    found = figures(marks_of(model, 4, lambda _: Sheet(grey, asked), "pictures"))  # type: ignore[arg-type]
    assert model.most == 4
    keys = ("point_f1", "detect_f1", "detect_map50", "false_alarm", "refused")
    assert [found[key] for key in keys] == [1.0, 1.0, 1.0, 0.0, pytest.approx(1 / 3)]
    assert found["segment_miou"] > 0.9  # type: ignore[operator]


def test_photographs_are_read_with_masks_holes_and_ignored_regions(photos: Path) -> None:
    sheet = PhotographSet(photos / "tiny").sheet(0)
    apple, unknown, dog = sheet.questions
    assert sheet.image.shape == (100, 200, 3)
    assert apple.boxes.tolist() == [pytest.approx([0.1, 0.2, 0.3, 0.6])]
    assert apple.ignored.tolist() == [pytest.approx([0.5, 0.0, 0.75, 0.5])]
    assert apple.tolerance == 2
    (mask,) = apple.masks
    assert mask is not None
    assert mask[25, 25]
    assert not mask[33, 45]
    assert not mask[70, 25]
    assert unknown.masks == [None]
    assert (dog.name, len(dog.boxes)) == ("dog", 0)


def test_a_scene_is_asked_for_two_names_that_are_there_and_one_that_is_not(material: Path) -> None:
    library = open_library(material, "test")
    absent = 0
    for seed in range(12):
        scene = compose(library, seed)
        sheet = sheet_of(scene, ["apple", "clock", "dog"], np.random.default_rng(seed))
        present = [q.name for q in sheet.questions if len(q.boxes)]
        assert set(present) == set(present_names(scene))
        others = [q.name for q in sheet.questions if not len(q.boxes)]
        assert not {thing.name for thing in scene.objects} & set(others)
        absent += len(others)
    assert absent > 3


def test_the_report_has_the_agreed_form(
    material: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--material", str(material), "--photos", str(photos), "--scenes", "1", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["evaluate", *arguments, "--json"])
    assert evaluate.main() == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["composites"].keys() == {"background", "style", "objects"}
    assert report["photos"].keys() == {"tiny"}
    for found in (*report["composites"].values(), *report["photos"].values()):
        assert found.keys() >= {*evaluate.COLUMNS, "mean_over_queries", "off_centre"}
        assert found["floor"]["false_alarm"] == 1.0
    assert report["photos"]["tiny"]["refused"] == pytest.approx(1 / 3)
    assert report["photos"]["tiny"]["queries"] == 2
    assert "always the middle" in evaluate.show(report)
