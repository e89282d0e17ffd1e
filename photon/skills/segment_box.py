"""Segment for models that can only detect: each detected box prompts a second model for the mask of what it holds.

Spatial references choose among the detected objects: of those around a reference's centre, the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from photon.masks import Box
from photon.masks.outlines import outlines
from photon.skills.ask import Ask
from photon.skills.base import SideWork, SkillContext
from photon.skills.detect import detect_request
from photon.skills.outline import outline
from photon.skills.segment_contour import Objects, referenced


def box_plan(context: SkillContext, ask: Ask) -> Objects:
    """The best object is the one detected most surely, or that of the first reference."""
    (detected,) = yield [detect_request(context, replace(ask, refs=()))]
    centres = [(seed.x, seed.y) for seed in referenced(ask.refs, context.config.tokenizer)]
    found = chosen(detected["objects"], centres) if centres else detected["objects"]
    if not found:
        return [], 0
    best = 0 if centres else max(range(len(found)), key=lambda i: float(found[i]["score"]))
    objects = yield SideWork(lambda: outlined(context, ask, found), lambda made: _pieces(made[best]))
    return objects, best


def chosen(objects: Sequence[Box], centres: Sequence[tuple[float, float]]) -> list[Box]:
    """For each centre the smallest object around it, if there is one; none twice."""
    picked: list[Box] = []
    for x, y in centres:
        around = [o for o in objects if o["x_min"] <= x <= o["x_max"] and o["y_min"] <= y <= o["y_max"]]
        smallest = min(around, key=lambda o: (o["x_max"] - o["x_min"]) * (o["y_max"] - o["y_min"]), default=None)
        if smallest is not None and smallest not in picked:
            picked.append(smallest)
    return picked


def outlined(context: SkillContext, ask: Ask, found: Sequence[Box]) -> list[dict[str, Any]]:
    """{"bbox", "path", "polygons", "score"} of each; a box with an empty mask stays, without an outline."""
    assert context.masks is not None
    assert ask.image is not None
    masks = context.masks.masks(ask.image.pixels, found)
    return [outline(outlines(mask), box) | {"score": box["score"]} for box, mask in zip(found, masks, strict=True)]


def _pieces(best: dict[str, Any]) -> list[dict[str, Any]]:
    """What a stream's reader is told: the whole outline is there at once."""
    return [{"bbox": best["bbox"]}, *([{"chunk": best["path"]}] if best["path"] else [])]
