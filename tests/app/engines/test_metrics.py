"""app.engines.metrics: Prometheus reads the promised names and units, and the numbers are the engine's."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from app.engines.holder import EngineHolder
from app.engines.metrics import Prometheus, StepTotals
from photon import AsyncStream, QueueFullError
from tests.app.live import StreamingEngine, client_of
from tests.app.scripted import ScriptedEngine, step_records
from tests.samples import data_url

TINY = ("model", "photon-tiny")
IMAGE = np.zeros((4, 6, 3), np.uint8)
STATS = {
    "model": "photon-tiny",
    "device": "cpu",
    "running": 3,
    "waiting": 2,
    "pages": {"total": 100, "free": 60, "cached": 15},
    "device_busy": 0.75,
    "tokens_per_s": 12.0,
    "requests": {"done": 7, "failed": 1, "cancelled": 2},
}


class CountingEngine(StreamingEngine):
    def stats(self) -> dict[str, Any]:
        return STATS


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) -> value of an exposition; parsing it checks its form."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Prometheus, name: str, **labels: str) -> float:
    return samples(metrics.text().decode()).get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(CountingEngine()) as client:
        yield client


def test_metrics_are_served_in_prometheus_form(client: TestClient) -> None:
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    names = {name for name, _ in samples(response.text)}
    assert all(name.startswith("photon_") for name in names)


def test_gauges_show_the_engines_stats(client: TestClient) -> None:
    got = samples(client.get("/metrics").text)
    assert {state: got["photon_pages", (TINY, ("state", state))] for state in ("total", "free", "cached")} == STATS[
        "pages"
    ]
    assert got["photon_running_requests", (TINY,)] == 3
    assert got["photon_waiting_requests", (TINY,)] == 2
    assert got["photon_device_busy_ratio", (TINY,)] == 0.75
    assert got["photon_requests_total", (TINY, ("outcome", "cancelled"))] == 2
    assert got["photon_ready", (TINY,)] == 1
    about = (("device", "cpu"), ("dtype", "float32"), ("model", "photon-tiny"))
    assert got["photon_model_info", about] == 1
    assert got["photon_process_resident_memory_bytes", ()] > 1e6


def test_requests_and_steps_are_counted(client: TestClient) -> None:
    def reading() -> list[float]:
        got = samples(client.get("/metrics").text)
        label = (("outcome", "done"), ("skill", "detect"))
        return [
            got.get(("photon_request_seconds_count", label), 0),
            got.get(("photon_request_seconds_sum", label), 0),
            got.get(("photon_time_to_first_token_seconds_count", (("skill", "detect"),)), 0),
            got.get(("photon_tokens_total", (TINY,)), 0),
            got.get(("photon_zombie_rows_total", (TINY,)), 0),
            got.get(("photon_step_seconds_count", (("kind", "decode"), TINY, ("part", "forward"))), 0),
            got.get(("photon_step_seconds_sum", (("kind", "decode"), TINY, ("part", "forward"))), 0),
        ]

    before = reading()
    assert client.post("/v1/detect", json={"image_url": data_url(), "object": "cat"}).status_code == 200
    count, seconds, first, tokens, zombies, steps, forward = np.subtract(reading(), before)
    assert (count, first, tokens, zombies, steps) == (1, 1, 8, 1, 8)
    assert 0 < seconds < 60
    assert forward == pytest.approx(8 * 0.0012)


def test_while_the_model_loads_or_is_missing_metrics_say_not_ready() -> None:
    metrics = Prometheus()
    holder = EngineHolder(ScriptedEngine, "photon-tiny")
    metrics.watch(lambda: [holder])
    got = samples(metrics.text().decode())
    assert got["photon_ready", (TINY,)] == 0
    assert ("photon_running_requests", (TINY,)) not in got


@pytest.mark.parametrize(
    ("engine", "name", "outcome"),
    [
        (StreamingEngine(), "cat", "done"),
        (StreamingEngine(), "xyzzy", "refused"),
        (StreamingEngine(error=QueueFullError("full")), "cat", "queue_full"),
        (StreamingEngine(error=RuntimeError("surprise")), "cat", "failed"),
        (StreamingEngine(failure="lost"), "cat", "failed"),
    ],
)
def test_every_end_of_a_request_has_its_outcome(engine: StreamingEngine, name: str, outcome: str) -> None:
    metrics = Prometheus()
    observed: Any = metrics.observed(engine)

    async def ask() -> None:
        try:
            await observed.aquery(IMAGE, name)
        except Exception:
            assert outcome != "done"

    asyncio.run(ask())
    assert value(metrics, "photon_request_seconds_count", skill="query", outcome=outcome) == 1
    assert value(metrics, "photon_time_to_first_token_seconds_count", skill="query") == (outcome == "done")


def test_a_cancelled_request_is_counted_as_such() -> None:
    metrics = Prometheus()
    observed: Any = metrics.observed(StreamingEngine(delay_s=30.0))

    async def ask() -> None:
        task = asyncio.create_task(observed.adetect(IMAGE, "cat"))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(ask())
    assert value(metrics, "photon_request_seconds_count", skill="detect", outcome="cancelled") == 1


@pytest.mark.parametrize("skill", ["query", "caption", "segment"])
@pytest.mark.parametrize(("end", "outcome"), [("read", "done"), ("leave", "cancelled"), ("fail", "failed")])
def test_streams_are_counted_once_when_they_end(skill: str, end: str, outcome: str) -> None:
    metrics = Prometheus()
    engine = StreamingEngine(delay_s=0.01, fail_after=1 if end == "fail" else None)
    observed: Any = metrics.observed(engine)

    async def read() -> None:
        answer = await getattr(observed, f"a{skill}")(IMAGE, "cat", stream=True)
        stream = answer if skill == "segment" else next(iter(answer.values()))
        await anext(stream)
        await asyncio.sleep(0.05)
        assert value(metrics, "photon_request_seconds_count", skill=skill, outcome=outcome) == 0
        if end == "read":
            assert (await stream.result()).metrics.tokens == 9
        elif end == "fail":
            with pytest.raises(RuntimeError):
                await stream.result()
        await stream.aclose()
        await stream.aclose()

    asyncio.run(read())
    assert value(metrics, "photon_request_seconds_count", skill=skill, outcome=outcome) == 1
    assert value(metrics, "photon_request_seconds_sum", skill=skill, outcome=outcome) > 0.05
    total = sum(
        count for (name, _), count in samples(metrics.text().decode()).items() if name == "photon_request_seconds_count"
    )
    assert total == 1
    assert engine.closed_streams == ([skill] if end == "leave" else [])


def test_an_observed_engine_is_otherwise_the_engine_itself() -> None:
    engine = StreamingEngine(failure="lost")
    observed = Prometheus().observed(engine)
    assert (observed.failure, observed.healthy) == ("lost", False)
    assert observed.describe() == engine.describe()
    with pytest.raises(AttributeError):
        _ = observed.nothing  # type: ignore[attr-defined]
    assert not isinstance(observed, AsyncStream)


def test_step_totals_count_every_record_once_and_those_that_were_overwritten() -> None:
    totals = StepTotals()
    records = step_records(0, 1, 0.0, True, count=9)
    totals.add(records[:4])
    totals.add(records[4:])
    assert (totals.counts["prefill"], totals.counts["decode"], totals.tokens, totals.missed) == (1, 8, 8, 0)
    assert totals.seconds["forward", "prefill"] == pytest.approx(0.008)
    totals.add(step_records(12, 2, 1.0, True, count=1))
    assert totals.missed == 3


def test_steps_of_another_engine_count_from_its_beginning() -> None:
    totals = StepTotals()
    for count in (9, 3):
        engine = ScriptedEngine()
        engine.made.extend(step_records(0, 1, 0.0, True, count=count))
        holder = EngineHolder(lambda engine=engine: engine)  # type: ignore[misc]
        asyncio.run(_started(holder))
        totals.collect(holder)
        totals.collect(holder)
    assert (sum(totals.counts.values()), totals.missed) == (12, 0)


async def _started(holder: EngineHolder) -> None:
    holder.start()
    await holder.started()


def test_steps_are_followed_without_a_scrape() -> None:
    metrics = Prometheus()
    engine = ScriptedEngine()
    holder = EngineHolder(lambda: engine)

    async def run() -> None:
        holder.start()
        await holder.started()
        await engine.adetect(IMAGE, "cat")
        following = asyncio.create_task(metrics.follow(lambda: [holder]))
        await asyncio.sleep(0.05)
        following.cancel()

    asyncio.run(run())
    assert metrics.steps[holder.name].tokens == 8


def test_each_model_has_its_own_figures_and_a_closed_one_keeps_its_counts() -> None:
    metrics = Prometheus()
    engines = {name: ScriptedEngine(name) for name in ("one", "two")}
    holders = [EngineHolder(lambda name=name: engines[name], name) for name in engines]  # type: ignore[misc]
    metrics.watch(lambda: holders)

    async def run() -> None:
        for holder in holders:
            holder.start()
            await holder.started()
        for name in ("one", "two", "two"):
            await engines[name].adetect(IMAGE, "cat")

    asyncio.run(run())
    assert [value(metrics, "photon_tokens_total", model=name) for name in engines] == [8, 16]
    holders.pop()
    assert [value(metrics, "photon_tokens_total", model=name) for name in engines] == [8, 16]
    assert value(metrics, "photon_ready", model="one") == 1
    assert ("photon_ready", (("model", "two"),)) not in samples(metrics.text().decode())


def test_the_totals_do_not_keep_a_closed_engine_in_memory() -> None:
    totals, holder = StepTotals(), EngineHolder(ScriptedEngine)
    asyncio.run(_started(holder))
    totals.collect(holder)
    gone = weakref.ref(holder.engine())
    asyncio.run(holder.close())
    gc.collect()
    assert gone() is None
