"""How many requests accelerators of a kind would serve: modelled times, this host's measured bookkeeping.

Requests go round the mix; every one brings a new picture. As many callers as `--callers` times the batch setting ask
again as soon as they are answered.
"""

from __future__ import annotations

import argparse
from typing import Any

from photon.bench.modelled import HostCosts, ModelledRequest, TextState, run_streams
from photon.bench.pipeline import STEADY_TOKENS, steady
from photon.bench.report import BenchmarkError, percentile, whole_numbers
from photon.bench.report import table as as_table
from photon.devices.pace_table import PaceTable
from photon.devices.paced import GivenClock, MeasuredClock

PUBLISHED_MIX = (("query", 3),)
"""What the published figures were taken with; the table's vision times are derived from the same figures."""
DEFAULT_MIX = (("query", 3), ("point", 5), ("detect", 7), ("query", 30), ("caption", 115))
LEAVES_OUT = (
    "decoding, resizing and cutting pictures, HTTP and the network",
    "the host's cost of enqueueing on a real accelerator, and other work on the host's cores",
    "memory: batches are as large as asked, whatever the accelerator holds",
    "prompts and contexts of other lengths than those of the published figures",
)


def _mix(text: str) -> tuple[tuple[str, int], ...]:
    """`query=3,caption=115` -> (("query", 3), ("caption", 115))."""
    parts = [part.partition("=") for part in text.split(",")]
    if not all(skill and tokens.isdigit() and int(tokens) for skill, _, tokens in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be used; allowed are skills with tokens, like query=3,detect=7."
        )
    return tuple((skill, int(tokens)) for skill, _, tokens in parts)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", default="b200", help=f"one of {', '.join(PaceTable.names())} (modelled)")
    parser.add_argument("--replicas", type=int, default=1, help="accelerators, each with an engine of its own")
    parser.add_argument("--batch", type=whole_numbers, default=[1, 4, 16], help="rows that decode at once, like 1,4,16")
    parser.add_argument("--mix", type=_mix, default=DEFAULT_MIX, help="skills and tokens, like query=3,detect=7")
    parser.add_argument("--callers", type=int, default=2, help="callers for each row")
    parser.add_argument("--requests", type=int, default=12, help="of each caller")


def run(options: argparse.Namespace) -> dict[str, Any]:
    if options.replicas < 1 or options.callers < 1 or options.requests < 1:
        raise BenchmarkError("Replicas, callers and requests are whole numbers from 1.")
    table = PaceTable.load(options.gpu)
    rows = []
    for batch in options.batch:
        costs, share = _bookkeeping(table, batch)
        for mix in dict.fromkeys((PUBLISHED_MIX, options.mix)):
            rows.append(_row(table, batch, mix, costs, share, options))
    return {"modelled": True, "accelerator": table.name, "rows": rows, "leaves_out": LEAVES_OUT}


def _bookkeeping(table: PaceTable, batch: int) -> tuple[HostCosts, float]:
    """This host's, as the best of three runs, and its share of a steady period."""
    streams = [[ModelledRequest(STEADY_TOKENS, 0, "pipelined")]] * batch
    found = min(
        (steady(run_streams(table.key, MeasuredClock(), streams), batch) for _ in range(3)), key=lambda s: s.own
    )
    return found.costs, found.own / found.period


def _row(
    table: PaceTable, batch: int, mix: tuple[tuple[str, int], ...], costs: HostCosts, share: float, options: Any
) -> dict[str, Any]:
    callers = options.callers * batch
    asks = [ModelledRequest(mix[i % len(mix)][1], i, "pipelined", TextState) for i in range(callers * options.requests)]
    run = run_streams(table.key, GivenClock(), [asks[i::callers] for i in range(callers)], costs, rows=batch)
    latencies = [m.total_ms for m in run.requests]
    published = {p["batch"]: p for p in table.published_requests} if mix == PUBLISHED_MIX else {}
    figures = published.get(batch, {})
    return {
        "gpu": table.key,
        "replicas": options.replicas,
        "batch": batch,
        "mix": ",".join(f"{skill}={tokens}" for skill, tokens in mix),
        "callers": options.replicas * callers,
        "requests_per_s": round(options.replicas * len(asks) / run.seconds, 2),
        "p50_ms": round(percentile(latencies, 0.5), 2),
        "p95_ms": round(percentile(latencies, 0.95), 2),
        "published_requests_per_s": figures.get("requests_per_s"),
        "published_p50_ms": figures.get("p50_ms"),
        "host_us_per_tick": round(1e6 * costs.total_s, 1),
        "host_cores": round(options.replicas * share, 3),
    }


def show(report: dict[str, Any]) -> str:
    lines = [
        {
            "batch": row["batch"],
            "mix": row["mix"],
            "callers": row["callers"],
            "requests/s": f"{row['requests_per_s']:.1f}",
            "published, one GPU": row["published_requests_per_s"],
            "P50 ms": f"{row['p50_ms']:.1f}",
            "published P50": row["published_p50_ms"],
            "P95 ms": f"{row['p95_ms']:.1f}",
            "host us/tick": row["host_us_per_tick"],
            "host cores": row["host_cores"],
        }
        for row in report["rows"]
    ]
    replicas = report["rows"][0]["replicas"]
    about = (
        f"{replicas} x {report['accelerator']}: modelled, not measured. Vision times were derived from the published"
    )
    left_out = "\n".join(f"- {what}" for what in report["leaves_out"])
    return f"{about} rates for query=3.\n\n{as_table(lines)}\n\nLeft out:\n{left_out}"
