"""Answers as files: COCO, SVG, mask PNG, annotated PNG; and the same question as Python and curl.

Everything is built from the page's JSON (`app.questions.question.as_json`) alone, which may come back from a
browser and is checked like any other input. Coordinates in files are pixels of the upright picture.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from app.drawing.overlay import Shape, colours, outlines, shapes_of
from app.questions.question import MAX_NAMES, Answer
from photon import MAX_OBJECTS, OBJECT_SKILLS, TEXT_SKILLS, Result

MAX_SIDE = 65_535


class ExportError(ValueError):
    """The answers cannot be written in this form; the sentence says why."""


@dataclass(frozen=True)
class Answered:
    """Checked answers: their task, the picture's size in pixels, and drawable shapes."""

    task: str
    width: int
    height: int
    shapes: list[Shape]

    @classmethod
    def parse(cls, body: Any) -> Answered:
        """From the page's JSON. Raises ExportError for what is not of its form."""
        try:
            task, size, given = body["task"], body["image"], list(body["answers"])
            width, height = int(size["width"]), int(size["height"])
            answers = [
                Answer(str(one["name"]), Result({k: list(v)[:MAX_OBJECTS] for k, v in _found(one).items()}))
                for one in given[:MAX_NAMES]
            ]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ExportError("These are not answers of this page.") from None
        if task in TEXT_SKILLS:
            raise ExportError("A text has no shapes; it can be had as JSON.")
        if task not in OBJECT_SKILLS or not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
            raise ExportError("These are not answers of this page.")
        palette = colours(answer.name for answer in answers)
        try:
            shapes = [
                shape for answer in answers for shape in shapes_of(answer, task, palette[answer.name], width, height)
            ]
        except (AttributeError, TypeError, ValueError, IndexError):
            raise ExportError("These are not answers of this page.") from None
        return cls(task, width, height, shapes)


def _found(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in ("points", "objects") if key in answer}


def coco(answered: Answered, file_name: str) -> str:
    """COCO annotations as JSON text: boxes as [x, y, width, height], contours as polygons, points as keypoints."""
    names = list(dict.fromkeys(shape["name"] for shape in answered.shapes))
    annotations = []
    for number, shape in enumerate(answered.shapes, start=1):
        entry: dict[str, Any] = {"id": number, "image_id": 1, "category_id": names.index(shape["name"]) + 1}
        if shape["kind"] == "point":
            entry |= {"keypoints": [shape["x"], shape["y"], 2], "num_keypoints": 1}
            entry |= {"bbox": [shape["x"], shape["y"], 0.0, 0.0], "area": 0.0}
        else:
            x0, y0, x1, y1 = shape["box"]
            rings = outlines(shape) if shape["kind"] == "contour" else []
            entry["bbox"] = [x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)]
            entry["segmentation"] = [[value for point in ring for value in point] for ring in rings]
            entry["area"] = round(area_of(rings) or (x1 - x0) * (y1 - y0), 2)
        entry["iscrowd"] = 0
        if shape["score"] is not None:
            entry["score"] = shape["score"]
        annotations.append(entry)
    image = {"id": 1, "file_name": file_name, "width": answered.width, "height": answered.height}
    categories: list[dict[str, Any]] = [{"id": index, "name": name} for index, name in enumerate(names, start=1)]
    if answered.task == "point":
        categories = [one | {"keypoints": ["point"], "skeleton": []} for one in categories]
    return json.dumps(
        {"images": [image], "annotations": annotations, "categories": categories}, indent=1, allow_nan=False
    )


def svg(answered: Answered) -> str:
    """The drawing alone as a standalone SVG of the picture's size."""
    stroke = max(answered.width, answered.height) / 400
    parts = []
    for shape in answered.shapes:
        x, y = _anchor(shape)
        if shape["kind"] == "point":
            mark = f'<circle cx="{x}" cy="{y}" r="{3 * stroke:g}" fill="{shape["colour"]}" stroke="#fff"/>'
        else:
            paint = f'fill="{shape["colour"]}" fill-opacity="0.2" fill-rule="evenodd" stroke="{shape["colour"]}"'
            mark = f'<path d="{shape["d"]}" {paint}/>'
        label = escape(f"{shape['name']} {shape['index']}")
        text = f'<text x="{x}" y="{max(y - 2 * stroke, 7 * stroke):g}" fill="{shape["colour"]}">{label}</text>'
        parts.append(f"<g data-name={quoteattr(shape['name'])}>{mark}{text}</g>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {answered.width} {answered.height}" '
        f'stroke-width="{stroke:g}" font-family="sans-serif" font-size="{7 * stroke:g}">'
        f"<style>text{{stroke:#000;stroke-width:{stroke / 2:g};paint-order:stroke}}</style>{''.join(parts)}</svg>"
    )


