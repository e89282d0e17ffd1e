"""What `python -m photon.bench cuda` measures: periods, whole requests, forwards over their floor, kernels, memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from photon.bench import report
from photon.bench.clients import drawn
from photon.bench.gpu_engine import MODES, Bench, Rows, ask, asked
from photon.core.request import Mode
from photon.core.trace import StepRecord

# -- b: periods ------------------------------------------------------------------------------------------------------


def periods(bench: Bench) -> Rows:
    """Steady decoding of so many rows about one picture; milliseconds, medians of the steps in which all decode."""
    engine, rows = bench.engine(bench.rows[-1]), Rows()
    for count in bench.rows:
        image, found = bench.image(), dict[Mode, dict[str, float]]()
        ask(engine, [asked(engine, image, 3, "pipelined")], 1)
        for mode in MODES:
            requests = [asked(engine, image, bench.tokens, mode) for _ in range(count)]
            ask(engine, requests, callers=count)  # warm
            found[mode] = steady(ask(engine, requests, callers=count)[1], count)
        blocking, pipelined = (found[mode] for mode in MODES)
        device = pipelined["forward"] + pipelined["sampling"]
        rows.append(
            {
                "rows": count,
                "forward_ms": pipelined["forward"],
                "sampling_ms": pipelined["sampling"],
                "blocking_ms": blocking["period"],
                "pipelined_ms": pipelined["period"],
                "gain_%": 100 * (blocking["period"] / pipelined["period"] - 1),
                "gap_ms": pipelined["period"] - device,
                "busy_%": 100 * device / pipelined["period"],
                "blocking_forward_ms": blocking["forward"],
                "host_us": 1e3 * pipelined["host"],
            }
        )
    return rows


def steady(steps: Sequence[StepRecord], count: int) -> dict[str, float]:
    """Medians over the steps in which `count` rows decode, milliseconds. Raises `BenchmarkError` if none do."""
    full = [s.kind == "decode" and len(s.requests) == count and not s.zombies for s in steps]
    pairs = [(a, b) for i, (a, b) in enumerate(itertools.pairwise(steps)) if full[i] and full[i + 1]]
    if not pairs:
        raise report.BenchmarkError(f"{count} rows never decoded together; more tokens are needed.")

    def middle(of: Callable[[StepRecord, StepRecord], float]) -> float:
        return 1e3 * median(of(a, b) for a, b in pairs)

    return {
        "period": middle(lambda a, b: b.sampling_end_s - a.sampling_end_s),
        "forward": middle(lambda _, b: b.forward_end_s - b.forward_start_s),
        "sampling": middle(lambda _, b: b.sampling_end_s - b.sampling_start_s),
        "host": middle(lambda _, b: b.host_s),
    }


# -- c: whole requests -----------------------------------------------------------------------------------------------


def whole_requests(bench: Bench) -> Rows:
    """One new picture a request; as many callers as rows, and twice as many, so that one more is always waiting."""
    rows = Rows()
    for batch in bench.batches:
        if bench.left_s() < 30.0 and rows:
            break
        engine = bench.engine(batch)
        for tokens in (3, 30):
            for callers in (batch, 2 * batch):
                count = max(8, 3 * callers)
                ask(engine, [asked(engine, bench.image(), tokens, "pipelined") for _ in range(callers)], callers)
                requests = [asked(engine, bench.image(), tokens, "pipelined") for _ in range(count)]
                made, steps = ask(engine, requests, callers)
                rows.append(
                    {
                        "batch": batch,
                        "tokens": tokens,
                        "callers": callers,
                        "requests_per_s": count / made.seconds,
                        "p50_ms": 1e3 * report.percentile(made.latencies, 0.5),
                        "vision_runs": sum(s.crops for s in steps),
                        "crops_a_picture": _crops(bench),
                    }
                )
    return rows


def _crops(bench: Bench) -> int:
    return len(bench.loaded.model.vision.preprocess(drawn(1, 480, 640)).pixels)


# -- d: forward over the bytes that it must read ----------------------------------------------------------------------


def floor(bench: Bench) -> Rows:
    """A decode step reads its weights and its rows' keys and values, at best as fast as copying goes here."""
    engine, rows = bench.engine(bench.rows[-1]), Rows()
    config, text = bench.loaded.model.config, bench.loaded.model.text
    reach = copy_rate(bench.loaded.model.device, 1 << (30 if bench.on_cuda else 22))
    dense = sum(p.numel() * p.element_size() for n, p in text.named_parameters() if n != "wte" and p.dim() < 3)
    expert = sum(p.numel() * p.element_size() for p in text.parameters() if p.dim() == 3)
    for count in bench.rows:
        image = bench.image()
        requests = [asked(engine, image, bench.tokens, "pipelined") for _ in range(count)]
        ask(engine, requests, callers=count)
        forward = steady(ask(engine, requests, callers=count)[1], count)["forward"]
        moe, shape = config.text.moe, config.text
        touched = 1 - (1 - moe.experts_per_token / moe.num_experts) ** count if moe else 0.0
        held = config.prefix_len + bench.tokens // 2
        kept = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * held * count * bench.dtype.itemsize
        needed = dense + touched * expert + kept
        rows.append(
            {
                "rows": count,
                "forward_ms": forward,
                "must_read_mb": needed / 1e6,
                "floor_ms": 1e3 * needed / reach,
                "over_floor": forward / (1e3 * needed / reach),
                "copying_gb_per_s": reach / 1e9,
            }
        )
    return rows


