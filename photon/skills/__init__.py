"""What a model can be asked; `PLANS` names them."""

from __future__ import annotations

from collections.abc import Callable

from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext, skills_of
from photon.skills.caption import caption_plan
from photon.skills.detect import detect_plan
from photon.skills.point import point_plan
from photon.skills.query import query_plan
from photon.skills.segment import segment_plan

__all__ = ["PLANS", "Ask", "SkillContext", "skills_of"]

PLANS: dict[str, Callable[[SkillContext, Ask], Plan]] = {
    "point": point_plan,
    "detect": detect_plan,
    "segment": segment_plan,
    "query": query_plan,
    "caption": caption_plan,
}
