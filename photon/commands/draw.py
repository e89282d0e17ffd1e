"""Draws an answer over its picture, for the command line; the page draws its own vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageDraw

_COLOUR = (255, 64, 96)
_HALO = (255, 255, 255)


def draw(image: Image.Image, result: Mapping[str, Any]) -> Image.Image:
    """Points, boxes and contours of a result over a copy of the image."""
    canvas = image.copy()
    pen = ImageDraw.Draw(canvas)
    width, height = image.size
    stroke = max(2, max(image.size) // 300)
    for point in result.get("points", ()):
        x, y, r = point["x"] * width, point["y"] * height, 3 * stroke
        pen.ellipse((x - r, y - r, x + r, y + r), fill=_COLOUR, outline=_HALO, width=stroke)
    for item in result.get("objects", ()):
        corners = item.get("bbox", item)
        pen.rectangle(
            (corners["x_min"] * width, corners["y_min"] * height, corners["x_max"] * width, corners["y_max"] * height),
            outline=_HALO if "polygons" in item else _COLOUR,
            width=stroke,
        )
        for polygon in item.get("polygons", ()):
            ring = [(x * width, y * height) for x, y in polygon]
            pen.line([*ring, *ring[:2]], fill=_COLOUR, width=2 * stroke, joint="curve")
    return canvas
