"""Detect requests of a fixed length: the values are the model's, but not how many objects it finds.

So a run does the same work whatever the weights, and its answers can still be compared.
"""

from __future__ import annotations

from typing import Any

from photon.models.moondream.config import TokenizerConfig
from photon.request import Choice, ImageRef, Mode, Request, Token
from photon.skills.base import Plan, SkillContext, SkillState
from photon.skills.detect import TOKENS_PER_BOX, DetectState


class FixedObjects(SkillState):
    """A detect state that names `objects` objects and then ends."""

    def __init__(self, ids: TokenizerConfig, objects: int) -> None:
        self._inner = DetectState(ids)
        self._left = TOKENS_PER_BOX * objects
        self._more, self._end = Choice((ids.coord_id,)), Choice((ids.eos_id,))

    def choice(self) -> Choice:
        if self._left == 0:
            return self._end
        return self._inner.choice() if self._left % TOKENS_PER_BOX else self._more

    def advance(self, token: Token) -> None:
        self._left -= 1
        self._inner.advance(token)
        self.done = self._inner.done

    def result(self) -> dict[str, Any]:
        return self._inner.result()


def fixed_request(context: SkillContext, image: ImageRef, name: str, objects: int, mode: Mode) -> Request:
    """It generates 3 tokens an object and eos."""
    ids = context.config.tokenizer
    return Request(
        prompt=context.prompt("detect", (), " " + name),
        image=image,
        limit=TOKENS_PER_BOX * objects + 1,
        start=lambda: FixedObjects(ids, objects),
        mode=mode,
    )


def single(request: Request) -> Plan:
    """A call of one request."""
    results = yield [request]
    return dict(results[0])
