"""The library of a prepared data folder: its cut-outs by taught name and its backgrounds of one split."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from photon.training.data.backgrounds import Background
from photon.training.data.compose import Library
from photon.training.data.lexicon import Lexicon
from photon.training.data.matching import match_label, shows_taught
from photon.training.data.store import CutoutStore


def open_library(folder: Path, split: str) -> Library:
    """Cut-outs of every store, backgrounds of `split` ("train", "validation" or "test")."""
    backgrounds: list[Background] = pickle.loads((folder / "backgrounds.pickle").read_bytes())
    library = Library([background for background in backgrounds if background.split == split])
    library.textures = split == "train"
    for file in sorted(folder.glob("*.bin")):
        store = CutoutStore(file)
        for index, entry in enumerate(store.entries):
            name = match_label(entry.label, last_words=entry.source == "sweethome3d-furniture")
            if name is None:
                if not shows_taught(entry.label):
                    library.unnamed.append((store, index))
            else:
                pool = library.real if entry.real else library.drawings
                pool.setdefault(name, []).append((store, index))
    return library


def open_lexicon(folder: Path) -> Lexicon:
    """The lexicon that `python -m photon.training.data` wrote."""
    return Lexicon(**json.loads((folder / "lexicon.json").read_text()))
