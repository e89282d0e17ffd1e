"""One public call on its way: the stages of its plan, its requests, its future, its stream and its cancellation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Protocol

from photon.core.request import Request
from photon.core.result import Metrics, Result
from photon.core.sequence import Sequence
from photon.core.trace import Trace
from photon.engine.side_work import SideWorker
from photon.engine.streaming import End, Mailbox, Outbox
from photon.errors import RequestCancelledError
from photon.scheduler.scheduler import Scheduler
from photon.skills.base import Plan, SideWork, Stage

_log = logging.getLogger(__name__)


class Host(Protocol):
    """What a call needs of the loop that runs it; on the engine thread, but for the scheduler's `queue`."""

    scheduler: Scheduler
    side_work: SideWorker
    outbox: Outbox
    trace: Trace
    clock: Callable[[], float]

    def sequence(self, request: Request, call: Call) -> Sequence:
        """A new sequence that tells `call`. Raises `InvalidRequestError` for a request that could never run."""

    def after_tick(self, action: Callable[[], None]) -> None:
        """Do this when the tick's record is written."""


class Call:
    """Lives on the engine thread, but for `future` and `ahead`. Stages follow each other as their requests end.

    A `mailbox` gets what its skills say while they are at it, and always an `End`.
    """

    def __init__(self, host: Host, plan: Plan, mailbox: Mailbox | None = None) -> None:
        self._host = host
        self._plan = plan
        self._mailbox = mailbox
        self._stage: list[Sequence] = []
        self._results: dict[int, dict[str, Any]] = {}
        self._all: list[Sequence] = []
        self._forget_side_work: Callable[[], None] | None = None
        self._ended: float | None = None
        self.future: Future[Result] = Future()
        self.future.set_running_or_notify_cancel()  # only the engine ends it

    @property
    def started(self) -> bool:
        return bool(self._all)

    def ahead(self) -> int | None:
        """How many requests wait before the first of the call's own that waits; None if none does. On any thread."""
        return next((n for n, waiting in enumerate(self._host.scheduler.queue) if waiting.listener is self), None)

    # -- called by the engine loop --------------------------------------------------------------------------------

    def begin(self, stage: Stage) -> None:
        """Submit the requests of a stage, or start its side work."""
        if isinstance(stage, SideWork):
            self._forget_side_work = self._host.side_work.start(
                stage.work, lambda values, error: self._returned(stage, values, error)
            )
            return
        self._stage = [self._host.sequence(r, self) for r in stage]
        self._all += self._stage
        for sequence in self._stage:
            self._host.scheduler.submit(sequence)

    def cancel(self) -> None:
        """End every request of the call; its identity, cancellation and metrics are one."""
        if self._forget_side_work is not None:
            self._forget_side_work()
            self.fail(RequestCancelledError("The request was cancelled."))
        for sequence in self._stage:
            self._host.scheduler.cancel(sequence)

    def fail(self, error: BaseException) -> None:
        """The caller gets `error`, unless it has its answer. What its plan raises at its end changes nothing more."""
        if self._end_with(error):
            self._post(End(error=error))
        try:
            self._plan.close()
        except Exception:
            _log.exception("A plan failed at its end.")

    def give_up(self, error: BaseException) -> None:
        """`fail` for the thread that closes an engine whose own thread hangs: the plan is left as it is."""
        if self._end_with(error) and self._mailbox is not None:
            self._host.outbox.deliver_now(self._mailbox, End(error=error))

    def _end_with(self, error: BaseException) -> bool:
        """Whether the future had not been done. Two threads may try, so asking first would not do."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return False
        return True

    # -- listener of its sequences --------------------------------------------------------------------------------

    def advanced(self, sequence: Sequence) -> None:
        """Raises what keeps the stream's reader from being told; that fails this sequence alone."""
        if self._mailbox is not None:
            self._tell(sequence, self._mailbox)

    def ended(self, sequence: Sequence, result: dict[str, Any] | None, error: BaseException | None) -> None:
        """Told during a tick; acted on after it, when the tick's record is written."""
        if result is not None and self._mailbox is not None:
            try:
                self._tell(sequence, self._mailbox)
            except Exception as problem:
                result, error = None, problem
        self._host.after_tick(lambda: self._settle(sequence, result, error))

    def _settle(self, sequence: Sequence, result: dict[str, Any] | None, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is not None or result is None:
            self.fail(error or RuntimeError("A request ended without a result."))
            self.cancel()
            return
        self._results[sequence.id] = result
        if len(self._results) < len(self._all):
            return
        try:
            self._go_on([self._results[s.id] for s in self._stage])
        except Exception as problem:
            self.fail(problem)
            self.cancel()

    def _returned(self, stage: SideWork, values: list[dict[str, Any]] | None, error: BaseException | None) -> None:
        """Side work has ended."""
        self._forget_side_work = None
        self._ended = self._host.clock()
        try:
            if values is None:
                raise error or RuntimeError("Side work ended without a result.")
            if self._mailbox is not None:
                for update in stage.updates(values):
                    self._host.outbox.put(self._mailbox, update)
            self._go_on(values)
        except Exception as problem:
            self.fail(problem)

    def _go_on(self, results: list[dict[str, Any]]) -> None:
        """The stage has ended: begin the next one, or answer."""
        try:
            self.begin(self._plan.send(results))
        except StopIteration as answer:
            metrics = metrics_of(self._all, self._host.trace, self._ended)
            done = Result(answer.value, metrics, "length" if any(s.state.cut for s in self._all) else "stop")
            with suppress(InvalidStateError):  # the engine was given up meanwhile
                self.future.set_result(done)
                self._post(End(done))

    # -- its stream -----------------------------------------------------------------------------------------------

    def _tell(self, sequence: Sequence, mailbox: Mailbox) -> None:
        if mailbox.abandoned:
            raise RequestCancelledError("The reader of the stream is gone.")
        for update in sequence.state.updates():
            self._host.outbox.put(mailbox, update)

    def _post(self, end: End) -> None:
        if self._mailbox is not None:
            self._host.outbox.put(self._mailbox, end)


def metrics_of(sequences: SequenceOf[Sequence], trace: Trace, ended: float | None = None) -> Metrics:
    """The call's times: queue and prefill are its first request's, decode lasts until its last token.

    `ended` is when side work came to its end, if any followed; only the total counts it.
    """
    first = sequences[0].times
    end = max(s.times.ended for s in sequences)
    crops_at = max(first.encode_start, first.submitted)
    cut = max(0.0, first.encode_start - max(first.prepare_start, first.submitted))
    encoded = max(0.0, min(first.prepare_end, first.launched) - crops_at)
    return Metrics(
        request_id=sequences[0].id,
        mode=sequences[0].mode,
        preprocess_ms=1e3 * cut,
        encode_ms=1e3 * encoded,
        queue_ms=1e3 * (first.launched - first.submitted - cut - encoded),
        prefill_ms=1e3 * (first.first_token - first.launched),
        time_to_first_token_ms=1e3 * (first.first_token - first.submitted),
        decode_ms=1e3 * (end - first.first_token),
        total_ms=1e3 * (max(end, ended or end) - first.submitted),
        tokens=sum(s.committed for s in sequences),
        steps=sum(s.steps for s in sequences),
        zombie_steps=sum(s.zombie_steps for s in sequences),
        device_busy=trace.busy_share(first.submitted, end),
        requests=tuple(s.id for s in sequences),
        prompt_tokens=sequences[0].base + 1,  # the last of them stands at `base`
    )
