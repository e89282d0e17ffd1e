"""Measures a model through the engine: ``python -m photon.training.evaluate --material DIR [--photos DIR] [--json]``.

Composed scenes with exact truth, all on backgrounds that no training scene has: ``background`` shows cut-outs of the
kind that training showed, ``style`` drawings of a style that it never did, ``objects`` rendered objects that it never
did. In each scene two names that are there are asked for with every skill, and one that is not. With ``--photos``,
each folder in DIR that holds an ``annotations.json`` is asked too (see `photon.training.photographs`). Beside every
set stand the same figures for an answer that is always the middle of the picture.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np

from photon import EngineConfig, Photon, PhotonError
from photon.bench.report import table
from photon.training.answering import Sheet, marks_of
from photon.training.data.compose import SIDE, Scene, SceneObject, compose
from photon.training.data.library import Cutouts, open_lexicon, open_library
from photon.training.data.names import INCLUDES
from photon.training.features import SEEDS
from photon.training.photographs import PhotographSet
from photon.training.scoring import CENTRE, Mark, Question, figures, mark

SETS = {"seen": "background", "style": "style", "objects": "objects"}
"""What the figures on each part of the cut-outs are called."""

COLUMNS = ("point_f1", "detect_f1", "detect_map50", "segment_miou", "false_alarm", "refused")


def answers_to(name: str, scene: Scene) -> list[SceneObject]:
    """The things in a scene that are right answers to `name`."""
    return [thing for thing in scene.objects if thing.name == name or thing.name in INCLUDES.get(name, ())]


def present_names(scene: Scene) -> list[str]:
    """Names shown whose answers are beyond doubt, in alphabetical order."""
    names = sorted({thing.name for thing in scene.objects})
    return [name for name in names if not scene.doubtful & {name, *INCLUDES.get(name, ())}]


def sheet_of(scene: Scene, taught: list[str], rng: np.random.Generator) -> Sheet:
    """Up to two names that are there and, unless chance picks one that may be there, one that is not."""
    questions = []
    for name in rng.permutation(present_names(scene))[:2].tolist():
        things = answers_to(name, scene)
        masks, boxes = [thing.mask for thing in things], np.stack([thing.box for thing in things])
        questions.append(Question(name, (SIDE, SIDE), masks, boxes))
    absent = str(rng.choice(taught))
    if not answers_to(absent, scene) and not scene.doubtful & {absent, *INCLUDES.get(absent, ())}:
        questions.append(Question(absent, (SIDE, SIDE)))
    return Sheet(scene.image, questions)


def composites(model: Photon, material: Path, scenes: int, split: str = "test") -> dict[str, Any]:
    """Figures over `scenes` scenes of each part of the cut-outs."""
    lexicon = open_lexicon(material)
    taught = lexicon.names[: lexicon.taught]
    report = {}
    for part in get_args(Cutouts):
        library = open_library(material, split, part)
        first = SEEDS[split]

        def sheet(number: int, library: Any = library, first: int = first) -> Sheet:
            return sheet_of(compose(library, first + number), taught, np.random.default_rng(number))

        report[SETS[part]] = beside_floor(marks_of(model, scenes, sheet, SETS[part]))
    return report


def photographs(model: Photon, folder: Path) -> dict[str, Any]:
    """Figures over each set of photographs in `folder`."""
    sets = {listing.parent.name: PhotographSet(listing.parent) for listing in sorted(folder.glob("*/annotations.json"))}
    return {name: beside_floor(marks_of(model, len(one), one.sheet, name)) for name, one in sets.items()}


def beside_floor(marks: list[Mark]) -> dict[str, Any]:
    """The figures, and under "floor" those of always answering the middle."""
    return {**figures(marks), "floor": figures([mark(one.question, CENTRE) for one in marks])}


def show(report: dict[str, Any]) -> str:
    """One line a set, and one for its floor."""
    rows = []
    for kind, sets in report.items():
        for name, found in sets.items():
            for label, line in ((name, found), ("always the middle", found["floor"])):
                means = {f"mean {key}": value for key, value in line["mean_over_queries"].items()}
                off = {f"off-centre {key}": line["off_centre"][key] for key in ("point_f1", "detect_f1")}
                rows.append({kind: label, **{key: line[key] for key in COLUMNS}, **means, **off})
    return table([{key.replace("_", " "): _rounded(value) for key, value in row.items()} for row in rows])


def _rounded(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m photon.training.evaluate", description=__doc__)
    parser.add_argument("--material", type=Path, help="folder of `photon.training.data`; without it no scenes")
    parser.add_argument("--photos", type=Path, help="folder with sets of photographs")
    parser.add_argument("--model", default="photon-tiny", help="a name, a folder or a .safetensors file")
    parser.add_argument("--scenes", type=int, default=300, help="scenes of each kind")
    parser.add_argument("--split", choices=SEEDS, default="test")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    try:
        with Photon.load(options.model, EngineConfig(device=options.device)) as model:
            if options.material:
                report["composites"] = composites(model, options.material, options.scenes, options.split)
            if options.photos:
                report["photos"] = photographs(model, options.photos)
    except PhotonError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(report) if options.json else show(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
