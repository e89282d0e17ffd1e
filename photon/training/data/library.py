"""The library of a prepared data folder: its cut-outs by taught name and its backgrounds of one split.

No training scene shows a drawing of `HELD_OUT_STYLE`, nor one object in `HELD_OUT_OBJECTS` of the rendered 3D set:
what the model makes of a style and of objects that it never saw is measured on those.
"""

from __future__ import annotations

import json
import pickle
import zlib
from pathlib import Path
from typing import Literal

from photon.training.data.backgrounds import Background
from photon.training.data.compose import Library
from photon.training.data.lexicon import Lexicon
from photon.training.data.matching import match_label, shows_taught
from photon.training.data.store import CutoutEntry, CutoutStore

Cutouts = Literal["seen", "style", "objects"]
RENDERED = "sweethome3d-furniture"
HELD_OUT_STYLE = "fxemoji"
HELD_OUT_OBJECTS = 8


def cutouts_of(entry: CutoutEntry) -> Cutouts:
    """Which part of the library a cut-out belongs to; an object is held out with all its views."""
    if entry.source == HELD_OUT_STYLE:
        return "style"
    held_out = entry.source == RENDERED and zlib.crc32(entry.label.encode()) % HELD_OUT_OBJECTS == 0
    return "objects" if held_out else "seen"


def open_library(folder: Path, split: str, cutouts: Cutouts = "seen") -> Library:
    """Named cut-outs of the part `cutouts`, unnamed ones of the part "seen", and the backgrounds of `split`.

    `split` is "train", "dressed" (of the training backgrounds as well), "validation" or "test".
    """
    backgrounds: list[Background] = pickle.loads((folder / "backgrounds.pickle").read_bytes())
    place = "train" if split == "dressed" else split
    library = Library([background for background in backgrounds if background.split == place])
    library.textures, library.dressed = place == "train", split == "dressed"
    for file in sorted(folder.glob("*.bin")):
        store = CutoutStore(file)
        for index, entry in enumerate(store.entries):
            name, part = match_label(entry.label, last_words=entry.source == RENDERED), cutouts_of(entry)
            if name is None:
                if part == "seen" and not shows_taught(entry.label):
                    library.unnamed.append((store, index))
            elif part == cutouts:
                pool = library.real if entry.real else library.drawings
                pool.setdefault(name, []).append((store, index))
    return library


def open_lexicon(folder: Path) -> Lexicon:
    """The lexicon that `python -m photon.training.data` wrote."""
    return Lexicon(**json.loads((folder / "lexicon.json").read_text()))
