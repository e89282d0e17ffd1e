"""photon.core.trace: exact shares of time, whatever the ring holds, at a price that does not grow with it."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from photon.core.trace import StepRecord, Trace


def record(step: int, start_s: float, forward_s: float, gap_s: float, sampling_s: float) -> StepRecord:
    forward, sampling = start_s + forward_s, start_s + forward_s + gap_s + sampling_s
    host = (
        start_s,
        start_s,
        start_s,
        forward,
        forward + gap_s,
        sampling,
        sampling,
        sampling,
        sampling,
        sampling + 1e-4,
    )
    return StepRecord(step, "decode", step % 2, "pipelined", "sure", (1,), 0, 0, 1, *host, forward, forward)


def records(count: int, first: int = 0) -> list[StepRecord]:
    """Steps one after the other, as a stream runs them, with gaps between them and inside."""
    r, found, at = random.Random(3), [], 1.0
    for step in range(first, first + count):
        found.append(record(step, at, r.uniform(1e-3, 4e-3), r.choice((0.0, 1e-3)), r.uniform(1e-4, 3e-4)))
        at = found[-1].sampling_end_s + r.choice((0.0, 0.0, 5e-4))
    return found


def plain_share(all_of_them: list[StepRecord], start_s: float, end_s: float) -> float:
    busy = 0.0
    for one in all_of_them:
        for a, b in ((one.forward_start_s, one.forward_end_s), (one.sampling_start_s, one.sampling_end_s)):
            busy += max(0.0, min(b, end_s) - max(a, start_s))
    return busy / (end_s - start_s)


class Watched(deque[StepRecord]):
    """Counts how many records are looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        self.looks += len(self)
        return super().__iter__()


@pytest.fixture
def full() -> tuple[Trace, list[StepRecord]]:
    """A ring that has forgotten more than it holds."""
    trace, all_of_them = Trace(1024), records(3000)
    for one in all_of_them:
        trace.add(one)
    return trace, all_of_them[-1024:]


def test_the_busy_share_of_a_full_ring_is_the_plain_sum(full: tuple[Trace, list[StepRecord]]) -> None:
    trace, kept = full
    r, first, last = random.Random(5), kept[0].forward_start_s, kept[-1].sampling_end_s
    for _ in range(300):
        start, end = sorted((r.uniform(first, last + 0.1), r.uniform(first, last + 0.1)))
        assert trace.busy_share(start, end) == pytest.approx(plain_share(kept, start, end), abs=1e-9)
    assert trace.busy_share(last, last) == 0.0
    assert Trace(4).busy_share(0.0, 1.0) == 0.0


@pytest.mark.parametrize("ask", ["busy_share", "since", "after", "last"])
def test_a_question_looks_at_few_records(full: tuple[Trace, list[StepRecord]], ask: str) -> None:
    trace, kept = full
    watched = trace.records = Watched(kept, maxlen=1024)
    start, end = kept[-10].sampling_end_s, kept[-1].sampling_end_s
    {
        "busy_share": lambda: trace.busy_share(kept[3].forward_start_s, end),
        "since": lambda: trace.since(kept[-10].step),
        "after": lambda: trace.after(start),
        "last": lambda: trace.last,
    }[ask]()
    assert watched.looks <= 4 * 11 + 4, "more than the logarithm of what the ring holds"


def test_records_are_given_from_an_index_on(full: tuple[Trace, list[StepRecord]]) -> None:
    trace, kept = full
    assert trace.last == kept[-1].step
    assert trace.since(kept[-3].step) == kept[-3:]
    assert trace.since(0) == kept
    assert trace.since(trace.last + 1) == []
    assert trace.after(kept[-4].commit_end_s) == kept[-3:]
    assert Trace(4).since(0) == []
    assert Trace(4).last == -1
