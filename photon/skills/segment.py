"""Segment: the outline of what a name means, as a path, its box and polygons. How depends on what the model spells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from photon.core.result import Result
from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext
from photon.skills.segment_box import box_plan
from photon.skills.segment_contour import Objects, contour_plan
from photon.skills.segment_svg import svg_plan


def segment_plan(context: SkillContext, ask: Ask) -> Plan:
    """{"path", "bbox", "polygons"} of the best object, and "objects", each with these and its "score".

    `path` is in 0..1 of the box, all else in 0..1 of the image; nothing found is an empty path and no bbox. A reader of
    its stream gets {"bbox"}, then {"chunk"} by {"chunk"} the path in that box, then `segment_end`: the same again, or
    sharper where an outline is sharpened in the end.
    """
    plan: Callable[[SkillContext, Ask], Objects] = svg_plan
    if "segment" not in context.config.skills:
        plan = box_plan
    elif context.config.tokenizer.segment_vertices:
        plan = contour_plan
    objects, best = yield from plan(context, ask)
    return segment_answer(objects, best)


def segment_answer(objects: Sequence[dict[str, Any]], best: int) -> dict[str, Any]:
    """The public form; `best` is an index into `objects`."""
    if not objects:
        return {"path": "", "bbox": None, "polygons": [], "objects": []}
    chosen = {key: value for key, value in objects[best].items() if key != "score"}
    return chosen | {"objects": list(objects)}


def segment_end(result: Result) -> dict[str, Any]:
    """The last piece of a stream."""
    return {"path": result["path"], "bbox": result["bbox"], "completed": True}
