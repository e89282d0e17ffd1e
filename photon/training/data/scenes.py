"""Some composed scenes as pictures with their ground truth, to look at.

Training composes its own from the same material, each from its seed.
"""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from photon.training.data.compose import Library, Scene, compose


def truth(scene: Scene) -> list[dict[str, object]]:
    """The things of a scene as plain lists, coordinates in 0..1."""
    return [
        {
            "name": thing.name,
            "box": np.round(thing.box, 5).tolist(),
            "point": np.round(thing.point, 5).tolist(),
            "contour": np.round(thing.contour, 4).tolist(),
        }
        for thing in scene.objects
    ]


def write_scenes(folder: Path, library: Library, count: int, first_seed: int) -> None:
    """Writes ``NNNN.jpg`` and ``NNNN.json`` for `count` seeds from `first_seed` on; scenes that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in tqdm(range(count), desc="scenes", unit="scene"):
        listing = folder / f"{number:04d}.json"
        if listing.exists():
            continue
        scene = compose(library, first_seed + number)
        packed = cv2.imencode(".jpg", scene.image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
        listing.with_suffix(".jpg").write_bytes(packed.tobytes())
        listing.write_text(json.dumps({"background": scene.background, "objects": truth(scene)}) + "\n")
