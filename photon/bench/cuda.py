"""One prepared run on a GPU machine: what a CUDA device does to the engine, within a budget by the clock.

Weights are random, in the public models' true shapes. Every part is guarded: one that fails leaves its error in the
report and the others go on. `results.json` and `results.txt` in the output folder are written anew after each part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from photon.bench import gpu_checks as checks
from photon.bench import gpu_defaults as defaults
from photon.bench import gpu_parts as parts
from photon.bench.generated import SHAPES, generated, shape_of
from photon.bench.gpu_engine import Bench, Rows
from photon.bench.report import BenchmarkError, table, whole_numbers
from photon.devices.pace_table import PaceTable

CONTEXT = 1024
"""Positions that a request may have here: the public models allow more, which would only be captured and never used."""

PARTS: tuple[tuple[str, Callable[[Bench], Rows], float], ...] = (
    ("attention backends against the plain one", checks.backends, 2.0),
    ("tokens equal to blocking", checks.equality, 20.0),
    ("host runs ahead of a stalled device", checks.running_ahead, 5.0),
    ("staging poisoned", checks.poisoning, 5.0),
    ("sync-debug mode: error", checks.silence, 5.0),
    ("periods", parts.periods, 20.0),
    ("forward over the bytes it must read", parts.floor, 15.0),
    ("no allocation after warm-up", parts.allocations, 10.0),
    ("kernels", parts.kernels, 15.0),
    ("defaults and page sizes", defaults.defaults, 40.0),
    ("held up on the default stream", defaults.settled, 15.0),
    ("rare moments", defaults.rare_moments, 20.0),
    ("waits", defaults.waits, 30.0),
    ("schedules", defaults.schedules, 60.0),
    ("whole requests", parts.whole_requests, 60.0),
)
"""Name, part, and the seconds that must be left for it to begin. What needs several engines comes last."""


class Budget:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left_s(self) -> float:
        return self._end - time.monotonic()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=8.0, help="parts that do not fit any more are left out")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for results.json and results.txt")
    parser.add_argument("--smoke", action="store_true", help="about a minute: one model, few rows, short answers")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="small shapes of the same form, to try the script itself")
    parser.add_argument("--models", default=",".join(SHAPES), help=f"some of {', '.join(SHAPES)}")
    parser.add_argument("--rows", type=whole_numbers, default=[1, 8, 32, 64], help="rows that decode, like 1,8,32,64")
    parser.add_argument("--tokens", type=int, default=60, help="of an answer in the steady runs")
    parser.add_argument("--batches", type=whole_numbers, default=[1, 4, 16, 64], help="settings for whole requests")
    parser.add_argument("--page-size", type=int, help="default: what the engine chooses")


def run(options: argparse.Namespace) -> dict[str, Any]:
    names = options.models.split(",")
    if unknown := [name for name in names if name not in SHAPES]:
        raise BenchmarkError(f"There are no shapes of {unknown[0]!r}; allowed are {', '.join(SHAPES)}.")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise BenchmarkError("There is no CUDA device on this machine; --device cpu --tiny tries the script itself.")
    if options.smoke:
        options.minutes, options.rows, options.tokens = min(options.minutes, 1.0), [1, 8], 24
        names, options.batches = names[:1], [1, 4]
    options.out.mkdir(parents=True, exist_ok=True)
    budget = Budget(60 * options.minutes)
    found: dict[str, Any] = {"machine": machine(options), "published": published(), "models": {}}
    for number, name in enumerate(names):
        share = budget.left_s() / (len(names) - number)
        rows: dict[str, Any] = {}
        found["models"][name] = rows
        _model(name, options, Budget(share), rows, lambda: write(options.out, found))
    write(options.out, found)
    return found


def machine(options: argparse.Namespace) -> dict[str, Any]:
    cuda = options.device == "cuda"
    properties = torch.cuda.get_device_properties(0) if cuda else None
    return {
        "device": properties.name if properties else "cpu",
        "memory_gb": round(properties.total_memory / 1e9, 1) if properties else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "weights": "random, tiny shapes" if options.tiny else "random, public shapes",
        "context": CONTEXT,
        "smoke": options.smoke,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def published() -> dict[str, Any]:
    """Periods and whole requests, as the pace table gives them with their sources."""
    tables = {key: PaceTable.load(key) for key in PaceTable.names()}
    return {
        "periods": {key: list(found.published.values()) for key, found in tables.items()},
        "requests": {
            **{key: found.published_requests for key, found in tables.items() if found.published_requests},
            "h100": H100,
        },
    }


H100 = [
    {"batch": 1, "requests_per_s": 42, "p50_ms": 36.7},
    {"batch": 4, "requests_per_s": 51},
    {"batch": 16, "requests_per_s": 55},
    {"batch": 64, "requests_per_s": 57},
]
"""Published for moondream2 on an H100, one image and about 3 tokens a request; more than one request is in flight."""


def _model(
    name: str, options: argparse.Namespace, budget: Budget, found: dict[str, Any], written: Callable[[], None]
) -> None:
    """All parts of one model; its memory is given back at the end."""
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    began = time.monotonic()
    try:
        config = shape_of(name, CONTEXT, options.tiny)
        loaded = generated(name, config, torch.device(options.device), dtype)
    except Exception as error:
        found["weights"] = failed(error)
        written()
        return
    bench = Bench(
        loaded, options.device, dtype, options.rows, options.tokens, options.batches, budget.left_s, options.page_size
    )
    weights = sum(p.numel() * p.element_size() for p in loaded.model.parameters())
    size = {"gigabytes": weights / 1e9}
    found["weights"] = {"seconds": round(time.monotonic() - began, 1), "rows": [size]}
    try:
        for title, part, needs in PARTS:
            found[title] = _part(bench, part, needs / 10 if options.tiny or options.smoke else needs, budget)
            written()
    finally:
        bench.close()
        del bench, loaded
        if options.device == "cuda":
            torch.cuda.empty_cache()


def _part(bench: Bench, part: Callable[[Bench], Rows], needs: float, budget: Budget) -> dict[str, Any]:
    if budget.left_s() < needs:
        return {"left_out": f"{budget.left_s():.0f} s were left; it needs about {needs:.0f}"}
    began = time.monotonic()
    try:
        rows = part(bench)
    except Exception as error:
        return failed(error)
    return {"seconds": round(time.monotonic() - began, 1), "rows": rows}


def failed(error: Exception) -> dict[str, Any]:
    return {"failed": f"{type(error).__name__}: {error}"[:500], "where": traceback.format_exc().splitlines()[-12:]}


def write(folder: Path, found: dict[str, Any]) -> None:
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (folder / "results.txt").write_text(show(found) + "\n", "utf-8")


def show(found: dict[str, Any]) -> str:
    about = ", ".join(f"{key} {value}" for key, value in found["machine"].items() if value is not None)
    blocks = [about]
    for name, model in found["models"].items():
        for title, part in model.items():
            blocks.append(f"{name}: {title}{_outcome(part)}")
    for gpu, rows in found["published"]["periods"].items():
        blocks.append(f"published for moondream2 on {gpu}: periods\n{_lines(rows)}")
    for gpu, rows in found["published"]["requests"].items():
        blocks.append(f"published for moondream2 on {gpu}: whole requests of about 3 tokens\n{_lines(rows)}")
    return "\n\n".join(blocks)


def _lines(rows: list[dict[str, Any]]) -> str:
    """`rows` may have different keys."""
    keys = dict.fromkeys(key for row in rows for key in row if key != "source")
    return table([{key: row.get(key) for key in keys} for row in rows])


def _outcome(part: dict[str, Any]) -> str:
    if "failed" in part:
        return f": failed\n{part['failed']}"
    if "left_out" in part:
        return f": left out, {part['left_out']}"
    return f" ({part['seconds']} s)" + (f"\n{_lines(part['rows'])}" if part["rows"] else "")
