"""Example scenes with their ground truth, for tests and for the page.

``python -m photon.training.examples --material DIR --out FOLDER`` writes JPEG files and ``scenes.json``. Only
backgrounds of the test split with an attribution licence are used, and things that most people would ask for.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import cv2

from photon.training.data.compose import Library, compose
from photon.training.data.library import open_library
from photon.training.data.scenes import truth

SHAPE = (600, 800)
BACKGROUNDS = {
    "sunset_by_Aitzol_Berasategi",
    "picosdeeuropa_by_Aitzol_Berasategi",
    "life_by_Aitzol_Berasategi",
    "seeding_by_Clements_Engelhardt",
}
EVERYDAY = {
    *("apple", "banana", "strawberry", "pizza", "hamburger", "cat", "dog", "elephant", "penguin", "butterfly"),
    *("owl", "turtle", "car", "bus", "bicycle", "airplane", "chair", "sofa", "lamp", "clock", "laptop", "book"),
    *("umbrella", "backpack", "guitar", "scissors", "key", "cup", "teapot", "soccer ball", "sunflower", "mushroom"),
}


def example_library(material: Path) -> Library:
    """The test library cut down to `BACKGROUNDS` and real-looking `EVERYDAY` things."""
    library = open_library(material, "test")
    library.backgrounds = [b for b in library.backgrounds if b.name in BACKGROUNDS]
    library.real = {name: pool for name, pool in library.real.items() if name in EVERYDAY}
    library.drawings = {}
    library.unnamed = []
    return library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    library = example_library(arguments.material)
    listed = []
    for number, seed in enumerate(arguments.seeds):
        scene = compose(library, 95_000_000 + seed, "ordinary", SHAPE)
        file = f"scene-{number + 1}.jpg"
        packed = cv2.imencode(".jpg", scene.image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
        (arguments.out / file).write_bytes(packed.tobytes())
        listed.append({"file": file, "background": scene.background, "objects": truth(scene)})
    lines = ",\n".join(json.dumps(entry) for entry in listed)
    (arguments.out / "scenes.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
