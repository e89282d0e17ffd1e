"""The engine thread: applies messages, ticks, tells callers once a tick; stops cleanly or with a cause."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from photon.core.request import Request
from photon.core.sequence import Sequence
from photon.engine.call import Call
from photon.engine.core import Core
from photon.engine.side_work import SideWorker
from photon.engine.streaming import Mailbox, Outbox
from photon.errors import EngineStoppedError, InvalidRequestError, QueueFullError, RequestCancelledError
from photon.skills.base import Plan

T = TypeVar("T")
_log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 50e-6
"""How soon a waiting thread gets the interpreter: the default of 5 ms would hold up the device's workers."""


_ABANDON_S = 2.0
"""How long a stop waits for the engine's thread after its deadline: to end all calls takes it milliseconds."""


class _SwitchingSoon:
    """Holds the process's switch interval down for as long as any engine runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines, self._before = 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._engines == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL_S)
            self._engines += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._engines -= 1
            if self._engines == 0:
                sys.setswitchinterval(self._before)


_switching_soon = _SwitchingSoon()


class EngineLoop:
    """Other threads call `submit`, `cancel`, `pause`, `resume` and `stop`; everything else runs on the thread."""

    def __init__(
        self,
        core: Core,
        max_waiting: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.core = core
        self.scheduler = core.scheduler
        self.trace = core.trace
        self.clock = clock
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self.outbox = Outbox()
        self._max_waiting = max_waiting
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.side_work = SideWorker(self._inbox.put)
        self._after: deque[Callable[[], None]] = deque()
        self._calls: set[Call] = set()
        self._next_id = 0
        self._refuse: str | None = None
        self._stopping = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="photon-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # -- any thread -----------------------------------------------------------------------------------------------

    def submit(self, plan: Plan, mailbox: Mailbox | None = None) -> Call:
        """Start a call, streamed to `mailbox` if there is one.

        Raises `InvalidRequestError` for what can never run, `EngineStoppedError` when stopped.
        """
        requests = next(plan)
        assert isinstance(requests, list)
        if len(requests) > self._max_waiting:
            raise InvalidRequestError(
                f"This takes {len(requests)} requests at once; the queue has room for {self._max_waiting}."
            )
        for request in requests:
            self.core.admission.refuse_if_impossible(request)
        call = Call(self, plan, mailbox)
        with self._gate:  # nothing is posted after the thread has said its last word
            if self._refuse:
                raise EngineStoppedError(self._refuse)
            self._calls.add(call)
            call.future.add_done_callback(lambda _: self._calls.discard(call))
            self._inbox.put(lambda: self._begin(call, requests))
        return call

    def cancel(self, call: Call) -> None:
        self._inbox.put(call.cancel)

    def notify(self) -> None:
        """A picture has been prepared."""
        self._inbox.put(self.scheduler.prepared)

    def do(self, action: Callable[[], T]) -> T:
        """What `action` returns or raises, done on the engine's thread between two ticks.

        Raises `EngineStoppedError` when stopped.
        """
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except Exception as error:
                done.set_exception(error)

        with self._gate:
            if self._refuse:
                raise EngineStoppedError(self._refuse)
            self._inbox.put(run)
        return done.result()

    def pause(self) -> None:
        """Admit and launch nothing; launched steps finish, rows stay."""
        self._inbox.put(lambda: self._set_paused(True))

    def resume(self) -> None:
        self._inbox.put(lambda: self._set_paused(False))

    def stop(self, deadline_s: float) -> bool:
        """Refuse new calls, finish what runs until the deadline, then fail the rest. Returns whether all is still.

        It is not where the device hangs: the engine's thread then waits for it, for ever perhaps, but no caller does.
        """
        self._close("The engine has been closed.")
        self._inbox.put(self._drain)
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            self._inbox.put(self._abandon)
            self._thread.join(_ABANDON_S)
        self.side_work.close()
        if not self._thread.is_alive():
            return True
        self.failure = f"The device did not answer within {deadline_s + _ABANDON_S:g} s of closing."
        stopped = EngineStoppedError(self.failure)
        for call in tuple(self._calls):
            call.give_up(stopped)
        return False

    @property
    def idle(self) -> bool:
        """Nothing runs, nothing waits and nothing has been asked for."""
        return self._inbox.empty() and self.scheduler.idle and self.side_work.idle

    # -- engine thread --------------------------------------------------------------------------------------------

    def sequence(self, request: Request, call: Call) -> Sequence:
        """Raises `InvalidRequestError` for a later stage's request that could never run: it would stop the queue."""
        self.core.admission.refuse_if_impossible(request)
        self._next_id += 1
        return Sequence(self._next_id, request, request.start(), call)

    def after_tick(self, action: Callable[[], None]) -> None:
        self._after.append(action)

    def _run(self) -> None:
        with _switching_soon:
            try:
                self._loop()
            except BaseException as error:
                self._fail(error)

    def _loop(self) -> None:
        progress = True
        while not (self._stopping and self.scheduler.idle and self.side_work.idle):
            if not progress:
                self._inbox.get()()
            self.apply_messages()
            progress = self.scheduler.tick()
            progress = self._act_on_ends() or progress
            self.outbox.deliver()
            if self.scheduler.idle:
                progress = self.scheduler.when_idle() or progress

    def _act_on_ends(self) -> bool:
        acted = bool(self._after)
        while self._after:
            try:
                self._after.popleft()()
            except Exception:  # the other calls that ended in this tick are to be told too
                _log.exception("A call could not be ended properly.")
        return acted

    def apply_messages(self) -> None:
        """What other threads have asked for since the last tick."""
        while not self._inbox.empty():  # nobody else takes from it
            self._inbox.get_nowait()()

    def _begin(self, call: Call, requests: list[Request]) -> None:
        waiting = self.scheduler.waiting
        if waiting + len(requests) > self._max_waiting:
            call.fail(
                QueueFullError(f"{waiting} requests are waiting already; at most {self._max_waiting} may. Try later.")
            )
            return
        call.future.add_done_callback(lambda future: self._count(future.exception()))
        try:
            call.begin(requests)
        except Exception as error:  # its skill's own
            call.fail(error)

    def _count(self, error: BaseException | None) -> None:
        kind = "done" if error is None else "cancelled" if isinstance(error, RequestCancelledError) else "failed"
        self.counts[kind] += 1

    def _set_paused(self, paused: bool) -> None:
        self.scheduler.paused = paused

    def _drain(self) -> None:
        self._stopping = True
        self.scheduler.paused = False

    def _abandon(self) -> None:
        stopped = EngineStoppedError("The engine was closed before the request finished.")
        self.side_work.abort(stopped)
        self.scheduler.abort(stopped)

    def _close(self, reason: str) -> None:
        with self._gate:
            self._refuse = self._refuse or reason

    def _fail(self, error: BaseException) -> None:
        """The engine ends: whoever waits, and whoever comes, gets the cause."""
        self.failure = str(error) or type(error).__name__
        reason = f"The engine has failed: {self.failure}"
        self._close(reason)
        stopped = EngineStoppedError(reason)
        stopped.__cause__ = error
        self._stopping = True
        while not self._inbox.empty():
            with suppress(Exception):  # one message must not keep the next caller waiting
                self._inbox.get()()
        self._act_on_ends()  # may begin a later stage
        self.side_work.abort(stopped)
        self.scheduler.abort(stopped)
        self._act_on_ends()
        for call in tuple(self._calls):  # whoever was in none of these, because the error came between two of them
            call.fail(stopped)
        self.outbox.deliver()
