"""What Prometheus reads. Names begin with photon_ and carry their unit.

Requests are seen by `Prometheus.observed`, an engine around the engine, so that the page's count too; steps are summed
up from the engines' records, which `follow` collects before their ring overwrites them. What an engine tells has the
label model.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
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

from app.engines.holder import Engine, EngineHolder, State
from photon import SKILLS, AsyncStream, InvalidRequestError, QueueFullError, RequestCancelledError, Result, StepRecord

Holders = Callable[[], Sequence[EngineHolder]]

CONTENT_TYPE = CONTENT_TYPE_LATEST
FOLLOW_S = 1.0  # a ring of 8192 steps holds some seconds of the fastest decoding
_VERBS = {f"a{skill}": skill for skill in SKILLS}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PARTS = ("launch", "forward", "sampling", "copy", "commit", "finalize")


class Prometheus:
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
        self.steps: defaultdict[str, StepTotals] = defaultdict(StepTotals)  # by model; they outlive its engine
        ProcessCollector(namespace="photon", registry=self.registry)

    def watch(self, holders: Holders) -> None:
        """Report the state and the steps of these holders' engines; once."""
        self.registry.register(EngineCollector(holders, self.steps))

    async def follow(self, holders: Holders) -> None:
        """Collect step records until cancelled."""
        while True:
            for holder in holders():
                self.steps[holder.name].collect(holder)
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

    def __init__(self, engine: Engine, metrics: Prometheus) -> None:
        self.inner = engine
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
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

    def __init__(self, stream: AsyncStream, skill: str, start_s: float, metrics: Prometheus) -> None:
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
        self._engine: weakref.ref[Engine] | None = None

    def collect(self, holder: EngineHolder) -> None:
        """Add the records that are new since the last call."""
        if holder.state is not State.READY:
            return
        engine = holder.engine()
        if self._engine is None or engine is not self._engine():  # loaded anew: its steps count from the beginning
            self._engine, self._last = weakref.ref(engine), None
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
    """Reads the engines when Prometheus asks."""

    def __init__(self, holders: Holders, steps: Mapping[str, StepTotals]) -> None:
        self._holders = holders
        self._steps = steps

    def collect(self) -> Iterator[Metric]:
        holders = self._holders()
        up = GaugeMetricFamily("photon_ready", "1 while the engine answers, else 0", labels=["model"])
        for holder in holders:
            up.add_metric([holder.name], float(holder.state is State.READY))
        yield up
        ready = {one.name: one for one in holders if one.state is State.READY}
        for name, holder in ready.items():
            self._steps[name].collect(holder)
        yield from _of_steps(dict(self._steps))
        engines = {name: holder.engine() for name, holder in ready.items()}
        about = InfoMetricFamily("photon_model", "What answers", labels=["model"])
        for name, engine in engines.items():
            about.add_metric([name], {key: str(engine.describe().get(key)) for key in ("device", "dtype")})
        yield about
        yield from _of_stats({name: engine.stats() for name, engine in engines.items()})


def _of_steps(totals: Mapping[str, StepTotals]) -> Iterator[Metric]:
    spans = SummaryMetricFamily(
        "photon_step_seconds", "Duration of the parts of a step", labels=["model", "part", "kind"]
    )
    tokens = CounterMetricFamily("photon_tokens", "Committed tokens", labels=["model"])
    zombies = CounterMetricFamily("photon_zombie_rows", "Rows of steps that had already finished", labels=["model"])
    missed = CounterMetricFamily("photon_missed_steps", "Steps that were overwritten unread", labels=["model"])
    for model, steps in totals.items():
        for (part, kind), seconds in steps.seconds.items():
            spans.add_metric([model, part, kind], steps.counts[kind], seconds)
        tokens.add_metric([model], steps.tokens)
        zombies.add_metric([model], steps.zombies)
        missed.add_metric([model], steps.missed)
    yield from (spans, tokens, zombies, missed)


def _of_stats(told: Mapping[str, dict[str, Any]]) -> Iterator[Metric]:
    pages = GaugeMetricFamily("photon_pages", "Pages of the KV cache", labels=["model", "state"])
    running = GaugeMetricFamily("photon_running_requests", "Requests in the batch", labels=["model"])
    waiting = GaugeMetricFamily("photon_waiting_requests", "Requests in the queue", labels=["model"])
    busy = GaugeMetricFamily(
        "photon_device_busy_ratio",
        "Share of the last ten seconds in which the compute stream worked",
        labels=["model"],
    )
    ended = CounterMetricFamily("photon_requests", "Requests that the engine has ended", labels=["model", "outcome"])
    for model, stats in told.items():
        for state, count in stats.get("pages", {}).items():
            pages.add_metric([model, state], count)
        running.add_metric([model], stats["running"])
        waiting.add_metric([model], stats["waiting"])
        busy.add_metric([model], stats.get("device_busy", 0.0))
        for kind, count in stats.get("requests", {}).items():
            ended.add_metric([model, kind], count)
    yield from (pages, running, waiting, busy, ended)
