"""Answers as vectors over the picture.

Python decides what is drawn: it checks and clips every value, gives a name its colour and an object
its number, and writes paths of numbers only. `static/js/overlay.js` draws it into one `gr.HTML`:
an `<img>` and an `<svg>` of the same box. Coordinates in here are pixels of the upright picture.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from app.pictures.store import Picture
from app.questions.question import Answer, Question, in_a_sentence
from photon import TEXT_SKILLS

# Distinct on photographs, told apart also by people who do not see red and green alike.
COLOURS = (
    "#ff5470",
    "#21b8ff",
    "#ffb000",
    "#2fd4a0",
    "#b57bff",
    "#ff7f3f",
    "#9be22d",
    "#ff7be0",
    "#5c8dff",
    "#e8e337",
)
MAX_CONTOUR_POINTS = 300
REPEAT = 0.003  # of the long side: a model that says the same again moves it by less
VALUES = {"point": 2, "box": 4, "contour": 4}  # numbers that place an object; its score is the product over them
TINY = 0.012  # of the picture's short side: smaller objects get a dot as well, to be seen and clicked

Shape = dict[str, Any]


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour a name: the same in every request, unless two names of one request would share it."""
    taken: dict[str, str] = {}
    for name in names:
        start = zlib.crc32(name.casefold().encode())
        ring = [COLOURS[(start + step) % len(COLOURS)] for step in range(len(COLOURS))]
        taken[name] = next((colour for colour in ring if colour not in taken.values()), ring[0])
    return taken


def scene(picture: Picture, question: Question, answers: Sequence[Answer]) -> dict[str, Any]:
    """All that the drawing needs: the picture, its shapes, and one sentence about what was found."""
    palette = colours(answer.name for answer in answers)
    shapes = [
        shape
        for answer in answers
        for shape in shapes_of(answer, question.task, palette[answer.name], picture.width, picture.height)
    ]
    distinct = without_repeats(shapes, REPEAT * max(picture.width, picture.height))
    repeats = len(shapes) - len(distinct)
    note = "" if question.task in TEXT_SKILLS else summary(answers)  # a text stands with the answers
    if repeats:
        note += f" {repeats} of them in the place of another, drawn once."
    return blank(picture) | {"shapes": distinct, "note": note}


def without_repeats(shapes: Sequence[Shape], slack: float) -> list[Shape]:
    """The shapes less those that lie within `slack` pixels of an earlier one of the same name."""
    kept: list[Shape] = []
    for shape in shapes:
        place = _place(shape)
        same = (_place(other) for other in kept if other["name"] == shape["name"])
        if not any(max(abs(a - b) for a, b in zip(place, other, strict=True)) <= slack for other in same):
            kept.append(shape)
    return kept


def _place(shape: Shape) -> Sequence[float]:
    return [shape["x"], shape["y"]] if shape["kind"] == "point" else list(shape["box"])


def blank(picture: Picture) -> dict[str, Any]:
    """The picture alone."""
    return {
        "src": picture.url,
        "name": picture.title or picture.name,
        "credit": picture.credit,
        "width": picture.width,
        "height": picture.height,
        "shapes": [],
        "note": "",
    }


def summary(answers: Sequence[Answer]) -> str:
    """What was found, in words that keep the names as they were typed; of Query and Caption the text itself."""
    if texts := [answer.text for answer in answers if answer.text is not None]:
        return " ".join(texts).strip() or "The model answered without a word."
    parts = []
    for answer in answers:
        if answer.result is not None:
            count, name = len(answer.found), in_a_sentence(answer.name)
            parts.append(f"no {name}" if count == 0 else f"{count} × {name}")
    return f"Found {', '.join(parts)}." if parts else ""


