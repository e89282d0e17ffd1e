"""app.race: the same requests in both modes, bounded in flight, compared answer by answer."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from app.asking import Answer, Question, QuestionError
from app.race import race, same
from photon import Result
from tests.app.scripted import ScriptedEngine

IMAGE = np.zeros((4, 6, 3), np.uint8)
QUESTION = Question("detect", ("cat", "dog"))


def run(engine: ScriptedEngine, count: int = 6, in_flight: int = 4) -> tuple[list[Any], dict[str, Any]]:
    """All progress, and the report."""

    async def collect() -> list[Any]:
        return [part async for part in race(engine, IMAGE, QUESTION, count, in_flight)]

    *progress, report = asyncio.run(collect())
    return progress, report


def test_both_modes_get_the_same_requests_after_one_that_warms_up() -> None:
    engine = ScriptedEngine()
    _, report = run(engine)
    modes = [call.options["pipelined"] for call in engine.calls]
    assert modes == [True] + [False] * 6 + [True] * 6
    names = [call.object for call in engine.calls[1:]]
    assert names[:6] == names[6:] == ["cat", "dog"] * 3
    assert (report["count"], report["equal"]) == (6, 6)


def test_progress_is_told_for_each_mode_in_turn() -> None:
    progress, _ = run(ScriptedEngine(delay_s=0.02), count=4, in_flight=1)
    assert [mode for mode, _ in progress] == sorted(mode for mode, _ in progress)
    assert [done for mode, done in progress if mode == "pipelined"][-1] == 4


@pytest.mark.parametrize("in_flight", [1, 4])
def test_no_more_than_asked_are_in_flight(in_flight: int) -> None:
    engine = ScriptedEngine(delay_s=0.02)
    most = 0

    async def watch() -> None:
        nonlocal most
        async for _ in race(engine, IMAGE, QUESTION, 8, in_flight):
            most = max(most, engine.stats()["running"])

    asyncio.run(watch())
    assert most <= in_flight


def test_the_report_has_figures_timelines_and_one_scale() -> None:
    _, report = run(ScriptedEngine(delay_s=0.01), in_flight=1)
    for figures in report["modes"].values():
        assert figures["failed"] == 0
        assert figures["p50_ms"] <= figures["p95_ms"]
        assert figures["timeline"]["steps"]
    assert {step["mode"] for step in report["modes"]["blocking"]["timeline"]["steps"]} == {"blocking"}
    assert report["scale_ms"] == max(m["timeline"]["end_ms"] for m in report["modes"].values())
    walls = [report["modes"][mode]["wall_ms"] for mode in ("blocking", "pipelined")]
    assert report["ratio"] == pytest.approx(walls[0] / walls[1], rel=0.02)


def test_different_answers_are_counted() -> None:
    class Drifting(ScriptedEngine):
        def _result(self, verb: str, pipelined: bool, start: float) -> Result:
            result = super()._result(verb, pipelined, start)
            if pipelined:
                result["objects"] = []
            return result

    assert run(Drifting())[1]["equal"] == 0


@pytest.mark.parametrize(("count", "in_flight"), [(0, 1), (65, 1), (4, 3), (4, 0)])
def test_counts_beyond_what_is_offered_are_refused(count: int, in_flight: int) -> None:
    engine = ScriptedEngine()
    with pytest.raises(QuestionError, match="allowed"):
        run(engine, count, in_flight)
    assert engine.calls == []


def test_a_name_that_the_model_refuses_stops_the_race_at_once() -> None:
    async def collect() -> None:
        async for _ in race(ScriptedEngine(), IMAGE, Question("detect", ("xyzzy",)), 4, 1):
            pass

    with pytest.raises(QuestionError, match="xyzzy"):
        asyncio.run(collect())


def test_leaving_a_race_cancels_what_is_in_flight() -> None:
    engine = ScriptedEngine()

    async def leave() -> None:
        parts = race(engine, IMAGE, QUESTION, 8, 4)
        engine.delay_s = 0.0
        async for _ in parts:
            engine.delay_s = 30
            break
        await parts.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    assert all(call.state != "running" for call in engine.calls)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ({"points": [{"x": 0.5, "y": 0.5, "score": 0.9}]}, {"points": [{"x": 0.5, "y": 0.5, "score": 0.90001}]}, True),
        ({"points": [{"x": 0.5, "y": 0.5, "score": 0.9}]}, {"points": [{"x": 0.5, "y": 0.5, "score": 0.8}]}, False),
        ({"points": [{"x": 0.5, "y": 0.5}]}, {"points": [{"x": 0.5, "y": 0.50001}]}, False),
        ({"points": []}, {"points": [{"x": 0.5, "y": 0.5}]}, False),
        ({"path": "M0 0Z"}, {"path": "M0 0Z"}, True),
        ({"path": "M0 0Z"}, {"path": "M0 1Z"}, False),
        ({"bbox": None}, {"bbox": None}, True),
    ],
)  # fmt: skip
def test_when_answers_are_the_same(a: dict[str, Any], b: dict[str, Any], equal: bool) -> None:
    assert same(Answer("cat", Result(a)), Answer("cat", Result(b))) is equal