def copy_rate(device: torch.device, size: int) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    source = torch.ones(size // 4, device=device)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(5):
        _settle(device)
        began = time.perf_counter()
        target.copy_(source)
        _settle(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size / best


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def kernels(bench: Bench) -> Rows:
    """What a step's time goes to: the longest kernels while the most rows decode."""
    engine, image, count = bench.engine(bench.rows[-1]), bench.image(), bench.rows[-1]
    requests = [asked(engine, image, 24, "pipelined") for _ in range(count)]
    ask(engine, requests, callers=count)
    activities = torch.profiler.ProfilerActivity
    kind, attribute = (
        (activities.CUDA, "self_device_time_total") if bench.on_cuda else (activities.CPU, "self_cpu_time_total")
    )
    every_thread = torch.profiler._ExperimentalConfig(profile_all_threads=True)  # type: ignore[attr-defined]
    with torch.profiler.profile(activities=[kind], experimental_config=every_thread) as profile:
        _, steps = ask(engine, requests, callers=count)
    events = sorted(profile.key_averages(), key=lambda e: -float(getattr(e, attribute)))
    whole = sum(float(getattr(e, attribute)) for e in events) or 1.0
    return [
        {
            "kernel": event.key[:70],
            "us_a_step": float(getattr(event, attribute)) / max(1, len(steps)),
            "share_%": 100 * float(getattr(event, attribute)) / whole,
            "calls": event.count,
        }
        for event in events[:20]
    ]


# -- e: memory ---------------------------------------------------------------------------------------------------------


def allocations(bench: Bench) -> Rows:
    """After one round of every kind of work the device's allocator asks for no more memory."""
    engine, count = bench.engine(bench.rows[-1]), bench.rows[-1]

    def load() -> None:
        shared = bench.image()
        for mode in MODES:
            ask(engine, [asked(engine, shared, 30, mode) for _ in range(count)], callers=count)
            ask(engine, [asked(engine, bench.image(), 3, mode) for _ in range(count)], callers=count)

    load()
    before = _memory(bench)
    for _ in range(3):
        load()
    after = _memory(bench)
    grown = {key: after[key] - before[key] for key in before}
    return [{"after_warm_up": key, "grown_by": value, "holds": value == 0} for key, value in grown.items()]


def _memory(bench: Bench) -> dict[str, int]:
    if not bench.on_cuda:
        return {}
    stats = torch.cuda.memory_stats(bench.loaded.model.device)
    return {key: int(stats.get(key, 0)) for key in ("num_device_alloc", "reserved_bytes.all.current", "num_ooms")}
