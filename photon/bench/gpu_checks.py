"""Whether the engine keeps its promises on this device: the checks of `python -m photon.bench cuda`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch

from photon import Photon
from photon.bench.gpu_engine import MODES, Bench, Rows, ask, asked
from photon.bench.verdicts import Tokens
from photon.core.request import ImageRef, Mode
from photon.runtime.backends import PAGE_SIZES, Backend, Fused, Gather, Heads, Varlen, disagreement

STALL_S = 0.02
NOT_HERE = "needs a CUDA device"


def backends(bench: Bench) -> Rows:
    """Every form of attention against the plain one; which ones this torch and this device have."""
    text, device = bench.loaded.model.config.text, bench.loaded.model.device
    rows: Rows = []
    for kind in (Gather, Fused, Varlen):
        for size in PAGE_SIZES:
            row: dict[str, Any] = {"backend": kind.name, "page_size": size, "difference": None, "problem": ""}
            try:
                made: Backend = kind()
                heads = Heads(text.n_heads, text.n_kv_heads, text.head_dim)
                row["difference"] = disagreement(made, device, bench.dtype, heads, size)
            except Exception as error:
                row["problem"] = str(error).splitlines()[0][:120]
            rows.append(row)
    return rows


def _tokens(engine: Photon, image: ImageRef, mode: Mode, count: int) -> list[Tokens]:
    made, _ = ask(engine, [asked(engine, image, n, mode) for n in (3, 16, count)], callers=1)
    return made.tokens


def equality(bench: Bench) -> Rows:
    """One request at a time makes the same batches in both modes, so that tokens must be the same to the last bit."""
    engine, image = bench.engine(bench.rows[-1]), bench.image()
    blocking, pipelined = (_tokens(engine, image, mode, bench.tokens) for mode in MODES)
    return [_verdict("pipelined tokens equal blocking ones", blocking == pipelined)]


@contextmanager
def stalled(engine: Photon) -> Iterator[None]:
    """The device sleeps before every piece of work that is enqueued on its compute stream."""
    compute = engine.parts.device.compute
    span = compute.span

    def slow(begin: Any, work: Callable[[], None], end: Any) -> None:
        compute.run(_sleep if torch.cuda.is_available() else partial(time.sleep, STALL_S))
        span(begin, work, end)

    compute.span = slow  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        compute.span = span  # type: ignore[method-assign]


def _sleep() -> None:
    torch.cuda._sleep(int(STALL_S * 1.8e9))  # cycles, at about the clock of a data centre's GPU


def running_ahead(bench: Bench) -> Rows:
    """With a device that is slow to begin, launching must not wait for it, and the next step is there in time."""
    engine, image = bench.engine(bench.rows[-1]), bench.image()
    expected = _tokens(engine, image, "pipelined", 12)
    with stalled(engine):
        made, steps = ask(engine, [asked(engine, image, n, "pipelined") for n in (3, 16, 12)], callers=1)
    pairs = [(a, b) for a, b in itertools.pairwise(steps) if a.requests == b.requests]
    ahead = sum(b.launch_end_s < a.sampling_end_s for a, b in pairs)
    launch = median(s.launch_end_s - s.launch_start_s for s in steps if s.kind == "decode")
    return [
        _verdict("launching waits for no stall", launch < STALL_S / 4, f"a launch takes {1e3 * launch:.2f} ms"),
        _verdict("the host is a step ahead", ahead >= 0.9 * len(pairs), f"{ahead} of {len(pairs)} steps"),
        _verdict("tokens under the stall are the same", made.tokens == expected),
    ]


@contextmanager
def poisoned(engine: Photon) -> Iterator[None]:
    """A slot's staging is overwritten as soon as its values were read: later work must not look at it."""
    runner = engine.parts.loop.core.runner
    collect = runner.collect

    def spoil(step: Any) -> Any:
        tokens = collect(step)
        slot = runner.slots[step.slot]
        slot.cohort = None  # what a cohort keeps staged is gone
        for staged in (slot.rows, slot.token_ids, slot.prefixes, slot.tails, slot.choice_ids):
            staged.host.fill_(1)
        for values in (slot.token_values, slot.choice_params):
            values.host.fill_(0.5)
        return tokens

    runner.collect = spoil  # type: ignore[method-assign]
    try:
        yield
    finally:
        runner.collect = collect  # type: ignore[method-assign]


def poisoning(bench: Bench) -> Rows:
    engine, image = bench.engine(bench.rows[-1]), bench.image()
    expected = _tokens(engine, image, "pipelined", 12)
    with poisoned(engine), stalled(engine):
        made, _ = ask(engine, [asked(engine, image, n, "pipelined") for n in (3, 16, 12)], callers=1)
    return [_verdict("tokens with poisoned staging are the same", made.tokens == expected)]


def silence(bench: Bench) -> Rows:
    """No call of a tick may synchronise with the device: with this mode such a call raises."""
    engine, image = bench.engine(bench.rows[-1]), bench.image()
    requests = [asked(engine, image, 12, "pipelined") for _ in range(4)]
    ask(engine, requests, callers=4)
    if not bench.on_cuda:
        return [_verdict("a tick synchronises with nothing", None, NOT_HERE)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        ask(engine, requests, callers=4)
        ask(engine, [asked(engine, bench.image(), 12, "pipelined") for _ in range(2)], callers=2)
        return [_verdict("a tick synchronises with nothing", True)]
    except Exception as error:
        return [_verdict("a tick synchronises with nothing", False, str(error).splitlines()[0][:160])]
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _verdict(what: str, holds: bool | None, more: str = "") -> dict[str, Any]:
    return {"check": what, "holds": holds, "more": more}
