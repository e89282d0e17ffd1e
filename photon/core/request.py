"""What travels between callers and the scheduler: typed tokens, sampling values, image references, requests."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from photon.models.moondream.lora import Adapter

Mode = Literal["pipelined", "blocking"]
Rgb = npt.NDArray[np.uint8]


class Token(NamedTuple):
    """One position of a sequence (docs/model.md 7.3): an id and, for the coordinate and size ids, a value in 0..1.

    `logprob` is the natural log of the probability of the id among the ids allowed; `value_logprob` that of the
    coordinate's bin, or of both size bins together.
    """

    id: int
    coord: float = 0.0
    width: float = 0.0
    height: float = 0.0
    logprob: float = 0.0
    value_logprob: float = 0.0

    @property
    def finite(self) -> bool:
        """False where the model's numbers overflowed: what it computed after that is no number either."""
        return math.isfinite(self.coord + self.width + self.height + self.logprob + self.value_logprob)


class Choice(NamedTuple):
    """What sampling may pick for one row: one of the allowed ids, or (None) any of the vocabulary but the banned ones.

    A coordinate or size id that is picked comes with its value.
    """

    allowed: tuple[int, ...] | None
    banned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """temperature 0 takes the likeliest value; otherwise values are drawn, reproducibly from `seed` alone."""

    temperature: float = 0.0
    top_p: float = 0.3
    seed: int = 0


GREEDY = SamplingParams()


@dataclass(frozen=True, eq=False, slots=True)
class ImageRef:
    """An upright RGB picture and its content key. A weak handle: it pins nothing in the engine."""

    pixels: Rgb  # uint8 [height, width, 3]
    key: bytes

    @classmethod
    def of(cls, pixels: Rgb) -> ImageRef:
        digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(pixels).data)
        return cls(pixels, digest.digest())


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to generate. `start` makes a fresh state of the skill; `limit` counts generated tokens."""

    prompt: tuple[Token, ...]
    image: ImageRef | None
    limit: int
    start: Callable[[], SkillState]
    sampling: SamplingParams = GREEDY
    mode: Mode = "pipelined"
    adapter: Adapter | None = None


class SkillState(ABC):
    """The state of one sequence. `advance` is called once a committed token, in order.

    `cut` says that the answer ended at a limit on its tokens and was to be longer.
    """

    done: bool = False
    cut: bool = False

    @property
    def kind(self) -> str:
        """Answers of one kind tend to end at the same places."""
        return type(self).__name__

    @abstractmethod
    def choice(self) -> Choice:
        """What may come next, from the committed tokens alone."""

    @abstractmethod
    def advance(self, token: Token) -> None:
        """Take a committed token. Sets `done` when no further one is wanted."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """The answer in the public form (docs/architecture.md "Public Python interface"). No token follows."""

    def updates(self) -> Sequence[Any]:
        """What a stream's reader is told: the pieces of the answer that are new since the last call."""
        return ()