def mask(answered: Answered) -> bytes:
    """A palette PNG of the picture's size: 0 is background, then one value an object, later ones on top.

    Raises ExportError for points, which have no area.
    """
    if answered.task == "point":
        raise ExportError("Points have no area; a mask needs Segment or Detect.")
    if len(answered.shapes) > 255:
        raise ExportError(f"A mask holds at most 255 objects; these are {len(answered.shapes)}.")
    values: NDArray[np.uint8] = np.zeros((answered.height, answered.width), np.uint8)
    palette = [0, 0, 0]
    for number, shape in enumerate(answered.shapes, start=1):
        rings = [np.round(np.array(ring)).astype(np.int32) for ring in outlines(shape)]
        cv2.fillPoly(values, rings, number)
        palette += list(bytes.fromhex(shape["colour"][1:]))
    image = Image.fromarray(values).convert("P")
    image.putpalette(palette)
    return _png(image)


def annotated(answered: Answered, pixels: NDArray[np.uint8]) -> bytes:
    """The picture, uint8 [H, W, 3], with the answers drawn into it, as PNG.

    Raises ExportError when the picture is not the one that was asked about.
    """
    if pixels.shape[:2] != (answered.height, answered.width):
        raise ExportError("These answers belong to another picture.")
    image = Image.fromarray(pixels).convert("RGBA")
    layer = Image.new("RGBA", image.size)
    draw = ImageDraw.Draw(layer)
    stroke = max(round(max(image.size) / 350), 1)
    font = ImageFont.load_default(max(7 * stroke, 10))
    for shape in answered.shapes:
        x, y = _anchor(shape)
        if shape["kind"] == "point":
            r = 3 * stroke
            draw.ellipse((x - r, y - r, x + r, y + r), shape["colour"], "white", stroke)
        rings = outlines(shape)
        draw.bitmap((0, 0), _inside(rings, image.size), shape["colour"] + "38")
        for ring in rings:
            points = [tuple(point) for point in ring]
            draw.line([*points, points[0]], shape["colour"], stroke, "curve")
        label = f"{shape['name']} {shape['index']}"
        _, _, right, bottom = draw.textbbox((0, 0), label, font)
        at = (min(x, image.width - right), max(y - bottom - 2 * stroke, 0))
        draw.rectangle((at[0] - 2, at[1], at[0] + right + 2, at[1] + bottom + 2), shape["colour"])
        draw.text(at, label, "#0b0b0d", font)
    return _png(Image.alpha_composite(image, layer).convert("RGB"))


def _anchor(shape: Shape) -> tuple[float, float]:
    """Where a label hangs: the point, or the box's left top corner."""
    return (shape["x"], shape["y"]) if shape["kind"] == "point" else (shape["box"][0], shape["box"][1])


def area_of(rings: list[list[list[float]]]) -> float:
    """The area inside an odd number of rings that do not cross: each by the shoelace formula, holes taken away."""
    contours = [np.array(ring, np.float32) for ring in rings]
    total = 0.0
    for i, ring in enumerate(contours):
        around = sum(
            cv2.pointPolygonTest(other, ring[0].tolist(), False) > 0 for other in contours if other is not ring
        )
        xs, ys = np.array(rings[i]).T
        area = float(abs(np.dot(xs, np.roll(ys, -1)) - np.dot(ys, np.roll(xs, -1))) / 2)
        total += -area if around % 2 else area
    return total


def _inside(rings: list[list[list[float]]], size: tuple[int, int]) -> Image.Image:
    """1 where a picture of `size` lies inside an odd number of rings."""
    filled: NDArray[np.uint8] = np.zeros(size[::-1], np.uint8)
    cv2.fillPoly(filled, [np.round(np.array(ring)).astype(np.int32) for ring in rings], 255)
    return Image.fromarray(filled).convert("1")


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
