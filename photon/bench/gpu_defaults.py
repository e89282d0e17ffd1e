"""What the engine chooses by itself on this device, and what its rarer moments cost: parts of `bench cuda`."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from photon import Photon
from photon.bench.gpu_engine import Bench, Rows, ask, asked
from photon.bench.gpu_parts import steady
from photon.core.config import EngineConfig
from photon.core.trace import StepRecord
from photon.devices import make_device
from photon.engine.build import start_engine
from photon.models.moondream.lora import Adapter
from photon.runtime.backends import PAGE_SIZES

ROWS = 8
RANK = 16
NOT_HERE = "needs a CUDA device"
SCHEDULES = Path("tests") / "scheduler" / "test_exactness.py"


@contextmanager
def _engine(bench: Bench, **settings: Any) -> Iterator[Photon]:
    """An engine of its own with these settings and else the defaults."""
    bench.close()
    config = EngineConfig(device=bench.device, **settings)
    device = make_device(bench.device, config.blocking_waits)
    engine = Photon(start_engine(bench.loaded, config, device, bench.dtype))
    try:
        yield engine
    finally:
        engine.close(deadline_s=5.0)


def _decoding(bench: Bench, engine: Photon) -> list[StepRecord]:
    """The steps in which so many rows decode about one picture, warm."""
    image = bench.image()
    requests = [asked(engine, image, bench.tokens, "pipelined") for _ in range(ROWS)]
    ask(engine, requests, callers=ROWS)
    return ask(engine, requests, callers=ROWS)[1]


def defaults(bench: Bench) -> Rows:
    """What an engine without settings ends up with, and how fast it and both page sizes decode."""
    rows = Rows()
    for size in (None, *PAGE_SIZES):
        with _engine(bench, page_size=size) as engine:
            about = engine.describe()
            period = steady(_decoding(bench, engine), ROWS)["period"]
            rows.append(
                {
                    "page_size": size or "default",
                    "attention": about["attention"],
                    "pages": about["pages"],
                    "of": about["page_size"],
                    "steps_per_s": 1e3 / period,
                    "refused": " ".join(about["attention_refused"])[:200],
                }
            )
    return rows


def settled(bench: Bench) -> Rows:
    """Memory is zeroed on the default stream: held up there, the first answer must still be the second."""
    if bench.on_cuda:
        torch.cuda._sleep(int(1.8e9))  # about a second
    with _engine(bench) as engine:
        image = bench.image()
        first, second = (ask(engine, [asked(engine, image, 12, "pipelined")], 1)[0].tokens for _ in range(2))
    return [{"check": "the first answer is the second", "holds": first == second, "more": ""}]


def rare_moments(bench: Bench) -> Rows:
    """While rows decode: a prefill, an adapter that is added, one that is loaded and its first step."""
    with _engine(bench, max_batch=2 * ROWS) as engine:
        adapter = _adapter(bench)
        image = bench.image()
        plain = [asked(engine, image, bench.tokens, "pipelined") for _ in range(ROWS)]
        ask(engine, plain, callers=ROWS)
        began = time.perf_counter()
        packed = engine.parts.add_adapter(adapter)
        added_ms = 1e3 * (time.perf_counter() - began)
        rows = [{"moment": "an adapter is added", "launch_ms": added_ms, "longest_gap_ms": None}]
        new = asked(engine, bench.image(), 3, "pipelined")
        adapted = replace(asked(engine, image, 6, "pipelined"), adapter=packed)
        for moment, extra in (("a prefill", new), ("an adapter is loaded and used", adapted)):
            steps = ask(engine, [*plain, extra], callers=ROWS + 1)[1]
            prefills = [s for s in steps if s.kind == "prefill"][-1:]
            rows.append(
                {
                    "moment": moment,
                    "launch_ms": 1e3 * max(s.launch_end_s - s.launch_start_s for s in prefills),
                    "longest_gap_ms": 1e3 * _longest_gap(steps),
                }
            )
    return rows


def _longest_gap(steps: list[StepRecord]) -> float:
    """The longest time without a new token, once all decode."""
    full = [s.commit_end_s for s in steps if s.kind == "decode"]
    return max(b - a for a, b in itertools.pairwise(full))


def _adapter(bench: Bench) -> Adapter:
    """Random, at the dense layers' MLPs."""
    text = bench.loaded.model.config.text
    sites = {}
    for layer in range(text.n_layers):
        if not text.is_moe(layer):
            for name, size in (("fc1", (text.dim, text.ff_dim)), ("fc2", (text.ff_dim, text.dim))):
                sites[layer, name] = (torch.randn(RANK, size[0]) * 0.01, torch.randn(size[1], RANK) * 0.01)
    return Adapter("random", b"random", sites)


def waits(bench: Bench) -> Rows:
    """Waiting asleep against waiting awake: the period, and how much of a core the process takes meanwhile."""
    rows = Rows()
    for blocking in (False, True):
        with _engine(bench, blocking_waits=blocking) as engine:
            cpu, began = time.process_time(), time.perf_counter()
            steps = _decoding(bench, engine)
            share = (time.process_time() - cpu) / (time.perf_counter() - began)
            wait = median(s.waited_s for s in steps)
            found = {"period_ms": steady(steps, ROWS)["period"], "wait_ms": 1e3 * wait, "cores": share}
            rows.append({"waits": "asleep" if blocking else "awake", **found})
    return rows


def schedules(bench: Bench) -> Rows:
    """The random schedules of the tests on this device's own streams."""
    what = "random schedules on the device's streams"
    if not bench.on_cuda or not SCHEDULES.is_file():
        return [{"check": what, "holds": None, "more": NOT_HERE if not bench.on_cuda else f"there is no {SCHEDULES}"}]
    bench.close()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "cuda", str(SCHEDULES), "-p", "no:cacheprovider"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=max(bench.left_s(), 1.0))
    last = (ended.stdout.splitlines() or [""])[-1]
    return [{"check": what, "holds": ended.returncode == 0, "more": last[:160]}]
