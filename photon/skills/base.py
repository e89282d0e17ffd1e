"""A skill owns its prompt, its per-token state, its allow-lists and its result; it knows nothing of batching."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from photon.core.request import Choice, ImageRef, Request, SkillState, Token
from photon.errors import InvalidRequestError, UnsupportedSkillError
from photon.masks import Masks
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.tokenizer import Tokenizer
from photon.models.vocabulary import Vocabulary
from photon.skills.detokenizer import Detokenizer


@dataclass(frozen=True)
class SideWork:
    """A stage that is not the engine's: `work` runs on a thread of its own, and the plan gets the values it returns.

    `updates` makes of them what a stream's reader is told.
    """

    work: Callable[[], list[dict[str, Any]]]
    updates: Callable[[list[dict[str, Any]]], Sequence[Any]] = lambda _: ()


Stage = list[Request] | SideWork

Plan = Generator[Stage, list[dict[str, Any]], dict[str, Any]]
"""One public call: yields its stages, gets the results of each in order, returns the answer. The first is requests."""

OBJECT_SKILLS = ("point", "detect", "segment")
TEXT_SKILLS = {"query": "answer", "caption": "caption"}
"""And the key of a result under which their text stands."""
SKILLS = (*OBJECT_SKILLS, *TEXT_SKILLS)


def skills_of(config: MoondreamConfig) -> tuple[str, ...]:
    """What a model can be asked: its own skills, and segment by a second model where it can only detect."""
    own = {*config.skills, *(("segment",) if "detect" in config.skills else ())}
    return tuple(skill for skill in SKILLS if skill in own)


class RecordedState(SkillState):
    """Another state, and in `tokens` the tokens that it was given."""

    def __init__(self, inner: SkillState, tokens: list[Token]) -> None:
        self._inner = inner
        self.tokens = tokens

    @property
    def kind(self) -> str:
        return self._inner.kind

    def choice(self) -> Choice:
        return self._inner.choice()

    def advance(self, token: Token) -> None:
        self.tokens.append(token)
        self._inner.advance(token)
        self.done, self.cut = self._inner.done, self._inner.cut

    def updates(self) -> Sequence[Any]:
        return self._inner.updates()

    def result(self) -> dict[str, Any]:
        return self._inner.result()


@dataclass(frozen=True)
class SkillContext:
    """What skills know of the loaded model. `parity` follows the recorded reference (docs/model.md 10).

    `masks` outlines what a box holds, for models that do not segment by themselves.
    """

    model: str
    config: MoondreamConfig
    tokenizer: Tokenizer
    vocabulary: Vocabulary | None
    parity: bool = False
    masks: Masks | None = None

    def require(self, skill: str) -> None:
        """Raises `UnsupportedSkillError` if the model was not trained for the skill and nothing else here does it."""
        if missing := self._missing(skill):
            raise UnsupportedSkillError(missing)

    @property
    def skills(self) -> tuple[str, ...]:
        """Those of `skills_of` that work on this machine."""
        return tuple(skill for skill in skills_of(self.config) if not self._missing(skill))

    def _missing(self, skill: str) -> str | None:
        """Why the skill does not work here, in a sentence."""
        if skill in self.config.skills:
            return None
        if skill not in skills_of(self.config) or self.masks is None:
            return f"The model {self.model} cannot {skill}; it can {', '.join(self.config.skills)}."
        return self.masks.missing()

    def name(self, text: Any) -> str:
        """The object's name as the model knows it. Raises `InvalidRequestError` for what is not a name."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequestError("The object's name is empty; say what to look for, for example 'cat'.")
        return self.vocabulary.resolve(text) if self.vocabulary else text.strip()

    def prompt(self, skill: str, refs: Sequence[Token], text: str, suffix: str = "suffix") -> tuple[Token, ...]:
        """The typed tokens after BOS and image (docs/model.md 6)."""
        template = self.config.tokenizer.templates[skill]
        ids = self.tokenizer.encode(text)
        return (
            *(Token(i) for i in template["prefix"]),
            *refs,
            *(Token(i) for i in ids),
            *(Token(i) for i in template[suffix]),
        )

    def room(self, prompt: Sequence[Token], image: ImageRef | None) -> int:
        """How many tokens the model's context leaves for an answer. At least 1: admission says what does not fit."""
        return max(1, self.config.text.max_context - len(prompt) - (self.config.prefix_len if image else 0))

    def detokenizer(self) -> Detokenizer:
        """For one sequence. Special ids have no text, but the recorded reference spells them out."""
        return Detokenizer(self.tokenizer.decode, () if self.parity else self._special_ids, self._texts)

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        ids = self.config.tokenizer
        named = (
            ids.bos_id,
            ids.eos_id,
            ids.answer_id,
            ids.thinking_id,
            ids.coord_id,
            ids.size_id,
            ids.start_ground_points_id,
            ids.end_ground_id,
        )
        return self.tokenizer.special_ids.union(i for i in named if i >= 0)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {}
