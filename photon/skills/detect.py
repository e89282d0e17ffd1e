"""Detect: (coord x, coord y, size) for each object, until eos (docs/model.md 7.2, 7.3)."""

from __future__ import annotations

from typing import Any

from photon.core.request import Choice, Request, SkillState, Token
from photon.models.moondream.config import TokenizerConfig
from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext
from photon.skills.point import score

TOKENS_PER_BOX = 3


class DetectState(SkillState):
    """`most` is how many objects are wanted: with as many the answer is whole."""

    def __init__(self, ids: TokenizerConfig, most: int | None = None) -> None:
        self._eos = ids.eos_id
        self._choices = (
            Choice((ids.coord_id, ids.eos_id)),
            Choice((ids.coord_id,)),
            Choice((ids.size_id,)),
        )
        self._values: list[Token] = []
        self._most = most and most * TOKENS_PER_BOX

    def choice(self) -> Choice:
        return self._choices[len(self._values) % TOKENS_PER_BOX]

    def advance(self, token: Token) -> None:
        if token.id != self._eos:
            self._values.append(token)
        self.done = token.id == self._eos or len(self._values) == self._most

    def result(self) -> dict[str, Any]:
        """Boxes are clipped to the image; an incomplete last one (length limit) is dropped."""
        v = self._values
        return {"objects": [box(*t) | {"score": score(*t)} for t in zip(v[0::3], v[1::3], v[2::3], strict=False)]}


def box(x: Token, y: Token, size: Token) -> dict[str, float]:
    """Centre and size -> corners clipped to 0..1."""
    half_width, half_height = size.width / 2, size.height / 2
    return {
        "x_min": max(0.0, x.coord - half_width),
        "y_min": max(0.0, y.coord - half_height),
        "x_max": min(1.0, x.coord + half_width),
        "y_max": min(1.0, y.coord + half_height),
    }


def detect_request(context: SkillContext, ask: Ask) -> Request:
    ids = context.config.tokenizer
    prompt = context.prompt("detect", ask.refs, " " + ask.text)
    limit = min(ask.objects_limit(TOKENS_PER_BOX), context.room(prompt, ask.image))
    return ask.request(context, prompt, limit, lambda: DetectState(ids, ask.most_objects))


def detect_plan(context: SkillContext, ask: Ask) -> Plan:
    """{"objects": [{"x_min", "y_min", "x_max", "y_max", "score"}]}."""
    (result,) = yield [detect_request(context, ask)]
    return result
