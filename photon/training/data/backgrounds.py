"""Photographs on which scenes are composed, and textures made from noise.

The photographs come from Debian's ``lomiri-wallpapers``, ``scratch`` and PyPI's ``scikit-image``. Some are held out:
scenes of the test split use only backgrounds that no training scene has. Photographs on which the finished model is
judged (`JUDGED`) are no backgrounds at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from photon.training.data.copyright import credit_of

LARGEST = 900

SHOWS = {
    "tree": ("tree",), "castle": ("castle",), "woods-and-bench": ("bench", "tree"),
    "houses": ("house",), "village": ("house",), "mansion": ("house",),
    "bedroom1": ("bed", "window", "lamp", "pillow"), "bedroom2": ("bed", "window", "lamp", "pillow"),
    "moon": ("moon",),
    "room1": ("chair", "table", "window", "lamp"), "room2": ("chair", "table", "window", "sofa"),
    "room3": ("chair", "table", "window", "sofa"), "hall": ("door",), "party-room": ("balloon", "table", "chair"),
    "clothing-store": ("shirt", "dress", "coat", "person"), "flower-bed": ("flower",),
    "Wine_by_Jakkub_Mede": ("wine glass", "glass", "bottle"), "Dragonfly_by_Bolly": ("dragonfly", "fly"),
    "forest": ("tree",), "woods": ("tree",), "pathway": ("tree",), "school1": ("house",), "school2": ("house",),
    "underwater": ("fish",), "Bridge_by_Sander_Klootwijk": ("bridge",), "night-city": ("house",),
    "lake": ("tree", "mountain"),
    "picosdeeuropa_by_Aitzol_Berasategi": ("mountain",), "chalkboard": ("desk", "chair"), "hill": ("tree",),
    "boardwalk": ("fence", "bench"), "atom-playground": ("tree", "house"),
}  # fmt: skip
"""Named things that a photograph itself shows: never asked for as absent there."""

HELD_OUT = {
    "test": {
        "sunset_by_Aitzol_Berasategi", "picosdeeuropa_by_Aitzol_Berasategi", "life_by_Aitzol_Berasategi",
        "Picture_1A_by_freespace", "seeding_by_Clements_Engelhardt", "umang_by_Abhishek_Mudgal", "beach-malibu",
        "brick-wall2", "room2", "driveway", "grand-canyon", "train-tracks1", "football-field",
        "city-with-water", "gravel", "berkeley-mural", "hall", "pool",
    },
    "validation": {
        "Kleiber_by_Lukas_Baubkus", "wave", "brick-wall1", "room1", "parking-ramp",
        "pathway", "playing-field", "village", "boardwalk",
    },
}  # fmt: skip

JUDGED = {
    "bench-with-view", "flowers", "friends_by_Aitzol_Berasategi", "garden-rock", "kitchen", "Picture_0B_by_freespace",
    "silos", "wooden-house",
}  # fmt: skip
"""Pictures that belong to the photographs with which the model is judged: never part of a scene."""

SURFACES = {"brick": "CC0Textures; CC0", "grass": "linolafett; CC0", "gravel": "CC0Textures; CC0"}
"""Whose the pictures of scikit-image are, by its documentation (``skimage.data``)."""

_SKIPPED = JUDGED | {"xy-grid", "spotlight-stage", "stars", "analogpattern_by_Peter_Nerlich"}


@dataclass(frozen=True)
class Background:
    """A photograph: uint8 [height, width, 3], the named things it shows, where it comes from, its split.

    credit: "author; licence".
    """

    name: str
    pixels: np.ndarray
    shows: tuple[str, ...]
    source: str
    split: str
    credit: str = ""


def photographs(raw: Path) -> Iterator[Background]:
    """All photographs below the unpacked packages in `raw`."""
    for source, pattern in (
        ("lomiri-wallpapers-16.04", "usr/share/backgrounds/*.jpg"),
        ("lomiri-wallpapers-20.04", "usr/share/backgrounds/*.jpg"),
        ("scratch", "usr/share/scratch/Media/Backgrounds/*/*.*"),
        ("scikit-image", "skimage/data/[bg]r*.png"),
    ):
        for path in sorted((raw / source).glob(pattern)):
            if path.stem not in _SKIPPED and path.suffix != ".db":
                credit = SURFACES.get(path.stem) or credit_of(raw / source, path)
                yield _read(path, source, credit)


def _read(path: Path, source: str, credit: str) -> Background:
    split = next((split for split, names in HELD_OUT.items() if path.stem in names), "train")
    with Image.open(path) as image:
        image.thumbnail((LARGEST, LARGEST))
        pixels = np.asarray(image.convert("RGB"))
    return Background(path.stem, pixels, SHOWS.get(path.stem, ()), source, split, credit)


def texture(rng: np.random.Generator, side: int) -> np.ndarray:
    """A made-up surface: smooth noise of several scales between two colours, sometimes striped or plain."""
    low, high = rng.uniform(0, 255, 3), rng.uniform(0, 255, 3)
    mix = np.zeros((side, side), np.float32)
    for cells in rng.choice([2, 4, 8, 16, 48], 2, replace=False):
        noise = rng.random((int(cells) + 1, int(cells) + 1), np.float32)
        mix += cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC) / 2
    if rng.random() < 0.3:
        wave = np.sin(np.arange(side) * rng.uniform(0.05, 0.6))
        mix = mix * 0.5 + 0.25 * (1 + (wave[:, None] if rng.random() < 0.5 else wave[None]))
    mix = np.clip(mix, 0, 1)[..., None] * rng.uniform(0.1, 1.0)
    return np.asarray(low + (high - low) * mix).astype(np.uint8)


def crop(background: np.ndarray, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A random window of a photograph, stretched to `shape`, sometimes mirrored, its colours shifted."""
    height, width = background.shape[:2]
    share = rng.uniform(0.35, 1.0)
    rows, columns = int(height * share), int(width * min(1.0, share * rng.uniform(0.75, 1.33)))
    top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
    window = background[top : top + rows, left : left + columns]
    if rng.random() < 0.5:
        window = window[:, ::-1]
    return shifted(cv2.resize(window, shape[::-1], interpolation=cv2.INTER_LINEAR), rng, 0.25)


def shifted(rgb: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Random gain and offset per picture and slightly per channel."""
    gain = 1 + rng.uniform(-strength, strength) + rng.uniform(-strength, strength, 3) / 3
    offset = rng.uniform(-strength, strength) * 60
    table = np.clip(np.arange(256)[:, None] * gain + offset, 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(np.ascontiguousarray(rgb), table[None]))
