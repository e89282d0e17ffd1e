"""Log-probabilities on request: `settings={"logprobs": True}` adds them to the result of any skill.

`result["logprobs"]` has one entry a generated token: {"id", "text", "logprob"}, the natural log of the id's probability
among the ids that were allowed, before temperature and top-p. A coordinate or size adds "value_logprob", that of its
bin, or of both bins of a size together. Where a call has several sequences (contours), each object carries its own.
"""

from __future__ import annotations

from typing import Any

from photon.core.request import SkillState, Token
from photon.skills.base import RecordedState, SkillContext


class LoggedState(RecordedState):
    """Another state, whose result it extends."""

    def __init__(self, inner: SkillState, context: SkillContext) -> None:
        super().__init__(inner, [])
        self._decode = context.tokenizer.decode
        ids = context.config.tokenizer
        self._valued = (ids.coord_id, ids.size_id)

    def result(self) -> dict[str, Any]:
        return super().result() | {"logprobs": [self._entry(token) for token in self.tokens]}

    def _entry(self, token: Token) -> dict[str, Any]:
        entry = {"id": token.id, "text": self._decode([token.id]), "logprob": token.logprob}
        return entry | ({"value_logprob": token.value_logprob} if token.id in self._valued else {})
