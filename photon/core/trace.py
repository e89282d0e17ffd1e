"""Where the time went: one record a step in a bounded ring, and the metrics of one request (docs/engine.md 5)."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from photon.core.request import Mode

Kind = Literal["prefill", "decode"]
Why = Literal["idle", "sure", "likely", "read", "blocking"]
"""Why a step was launched when it was (photon/scheduler/launching.py).

idle: the device had nothing to do. sure: some of its rows were sure to want it. likely: all of its rows may have ended,
which was unlikely enough. read: an earlier launch was not expected to pay, so the step before was read first. blocking:
as every step of blocking mode, after the step before was read.
"""


class StepRecord(NamedTuple):
    """One step. All times are seconds on the device's clock; forward and sampling ran on the compute stream."""

    step: int
    kind: Kind
    slot: int
    mode: Mode
    why: Why
    requests: tuple[int, ...]
    zombies: int
    crops: int
    tokens: int
    launch_start_s: float
    launch_end_s: float
    forward_start_s: float
    forward_end_s: float
    sampling_start_s: float
    sampling_end_s: float
    copy_start_s: float
    copy_end_s: float
    commit_start_s: float
    commit_end_s: float
    finalize_start_s: float
    finalize_end_s: float

    @property
    def busy_s(self) -> float:
        """Time in which the compute stream worked on this step."""
        return self.forward_end_s - self.forward_start_s + self.sampling_end_s - self.sampling_start_s

    @property
    def host_s(self) -> float:
        """The host's bookkeeping: launch, finalize and commit, without its wait for the copy."""
        return (
            self.launch_end_s
            - self.launch_start_s
            + self.finalize_end_s
            - self.finalize_start_s
            + self.commit_end_s
            - self.commit_start_s
            - self.waited_s
        )

    @property
    def waited_s(self) -> float:
        """How long the commit waited for the step's copy."""
        return min(max(self.copy_end_s, self.commit_start_s), self.commit_end_s) - self.commit_start_s


class Trace:
    """The last `size` step records, in launch order; written by the engine thread, read by any.

    What is asked of it costs the same however much it holds: it is asked on the engine thread and on event loops.
    """

    def __init__(self, size: int, tell: Callable[[StepRecord], None] | None = None) -> None:
        """`tell` is called with each record, on the engine thread."""
        self._tell = tell
        self.records: deque[StepRecord] = deque(maxlen=size)
        self._busy: deque[float] = deque(maxlen=size)
        """The compute stream's work up to the end of each record, in seconds since the start."""
        self._total_s = 0.0
        self._lock = threading.Lock()

    def add(self, record: StepRecord) -> None:
        with self._lock:
            self.records.append(record)
            self._total_s += record.busy_s
            self._busy.append(self._total_s)
        if self._tell:
            self._tell(record)

    @property
    def last(self) -> int:
        """The index of the latest record; -1 before the first."""
        with self._lock:
            return self.records[-1].step if self.records else -1

    def since(self, step: int) -> list[StepRecord]:
        """Records with an index of at least `step`, in order."""
        with self._lock:
            count = self.records[-1].step - step + 1 if self.records else 0
            count = min(max(count, 0), len(self.records))  # indices follow each other
            return [self.records[i] for i in range(-count, 0)]

    def after(self, time_s: float) -> list[StepRecord]:
        """Records that were committed after a time, in order."""
        with self._lock:
            first = bisect_right(self.records, time_s, key=_committed)
            return [self.records[i] for i in range(first - len(self.records), 0)]

    def busy_share(self, start_s: float, end_s: float) -> float:
        """Share of the span in which the compute stream worked, from the records that overlap it."""
        if end_s <= start_s:
            return 0.0
        with self._lock:
            busy = self._busy_until(end_s) - self._busy_until(start_s) if self.records else 0.0
        return busy / (end_s - start_s)

    def _busy_until(self, time_s: float) -> float:
        """Work of the compute stream before a time; its steps follow each other, so that one at most is cut by it."""
        i = bisect_right(self.records, time_s, key=_ended)
        if i == len(self.records):
            return self._busy[-1]
        cut = self.records[i]
        before = self._busy[i] - cut.busy_s
        forward = min(time_s, cut.forward_end_s) - cut.forward_start_s
        sampling = min(time_s, cut.sampling_end_s) - cut.sampling_start_s
        return before + max(0.0, forward) + max(0.0, sampling)


def _committed(record: StepRecord) -> float:
    return record.commit_end_s


def _ended(record: StepRecord) -> float:
    return record.sampling_end_s
