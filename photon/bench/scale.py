"""What one more of anything costs: callers, prompt and answer tokens, objects, pixels, requests.

The host's work is measured on a modelled accelerator whose steps always take the same; a slope is that of the time per
unit against the amount, both as logarithms: 0 is a constant price a unit, below 0 it gets cheaper, 1 is quadratic work.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

from photon.bench import report
from photon.bench.clients import drawn
from photon.bench.modelled import SHAPE, Callers, ModelledRequest, TextState, modelled_core, run_streams
from photon.core.request import Token
from photon.core.trace import StepRecord
from photon.devices.pace_table import Curve, PaceTable
from photon.devices.paced import GivenClock, MeasuredClock
from photon.engine.loop import EngineLoop
from photon.engine.sizing import kv_page_bytes
from photon.memory.pages import pages_for
from photon.models.registry import LoadedModel, load_model
from photon.runtime.backends import PAGE_SIZES
from photon.skills.detokenizer import Detokenizer

CALLERS = (1, 2, 4, 8, 16, 32, 64)
PROMPT_TOKENS = (8, 32, 128, 512)
ANSWER_TOKENS = (16, 64, 256, 1024)
OBJECTS = (1, 5, 20, 50)
MEGAPIXELS = (0.1, 0.5, 2.0, 12.0)
GROWS = 0.15
"""A slope above this says that a unit gets dearer; below it is what measuring on a busy machine may show."""


def flat_table() -> PaceTable:
    """Every step takes 2 ms, whatever its size."""
    curve = Curve("flat", [{"at": 1, "ms": 2.0}, {"at": 1 << 20, "ms": 2.0}])
    return PaceTable("flat", "a step of 2 ms", "none", curve, curve, curve, 0.0, {}, [])


class Spoken(TextState):
    """Text of a fixed length whose tokens are made readable one by one."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._detokenizer = Detokenizer(loaded.tokenizer.decode)
        self._vocabulary = loaded.model.config.text.vocab_size
        self._count = 0

    def advance(self, token: Token) -> None:
        super().advance(token)
        self._count += 1
        self._detokenizer.add(10 + self._count % (self._vocabulary - 10))


@dataclass(frozen=True)
class Growth:
    what: str
    unit: str
    amounts: Sequence[float]
    prices: list[float]
    """Time per unit, for each amount."""

    @property
    def slope(self) -> float:
        """Least squares through the logarithms; 0 for a single amount."""
        if len(self.prices) < 2:
            return 0.0
        xs, ys = [math.log(a) for a in self.amounts], [math.log(p) for p in self.prices]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        over = sum((x - mean_x) ** 2 for x in xs)
        return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / over

    def row(self) -> dict[str, Any]:
        prices = [float(f"{p:.4g}") for p in self.prices]
        grows = self.slope > GROWS
        return {
            "what": self.what,
            "unit": self.unit,
            "amounts": list(self.amounts),
            "per_unit": prices,
            "slope": round(self.slope, 3),
            "grows": grows,
        }


# -- the host's work ----------------------------------------------------------------------------------------------


def host_seconds(steps: list[StepRecord]) -> float:
    """All the host's time but its waits, from the first launch to the last commit."""
    waited = sum(max(0.0, s.copy_end_s - s.commit_start_s) for s in steps)
    return steps[-1].commit_end_s - steps[0].launch_start_s - waited


def _least(repeats: int, one: Callable[[], float]) -> float:
    return min(one() for _ in range(repeats))


def _ticks(streams: Sequence[Sequence[ModelledRequest]]) -> float:
    """Host seconds of a whole run a generated token."""
    run = run_streams(flat_table(), MeasuredClock(), streams)
    return host_seconds(run.steps) / sum(m.tokens for m in run.requests)


def _prefill(tokens: int) -> float:
    """Host seconds that launching a prompt takes, a token."""
    asks = [ModelledRequest(1, 0, "pipelined", TextState, prompt=tokens)] * 20
    steps = run_streams(flat_table(), MeasuredClock(), [asks]).steps
    return median(s.launch_end_s - s.launch_start_s for s in steps if s.kind == "prefill") / tokens


