"""Segment with a fixed number of vertices: detect the objects, then one request for each object's contour.

An answer is the box (coord, coord, size) and then the vertices (coord, coord), clockwise from the top in equal steps
of arc length; the reference in its prompt is the centre of the detected box (design: bundled-model, "Segment").
"""

from __future__ import annotations

from typing import Any

from photon.models.moondream.config import TokenizerConfig
from photon.request import Choice, Request, Token
from photon.skills.base import Ask, Plan, SkillContext, SkillState
from photon.skills.detect import box, detect_request
from photon.skills.point import score

BOX_TOKENS = 3
_DIGITS = 4


class ContourState(SkillState):
    def __init__(self, ids: TokenizerConfig) -> None:
        self._length = BOX_TOKENS + 2 * ids.segment_vertices
        self._coord, self._size = Choice((ids.coord_id,)), Choice((ids.size_id,))
        self._values: list[Token] = []

    @property
    def length(self) -> int:
        return self._length

    def choice(self) -> Choice:
        return self._size if len(self._values) == 2 else self._coord

    def advance(self, token: Token) -> None:
        self._values.append(token)
        self.done = len(self._values) == self._length

    def result(self) -> dict[str, Any]:
        """{"bbox", "polygon": [[x, y], ...], "score"} in 0..1 of the image."""
        v = self._values
        vertices = [[x.coord, y.coord] for x, y in zip(v[3::2], v[4::2], strict=False)]
        return {"bbox": box(*v[:3]), "polygon": vertices, "score": score(*v[:3])}


def svg_path(polygon: list[list[float]], bbox: dict[str, float]) -> str:
    """The closed polygon as an SVG path in 0..1 of its box."""
    width = max(bbox["x_max"] - bbox["x_min"], 1e-6)
    height = max(bbox["y_max"] - bbox["y_min"], 1e-6)
    points = [
        f"{round((x - bbox['x_min']) / width, _DIGITS):g} {round((y - bbox['y_min']) / height, _DIGITS):g}"
        for x, y in polygon
    ]
    return "M " + " L ".join(points) + " Z" if points else ""


def _contour_request(context: SkillContext, ask: Ask, found: dict[str, float]) -> Request:
    ids = context.config.tokenizer
    centre = (
        Token(ids.coord_id, coord=(found["x_min"] + found["x_max"]) / 2),
        Token(ids.coord_id, coord=(found["y_min"] + found["y_max"]) / 2),
    )
    return Request(
        prompt=context.prompt("segment", centre, ask.name),
        image=ask.image,
        limit=ContourState(ids).length,
        start=lambda: ContourState(ids),
        sampling=ask.settings.sampling,
        mode=ask.mode,
        adapter=ask.adapter,
    )


def segment_plan(context: SkillContext, ask: Ask) -> Plan:
    """The best object's path, bbox and polygons, and all objects; nothing found is an empty path and no bbox."""
    (detected,) = yield [detect_request(context, ask)]
    found = detected["objects"]
    contours = (yield [_contour_request(context, ask, f) for f in found]) if found else []
    objects = [
        {
            "bbox": contour["bbox"],
            "path": svg_path(contour["polygon"], contour["bbox"]),
            "polygons": [contour["polygon"]],
            "score": source["score"],
        }
        for source, contour in zip(found, contours, strict=True)
    ]
    best = max(objects, key=lambda o: float(o["score"]), default=None)
    return {
        "path": best["path"] if best else "",
        "bbox": best["bbox"] if best else None,
        "polygons": best["polygons"] if best else [],
        "objects": objects,
    }
