"""`PHOTON_LOG=tick`: one line a step on stderr, for whoever wants to see what a running engine does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from photon.core.trace import StepRecord
from photon.errors import InvalidRequestError

VARIABLE = "PHOTON_LOG"

Tell = Callable[[StepRecord], None]


def tick_log() -> Tell | None:
    """What prints a step's line, if the environment asks for it. Raises `InvalidRequestError` for other values."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "tick"):
        raise InvalidRequestError(f"{VARIABLE} is {wanted!r}; allowed is tick.")
    return _print if wanted else None


def line(record: StepRecord) -> str:
    """Host times in microseconds: launch, the wait for the step's copy, commit without it, finalize."""
    launch = record.launch_end_s - record.launch_start_s
    commit = record.commit_end_s - record.commit_start_s - record.waited_s
    finalize = record.finalize_end_s - record.finalize_start_s
    return (
        f"step {record.step} {record.kind} {record.why} "
        f"rows {len(record.requests)} slot {record.slot} zombies {record.zombies} | "
        f"launch {launch * 1e6:.0f} wait {record.waited_s * 1e6:.0f} commit {commit * 1e6:.0f} "
        f"finalize {finalize * 1e6:.0f} us"
    )


def _print(record: StepRecord) -> None:
    print(line(record), file=sys.stderr, flush=True)
