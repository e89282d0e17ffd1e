"""The tick: launch, commit, finalize.

Pipelined and blocking stand under each other in `tick`; their difference is the whole idea. All state changes on the
engine thread; other threads send it messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from photon.core.request import Choice, Mode, Token
from photon.core.sequence import Phase, Sequence
from photon.core.step import Step
from photon.core.trace import StepRecord, Trace, Why
from photon.errors import DeviceError, NonFiniteError, PhotonError, RequestCancelledError
from photon.runtime.runner import Runner
from photon.scheduler.admission import NOBODY, Admission
from photon.scheduler.launching import View, kind_of, launch_now
from photon.scheduler.outlook import Outlook
from photon.scheduler.pipeline import Pipeline
from photon.scheduler.preparation import Preparation
from photon.scheduler.reservations import Reservations

_log = logging.getLogger(__name__)


class Scheduler:
    """Runs requests on a device, a tick at a time. Requests come by `submit` and end by their listener's `ended`."""

    def __init__(
        self,
        runner: Runner,
        admission: Admission,
        preparation: Preparation,
        reservations: Reservations,
        trace: Trace,
        clock: Callable[[], float],
        eos_id: int,
    ) -> None:
        self._runner = runner
        self._admission = admission
        self._preparation = preparation
        self._reservations = reservations
        self._trace = trace
        self._clock = clock
        self._zombie = Choice((eos_id,))
        self.outlook = Outlook(eos_id)
        self.launch_now = launch_now
        """Decides when, never what is answered: any function will do."""
        self.pipeline: Pipeline[Step] = Pipeline()
        self.running: list[Sequence] = []
        self.mode: Mode = "pipelined"
        self.paused = False
        self._after_prefill = False
        self._held_back = False
        """Whether the last tick could have launched and read the step in flight instead."""

    # -- the tick -------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Do what can be done now; False if only a message can bring more."""
        step = self._launch()
        if self.mode == "pipelined":
            committed = self._commit(before=step)  # while the device runs `step`
            self._finalize(step)
            if step is not None and self._is_read_first(step):
                self._commit()
        else:
            self._finalize(step)
            committed = self._commit()  # the device waits for us meanwhile
        return step is not None or committed

    def _launch(self) -> Step | None:
        if self.paused or not self.pipeline.can_launch():
            return None
        start = self._clock()
        self._admission.prepare_ahead(self._fail)
        step = self._plan()
        if step is None:
            return None
        self.pipeline.launch(step)
        self._after_prefill = step.kind == "prefill"
        self._runner.launch(step)
        for sequence in step.sequences:
            sequence.launched += 1
            step.last += sequence.launched == sequence.request.limit
        step.launch = (start, self._clock())
        return step

    def _plan(self) -> Step | None:
        """A prefill or a decode; None if nothing can be launched, or is not worth it before the step in flight is read.

        See photon/scheduler/launching.py.
        """
        rows = [s for s in self.running if s.wants_launch]
        unread = self.pipeline.oldest
        if unread is not None:
            return self._plan_early(rows, unread)
        why: Why = "read" if self._held_back else "idle"
        self._held_back = False
        if not (rows and self._after_prefill) and (step := self._plan_prefill(len(rows), why)):
            return step
        return self._decode(rows, why) if rows else None

    def _plan_early(self, rows: list[Sequence], unread: Step) -> Step | None:
        waiting = self._admission.waiting
        if not rows and not waiting:
            return None
        if not waiting and self.outlook.undoubted(rows, unread):
            return self._decode(rows, "sure")
        in_line = self._admission.in_line(self.mode, len(rows)) if waiting else NOBODY
        view = self.outlook.view(rows, unread, in_line, self._after_prefill, self._clock())
        if kind_of(view) == "prefill":
            if self._holds_back(view):
                return None
            if step := self._plan_prefill(len(rows), "sure"):
                return step
            view = view._replace(ready=0)  # the cache has no room
        if not rows or self._holds_back(view):
            return None
        return self._decode(rows, "sure" if view.sure else "likely")

    def _decode(self, rows: list[Sequence], why: Why) -> Step:
        return Step("decode", rows, self.mode, why if self.mode == "pipelined" else "blocking")

    def _is_read_first(self, step: Step) -> bool:
        """Whether it is known already that nothing will be launched before `step` is read."""
        self._held_back = not self.outlook.may_pay(len(self.running))
        return self._held_back

    def _holds_back(self, view: View) -> bool:
        self._held_back = not self.launch_now(view)
        return self._held_back

    def _plan_prefill(self, decoding: int, why: Why) -> Step | None:
        if not self._admission.waiting:
            return None
        occupied = bool(self.running) or self.pipeline.in_flight > 0
        batch = self._admission.next_batch(self.mode if occupied else None, decoding)
        if not batch:
            return None
        self.running += batch
        for sequence in batch:
            sequence.phase = Phase.RUNNING
            self._admission.remove(sequence)
        self.mode = batch[0].mode
        step = Step("prefill", batch, self.mode, why if self.mode == "pipelined" else "blocking")
        for sequence in batch:
            sequence.times.launched = self._clock()
            self._runner.seat(sequence)
            if sequence.leads:
                self._lead(step, sequence)
        return step

    def _lead(self, step: Step, sequence: Sequence) -> None:
        assert sequence.request.image is not None
        job = self._preparation.find(sequence.request.image.key)
        assert job is not None
        times = sequence.times
        times.prepare_start, times.encode_start, times.prepare_end = job.start_s, job.crops_s, job.end_s
        step.leaders.append(sequence)
        step.crops.append(job.crops)

    def _finalize(self, step: Step | None) -> None:
        """All steps before are committed, so every state is known: allow-lists, sampling, scatter, copy."""
        if step is None:
            return
        start = self._clock()
        choices = [self._choice(s) for s in step.sequences]
        step.zombies = sum(s.finalized for s in step.sequences)
        self._runner.sample(step, choices)
        self.pipeline.finalize(step)
        step.finalize = (start, self._clock())

    def _choice(self, sequence: Sequence) -> Choice:
        if not sequence.finalized:
            try:
                choice = sequence.state.choice()
                self._runner.check(choice)
                self.outlook.decides(sequence, choice)
                return choice
            except Exception as error:
                self._fail(sequence, error)
        sequence.zombie_steps += 1
        return self._zombie

    def _commit(self, before: Step | None = None) -> bool:
        """Read the oldest step and advance its rows, unless it is `before` itself. Waits for its copy only."""
        step = self.pipeline.oldest
        if step is None or step is before:
            return False
        start = self._clock()
        tokens: list[Token] | None = None
        try:
            tokens = self._runner.collect(step)
        except DeviceError:
            raise  # the device is lost, and the engine with it
        except Exception as error:
            step.error = error
        arrived = self._clock()
        self._taint(step, tokens)
        if step.kind == "prefill":
            self._reservations.settle(step)
            if step.leaders:
                self._admission.stale()
        for i, sequence in enumerate(step.sequences):
            if sequence.finalized:
                continue
            if step.error is not None or tokens is None:
                self._fail(sequence, step.error or PhotonError("A step brought no values."))
            else:
                self._advance(sequence, tokens[i], arrived, step.overflowed)
        self.pipeline.commit(step)
        for sequence in step.sequences:
            if sequence.finalized:
                self._release_if_unheld(sequence)
        self._record(step, start)
        return True

    def _taint(self, step: Step, tokens: list[Token] | None) -> None:
        """Mark the rows, ended or not, whose values are no numbers: whoever gets their pages next would spread them.

        A step that failed may have left anything, and nobody has seen its values.
        """
        if tokens is not None and not step.overflowed:
            return
        for i, sequence in enumerate(step.sequences):
            if tokens is None or not tokens[i].finite:
                sequence.tainted = True
                if sequence in step.leaders and sequence.prefix:
                    self._runner.clear(sequence.prefix.pages)

    # -- one row --------------------------------------------------------------------------------------------------

    def _advance(self, sequence: Sequence, token: Token, now: float, overflowed: bool) -> None:
        """An error here is the row's own: its skill's or its listener's."""
        try:
            if overflowed and not token.finite:
                raise NonFiniteError(
                    f"Token {sequence.committed + 1} of the answer is no number: the model overflowed."
                )
            self.outlook.saw(sequence, token)
            sequence.committed += 1
            if sequence.committed == 1:
                sequence.times.first_token = now
            sequence.state.advance(token)
            if sequence.state.done or sequence.committed == sequence.request.limit:
                sequence.state.cut |= not sequence.state.done
                self._end(sequence, sequence.state.result(), None)
            else:
                sequence.listener.advanced(sequence)
        except Exception as error:
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: BaseException) -> None:
        self._end(sequence, None, error)

    def _end(self, sequence: Sequence, result: dict[str, Any] | None, error: BaseException | None) -> None:
        """The result is out at once; what launched steps still hold goes back when they are committed."""
        if sequence.finalized:
            return
        sequence.finalized = True
        sequence.times.ended = self._clock()
        self.outlook.answered(sequence.times.ended, self.pipeline.launches)
        try:
            sequence.listener.ended(sequence, result, error)
        except Exception:  # nobody is left to be told, and the others go on
            _log.exception("The listener of request %d failed at its end.", sequence.id)
        if sequence.phase is Phase.WAITING:
            self._admission.remove(sequence)
            sequence.phase = Phase.ENDED
        else:
            self._release_if_unheld(sequence)

    def _release_if_unheld(self, sequence: Sequence) -> None:
        """Row, pages, prefix and adapter go back once no launched step may use them any more."""
        if not sequence.finalized or sequence.inflight_refs or sequence.phase is not Phase.RUNNING:
            return
        sequence.phase = Phase.ENDED
        self.running.remove(sequence)
        if sequence.tainted:
            self._runner.clear(sequence.pages)
        self._reservations.release(sequence)

    # -- messages -------------------------------------------------------------------------------------------------

    def submit(self, sequence: Sequence) -> None:
        sequence.times.submitted = self._clock()
        self.outlook.asked(self.pipeline.launches)
        self._admission.add(sequence)

    def prepared(self) -> None:
        """Some picture's crops are there, or could not be made."""
        self._admission.stale()

    def cancel(self, sequence: Sequence) -> None:
        """In any phase, any number of times, also after the end."""
        self._end(sequence, None, RequestCancelledError("The request was cancelled."))

    def abort(self, error: BaseException) -> None:
        """End every request with `error`, also where the accounts are in disorder: that may be why."""
        for sequence in [*self._admission.waiting, *self.running]:
            with suppress(Exception):
                self._end(sequence, None, error)

    # -- accounts -------------------------------------------------------------------------------------------------

    @property
    def queue(self) -> tuple[Sequence, ...]:
        """Who waits, in order, as it is now; on any thread."""
        return tuple(self._admission.waiting)

    @property
    def waiting(self) -> int:
        return len(self._admission.waiting)

    @property
    def waiting_for(self) -> str | None:
        """What the head of the queue waits for: "mode change" until all rows of the current mode have ended."""
        if not self._admission.waiting:
            return None
        return "mode change" if self._admission.closed_for else "room"

    @property
    def idle(self) -> bool:
        return not self.running and not self._admission.waiting and not self.pipeline.in_flight

    def when_idle(self) -> bool:
        """Check the accounts, and do one piece of work that would hold rows up. False if there is none."""
        self.check_integrity()
        return self._runner.capture_missing()

    def check_integrity(self) -> None:
        """Every row and page has one owner, free + cached = total at idle. Raises `OwnershipError` otherwise."""
        self._reservations.check(self.running)

    def _record(self, step: Step, commit_start: float) -> None:
        slot = self._runner.slots[step.slot]
        record = StepRecord(
            step.index,
            step.kind,
            step.slot,
            step.mode,
            step.why,
            tuple(s.id for s in step.sequences),
            step.zombies,
            len(step.crops),
            step.tokens or len(step.sequences),
            *step.launch,
            slot.forward_start.time_s,
            slot.forward_end.time_s,
            slot.sampling_start.time_s,
            slot.step_done.time_s,
            slot.copy_start.time_s,
            slot.copy_done.time_s,
            commit_start,
            self._clock(),
            *step.finalize,
        )
        self._trace.add(record)
        self.outlook.took(record)
