"""`python -m photon.bench NAME [--json] ...`: with --json the last line is one JSON object, without it a table."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any, Protocol

from photon.errors import PhotonError

BENCHMARKS = {
    "pipeline": "a modelled accelerator: what pipelining gains, and what a tick costs the host",
    "load": "a generated checkpoint: how much memory loading takes beside the model",
    "page": "the web page in a headless Chromium: click to painted answer, painting, memory",
    "model": "the bundled model: how long a person waits, its size and loading time, beside targets",
    "requests": "whole requests through the engine on this machine, pipelined and blocking",
    "modes": "pipelined over blocking by skill, callers, known and new pictures: here or on a modelled accelerator",
    "plan": "a modelled accelerator: how many requests one or several would serve",
    "baseline": "the engine against a plain loop with the same weights and operators",
    "prefix": "several questions about one picture",
    "start": "the application: seconds from its start to the first answer",
    "cuda": "a GPU machine: checks, periods, whole requests, kernels and memory, in one run by the clock",
    "load-held": "many visitors at once for some minutes: answered, refused, failed, and all back at rest",
    "scale": "what one more of anything costs: callers, tokens, objects, pixels, requests",
}


class Benchmark(Protocol):
    """What each module here offers."""

    def arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        """The report: what --json prints."""

    def show(self, report: dict[str, Any]) -> str:
        """The report for a reader."""

    # Where it has `broken(report)`, a report for which that holds makes the exit code 1.


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m photon.bench", description="Benchmarks of the engine.")
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, about in BENCHMARKS.items():
        sub = names.add_parser(name, help=about, description=about)
        sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        _load(name).arguments(sub)
    options = parser.parse_args(argv)
    benchmark = _load(options.name)
    try:
        report = benchmark.run(options)
    except PhotonError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(report) if options.json else benchmark.show(report))
    return int(getattr(benchmark, "broken", lambda _: False)(report))


def _load(name: str) -> Benchmark:
    module: Benchmark = importlib.import_module(f"photon.bench.{name.replace('-', '_')}")
    return module


if __name__ == "__main__":
    sys.exit(main())
