"""What Prometheus reads. Names begin with photon_ and carry their unit.

Requests are seen by `Metrics.observed`, an engine around the engine, so that the page's count too; steps are summed
up from the engine's records, which `follow` collects before their ring overwrites them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, cast

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.backend import Backend, Engine, State
from photon import (
    AsyncStream,
    InvalidRequestError,
    QueueFullError,
    RequestCancelledError,
    Result,
    StepRecord,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
FOLLOW_S = 1.0  # a ring of 8192 steps holds some seconds of the fastest decoding
_VERBS = {f"a{skill}": skill for skill in ("point", "detect", "segment", "query", "caption")}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PARTS = ("launch", "forward", "sampling", "copy", "commit", "finalize")


class Metrics:
    """One registry, for one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "photon_request_seconds",
            "From the call to its answer, refusal or cancellation, as the caller of the engine sees it",
            ["skill", "outcome"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.first_token_seconds = Histogram(
            "photon_time_to_first_token_seconds",
            "From submission to the first committed token, of answered requests",
            ["skill"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.steps = StepTotals()
        ProcessCollector(namespace="photon", registry=self.registry)

    def watch(self, backend: Backend) -> None:
        """Report the state and the steps of this backend's engine; once."""
        self.registry.register(EngineCollector(backend, self.steps))

    async def follow(self, backend: Backend) -> None:
        """Collect step records until cancelled."""
        while True:
            self.steps.collect(backend)
            await asyncio.sleep(FOLLOW_S)

    def observed(self, engine: Engine) -> Engine:
        """The same engine, its asynchronous verbs measured."""
        return cast(Engine, _Observed(engine, self))

    def text(self) -> bytes:
        """The exposition in Prometheus' text format."""
        return generate_latest(self.registry)

    def ended(self, skill: str, start_s: float, result: Result | None, error: BaseException | None) -> None:
        """A request that began at `start_s` of the performance counter has ended."""
        seconds = time.perf_counter() - start_s
        self.request_seconds.labels(skill, outcome(error)).observe(seconds)
        if result is not None:
            self.first_token_seconds.labels(skill).observe(result.metrics.time_to_first_token_ms / 1e3)


def outcome(error: BaseException | None) -> str:
    """The label for how a request ended."""
    if error is None:
        return "done"
    if isinstance(error, (asyncio.CancelledError, GeneratorExit, RequestCancelledError)):
        return "cancelled"
    if isinstance(error, InvalidRequestError):
        return "refused"
    return "queue_full" if isinstance(error, QueueFullError) else "failed"


class _Observed:
    """Everything of the engine, with the asynchronous verbs wrapped."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._engine, name)
        return self._measured(value, _VERBS[name]) if name in _VERBS else value

    def _measured(self, verb: Any, skill: str) -> Any:
        async def measured(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                answer = await verb(*args, **options)
            except BaseException as error:
                self._metrics.ended(skill, start, None, error)
                raise
            if isinstance(answer, AsyncStream):
                return ObservedStream(answer, skill, start, self._metrics)
            for key, value in answer.items():
                if isinstance(value, AsyncStream):
                    return Result({**answer, key: ObservedStream(value, skill, start, self._metrics)})
            self._metrics.ended(skill, start, answer, None)
            return answer

        return measured


class ObservedStream:
    """A stream of the engine that says when and how it ended."""

    def __init__(self, stream: AsyncStream, skill: str, start_s: float, metrics: Metrics) -> None:
        self._stream = stream
        self._label = (skill, start_s)
        self._metrics = metrics
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            self._end(await self._stream.result() if not self._ended else None, None)
            raise
        except BaseException as error:
            self._end(None, error)
            raise

    async def result(self) -> Result:
        async for _ in self:
            pass
        return await self._stream.result()

    async def aclose(self) -> None:
        await self._stream.aclose()
        self._end(None, GeneratorExit())

    def _end(self, result: Result | None, error: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            self._metrics.ended(*self._label, result, error)


class StepTotals:
    """Running sums over all step records seen."""

    def __init__(self) -> None:
        self.seconds: Tally[tuple[str, str]] = Tally()  # (part, kind) -> s
        self.counts: Tally[str] = Tally()  # kind -> steps
        self.tokens = 0
        self.zombies = 0
        self.missed = 0
        self._last: int | None = None
        self._engine: Engine | None = None

    def collect(self, backend: Backend) -> None:
        """Add the records that are new since the last call."""
        if backend.state is not State.READY:
            return
        engine = backend.engine()
        if engine is not self._engine:  # another model has been loaded: its steps count from the beginning
            self._engine, self._last = engine, None
        self.add(engine.steps(0 if self._last is None else self._last + 1))

    def add(self, records: Iterable[StepRecord]) -> None:
        """Add records in the order of their steps; a gap before them counts as missed."""
        for record in records:
            if self._last is not None:
                self.missed += record.step - self._last - 1
            self._last = record.step
            self.counts[record.kind] += 1
            self.tokens += len(record.requests) - record.zombies
            self.zombies += record.zombies
            for part in _PARTS:
                span = getattr(record, f"{part}_end_s") - getattr(record, f"{part}_start_s")
                self.seconds[part, record.kind] += max(0.0, span)


class EngineCollector:
    """Reads the engine when Prometheus asks."""

    def __init__(self, backend: Backend, steps: StepTotals) -> None:
        self._backend = backend
        self._steps = steps

    def collect(self) -> Iterator[Metric]:
        ready = self._backend.state is State.READY
        yield GaugeMetricFamily("photon_ready", "1 while the engine answers, else 0", value=float(ready))
        if not ready:
            return
        self._steps.collect(self._backend)
        yield from _of_steps(self._steps)
        engine = self._backend.engine()
        about = {name: str(engine.describe().get(name)) for name in ("model", "device", "dtype")}
        yield InfoMetricFamily("photon_model", "What answers", value=about)
        yield from _of_stats(engine.stats())


def _of_steps(steps: StepTotals) -> Iterator[Metric]:
    spans = SummaryMetricFamily("photon_step_seconds", "Duration of the parts of a step", labels=["part", "kind"])
    for (part, kind), seconds in steps.seconds.items():
        spans.add_metric([part, kind], steps.counts[kind], seconds)
    yield spans
    yield CounterMetricFamily("photon_tokens", "Committed tokens", value=steps.tokens)
    yield CounterMetricFamily("photon_zombie_rows", "Rows of steps that had already finished", value=steps.zombies)
    yield CounterMetricFamily("photon_missed_steps", "Steps that were overwritten unread", value=steps.missed)


def _of_stats(stats: dict[str, Any]) -> Iterator[Metric]:
    pages = GaugeMetricFamily("photon_pages", "Pages of the KV cache", labels=["state"])
    for state, count in stats.get("pages", {}).items():
        pages.add_metric([state], count)
    yield pages
    yield GaugeMetricFamily("photon_running_requests", "Requests in the batch", value=stats["running"])
    yield GaugeMetricFamily("photon_waiting_requests", "Requests in the queue", value=stats["waiting"])
    yield GaugeMetricFamily(
        "photon_device_busy_ratio",
        "Share of the last ten seconds in which the compute stream worked",
        value=stats.get("device_busy", 0.0),
    )
    ended = CounterMetricFamily("photon_requests", "Requests that the engine has ended", labels=["outcome"])
    for kind, count in stats.get("requests", {}).items():
        ended.add_metric([kind], count)
    yield ended
