"""Free text: one token after the other until eos (docs/model.md 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from photon.core.request import Choice, SkillState, Token
from photon.skills.base import SkillContext
from photon.skills.detokenizer import Detokenizer

_ANYTHING = Choice(None)


class AnswerState(SkillState):
    """`key` names the text in the result; `most` is how many tokens it may have, eos included."""

    def __init__(self, key: str, detokenizer: Detokenizer, eos_id: int, choices: TextChoices, most: int) -> None:
        self._key = key
        self._detokenizer = detokenizer
        self.eos_id = eos_id
        self._choices = choices
        self._left = most
        self._pieces: list[str] = []
        self._told = 0
        self._begun = False

    def choice(self) -> Choice:
        return self._choices.later if self._begun else self._choices.first

    def advance(self, token: Token) -> None:
        self._begun = True
        self._left -= 1
        self.cut = token.id != self.eos_id and self._left == 0
        self.done = token.id == self.eos_id or self.cut
        if token.id != self.eos_id:
            self._say(self._detokenizer.add(token.id))
        if self.done:
            self._say(self._detokenizer.flush())

    def updates(self) -> Sequence[str]:
        new = self._pieces[self._told :]
        self._told = len(self._pieces)
        return new

    def result(self) -> dict[str, Any]:
        self._say(self._detokenizer.flush())
        return {self._key: "".join(self._pieces)}

    def _say(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)


class TextChoices:
    """What a phase of free text may pick: the recorded reference bans nothing in its first token."""

    def __init__(self, context: SkillContext, phase: str, unwanted: Sequence[int]) -> None:
        """`unwanted` ids have no meaning in the phase; beyond them it bans what the model's configuration lists."""
        listed = context.config.tokenizer.suppress.get(phase, [])
        if context.parity:
            self.first, self.later = _ANYTHING, Choice(None, tuple(listed))
        else:
            self.first = self.later = Choice(None, tuple(dict.fromkeys([*listed, *(i for i in unwanted if i >= 0)])))


def answer_choices(context: SkillContext) -> TextChoices:
    """A coordinate or size would not show in the text: without them no value need be decoded."""
    ids = context.config.tokenizer
    return TextChoices(context, "answer", (ids.coord_id, ids.size_id))
