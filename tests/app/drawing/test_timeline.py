"""app.drawing.timeline: the parts add up, the lanes hold what the records say, bubbles are the device's gaps."""

from __future__ import annotations

import dataclasses
import json

import pytest

from app.drawing.timeline import (
    COPY,
    CPU,
    DEVICE,
    LANES,
    MAX_STEPS,
    Overheads,
    all_there,
    own_steps,
    split,
    splits,
    timeline,
)
from app.questions.question import Answer
from photon import Metrics, Result, StepRecord
from tests.app.scripted import step_records

METRICS = Metrics(
    request_id=7,
    mode="pipelined",
    preprocess_ms=2.0,
    encode_ms=3.0,
    queue_ms=1.0,
    prefill_ms=8.0,
    time_to_first_token_ms=14.0,
    decode_ms=20.0,
    total_ms=35.0,
    tokens=9,
    steps=9,
    zombie_steps=1,
    device_busy=0.91234,
    requests=(7, 8),
)


def record(step: int = 0, start: float = 100.0, **changes: object) -> StepRecord:
    """Launch 1 ms, forward 4, sampling 1, copy 1; commit waits for the copy and then takes 1."""
    at = [start, start + 0.001, start + 0.005, start + 0.006, start + 0.007, start + 0.008]
    made = StepRecord(
        step=step,
        kind="decode",
        slot=step % 2,
        mode="blocking",
        why="blocking",
        requests=(7,),
        zombies=0,
        crops=0,
        tokens=1,
        launch_start_s=at[0],
        launch_end_s=at[1],
        forward_start_s=at[1],
        forward_end_s=at[2],
        sampling_start_s=at[2],
        sampling_end_s=at[3],
        copy_start_s=at[3],
        copy_end_s=at[4],
        commit_start_s=at[1],
        commit_end_s=at[5],
        finalize_start_s=at[5],
        finalize_end_s=at[5],
    )
    return made._replace(**changes)  # type: ignore[arg-type]


def test_the_parts_of_a_request_add_up_to_its_total() -> None:
    made = split("cat", METRICS, Overheads(ingest_ms=0.5, drawing_ms=0.25), 9)
    parts = {part["key"]: part["ms"] for part in made["parts"]}
    assert parts == {
        "ingest": 0.5,
        "preprocess": 2.0,
        "encode": 3.0,
        "queue": 1.0,
        "prefill": 8.0,
        "decode": 20.0,
        "post": 1.25,
    }
    assert made["total_ms"] == pytest.approx(sum(parts.values())) == pytest.approx(35.75)
    assert (made["first_token_ms"], made["tokens"], made["device_busy"]) == (14.0, 9, 0.9123)


def test_post_processing_is_never_negative() -> None:
    metrics = dataclasses.replace(METRICS, total_ms=33.0)
    assert split("cat", metrics, Overheads(0, 0), 9)["parts"][-1]["ms"] == 0


def test_only_answered_names_have_a_split() -> None:
    result = Result({"points": []})
    result.metrics = METRICS
    answers = [Answer("cat", result), Answer("xyzzy", problem="Not known.")]
    assert [one["name"] for one in splits(answers, Overheads(0, 0), [])] == ["cat"]


def test_own_steps_are_those_of_the_requests_and_their_children() -> None:
    result = Result({"points": []})
    result.metrics = METRICS
    steps = [record(i, requests=ids) for i, ids in enumerate([(1,), (7,), (1, 8), (9,)])]
    assert [step.step for step in own_steps(steps, [Answer("cat", result)])] == [1, 2]


def test_a_request_counts_the_engines_steps_each_once_however_many_of_its_rows_they_hold() -> None:
    result = Result({"points": []}, METRICS)
    steps = [record(0, requests=(7,)), record(1, requests=(7, 8)), record(2, requests=(3,)), record(3, requests=(8,))]
    (made,) = splits([Answer("cat", result)], Overheads(0, 0), steps)
    assert made["steps"] == 3
    assert len(timeline(own_steps(steps, [Answer("cat", result)]))["steps"]) == 3


def test_all_steps_are_there_once_the_last_row_step_is_recorded() -> None:
    answers = [Answer("cat", Result({"points": []}, dataclasses.replace(METRICS, steps=4))), Answer("x", problem="No.")]
    steps = [record(0, requests=(7,)), record(1, requests=(7, 8)), record(2, requests=(5,))]
    assert not all_there(steps, answers)
    assert all_there([*steps, record(3, requests=(8,), zombies=1)], answers)


def test_a_step_lies_in_its_lanes() -> None:
    made = timeline([record()])
    spans = {kind: (lane, start, end) for lane, kind, start, end, _ in made["spans"]}
    assert spans == {
        "launch": (CPU, 0.0, pytest.approx(1.0)),
        "decode": (DEVICE, pytest.approx(1.0), pytest.approx(5.0)),
        "sampling": (DEVICE, pytest.approx(5.0), pytest.approx(6.0)),
        "copy": (COPY, pytest.approx(6.0), pytest.approx(7.0)),
        "wait": (CPU, pytest.approx(1.0), pytest.approx(7.0)),
        "commit": (CPU, pytest.approx(7.0), pytest.approx(8.0)),
    }
    assert made["lanes"] == list(LANES)


def test_gaps_of_the_device_are_bubbles() -> None:
    made = timeline([record(0, 100.0), record(1, 100.010)])
    assert made["bubbles"] == [[pytest.approx(6.0), pytest.approx(11.0)]]
    assert made["idle_ms"] == pytest.approx(5.0)
    assert made["busy_share"] == pytest.approx(10 / 15, abs=1e-3)
    assert made["tokens_per_s"] == pytest.approx(2 / 0.015, rel=1e-2)


def test_pipelined_steps_have_fewer_bubbles_than_blocking_ones() -> None:
    pipelined, blocking = (timeline(step_records(0, 1, 0.0, mode)) for mode in (True, False))
    assert pipelined["idle_ms"] < blocking["idle_ms"]
    assert len(blocking["bubbles"]) == 8


def test_each_step_says_why_it_was_launched_when_it_was() -> None:
    made = timeline([record(0, why="idle"), record(1, why="read")])
    assert [step["why"] for step in made["steps"]] == ["idle", "read"]


def test_zombie_rows_make_no_tokens() -> None:
    made = timeline([record(0, requests=(7, 8, 9), zombies=2)])
    assert made["tokens"] == 1
    assert made["steps"][0]["rows"] == 3
    assert made["steps"][0]["zombies"] == 2


def test_ids_of_other_visitors_do_not_reach_the_page() -> None:
    assert "98765" not in json.dumps(timeline([record(requests=(7, 98765))]))


def test_no_steps_and_too_many() -> None:
    assert timeline([])["spans"] == []
    made = timeline([record(i, 100 + i / 100) for i in range(MAX_STEPS + 5)])
    assert (len(made["steps"]), made["left_out"]) == (MAX_STEPS, 5)
