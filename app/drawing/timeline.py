"""Where the time went: the split of each request, and the steps of the engine on a time axis.

Python turns the engine's records into plain numbers; `static/js/time.js` draws them as SVG.
All times here are milliseconds; in a timeline they count from its first event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.questions.question import Answer
from photon import Metrics, StepRecord

LANES = ("CPU bookkeeping", "Device compute", "Copy")
CPU, DEVICE, COPY = range(3)
MAX_STEPS = 400
SHORTEST_BUBBLE_MS = 0.02


@dataclass(frozen=True)
class Overheads:
    """What the application adds to a request: having the picture's pixels at hand, and drawing."""

    ingest_ms: float
    drawing_ms: float


def split(name: str, metrics: Metrics, overheads: Overheads, steps: int) -> dict[str, Any]:
    """One request's time in consecutive parts, which add up to its total, and the figures beside it.

    `steps` are those of the engine in which it took part, each counted once, as the timeline draws them.
    Post-processing is what the engine's total leaves after its named parts, plus the drawing here.
    """
    inside = (
        ("preprocess", "Preprocessing", metrics.preprocess_ms),
        ("encode", "Encoding", metrics.encode_ms),
        ("queue", "Queue", metrics.queue_ms),
        ("prefill", "Prefill", metrics.prefill_ms),
        ("decode", "Decode", metrics.decode_ms),
    )
    after = max(metrics.total_ms - sum(ms for _, _, ms in inside), 0.0) + overheads.drawing_ms
    parts = (
        ("ingest", "Ingest", overheads.ingest_ms),
        *inside,
        ("post", "Post-processing", after),
    )
    return {
        "name": name,
        "mode": metrics.mode,
        "parts": [{"key": key, "label": label, "ms": _ms(ms)} for key, label, ms in parts],
        "total_ms": _ms(sum(ms for _, _, ms in parts)),
        "first_token_ms": _ms(metrics.time_to_first_token_ms),
        "tokens": metrics.tokens,
        "steps": steps,
        "zombie_steps": metrics.zombie_steps,
        "device_busy": round(metrics.device_busy, 4),
    }


def splits(answers: Sequence[Answer], overheads: Overheads, steps: Sequence[StepRecord]) -> list[dict[str, Any]]:
    """The split of every answered name, in the order asked; `steps` are those of all of them."""
    return [
        split(answer.name, answer.metrics, overheads, len(own_steps(steps, [answer])))
        for answer in answers
        if answer.metrics is not None
    ]


def own_steps(steps: Sequence[StepRecord], answers: Sequence[Answer]) -> list[StepRecord]:
    """The steps in which these answers' requests took part, in the engine's order."""
    ids = {one for answer in answers if answer.metrics is not None for one in answer.metrics.requests}
    return [step for step in steps if not ids.isdisjoint(step.requests)]


def all_there(steps: Sequence[StepRecord], answers: Sequence[Answer]) -> bool:
    """Whether every step that these answers' requests were part of has been recorded: the last may be a zombie's."""
    expected = sum(answer.metrics.steps for answer in answers if answer.metrics is not None)
    ids = {one for answer in answers if answer.metrics is not None for one in answer.metrics.requests}
    return sum(len(ids.intersection(step.requests)) for step in steps) >= expected


def timeline(steps: Sequence[StepRecord]) -> dict[str, Any]:
    """The steps as lanes of spans, with the gaps in the device's lane as bubbles.

    A span is [lane, kind, start, end, row in `steps`]. How many requests share a step is told, who
    they belong to is not.
    """
    drawn = list(steps[:MAX_STEPS])
    spans: list[list[Any]] = []
    zero = min((_first(step) for step in drawn), default=0.0)
    for row, step in enumerate(drawn):
        for kind, lane, start, end in _spans(step):
            if end > start:
                spans.append([lane, kind, _ms((start - zero) * 1e3), _ms((end - zero) * 1e3), row])
    busy = _union([(span[2], span[3]) for span in spans if span[0] == DEVICE])
    end = max((span[3] for span in spans), default=0.0)
    busy_ms = sum(b - a for a, b in busy)
    window = busy[-1][1] - busy[0][0] if busy else 0.0
    tokens = sum(len(step.requests) - step.zombies for step in drawn)
    return {
        "lanes": list(LANES),
        "spans": spans,
        "steps": [_about(step) for step in drawn],
        "bubbles": _gaps(busy),
        "end_ms": end,
        "busy_share": round(busy_ms / window, 4) if window > 0 else 0.0,
        "idle_ms": _ms(window - busy_ms),
        "tokens": tokens,
        "tokens_per_s": round(tokens / window * 1e3, 1) if window > 0 else 0.0,
        "left_out": max(len(steps) - MAX_STEPS, 0),
    }


def _spans(step: StepRecord) -> list[tuple[str, int, float, float]]:
    """(kind, lane, start, end) in seconds. A commit first waits for its copy, which is no work."""
    landed = min(max(step.copy_end_s, step.commit_start_s), step.commit_end_s)
    return [
        ("launch", CPU, step.launch_start_s, step.launch_end_s),
        (step.kind, DEVICE, step.forward_start_s, step.forward_end_s),
        ("sampling", DEVICE, step.sampling_start_s, step.sampling_end_s),
        ("copy", COPY, step.copy_start_s, step.copy_end_s),
        ("wait", CPU, step.commit_start_s, landed),
        ("commit", CPU, landed, step.commit_end_s),
        ("finalize", CPU, step.finalize_start_s, step.finalize_end_s),
    ]


def _about(step: StepRecord) -> dict[str, Any]:
    return {
        "step": step.step,
        "kind": step.kind,
        "slot": step.slot,
        "mode": step.mode,
        "why": step.why,
        "rows": len(step.requests),
        "zombies": step.zombies,
        "tokens": step.tokens,
        "crops": step.crops,
    }


def _first(step: StepRecord) -> float:
    return min(step.launch_start_s, step.forward_start_s)


def _union(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Overlapping intervals merged, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _gaps(busy: Sequence[tuple[float, float]]) -> list[list[float]]:
    """The bubbles: idle stretches between the device's first and last work."""
    return [[a[1], b[0]] for a, b in pairwise(busy) if b[0] - a[1] >= SHORTEST_BUBBLE_MS]


def _ms(value: float) -> float:
    return round(value, 3)
