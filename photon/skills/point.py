"""Point: (coord x, coord y) for each object, until eos (docs/model.md 7.1, 7.3)."""

from __future__ import annotations

import math
from typing import Any

from photon.core.request import Choice, SkillState, Token
from photon.models.moondream.config import TokenizerConfig
from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext

TOKENS_PER_POINT = 2


class PointState(SkillState):
    """`most` is how many objects are wanted: with as many the answer is whole."""

    def __init__(self, ids: TokenizerConfig, most: int | None = None) -> None:
        self._eos = ids.eos_id
        self._next_or_end = Choice((ids.coord_id, ids.eos_id))
        self._coord = Choice((ids.coord_id,))
        self._values: list[Token] = []
        self._most = most and most * TOKENS_PER_POINT

    def choice(self) -> Choice:
        return self._coord if len(self._values) % TOKENS_PER_POINT else self._next_or_end

    def advance(self, token: Token) -> None:
        if token.id != self._eos:
            self._values.append(token)
        self.done = token.id == self._eos or len(self._values) == self._most

    def result(self) -> dict[str, Any]:
        """A trailing x without its y (length limit) is dropped."""
        pairs = zip(self._values[0::2], self._values[1::2], strict=False)
        return {"points": [{"x": x.coord, "y": y.coord, "score": score(x, y)} for x, y in pairs]}


def score(*tokens: Token) -> float:
    """Product of the probabilities of the tokens' values."""
    return math.exp(sum(t.value_logprob for t in tokens))


def point_plan(context: SkillContext, ask: Ask) -> Plan:
    """{"points": [{"x", "y", "score"}]}."""
    ids = context.config.tokenizer
    prompt = context.prompt("point", ask.refs, " " + ask.text)
    limit = min(ask.objects_limit(TOKENS_PER_POINT), context.room(prompt, ask.image))
    (result,) = yield [ask.request(context, prompt, limit, lambda: PointState(ids, ask.most_objects))]
    return result
