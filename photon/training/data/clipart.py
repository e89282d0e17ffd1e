"""Cut-outs from Debian's ``openclipart-png`` (public domain), for files whose name begins with a taught name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from photon.training.data.matching import match_words
from photon.training.data.store import Cutout

_FOLDERS = (
    *("animals", "food", "plants", "tools", "containers", "office", "electronics", "education", "science"),
    *("transportation", "recreation", "buildings", "decorations"),
)
_LARGEST_FILE = 400_000


def clipart_cutouts(package: Path) -> Iterator[Cutout]:
    """Coloured clip art with a transparent border; scenes of several things ("cake and candle") are left out."""
    root = next(package.rglob("openclipart/png"))
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.png")):
            words = re.sub(r"[\d_.-]+", " ", path.stem.lower()).split()
            name = match_words(words)
            mixed = {"and", "with", "bw", "on", "flag"} & set(words)
            if name is None or mixed or path.stat().st_size > _LARGEST_FILE:
                continue
            with Image.open(path) as image:
                image.thumbnail((256, 256))
                pixels = np.asarray(image.convert("RGBA"))
            border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])[:, 3]
            if (border < 128).mean() > 0.5:
                yield Cutout(name, pixels, "openclipart-png", "public domain", real=False)
