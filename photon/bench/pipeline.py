"""What pipelining gains on a modelled accelerator, and what a tick costs the host.

Two loads: `own` is this engine's bookkeeping as it is measured here; `original` is the bookkeeping published for the
original engine, with ours left out of both periods, so that the gain can be set beside the published one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from photon.bench.modelled import HostCosts, ModelledRequest, Run, run_streams
from photon.bench.report import table as as_table
from photon.bench.report import whole_numbers
from photon.core.request import Mode
from photon.core.trace import StepRecord
from photon.devices.pace_table import OutsideTableError, PaceTable
from photon.devices.paced import GivenClock, HostClock, MeasuredClock
from photon.skills.detect import TOKENS_PER_BOX

MODES: tuple[Mode, Mode] = ("blocking", "pipelined")
STEADY_TOKENS = 148
"""Long enough that a run is mostly steps in which every row decodes."""
DEFAULT_TOKENS = 115
"""Of an answer, where none is published."""
WINDOW = 10
"""Steps that a share of busy time is taken over."""
BOOKKEEPING_TARGETS_US = {1: 30, 8: 60, 32: 150}
PERIOD_TARGET = 1.005
"""Times forward + sampling."""
BUSY_TARGET = 0.995
GAIN_TARGETS = {"b200": {1: 0.175, 8: 0.219, 32: 0.385}}


def blocking_period(
    forward: float, sampling: float, copy: float, launch: float, commit: float, finalize: float
) -> float:
    """Launch, sample, wait, commit: the allow-lists are made while the step's own forward runs.

    With F + Z instead of max(F, Z) this is the design's F + S + copy + C + Z + L, which it never exceeds (engine 1).
    """
    return launch + max(forward, finalize) + sampling + copy + commit


def pipelined_period(
    forward: float, sampling: float, copy: float, launch: float, commit: float, finalize: float
) -> float:
    """The longest of the cycles that a step waits for, each over the steps that it spans.

    The device works without a pause; the host works without a pause; sampling waits for the allow-lists, which wait
    for the copy of the sampling before; a forward waits for its launch, which waits for the values of the forward
    before the last. While launch <= sampling this is the design's max(F + S, copy + C + Z + max(S, L)), and never
    more than that (engine 1).
    """
    return max(
        forward + sampling,
        launch + commit + finalize,
        sampling + copy + commit + finalize,
        (forward + sampling + copy + commit + finalize + launch) / 2,
    )


@dataclass(frozen=True)
class Steady:
    """Medians over the ticks in which all rows decode, in seconds; `own` is all host work of a tick but its wait."""

    period: float
    own: float
    launch: float
    commit: float
    finalize: float
    busy: float

    @property
    def costs(self) -> HostCosts:
        """What is outside the three phases lies between two launches and counts with the second."""
        return HostCosts(self.own - self.commit - self.finalize, self.commit, self.finalize)


def steady(run: Run, rows: int) -> Steady:
    """Raises `ValueError` if the run has no steady part."""
    triples = zip(run.steps, run.steps[1:], run.steps[2:], strict=False)
    ticks = [_tick(*steps) for steps in triples if _full(steps, rows)]
    windows = (run.steps[i : i + WINDOW] for i in range(len(run.steps) - WINDOW + 1))
    shares = [_busy(window) for window in windows if _full(window, rows)]
    if not shares:
        raise ValueError(f"The run of {len(run.steps)} steps has no steady part with {rows} rows.")
    period, own, launch, commit, finalize = (median(values) for values in zip(*ticks, strict=True))
    return Steady(period, own, launch, commit, finalize, median(shares))


def _full(steps: Sequence[StepRecord], rows: int) -> bool:
    return all(s.kind == "decode" and len(s.requests) == rows and not s.zombies for s in steps)


def _tick(before: StepRecord, step: StepRecord, after: StepRecord) -> tuple[float, float, float, float, float]:
    """The tick that launched `step`: it committed the step before, or in blocking mode the step itself."""
    committed = before if step.mode == "pipelined" else step
    period = after.launch_start_s - step.launch_start_s
    arrived = max(committed.copy_end_s, committed.commit_start_s)
    return (
        period,
        period - (arrived - committed.commit_start_s),
        step.launch_end_s - step.launch_start_s,
        committed.commit_end_s - arrived,
        step.finalize_end_s - step.finalize_start_s,
    )


def _busy(steps: list[StepRecord]) -> float:
    """From one sampling's end to the last: whole periods only."""
    worked = sum(s.busy_s for s in steps[1:])
    return worked / (steps[-1].sampling_end_s - steps[0].sampling_end_s)


