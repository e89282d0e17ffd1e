"""One request on its way through the scheduler, and one launched step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from photon.core.request import Mode, Request, SkillState
from photon.memory.prefix_cache import Prefix


class Listener(Protocol):
    """Where a sequence's end and progress are told; called on the engine thread and must not block."""

    def advanced(self, sequence: Sequence) -> None:
        """A token was committed and the sequence goes on."""

    def ended(self, sequence: Sequence, result: dict[str, Any] | None, error: BaseException | None) -> None:
        """Called exactly once: with a result, or with the error that ended it."""


class Phase(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True)
class Times:
    """Seconds on the device's clock; 0 means not reached."""

    submitted: float = 0.0
    prepare_start: float = 0.0
    encode_start: float = 0.0
    prepare_end: float = 0.0
    launched: float = 0.0
    first_token: float = 0.0
    ended: float = 0.0


@dataclass(eq=False, slots=True)
class Sequence:
    """Generated tokens are counted twice: `launched` asked of the device, `committed` read and taken by the state.

    The token that is fed after `launched` tokens stands at position `base + launched`. `finalized` means that the
    result is out; the row, its pages and its adapter slot stay until no launched step holds it (`inflight_refs` 0).
    `end_chance` is how likely the token in flight ends the answer: 0 while none is, or where its list holds no eos.
    `tainted` means that its pages may hold values that are no numbers; they are cleared before another has them.
    """

    id: int
    request: Request
    state: SkillState
    listener: Listener
    phase: Phase = Phase.WAITING
    row: int = -1
    base: int = 0
    pages: list[int] = field(default_factory=list)
    adapter_slot: int = 0
    loads_adapter: bool = False
    prefix: Prefix | None = None
    leads: bool = False
    launched: int = 0
    committed: int = 0
    inflight_refs: int = 0
    finalized: bool = False
    end_chance: float = 0.0
    decision: Any = None
    decisions: Any = None
    """Where the scheduler learns how this kind of answer ends: for the token in flight, and for all places."""
    tainted: bool = False
    zombie_steps: int = 0
    times: Times = field(default_factory=Times)

    @property
    def mode(self) -> Mode:
        return self.request.mode

    @property
    def steps(self) -> int:
        """Launched steps that it was part of, zombie or not: each asked for one token."""
        return self.launched

    @property
    def wants_launch(self) -> bool:
        """Limits are never overrun: committed + in flight stays within the limit (docs/engine.md "Zombies")."""
        return not self.finalized and 0 < self.launched < self.request.limit
