"""app.runs.race: the same requests in both modes, bounded in flight, compared answer by answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from app.questions.question import Answer, Question, QuestionError
from app.runs.race import MAX_PICTURES, race, same
from photon import QueueFullError, Result, StepRecord
from photon.core.request import ImageRef
from tests.app.scripted import ScriptedEngine

IMAGE = np.zeros((4, 6, 3), np.uint8)
QUESTION = Question("detect", ("cat", "dog"))


def run(engine: ScriptedEngine, count: int = 6, in_flight: int = 4) -> tuple[list[Any], dict[str, Any]]:
    """All progress, and the report."""

    async def collect() -> list[Any]:
        return [part async for part in race(engine, [IMAGE], QUESTION, count, in_flight) if part is not None]

    *progress, report = asyncio.run(collect())
    return progress, report


def test_both_modes_get_the_same_requests_after_those_that_warm_up() -> None:
    engine = ScriptedEngine()
    _, report = run(engine)
    modes = [call.options["pipelined"] for call in engine.calls]
    assert modes == [True] * (1 + 4) + [False] * 6 + [True] * 6
    names = [call.object for call in engine.calls[5:]]
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
        async for _ in race(engine, [IMAGE], QUESTION, 8, in_flight):
            most = max(most, engine.stats()["running"])

    asyncio.run(watch())
    assert most <= in_flight


def test_the_report_has_figures_timelines_and_one_scale() -> None:
    _, report = run(ScriptedEngine(delay_s=0.01), in_flight=1)
    for figures in report["modes"].values():
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


def raced(engine: ScriptedEngine, names: tuple[str, ...], count: int, in_flight: int) -> None:
    async def collect() -> None:
        async for _ in race(engine, [IMAGE], Question("detect", names), count, in_flight):
            pass

    asyncio.run(collect())


@pytest.mark.parametrize("names", [("xyzzy",), ("cat", "dog", "cow", "xyzzy")])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_name_that_the_model_refuses_stops_the_race(names: tuple[str, ...], in_flight: int) -> None:
    with pytest.raises(QuestionError, match="xyzzy"):
        raced(ScriptedEngine(), names, 8, in_flight)


def test_a_request_that_one_mode_refuses_is_not_counted_as_a_fast_one() -> None:
    class Full(ScriptedEngine):
        async def adetect(self, image: Any, object: str, **options: Any) -> Result:
            if options["pipelined"] and len(self.calls) > 12:
                raise QueueFullError("The queue is full.")
            return await super().adetect(image, object, **options)

    with pytest.raises(QuestionError, match="queue is full"):
        raced(Full(), ("cat",), 8, 4)


def test_leaving_a_race_cancels_what_is_in_flight() -> None:
    engine = ScriptedEngine()

    async def leave() -> None:
        parts = race(engine, [IMAGE], QUESTION, 8, 4)
        engine.delay_s = 0.0
        async for _ in parts:
            engine.delay_s = 30
            break
        await parts.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    assert all(call.state != "running" for call in engine.calls)


@pytest.mark.parametrize(("answered", "delay_s"), [(0, 30.0), (1, 0.3)])
def test_a_race_can_be_left_while_it_warms_up(answered: int, delay_s: float) -> None:
    """A closed tab is noticed when the generator yields."""
    engine = ScriptedEngine(delay_s=delay_s)

    async def leave() -> None:
        parts = race(engine, [IMAGE], QUESTION, 8, 4)
        while len(engine.calls) <= answered:
            assert await asyncio.wait_for(anext(parts), 10) is None
            engine.delay_s = 30.0
        await parts.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    assert [call.state for call in engine.calls] == ["done"] * answered + ["cancelled"] * (4 if answered else 1)


@dataclass
class Keyed(ScriptedEngine):
    """Takes encoded images, and notes the key of each."""

    keys: list[bytes] = field(default_factory=list)

    async def _answer(self, verb: str, image: Any, name: str, options: dict[str, Any]) -> Result:
        self.keys.append(image.key)
        return await super()._answer(verb, image.pixels, name, options)


def keys_of_a_race(pictures: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """The keys that the engine saw first, with the pipeline off, and with it on."""
    engine = Keyed()
    images = [ImageRef.of(np.full((4, 6, 3), shade, np.uint8)) for shade in range(pictures)]

    async def collect() -> None:
        async for _ in race(engine, images, Question("detect", ("cat",)), 6, 1):
            pass

    asyncio.run(collect())
    return engine.keys[:2], engine.keys[2:8], engine.keys[8:]


def test_pictures_take_turns_and_are_new_to_the_engine_in_either_mode() -> None:
    first, off, on = keys_of_a_race(3)
    for run_keys in (off, on):
        assert len(set(run_keys)) == 3
        assert run_keys[:3] == run_keys[3:]
    assert not {*first} & {*off}
    assert not {*off} & {*on}


def test_a_single_picture_keeps_its_prefill() -> None:
    first, off, on = keys_of_a_race(1)
    assert len({*first, *off, *on}) == 1


@pytest.mark.parametrize("pictures", [0, MAX_PICTURES + 1])
def test_a_race_is_about_a_bounded_number_of_pictures(pictures: int) -> None:
    async def collect() -> None:
        async for _ in race(ScriptedEngine(), [IMAGE] * pictures, QUESTION, 4, 1):
            pass

    with pytest.raises(QuestionError, match=f"these are {pictures}"):
        asyncio.run(collect())


def test_a_machine_that_was_busy_during_one_run_shows_in_the_report() -> None:
    class Busy(ScriptedEngine):
        def steps(self, since: int = 0) -> list[StepRecord]:
            return [step if step.mode == "pipelined" else slowed(step) for step in super().steps(since)]

    def slowed(step: StepRecord) -> StepRecord:
        return step._replace(forward_end_s=step.forward_start_s + 2 * (step.forward_end_s - step.forward_start_s))

    assert run(ScriptedEngine())[1]["device_ratio"] == pytest.approx(1, abs=0.01)
    assert run(Busy())[1]["device_ratio"] == pytest.approx(2, abs=0.01)


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