# -- one row of the report ----------------------------------------------------------------------------------------


def answer_lengths(mean: int, count: int) -> list[int]:
    """Lengths around `mean` that detect answers can have, the same every time."""
    objects = round((mean - 1) / TOKENS_PER_BOX)
    return [TOKENS_PER_BOX * (objects + offset) + 1 for offset in ((i * 7) % 11 - 5 for i in range(count))]


def whole(streams: int, requests: int, mean: int, mode: Mode, new_pictures: bool) -> list[list[ModelledRequest]]:
    """`requests` questions for every stream: all about one picture, or each about its own."""
    lengths = answer_lengths(mean, streams * requests)
    asks = [ModelledRequest(length, i if new_pictures else 0, mode) for i, length in enumerate(lengths)]
    return [asks[i::streams] for i in range(streams)]


def measure(table: PaceTable, streams: int, requests: int, repeats: int) -> list[dict[str, Any]]:
    """The rows `own` and, where it is published, `original`."""
    own = {
        mode: min((_steady(table, streams, mode, MeasuredClock()) for _ in range(repeats)), key=_own) for mode in MODES
    }
    rows = [_row(table, streams, "own", own, own["pipelined"].costs, requests)]
    if streams in table.published:
        costs = HostCosts(commit_s=table.published[streams]["hidden_ms"] / 1e3)
        given = {mode: _steady(table, streams, mode, GivenClock(), costs) for mode in MODES}
        rows.append(_row(table, streams, "original", given, costs, requests))
    return rows


def _steady(table: PaceTable, streams: int, mode: Mode, clock: HostClock, costs: HostCosts | None = None) -> Steady:
    return steady(run_streams(table.key, clock, [[ModelledRequest(STEADY_TOKENS, 0, mode)]] * streams, costs), streams)


def _own(found: Steady) -> float:
    return found.own


def _row(
    table: PaceTable, streams: int, load: str, best: dict[Mode, Steady], costs: HostCosts, requests: int
) -> dict[str, Any]:
    """End-to-end runs are given the steady medians as costs: a busy machine's pauses would drown what they compare."""
    blocking, pipelined = (best[mode] for mode in MODES)
    device = table.forward_s(streams) + table.sampling_s(streams)
    tokens = table.published[streams]["tokens"] if streams in table.published else DEFAULT_TOKENS
    runs = {
        (mode, new): run_streams(table.key, GivenClock(), whole(streams, requests, tokens, mode, new), costs)
        for mode in MODES
        for new in (False, True)
    }
    gains = {new: runs["blocking", new].seconds / runs["pipelined", new].seconds - 1 for new in (False, True)}
    return {
        "device": f"paced:{table.key}",
        "streams": streams,
        "load": load,
        "forward_ms": 1e3 * table.forward_s(streams),
        "sampling_ms": 1e3 * table.sampling_s(streams),
        "bookkeeping_us": round(1e6 * pipelined.own, 1),
        "blocking_period_ms": round(1e3 * blocking.period, 4),
        "pipelined_period_ms": round(1e3 * pipelined.period, 4),
        "gain": round(blocking.period / pipelined.period - 1, 4),
        "end_to_end_gain": round(gains[False], 4),
        "end_to_end_gain_new_pictures": round(gains[True], 4),
        "device_busy": round(pipelined.busy, 5),
        "residual_gap_ms": round(1e3 * (pipelined.period - device), 4),
        "wasted_row_steps": runs["pipelined", False].wasted_row_steps,
        "row_steps": runs["pipelined", False].row_steps,
        "host_us": {part: round(1e6 * getattr(pipelined, part), 1) for part in ("launch", "commit", "finalize")},
        "hides": bool(
            table.copy_s + pipelined.commit + pipelined.finalize <= 0.9 * table.forward_s(streams)
            and pipelined.launch <= table.sampling_s(streams)
        ),
    }


