"""A tiny library of drawn shapes, so that scenes can be made without any package."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from photon.training.data.backgrounds import Background
from photon.training.data.compose import Library
from photon.training.data.store import Cutout, CutoutStore, write_cutouts


def disc(colour: tuple[int, int, int], side: int = 96) -> np.ndarray:
    """A filled circle as RGBA."""
    pixels = np.zeros((side, side, 4), np.uint8)
    cv2.circle(pixels, (side // 2, side // 2), side // 2 - 2, (*colour, 255), -1)
    return pixels


def bar(colour: tuple[int, int, int]) -> np.ndarray:
    """A filled upright rectangle as RGBA."""
    pixels = np.zeros((120, 50, 4), np.uint8)
    pixels[4:-4, 4:-4] = (*colour, 255)
    return pixels


def shapes_library(folder: Path) -> Library:
    """Two names, a disc and a bar, on one plain background that shows a "house"."""
    cutouts = [
        Cutout("ball", disc((220, 30, 30)), "drawn", "CC0", real=False),
        Cutout("post", bar((30, 200, 40)), "drawn", "CC0", real=False),
        Cutout("thing", disc((30, 30, 220)), "drawn", "CC0", real=False),
    ]
    write_cutouts(folder / "shapes.bin", cutouts)
    store = CutoutStore(folder / "shapes.bin")
    grey = Background("grey", np.full((200, 300, 3), 128, np.uint8), ("house",), "drawn", "train")
    library = Library([grey], textures=False)
    library.drawings = {"ball": [(store, 0)], "post": [(store, 1)]}
    library.unnamed = [(store, 2)]
    return library
