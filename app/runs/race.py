"""The same requests with the pipeline off and then on: what it gains here, and that answers are equal."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.drawing.timeline import own_steps, timeline
from app.engines.holder import Engine
from app.questions.question import Answer, Question, QuestionError, ask
from photon import StepRecord

MAX_COUNT = 64
MAX_PICTURES = 16
IN_FLIGHT = (1, 4, 16)
SCORE_SLACK = 1e-3  # scores may differ in the last places when batch mates differ
MODES = (("blocking", False), ("pipelined", True))


@dataclass(frozen=True)
class Run:
    """One mode's requests, in the order asked, with the wall time of all (s) and of each (ms)."""

    answers: list[Answer]
    wall_s: float
    latencies_ms: list[float]


Done = tuple[str, int]  # mode, requests done


async def race(
    engine: Engine, images: Sequence[Any], question: Question, count: int, in_flight: int
) -> AsyncGenerator[Done | dict[str, Any] | None, None]:
    """Yields None while it warms up, (mode, done) while it runs, and at last the report (see `_report`).

    The names of the question take turns, and then the pictures. What runs first is not counted: one request, and then
    as many together as the race lets run. So no mode pays for a cold start, nor for the prefill of a single picture.
    Several pictures are new to the engine in either mode, and their prefills count. Raises QuestionError for counts
    that are not allowed and for the first request that is refused: refusals take no time and would count as fast ones.
    """
    if not 1 <= count <= MAX_COUNT:
        raise QuestionError(f"A race of {count} requests is not possible; allowed are 1 to {MAX_COUNT}.")
    if in_flight not in IN_FLIGHT:
        raise QuestionError(f"{in_flight} requests in flight are not offered; allowed are {IN_FLIGHT}.")
    if not 1 <= len(images) <= MAX_PICTURES:
        raise QuestionError(f"A race is about 1 to {MAX_PICTURES} pictures; these are {len(images)}.")
    for names, together in ((question.names[:1], 1), (question.names, min(in_flight, count))):
        async with aclosing(_run(engine, images[:1], replace(question, names=names), together, together)) as parts:
            async for part in parts:
                yield None
                if isinstance(part, Run):
                    _check(part)
    since = engine.last_step
    runs: dict[str, Run] = {}
    for mode, pipelined in MODES:
        asked = replace(question, pipelined=pipelined)
        shown = images if len(images) == 1 else [as_new(image) for image in images]
        async with aclosing(_run(engine, shown, asked, count, in_flight)) as parts:
            async for part in parts:
                if isinstance(part, Run):
                    runs[mode] = _check(part)
                else:
                    yield mode, part
    yield _report(engine, runs, since, in_flight) | {"pictures": len(images)}


def _check(run: Run) -> Run:
    """Raises QuestionError if one of its requests was refused."""
    for answer in run.answers:
        if answer.problem:
            raise QuestionError(answer.problem)
    return run


def as_new(image: Any) -> Any:
    """An encoded picture under a key that the engine has not seen, so that it cannot use an earlier prefill."""
    return replace(image, key=image.key + secrets.token_bytes(8)) if hasattr(image, "key") else image


async def _run(
    engine: Engine, images: Sequence[Any], question: Question, count: int, in_flight: int
) -> AsyncGenerator[int | Run, None]:
    """Yields how many requests are done, and at last the Run. Closing it cancels what is in flight."""
    gate = asyncio.Semaphore(in_flight)

    async def one(index: int) -> tuple[Answer, float]:
        turn, place = divmod(index, len(question.names))
        async with gate:
            start = time.perf_counter()
            asked = replace(question, names=(question.names[place],))
            (answer,) = await ask(engine, images[turn % len(images)], asked)
            return answer, (time.perf_counter() - start) * 1e3

    begin = time.perf_counter()
    tasks = [asyncio.create_task(one(index)) for index in range(count)]
    try:
        waiting: set[asyncio.Task[Any]] = set(tasks)
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            yield count - len(waiting)
        ended = [task.result() for task in tasks]
        yield Run([answer for answer, _ in ended], time.perf_counter() - begin, [ms for _, ms in ended])
    finally:
        for task in tasks:
            task.cancel()


def _report(engine: Engine, runs: dict[str, Run], since: int, in_flight: int) -> dict[str, Any]:
    """Both modes' figures and timelines, the ratio of their requests/s, and how many answers agree."""
    steps = engine.steps(since)
    modes = {mode: _figures(run) for mode, run in runs.items()}
    for mode, run in runs.items():
        modes[mode]["timeline"] = timeline(own_steps(steps, run.answers))
    blocking, pipelined = runs["blocking"], runs["pipelined"]
    equal = sum(same(a, b) for a, b in zip(blocking.answers, pipelined.answers, strict=True))
    return {
        "count": len(blocking.answers),
        "in_flight": in_flight,
        "modes": modes,
        "ratio": round(blocking.wall_s / pipelined.wall_s, 3),
        "equal": equal,
        "scale_ms": max(figures["timeline"]["end_ms"] for figures in modes.values()),
        "device_ratio": _device_ratio(steps, blocking, pipelined),
    }


def _device_ratio(steps: Sequence[StepRecord], blocking: Run, pipelined: Run) -> float | None:
    """How much longer the same forward took with the pipeline off: 1 where only bookkeeping differs.

    Anything else is the machine, which had other work during one of the runs. Compared are decode steps of as many
    rows as most had; None where one of the runs has none.
    """
    forwards: list[dict[int, list[float]]] = []
    for run in (blocking, pipelined):
        by_rows: dict[int, list[float]] = {}
        for step in own_steps(steps, run.answers):
            if step.kind == "decode":
                by_rows.setdefault(len(step.requests), []).append(step.forward_end_s - step.forward_start_s)
        forwards.append(by_rows)
    off, on = forwards
    rows = max(off.keys() & on.keys(), key=lambda rows: len(off[rows]), default=None)
    return None if rows is None else round(float(np.median(off[rows]) / np.median(on[rows])), 3)


def _figures(run: Run) -> dict[str, Any]:
    tokens = sum(answer.metrics.tokens for answer in run.answers if answer.metrics is not None)
    p50, p95 = np.percentile(run.latencies_ms, [50, 95])
    return {
        "wall_ms": round(run.wall_s * 1e3, 1),
        "requests_per_s": round(len(run.answers) / run.wall_s, 2),
        "tokens_per_s": round(tokens / run.wall_s, 1),
        "p50_ms": round(float(p50), 1),
        "p95_ms": round(float(p95), 1),
    }


def same(a: Answer, b: Answer) -> bool:
    """Whether two answers say the same: equal values, scores within `SCORE_SLACK`."""
    if a.result is None or b.result is None:
        return a.result is None and b.result is None and a.problem == b.problem
    return _same(dict(a.result), dict(b.result))


def _same(a: Any, b: Any, key: str = "") -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name], name) for name in a)
    if isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, str):
        return len(a) == len(b) and all(_same(x, y, key) for x, y in zip(a, b, strict=True))
    if key == "score":
        return abs(float(a) - float(b)) <= SCORE_SLACK
    return bool(a == b)