# -- the command --------------------------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="paced:b200", help="paced:b200 or paced:3090 (modelled)")
    parser.add_argument("--streams", type=whole_numbers, default=[1, 8, 32], help="concurrent requests, like 1,8,32")
    parser.add_argument("--requests", type=int, default=4, help="requests a stream, in the end-to-end runs")
    parser.add_argument("--repeats", type=int, default=5, help="measured runs of each kind; the best counts")


def run(options: argparse.Namespace) -> dict[str, Any]:
    if not options.device.startswith("paced:"):
        raise OutsideTableError(f"The device {options.device!r} has no table; allowed is paced:ACCELERATOR.")
    table = PaceTable.load(options.device.removeprefix("paced:"))
    rows = [row for n in options.streams for row in measure(table, n, options.requests, options.repeats)]
    return {
        "modelled": True,
        "accelerator": table.name,
        "rows": rows,
        "published": list(table.published.values()),
        "targets": {
            "bookkeeping_us": BOOKKEEPING_TARGETS_US,
            "period_over_device_time": PERIOD_TARGET,
            "device_busy": BUSY_TARGET,
            "steady_gain": GAIN_TARGETS,
        },
    }


def show(report: dict[str, Any]) -> str:
    published = {p["streams"]: p for p in report["published"]}
    own = [_own_line(row) for row in report["rows"] if row["load"] == "own"]
    original = [_original_line(row, published[row["streams"]]) for row in report["rows"] if row["load"] == "original"]
    parts = [
        f"{report['accelerator']}: modelled times (photon/devices/paced.json), the host's work is this machine's.",
        "This engine's own bookkeeping (measured; targets after the sign)\n" + as_table(own),
    ]
    if original:
        parts.append("The original's bookkeeping instead of ours (published in brackets)\n" + as_table(original))
    return "\n\n".join(parts)


def _own_line(row: dict[str, Any]) -> dict[str, str]:
    rows, host = row["streams"], row["host_us"]
    device = row["forward_ms"] + row["sampling_ms"]
    return {
        "rows": str(rows),
        "host us/tick": _beside(row["bookkeeping_us"], "<=", BOOKKEEPING_TARGETS_US.get(rows), ".1f"),
        "launch+commit+finalize": f"{host['launch']:.0f} + {host['commit']:.0f} + {host['finalize']:.0f}",
        "blocking ms": f"{row['blocking_period_ms']:.3f}",
        "pipelined ms": _beside(row["pipelined_period_ms"], "<=", PERIOD_TARGET * device, ".3f"),
        "busy %": _beside(100 * row["device_busy"], ">=", 100 * BUSY_TARGET, ".2f"),
        "gain %": f"{100 * row['gain']:.1f}",
        "end to end %": f"{100 * row['end_to_end_gain']:.1f}",
        "wasted row-steps": f"{row['wasted_row_steps']} of {row['row_steps']}",
        "hides all": "yes" if row["hides"] else "no",
    }


def _original_line(row: dict[str, Any], published: dict[str, Any]) -> dict[str, str]:
    rows = row["streams"]
    target = GAIN_TARGETS.get(row["device"].removeprefix("paced:"), {}).get(rows)
    return {
        "rows": str(rows),
        "host us": f"{row['bookkeeping_us']:.0f}",
        "blocking ms": f"{row['blocking_period_ms']:.3f} ({published['blocking_ms']:.2f})",
        "pipelined ms": f"{row['pipelined_period_ms']:.3f} ({published['pipelined_ms']:.2f})",
        "gain %": _beside(100 * row["gain"], ">=", target and 100 * target, ".1f"),
        "published %": f"{100 * (published['blocking_ms'] / published['pipelined_ms'] - 1):.1f}",
        "end to end %": f"{100 * row['end_to_end_gain']:.1f}",
        "new pictures %": f"{100 * row['end_to_end_gain_new_pictures']:.1f}",
        "published end to end %": f"{100 * published['gain_seen']:.1f}",
    }


def _beside(value: float, sign: str, target: float | None, form: str) -> str:
    return f"{value:{form}}" if target is None else f"{value:{form}} {sign} {target:{form}}"
