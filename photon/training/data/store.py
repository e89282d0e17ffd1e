"""Cut-outs in one memory-mapped file that all rendering processes share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np


@dataclass(frozen=True)
class Cutout:
    """A picture of one thing. `pixels`: uint8 [height, width, 4], straight alpha. `label`: the source's own name."""

    label: str
    pixels: np.ndarray
    source: str
    licence: str
    real: bool


@dataclass(frozen=True)
class CutoutEntry:
    """Where a cut-out lies in the file, and what is known about it."""

    label: str
    source: str
    licence: str
    real: bool
    offset: int
    height: int
    width: int


def trim(pixels: np.ndarray, largest: int) -> np.ndarray | None:
    """`pixels` cut to what is visible and shrunk to `largest` pixels a side; None where too little is visible."""
    rows = np.flatnonzero((pixels[..., 3] > 127).any(1))
    columns = np.flatnonzero((pixels[..., 3] > 127).any(0))
    if len(rows) < 12 or len(columns) < 12:
        return None
    pixels = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = largest / max(pixels.shape[:2])
    if scale < 1:
        size = [max(8, round(side * scale)) for side in (pixels.shape[1], pixels.shape[0])]
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(pixels)


def write_cutouts(path: Path, cutouts: Iterable[Cutout], largest: int = 224) -> int:
    """Writes ``path`` (raw pixels) and beside it ``.jsonl`` (one entry a line); returns the count.

    While it is written, both have another name (see `keep_unfinished`): what has its name is complete.
    """
    offset = count = 0
    with _unfinished(path).open("wb") as file, _unfinished(path.with_suffix(".jsonl")).open("w") as index:
        for cutout in cutouts:
            pixels = trim(cutout.pixels, largest)
            if pixels is None:
                continue
            about = (cutout.label, cutout.source, cutout.licence, cutout.real)
            entry = CutoutEntry(*about, offset, pixels.shape[0], pixels.shape[1])
            file.write(pixels.tobytes())
            file.flush()
            index.write(json.dumps(asdict(entry)) + "\n")
            index.flush()
            offset += pixels.size
            count += 1
    keep_unfinished(path)
    return count


def keep_unfinished(path: Path) -> None:
    """Gives a store that `write_cutouts` did not finish its name: it keeps the cut-outs that it holds."""
    for file in (path.with_suffix(".jsonl"), path):
        _unfinished(file).replace(file)


def _unfinished(path: Path) -> Path:
    return path.with_name(f"unfinished-{path.name}.part")


class CutoutStore:
    """Read access to a file of `write_cutouts`."""

    def __init__(self, path: Path) -> None:
        self.entries = read_entries(path)
        self._pixels = np.memmap(path, np.uint8, mode="r")

    def pixels(self, index: int) -> np.ndarray:
        """uint8 [height, width, 4] of entry `index`."""
        entry = self.entries[index]
        count = entry.height * entry.width * 4
        return np.asarray(self._pixels[entry.offset : entry.offset + count]).reshape(entry.height, entry.width, 4)


def read_entries(path: Path) -> list[CutoutEntry]:
    """The entries of a file of `write_cutouts`."""
    lines = path.with_suffix(".jsonl").read_text().splitlines()
    return [CutoutEntry(**json.loads(line)) for line in lines]
