"""One launched step: whom it holds, what it carries, where it stands."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from photon.core.request import Mode
from photon.core.sequence import Sequence
from photon.core.trace import Kind, Why

SLOTS = 2


class Held(Protocol):
    """Anything that launched steps hold on to."""

    inflight_refs: int


class StepState(Enum):
    PLANNED = "planned"
    LAUNCHED = "launched"
    SAMPLED = "sampled"
    COMMITTED = "committed"


@dataclass(eq=False)
class PipelineStep:
    """One launch: whom it holds and, once launched, its place in the order and its slot."""

    kind: Kind
    sequences: SequenceOf[Held]
    index: int = field(default=-1, init=False)
    slot: int = field(default=-1, init=False)
    state: StepState = field(default=StepState.PLANNED, init=False)


@dataclass(eq=False)
class Step(PipelineStep):
    """A launch with what it carries and when its parts happened on the host (seconds)."""

    sequences: list[Sequence]
    mode: Mode
    why: Why
    leaders: list[Sequence] = field(default_factory=list)
    crops: list[Any] = field(default_factory=list)
    tokens: int = 0
    zombies: int = 0
    last: int = 0
    """Rows that have no further token, since this one reaches their limit."""
    overflowed: bool = False
    """Whether a value that it brought is no number."""
    error: BaseException | None = None
    launch: tuple[float, float] = (0.0, 0.0)
    finalize: tuple[float, float] = (0.0, 0.0)
