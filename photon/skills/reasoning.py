"""Reasoning before the answer, with points on the picture as its grounds (docs/model.md 6, 7.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from photon.core.request import Choice, SkillState, Token
from photon.models.moondream.config import TokenizerConfig
from photon.skills.base import SkillContext
from photon.skills.detokenizer import Detokenizer
from photon.skills.text import AnswerState, TextChoices


class Thoughts:
    """Text in chunks, divided where grounding begins and ends; the coordinates in a chunk are its points."""

    def __init__(self, ids: TokenizerConfig, detokenizer: Callable[[], Detokenizer]) -> None:
        self._ids = ids
        self._marks = (ids.start_ground_points_id, ids.end_ground_id)
        self._detokenizer = detokenizer
        self._chunks: list[_Chunk] = [_Chunk(detokenizer())]

    def add(self, token: Token) -> None:
        if token.id in self._marks:
            self._chunks.append(_Chunk(self._detokenizer()))
        if token.id == self._ids.coord_id:
            self._chunks[-1].coords.append(token.coord)
        self._chunks[-1].add(token.id)

    def result(self) -> dict[str, Any]:
        """{"text", "grounding": [{"start_idx", "end_idx", "points": [[x, y], ...]}]}; the indices are characters."""
        text, grounding = "", []
        for chunk in self._chunks:
            start, text = len(text), text + chunk.text()
            points = [[x, y] for x, y in zip(chunk.coords[0::2], chunk.coords[1::2], strict=False)]
            if points:
                grounding.append({"start_idx": start, "end_idx": len(text), "points": points})
        return {"text": text, "grounding": grounding}


class _Chunk:
    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._pieces: list[str] = []
        self.coords: list[float] = []

    def add(self, token_id: int) -> None:
        self._pieces.append(self._detokenizer.add(token_id))

    def text(self) -> str:
        self._pieces.append(self._detokenizer.flush())
        return "".join(self._pieces)


class ReasoningState(SkillState):
    """Thoughts, then the ids that lead over to the answer, then the answer. Only the answer is streamed.

    The model ends its thoughts with the first of the ids `between`; else they end at `most` tokens, and at eos if
    `ends_at_eos`. What is still missing of `between` is forced.
    """

    def __init__(
        self,
        thoughts: Thoughts,
        choices: TextChoices,
        between: Sequence[int],
        most: int,
        ends_at_eos: bool,
        answer: AnswerState,
    ) -> None:
        self._thoughts = thoughts
        self._choices = choices
        self._between = list(between)
        self._left = most
        self._eos = answer.eos_id if ends_at_eos else None
        self._answer = answer
        self._begun = False
        self._forced: list[int] | None = None  # None: still thinking

    def choice(self) -> Choice:
        if self._forced is None:
            return self._choices.later if self._begun else self._choices.first
        return Choice((self._forced[0],)) if self._forced else self._answer.choice()

    def advance(self, token: Token) -> None:
        if self._forced is None:
            self._think(token)
        elif self._forced:
            self._forced.pop(0)
        else:
            self._answer.advance(token)
            self.done, self.cut = self._answer.done, self._answer.cut

    def _think(self, token: Token) -> None:
        self._begun = True
        self._left -= 1
        if token.id == self._between[0]:
            self._forced = self._between[1:]
            return
        if token.id != self._eos:
            self._thoughts.add(token)
        if token.id == self._eos or self._left == 0:
            self._forced = self._between[:]

    def updates(self) -> Sequence[str]:
        return self._answer.updates()

    def result(self) -> dict[str, Any]:
        return self._answer.result() | {"reasoning": self._thoughts.result()}


def reasoning_choices(context: SkillContext) -> TextChoices:
    return TextChoices(context, "reasoning", (context.config.tokenizer.size_id,))
