"""What pipelining would gain on a GPU: an accelerator's modelled times, this server's measured bookkeeping.

The engine runs for it once more, in a process of its own and at a lower priority, so that visitors are not held up;
once at a time in the whole server, and its report is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from app.paths import ROOT

log = logging.getLogger(__name__)

ACCELERATORS = ("b200", "3090")
LIMIT_S = 120.0  # for one accelerator
NICE = 10
OPTIONS = ("--requests", "1", "--repeats", "3", "--json")
LEAVES_OUT = (
    "Left out are reading and cutting pictures, HTTP, what it costs to hand work to a real GPU, other work on this "
    "server's cores, and the memory of the GPU."
)

Report = dict[str, Any]


class GainsError(RuntimeError):
    """The measurement gave no report; the sentence says why."""


class Gains:
    """One report for all visitors, made when the first asks for it."""

    def __init__(self, measure: Callable[[str], Awaitable[Report]] | None = None) -> None:
        self._measure = measure or measured
        self._work: asyncio.Task[Report] | None = None

    def asked(self) -> asyncio.Task[Report]:
        """The measurement that is going on or has ended well, else a new one; to be waited for, not cancelled."""
        if self._work is None or (self._work.done() and (self._work.cancelled() or self._work.exception())):
            self._work = asyncio.create_task(self._all())
        return self._work

    async def _all(self) -> Report:
        """Raises GainsError."""
        return {"accelerators": [shown(await self._measure(key)) for key in ACCELERATORS], "note": LEAVES_OUT}


async def measured(accelerator: str, limit_s: float = LIMIT_S) -> Report:
    """The report of `python -m photon.bench pipeline`. Raises GainsError when it takes too long or fails."""
    command = ("-m", "photon.bench", "pipeline", "--device", f"paced:{accelerator}", *OPTIONS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        with contextlib.suppress(OSError):  # it may have ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        out, err = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        raise GainsError(f"The measurement did not end within {limit_s:g} s; the server may be busy.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # until its pipes are closed
    if process.returncode:
        log.error("the measurement for %s failed: %s", accelerator, err.decode("utf-8", "replace")[-2000:])
        raise GainsError("The measurement failed on the server; its log says why.")
    report: Report = json.loads(out.splitlines()[-1])
    return report


def shown(report: Report) -> Report:
    """What the page draws of a report: a row for each number of requests that decode together.

    Times are milliseconds, bookkeeping is microseconds a step, gains are shares. `original` is the same with the
    bookkeeping that was published for the original engine in place of this server's.
    """
    rows = []
    for own in (row for row in report["rows"] if row["load"] == "own"):
        original = next((r for r in report["rows"] if r["load"] == "original" and r["streams"] == own["streams"]), None)
        rows.append(
            {
                "together": own["streams"],
                "device_ms": own["forward_ms"] + own["sampling_ms"],
                "own": _periods(own),
                "original": original and _periods(original),
            }
        )
    return {"name": report["accelerator"], "rows": rows}


def _periods(row: Report) -> Report:
    return {
        "bookkeeping_us": row["bookkeeping_us"],
        "off_ms": row["blocking_period_ms"],
        "on_ms": row["pipelined_period_ms"],
        "gain": row["gain"],
    }
