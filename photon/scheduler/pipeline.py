"""The pipeline as a pure state machine: two slots, launch order is commit order, at most two steps in flight.

No device, no model and no clock: a reader can run it in a notebook. A step goes

    planned --launch--> launched --finalize--> sampled --commit--> committed

and its slot is free again only when commit has read the step's host buffers (docs/engine.md 3, 1 and 2).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from photon.core.step import SLOTS, PipelineStep, StepState
from photon.errors import PhotonError


class PipelineError(PhotonError):
    """The scheduler broke the pipeline's contract."""


Step = TypeVar("Step", bound=PipelineStep)


class Pipeline(Generic[Step]):
    """Hands out slots, keeps the order and counts references."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._free = [True] * SLOTS
        self._next_index = 0
        self._next_slot = 0

    @property
    def launches(self) -> int:
        """How many there have been."""
        return self._next_index

    @property
    def in_flight(self) -> int:
        return len(self._steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """In launch order."""
        return tuple(self._steps)

    @property
    def oldest(self) -> Step | None:
        return self._steps[0] if self._steps else None

    def can_launch(self) -> bool:
        return self._free[self._next_slot] and all(s.state is StepState.SAMPLED for s in self._steps)

    def launch(self, step: Step) -> None:
        """Give the step the next slot. Every step before must have been sampled: its values feed this one."""
        if step.state is not StepState.PLANNED or not self.can_launch():
            raise PipelineError(f"Launch {self._next_index} found slot {self._next_slot} in use or a step unsampled.")
        step.index, step.slot, step.state = self._next_index, self._next_slot, StepState.LAUNCHED
        self._free[step.slot] = False
        self._next_index += 1
        self._next_slot = (step.slot + 1) % SLOTS
        self._steps.append(step)
        self._hold(step, +1)

    def finalize(self, step: Step) -> None:
        """The step's sampling is enqueued. All steps before it must be committed: allow-lists depend on them."""
        if self.oldest is not step or step.state is not StepState.LAUNCHED:
            raise PipelineError(f"Step {step.index} was sampled before the steps before it were committed.")
        step.state = StepState.SAMPLED

    def commit(self, step: Step) -> None:
        """The step's values are read: its slot and its references go back."""
        if self.oldest is not step or step.state is not StepState.SAMPLED:
            raise PipelineError(f"Step {step.index} was committed out of order or before it was sampled.")
        step.state = StepState.COMMITTED
        self._steps.popleft()
        self._free[step.slot] = True
        self._hold(step, -1)

    def _hold(self, step: PipelineStep, change: int) -> None:
        """The one place where references change."""
        for item in step.sequences:
            item.inflight_refs += change
            if not 0 <= item.inflight_refs <= SLOTS:
                raise PipelineError(f"inflight_refs became {item.inflight_refs}; allowed is 0..{SLOTS}.")
