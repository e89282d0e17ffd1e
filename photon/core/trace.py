"""Where the time went: one record a step in a bounded ring, and the metrics of one request (docs/engine.md 5)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from photon.core.request import Mode


class StepRecord(NamedTuple):
    """One step. All times are seconds on the device's clock; forward and sampling ran on the compute stream."""

    step: int
    kind: Literal["prefill", "decode"]
    slot: int
    mode: Mode
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
    """The last `size` step records; written by the engine thread, read by any."""

    def __init__(self, size: int, tell: Callable[[StepRecord], None] | None = None) -> None:
        """`tell` is called with each record, on the engine thread."""
        self._tell = tell
        self._records: deque[StepRecord] = deque(maxlen=size)
        self._lock = threading.Lock()

    def add(self, record: StepRecord) -> None:
        with self._lock:
            self._records.append(record)
        if self._tell:
            self._tell(record)

    def since(self, step: int) -> list[StepRecord]:
        """Records with an index of at least `step`, in order."""
        with self._lock:
            return [r for r in self._records if r.step >= step]

    def busy_share(self, start_s: float, end_s: float) -> float:
        """Share of the span in which the compute stream worked, from the records that overlap it."""
        busy = 0.0
        with self._lock:
            for record in reversed(self._records):
                if record.sampling_end_s <= start_s:
                    break
                for a, b in (
                    (record.forward_start_s, record.forward_end_s),
                    (record.sampling_start_s, record.sampling_end_s),
                ):
                    busy += max(0.0, min(b, end_s) - max(a, start_s))
        return busy / (end_s - start_s) if end_s > start_s else 0.0
