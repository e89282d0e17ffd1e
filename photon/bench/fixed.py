"""Point and detect requests of a fixed length: the values are the model's, but not how many objects it finds.

So a run does the same work whatever the weights, and its answers can still be compared.
"""

from __future__ import annotations

from typing import Any, Literal

from photon.core.request import Choice, ImageRef, Mode, Request, SkillState, Token
from photon.models.moondream.config import TokenizerConfig
from photon.skills.base import Plan, SkillContext
from photon.skills.detect import TOKENS_PER_BOX, DetectState
from photon.skills.point import TOKENS_PER_POINT, PointState

Skill = Literal["point", "detect"]
TOKENS = {"point": TOKENS_PER_POINT, "detect": TOKENS_PER_BOX}


class FixedObjects(SkillState):
    """A state of `skill` that names `objects` objects and then ends."""

    def __init__(self, ids: TokenizerConfig, objects: int, skill: Skill = "detect") -> None:
        self._inner: SkillState = DetectState(ids) if skill == "detect" else PointState(ids)
        self._each = TOKENS[skill]
        self._left = self._each * objects
        self._more, self._end = Choice((ids.coord_id,)), Choice((ids.eos_id,))

    def choice(self) -> Choice:
        if self._left == 0:
            return self._end
        return self._inner.choice() if self._left % self._each else self._more

    def advance(self, token: Token) -> None:
        self._left -= 1
        self._inner.advance(token)
        self.done = self._inner.done

    def result(self) -> dict[str, Any]:
        return self._inner.result()


def fixed_request(
    context: SkillContext, image: ImageRef, name: str, objects: int, mode: Mode, skill: Skill = "detect"
) -> Request:
    """It generates 3 tokens an object (2 a point) and eos."""
    ids = context.config.tokenizer
    return Request(
        prompt=context.prompt(skill, (), " " + name),
        image=image,
        limit=TOKENS[skill] * objects + 1,
        start=lambda: FixedObjects(ids, objects, skill),
        mode=mode,
    )


def single(request: Request) -> Plan:
    """A call of one request."""
    results = yield [request]
    return dict(results[0])