def shapes_of(answer: Answer, task: str, colour: str, width: int, height: int) -> list[Shape]:
    """The drawable shapes of one answer; what is not finite or lies outside the picture is left out."""
    shapes: list[Shape] = []
    for index, found in enumerate(answer.found, start=1):
        drawn = _point(found, width, height) if task == "point" else _region(found, width, height)
        if drawn is not None:
            shapes.append(
                {
                    "name": answer.name,
                    "index": index,
                    "colour": colour,
                    "score": _score(found.get("score")),
                    "certainty": certainty(found.get("score"), VALUES[drawn["kind"]]),
                }
                | drawn
            )
    return shapes


def _point(found: dict[str, Any], width: int, height: int) -> Shape | None:
    x, y = _number(found.get("x")), _number(found.get("y"))
    if x is None or y is None or not (0 <= x <= 1 and 0 <= y <= 1):
        return None
    x, y = x * width, y * height
    return {"kind": "point", "x": _round(x), "y": _round(y), "d": f"M{_round(x)} {_round(y)}h0"}


def _region(found: dict[str, Any], width: int, height: int) -> Shape | None:
    """A box, or a contour with its box."""
    box = clip_box(found.get("bbox") or found)
    if box is None:
        return None
    x0, y0, x1, y1 = (_round(v) for v in (box[0] * width, box[1] * height, box[2] * width, box[3] * height))
    short = min(width, height)
    shape: Shape = {
        "kind": "box",
        "box": [x0, y0, x1, y1],
        "d": f"M{x0} {y0}H{x1}V{y1}H{x0}Z",
        "tiny": max(x1 - x0, y1 - y0) < TINY * short,
    }
    if "polygons" in found:
        contour = contour_path(found["polygons"], width, height)
        shape |= {"kind": "contour", "frame": shape["d"], "d": contour or shape["d"]}
    return shape


def clip_box(box: dict[str, Any]) -> tuple[float, float, float, float] | None:
    """(x_min, y_min, x_max, y_max) within 0..1, or None for a box that is inverted, not finite or outside."""
    values = [_number(box.get(key)) for key in ("x_min", "y_min", "x_max", "y_max")]
    x0, y0, x1, y1 = values
    if x0 is None or y0 is None or x1 is None or y1 is None:
        return None
    if x0 > x1 or y0 > y1 or x1 < 0 or y1 < 0 or x0 > 1 or y0 > 1:
        return None
    return _clip(x0), _clip(y0), _clip(x1), _clip(y1)


def contour_path(polygons: Sequence[Sequence[Sequence[float]]], width: int, height: int) -> str:
    """An SVG path of all polygons (0..1 of the picture) in pixels; at most 300 points each."""
    parts = []
    for polygon in polygons:
        points = [
            (_clip(x) * width, _clip(y) * height)
            for x, y in ((_number(point[0]), _number(point[1])) for point in polygon)
            if x is not None and y is not None
        ]
        stride = math.ceil(len(points) / MAX_CONTOUR_POINTS)
        points = points[:: stride or 1]
        if len(points) >= 3:
            parts.append("M" + "L".join(f"{_round(x)} {_round(y)}" for x, y in points) + "Z")
    return "".join(parts)


def outlines(shape: Shape) -> list[list[list[float]]]:
    """The closed polygons of a drawn shape, [[x, y], ...] in pixels; none for a point."""
    if shape["kind"] == "point":
        return []
    if not shape["d"].startswith("M") or "L" not in shape["d"]:
        x0, y0, x1, y1 = shape["box"]
        return [[[x0, y0], [x1, y0], [x1, y1], [x0, y1]]]
    rings = (ring.removeprefix("M").split("L") for ring in shape["d"].split("Z") if ring)
    return [[[float(value) for value in point.split()] for point in ring] for ring in rings]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def certainty(score: Any, values: int) -> float | None:
    """How sure the model is of each value, 0..1: the geometric mean of the probabilities whose product is `score`."""
    number = _number(score)
    return None if number is None else round(float(_clip(number) ** (1 / values)), 4)


def _score(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else float(f"{_clip(number):.3g}")


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _round(value: float) -> float:
    """Hundredths of a pixel, and no negative zero."""
    return round(value, 2) + 0.0
