"""What a model can be asked; `PLANS` names them."""

from __future__ import annotations

from collections.abc import Callable

from photon.skills.base import Ask, Plan, SkillContext
from photon.skills.detect import detect_plan
from photon.skills.point import point_plan
from photon.skills.segment import segment_plan

__all__ = ["PLANS", "Ask", "SkillContext"]

PLANS: dict[str, Callable[[SkillContext, Ask], Plan]] = {
    "point": point_plan,
    "detect": detect_plan,
    "segment": segment_plan,
}
