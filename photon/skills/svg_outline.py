"""Polygons of an SVG path: its curves in short straight pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from photon.skills.svg_path import VIEW_BOX, Command

Point = complex
_PIECES = 12
_ARGUMENTS = {"M": 1, "L": 1, "T": 1, "S": 2, "Q": 2, "C": 3}
"""Points a segment. H, V and A have an odd number of arguments, which the grammar cannot carry: they draw nothing."""


def polygons(commands: Sequence[Command], bbox: dict[str, float]) -> list[list[list[float]]]:
    """[[x, y], ...] for each subpath of at least three points, in 0..1 of the image."""
    width, height = bbox["x_max"] - bbox["x_min"], bbox["y_max"] - bbox["y_min"]

    def place(p: Point) -> list[float]:
        x, y = bbox["x_min"] + p.real / VIEW_BOX * width, bbox["y_min"] + p.imag / VIEW_BOX * height
        return [min(1.0, max(0.0, x)), min(1.0, max(0.0, y))]

    return [[place(p) for p in outline] for outline in _Pen().draw(commands) if len(outline) > 2]


class _Pen:
    """Follows the commands; `_handle` is the last control point, which S and T mirror."""

    def __init__(self) -> None:
        self._at: Point = 0j
        self._handle: tuple[str, Point] = ("", 0j)
        self._outlines: list[list[Point]] = []

    def draw(self, commands: Sequence[Command]) -> list[list[Point]]:
        for letter, values in commands:
            kind = letter.upper()
            if kind == "Z" and self._outlines:
                self._at = self._outlines[-1][0]
                self._handle = ("", 0j)
            elif kind in _ARGUMENTS:
                points = [complex(x, y) for x, y in zip(values[0::2], values[1::2], strict=True)]
                step = _ARGUMENTS[kind]
                for i in range(0, len(points) - step + 1, step):
                    origin = self._at if letter.islower() else 0j
                    self._segment("L" if kind == "M" and i else kind, [origin + p for p in points[i : i + step]])
        return self._outlines

    def _segment(self, kind: str, points: list[Point]) -> None:
        start, end = self._at, points[-1]
        if kind == "M" or not self._outlines:
            self._outlines.append([end if kind == "M" else start])
        mirrored = 2 * start - self._handle[1]
        if kind in "CS":
            first = points[0] if kind == "C" else mirrored if self._handle[0] == "C" else start
            self._handle = ("C", points[-2])
            self._outlines[-1] += _bezier([start, first, points[-2], end])
        elif kind in "QT":
            middle = points[0] if kind == "Q" else mirrored if self._handle[0] == "Q" else start
            self._handle = ("Q", middle)
            self._outlines[-1] += _bezier([start, middle, end])
        else:
            self._handle = ("", 0j)
            if kind == "L":
                self._outlines[-1].append(end)
        self._at = end


def _bezier(control: Sequence[Point]) -> Iterator[Point]:
    """Points along a curve, without its start (de Casteljau)."""
    for i in range(1, _PIECES + 1):
        t, left = i / _PIECES, list(control)
        while len(left) > 1:
            left = [a + (b - a) * t for a, b in pairwise(left)]
        yield left[0]
