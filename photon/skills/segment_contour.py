"""Segment with a fixed number of vertices: detect the objects, ask for each one's contour, and sharpen it.

An answer is the box (coord, coord, size) and then the vertices (coord, coord) in 0..1 of that box, clockwise from the
top in equal steps of arc length; the reference in its prompt is the centre of the detected box (docs/model.md
7.6 for paths in units of their box). Where the caller gives spatial references, their centres take
the place of detected ones. So few vertices are rough; the edges in the picture make them sharp (photon/masks/sharpen).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from photon.core.request import Choice, Request, SkillState, Token
from photon.masks.sharpen import sharpen
from photon.models.moondream.config import TokenizerConfig
from photon.skills.ask import Ask
from photon.skills.base import SideWork, SkillContext, Stage
from photon.skills.detect import box, detect_request
from photon.skills.outline import on_image, outline, path_vertex
from photon.skills.point import score

BOX_TOKENS = 3

Objects = Generator[Stage, list[dict[str, Any]], tuple[list[dict[str, Any]], int]]
"""The middle of a segment plan: returns the objects and which of them is the best."""


class Seed(NamedTuple):
    """Where an object is asked for; `score` is None if nothing was detected there."""

    x: float
    y: float
    score: float | None


class ContourState(SkillState):
    """`told`: whether a stream's reader follows this contour."""

    def __init__(self, ids: TokenizerConfig, told: bool = False) -> None:
        self._length = BOX_TOKENS + 2 * ids.segment_vertices
        self._coord, self._size = Choice((ids.coord_id,)), Choice((ids.size_id,))
        self._values: list[Token] = []
        self._new: list[dict[str, Any]] = []
        self._told = told

    @property
    def length(self) -> int:
        return self._length

    def choice(self) -> Choice:
        return self._size if len(self._values) == 2 else self._coord

    def advance(self, token: Token) -> None:
        self._values.append(token)
        count = len(self._values)
        self.done = count == self._length
        if self._told and count == BOX_TOKENS:
            self._new.append({"bbox": box(*self._values)})
        elif self._told and count > BOX_TOKENS and (count - BOX_TOKENS) % 2 == 0:
            first = count == BOX_TOKENS + 2
            vertex = path_vertex(self._vertices()[-1], first)
            self._new.append({"chunk": vertex + (" Z" if self.done else "")})

    def updates(self) -> Sequence[dict[str, Any]]:
        new, self._new = self._new, []
        return new

    def result(self) -> dict[str, Any]:
        """{"bbox", "path", "polygons", "score"}; the polygon is in 0..1 of the image."""
        bbox, vertices = box(*self._values[:BOX_TOKENS]), self._vertices()
        path = "".join(path_vertex(v, first=i == 0) for i, v in enumerate(vertices)) + " Z"
        polygon = [on_image(vertex, bbox) for vertex in vertices]
        return {"bbox": bbox, "path": path, "polygons": [polygon], "score": score(*self._values[:BOX_TOKENS])}

    def _vertices(self) -> list[list[float]]:
        v = self._values[BOX_TOKENS:]
        return [[x.coord, y.coord] for x, y in zip(v[0::2], v[1::2], strict=False)]


def referenced(refs: Sequence[Token], ids: TokenizerConfig) -> list[Seed]:
    """The centre of each spatial reference."""
    coords = [token.coord for token in refs if token.id == ids.coord_id]
    return [Seed(x, y, None) for x, y in zip(coords[0::2], coords[1::2], strict=True)]


def contour_plan(context: SkillContext, ask: Ask) -> Objects:
    """The best object is the one detected most surely, or that of the first reference."""
    ids = context.config.tokenizer
    seeds = referenced(ask.refs, ids)
    if not seeds:
        (detected,) = yield [detect_request(context, ask)]
        seeds = [
            Seed((o["x_min"] + o["x_max"]) / 2, (o["y_min"] + o["y_max"]) / 2, o["score"]) for o in detected["objects"]
        ]
    if not seeds:
        return [], 0
    best = max(range(len(seeds)), key=lambda i: seeds[i].score or 0.0)
    contours = yield [
        _contour_request(context, ask, seed, told=ask.stream and i == best) for i, seed in enumerate(seeds)
    ]
    objects = [
        contour if seed.score is None else contour | {"score": seed.score}
        for seed, contour in zip(seeds, contours, strict=True)
    ]
    objects = yield SideWork(lambda: [sharpened(ask, rough) for rough in objects])
    return objects, best


def sharpened(ask: Ask, rough: dict[str, Any]) -> dict[str, Any]:
    """The object with its outline, path and box as the picture's edges have them."""
    assert ask.image is not None
    return rough | outline(sharpen(ask.image.pixels, rough["polygons"][0]), rough["bbox"])


def _contour_request(context: SkillContext, ask: Ask, seed: Seed, told: bool) -> Request:
    ids = context.config.tokenizer
    centre = (Token(ids.coord_id, coord=seed.x), Token(ids.coord_id, coord=seed.y))
    prompt = context.prompt("segment", centre, ask.text)
    return ask.request(context, prompt, ContourState(ids).length, lambda: ContourState(ids, told))
