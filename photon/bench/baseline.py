"""The engine against a plain loop: the same weights and operators, one request at a time (see plain.py).

`distinct`: a picture of its own and 5 objects for each request; `shared`: all about one new picture, 2 objects each;
`long`: pictures of their own and 30 tokens before eos. Lengths are fixed, whatever the weights (see fixed.py).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from photon import EngineConfig, Photon
from photon.bench import report
from photon.bench.clients import compared, names, pictures, put, refs
from photon.bench.fixed import fixed_request, single
from photon.bench.plain import PlainLoop
from photon.bench.verdicts import Call, Tokens
from photon.core.request import Mode, Request, Rgb


@dataclass(frozen=True)
class Workload:
    name: str
    objects: int
    shared: bool


WORKLOADS = (Workload("distinct", 5, False), Workload("shared", 2, True), Workload("long", 10, False))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="a name, a folder or a .safetensors file")
    parser.add_argument("--concurrency", type=report.whole_numbers, default=[1, 16], help="callers, like 1,16")
    parser.add_argument("--images", type=Path, help="a folder of pictures; default: the examples and variations")
    parser.add_argument("--requests", type=int, default=16, help="in each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, one after the other in turn")
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)


def run(options: argparse.Namespace) -> dict[str, Any]:
    config = EngineConfig(
        device="cpu", dtype=options.dtype, threads=options.threads, max_batch=max(options.concurrency)
    )
    with Photon.load(options.model, config) as model:
        rgb = pictures(options.images, options.requests)
        rows = [row for workload in WORKLOADS for row in _rows(model, workload, rgb, options)]
        return {**model.describe(), "rows": rows}


def requests(model: Photon, workload: Workload, rgb: list[Rgb], run: str, mode: Mode = "pipelined") -> list[Request]:
    """Those of one run, about pictures that no other run has seen."""
    images, words = refs(rgb, f"{workload.name} {run}"), names(model)
    return [
        fixed_request(
            model.context,
            images[0 if workload.shared else i],
            words[i % len(words)],
            workload.objects,
            mode,
        )
        for i in range(len(rgb))
    ]


def _rows(model: Photon, workload: Workload, rgb: list[Rgb], options: argparse.Namespace) -> list[dict[str, Any]]:
    make = partial(requests, model, workload, rgb)
    seconds: dict[Any, list[float]] = {}
    tokens: dict[Any, list[Tokens]] = {}
    for number in range(options.rounds + 1):
        runs: dict[Any, Callable[[], tuple[float, list[Tokens]]]] = {
            "plain": partial(_plain, model, make(f"plain {number}"), False),
            "caching": partial(_plain, model, make(f"caching {number}"), True),
        }
        for callers in options.concurrency:
            runs[callers] = partial(_engine, model, make(f"{callers} {number}"), callers)
        for kind, one in runs.items():
            took, made = one()
            if number:  # the first round warms up
                seconds.setdefault(kind, []).append(took)
                tokens[kind] = made
    alone: list[Call] = [partial(single, request) for request in make("alone", "blocking")]
    rows = []
    for callers in options.concurrency:
        verdicts = compared(model, tokens["plain"], tokens[callers], alone)
        rows.append(
            {
                "workload": workload.name,
                "concurrency": callers,
                "speedup": round(median(seconds["plain"]) / median(seconds[callers]), 3),
                "speedup_over_caching_loop": round(median(seconds["caching"]) / median(seconds[callers]), 3),
                "requests_per_s": round(len(rgb) / median(seconds[callers]), 2),
                "answers_equal": verdicts.answers_equal,
                "answers": asdict(verdicts),
            }
        )
    return rows


def _plain(model: Photon, asked: list[Request], keep_prefixes: bool) -> tuple[float, list[Tokens]]:
    loop = PlainLoop(model.parts.loaded.model, keep_prefixes)
    start = time.perf_counter()
    tokens = [[loop.generate(request)] for request in asked]
    return time.perf_counter() - start, tokens


def _engine(model: Photon, asked: list[Request], callers: int) -> tuple[float, list[Tokens]]:
    made = put(model, [partial(single, request) for request in asked], callers)
    return made.seconds, made.tokens


def show(found: dict[str, Any]) -> str:
    lines = [
        {**row, "answers": ", ".join(f"{n} {verdict}" for verdict, n in row["answers"].items())}
        for row in found["rows"]
    ]
    about = f"{found['model']} on {found['device']}, {found['dtype']}, {found['threads']} threads"
    return f"{about}; the engine's rate over a one-at-a-time loop's.\n\n{report.table(lines)}"
