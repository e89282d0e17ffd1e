"""One call's checked arguments, and the requests that its skill makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from photon.core.request import ImageRef, Mode, Request, SkillState, Token
from photon.core.settings import DEFAULT_OBJECTS, DEFAULT_TOKENS, Settings
from photon.models.moondream.lora import Adapter
from photon.skills.base import SkillContext
from photon.skills.logprobs import LoggedState


@dataclass(frozen=True)
class Ask:
    """`text` is the object's name, the question, or how long a caption shall be."""

    skill: str
    text: str
    settings: Settings
    image: ImageRef | None = None
    refs: tuple[Token, ...] = ()
    mode: Mode = "pipelined"
    adapter: Adapter | None = None
    reasoning: bool = False
    stream: bool = False

    @property
    def max_tokens(self) -> int:
        return self.settings.max_tokens or DEFAULT_TOKENS

    @property
    def most_objects(self) -> int:
        return self.settings.max_objects or DEFAULT_OBJECTS

    def objects_limit(self, tokens_per_object: int) -> int:
        """Tokens for as many objects as may be found: no eos is generated after the last one."""
        tokens = tokens_per_object * self.most_objects
        return min(tokens, self.settings.max_tokens or tokens)

    def request(
        self, context: SkillContext, prompt: tuple[Token, ...], limit: int, start: Callable[[], SkillState]
    ) -> Request:
        """One sequence of this call; with log-probabilities in its result if they were asked for."""
        logged = self.settings.logprobs
        return Request(
            prompt=prompt,
            image=self.image,
            limit=limit,
            start=(lambda: LoggedState(start(), context)) if logged else start,
            sampling=self.settings.sampling,
            mode=self.mode,
            adapter=self.adapter,
        )
