"""Cut-outs from emoji sets: one SVG style a package, and one set of 3D emoji as pictures.

Every style draws the same things, so the label of a cut-out is the thing's Unicode short name ("red apple"). For
the 3D set, whose files are named by code point, the names come from Debian's ``unicode-data``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from photon.training.data.store import Cutout

SIDE = 176
_VARIANT = re.compile(r"(-|^)(light|medium|dark)(-|$)|skin-tone|^flag-|keycap|button|oclock|thirty")


def svg_cutouts(package: Path) -> Iterator[Cutout]:
    """All icons of one iconify JSON package folder, skin-tone variants, flags and buttons left out."""
    import resvg_py

    icons = json.loads((package / "icons.json").read_text())
    licence = json.loads((package / "info.json").read_text())["license"]["spdx"]
    for slug, icon in icons["icons"].items():
        if _VARIANT.search(slug):
            continue
        width = icon.get("width", icons.get("width", 16))
        height = icon.get("height", icons.get("height", 16))
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'viewBox="{icon.get("left", 0)} {icon.get("top", 0)} {width} {height}">{icon["body"]}</svg>'
        )
        png = bytes(resvg_py.svg_to_bytes(svg_string=svg, width=SIDE))
        yield Cutout(slug.replace("-", " "), _rgba(io.BytesIO(png)), icons["prefix"], licence, real=False)


def picture_cutouts(package: Path, emoji_test: Path) -> Iterator[Cutout]:
    """The 3D emoji of ``@lobehub/fluent-emoji-3d``, named through Unicode's ``emoji-test.txt``."""
    names = emoji_names(emoji_test)
    for path in sorted((package / "assets").glob("*.webp")):
        name = names.get(path.stem.replace("-fe0f", ""))
        if name and not _VARIANT.search(name.replace(" ", "-")):
            yield Cutout(name, _rgba(path), "fluent-emoji-3d", "MIT", real=True)


def emoji_names(emoji_test: Path) -> dict[str, str]:
    """Code points as in file names ("1f469-1f680") to short names ("woman astronaut")."""
    pattern = re.compile(r"^([0-9A-F ]+?)\s*; fully-qualified\s*# \S+ E[\d.]+ (.+)$", re.M)
    found = pattern.findall(emoji_test.read_text("utf-8"))
    return {points.lower().replace(" ", "-").replace("-fe0f", ""): plain(name) for points, name in found}


def plain(name: str) -> str:
    """A short name in the spelling of the SVG sets: lower case, letters, digits and spaces."""
    return re.sub(r"[^a-z0-9 ]", "", name.lower().replace("-", " ").replace("ñ", "n")).strip()


def _rgba(file: Path | io.BytesIO) -> np.ndarray:
    with Image.open(file) as image:
        return np.asarray(image.convert("RGBA"))
