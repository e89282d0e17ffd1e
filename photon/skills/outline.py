"""An outline in the public form: its box, its path in 0..1 of the box, its polygons in 0..1 of the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from photon.masks import Box
from photon.masks.outlines import Polygon, bounds

_DIGITS = 4
_SMALLEST_SIDE = 1e-6


def outline(polygons: Sequence[Polygon], unseen: Box) -> dict[str, Any]:
    """{"bbox", "path", "polygons"}; `unseen` is the box of an outline without polygons."""
    bbox = bounds(polygons) if polygons else {key: unseen[key] for key in ("x_min", "y_min", "x_max", "y_max")}
    paths = ("".join(path_vertex(in_box(v, bbox), first=i == 0) for i, v in enumerate(p)) + " Z" for p in polygons)
    return {"bbox": bbox, "path": " ".join(paths), "polygons": list(polygons)}


def path_vertex(vertex: Sequence[float], first: bool) -> str:
    """One vertex of an SVG path in 0..1 of its box."""
    return f"{'M' if first else ' L'} {round(vertex[0], _DIGITS):g} {round(vertex[1], _DIGITS):g}"


def in_box(vertex: Sequence[float], bbox: Box) -> list[float]:
    """A vertex in 0..1 of the image -> in 0..1 of its box."""
    x = (vertex[0] - bbox["x_min"]) / max(bbox["x_max"] - bbox["x_min"], _SMALLEST_SIDE)
    y = (vertex[1] - bbox["y_min"]) / max(bbox["y_max"] - bbox["y_min"], _SMALLEST_SIDE)
    return [x, y]


def on_image(vertex: Sequence[float], bbox: Box) -> list[float]:
    """A vertex in 0..1 of its box -> in 0..1 of the image."""
    x, y = vertex
    return [
        bbox["x_min"] + x * (bbox["x_max"] - bbox["x_min"]),
        bbox["y_min"] + y * (bbox["y_max"] - bbox["y_min"]),
    ]