def host_growth(loaded: LoadedModel, options: argparse.Namespace) -> Iterator[Growth]:
    def growth(what: str, unit: str, amounts: Sequence[int], price: Callable[[int], float]) -> Growth:
        wanted = [a for a in amounts if a <= options.largest]
        return Growth(what, unit, wanted, [1e6 * _least(options.repeats, partial(price, a)) for a in wanted])

    yield growth("callers", "host us a token", CALLERS, lambda n: _ticks([[ModelledRequest(61, 0, "pipelined")]] * n))
    yield growth("prompt tokens", "host us a token", PROMPT_TOKENS, _prefill)
    spoken = partial(Spoken, loaded)
    yield growth(
        "answer tokens",
        "host us a token",
        ANSWER_TOKENS,
        lambda n: _ticks([[ModelledRequest(n, 0, "pipelined", spoken)]] * 4),
    )
    yield growth(
        "objects",
        "host us an object",
        OBJECTS,
        lambda n: 3 * _ticks([[ModelledRequest(3 * n + 1, 0, "pipelined")] * (60 // n)] * 4),
    )


def pixel_growth(loaded: LoadedModel, options: argparse.Namespace) -> Growth:
    def price(megapixels: float) -> float:
        picture = drawn(1, round(math.sqrt(megapixels * 0.75e6)), round(math.sqrt(megapixels / 0.75e-6)))
        start = time.perf_counter()
        loaded.model.vision.preprocess(picture)
        return (time.perf_counter() - start) / megapixels

    amounts = [m for m in MEGAPIXELS if m <= options.megapixels]
    return Growth(
        "megapixels",
        "ms of preparing a megapixel",
        amounts,
        [1e3 * _least(2 * options.repeats, partial(price, m)) for m in amounts],
    )


# -- memory -------------------------------------------------------------------------------------------------------


def page_rows(loaded: LoadedModel, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Pages in use while so many requests about one picture decode, and what the arithmetic says."""
    size = PAGE_SIZES[0]
    own = pages_for(SHAPE.prefix_length + 6 + 64 - 1, size) - SHAPE.prefix_length // size
    bytes_a_page = kv_page_bytes(loaded.model.config, loaded.model.dtype, size)
    rows = []
    for callers in (n for n in (1, 16, 64) if n <= options.largest):
        core = modelled_core(flat_table(), GivenClock(), callers)
        loop = EngineLoop(core, callers)
        for _ in range(callers):
            loop.submit(ModelledRequest(61, 0, "pipelined").plan())
        loop.apply_messages()
        while len(core.scheduler.running) < callers:
            core.scheduler.tick()
        rows.append(
            {
                "callers": callers,
                "pages": core.reservations.pages.total - core.reservations.pages.free,
                "predicted_pages": callers * own + pages_for(SHAPE.prefix_length, size),
                "kv_kib_a_request": round(own * bytes_a_page / 1024, 1),
            }
        )
    return rows


def flood(requests: int) -> dict[str, Any]:
    """Short answers, 16 at a time, each about a new picture: the process's peak memory after a tenth and at the end."""
    core = modelled_core(flat_table(), GivenClock(), 16, trace_steps=1024)
    peaks: list[float] = []

    def asks() -> Iterator[ModelledRequest]:
        for i in range(requests):
            if i in (requests // 10, requests - 1):
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            yield ModelledRequest(4, i, "pipelined")

    shared = asks()
    callers = Callers(core, [shared] * 16, keep=1)
    callers.run()
    core.scheduler.check_integrity()
    return {
        "requests": callers.answers,
        "peak_mib_after_a_tenth": round(peaks[0], 1),
        "peak_mib_at_the_end": round(peaks[-1], 1),
        "grown_mib": round(peaks[-1] - peaks[0], 1),
    }


# -- the command --------------------------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="whose tokenizer, sizes and preprocessing are used")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement; the least counts")
    parser.add_argument("--largest", type=int, default=1024, help="amounts beyond this are left out")
    parser.add_argument("--megapixels", type=float, default=12.0, help="the largest picture")
    parser.add_argument("--requests", type=int, default=10_000, help="of the flood")


def run(options: argparse.Namespace) -> dict[str, Any]:
    loaded = load_model(options.model, torch.device("cpu"), torch.float32)
    memory = flood(options.requests)
    growths = [*host_growth(loaded, options), pixel_growth(loaded, options)]
    return {
        "rows": [growth.row() for growth in growths],
        "pages": page_rows(loaded, options),
        "flood": memory,
    }


def show(found: dict[str, Any]) -> str:
    lines = [
        {
            "what": row["what"],
            "amounts": ", ".join(f"{a:g}" for a in row["amounts"]),
            "time a unit": ", ".join(f"{p:g}" for p in row["per_unit"]),
            "slope": row["slope"],
        }
        for row in found["rows"]
    ]
    units = "; ".join(f"{row['what']}: {row['unit']}" for row in found["rows"])
    flood_line = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in found["flood"].items())
    return f"{report.table(lines)}\n\n{units}\n\n{report.table(found['pages'])}\n\n{flood_line}"
