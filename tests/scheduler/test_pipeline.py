"""The pipeline as a state machine: invariants 1 and 2, without a device or a scheduler."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from photon.core.step import PipelineStep, StepState
from photon.scheduler.pipeline import Pipeline, PipelineError


@dataclass
class Row:
    inflight_refs: int = 0


def step(*rows: Row) -> PipelineStep:
    return PipelineStep("decode", rows)


def launched(pipeline: Pipeline[PipelineStep], *rows: Row) -> PipelineStep:
    new = step(*rows)
    pipeline.launch(new)
    return new


def sampled(pipeline: Pipeline[PipelineStep], *rows: Row) -> PipelineStep:
    new = launched(pipeline, *rows)
    pipeline.finalize(new)
    return new


def test_steps_take_the_two_slots_in_turn() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    slots = []
    for _ in range(5):
        new = sampled(pipeline)
        slots.append(new.slot)
        pipeline.commit(new)
    assert slots == [0, 1, 0, 1, 0]


def test_forward_of_the_next_step_is_launched_while_the_one_before_is_not_committed() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = sampled(pipeline)
    second = launched(pipeline)
    assert pipeline.steps == (first, second)
    assert {first.slot, second.slot} == {0, 1}


def test_a_slot_in_use_is_never_handed_out() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = sampled(pipeline)
    launched(pipeline)
    assert not pipeline.can_launch()
    with pytest.raises(PipelineError):
        pipeline.launch(step())
    pipeline.commit(first)
    assert not pipeline.can_launch(), "the step in flight is not sampled yet"


def test_a_slot_is_free_only_when_its_step_is_committed() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = sampled(pipeline)
    second = launched(pipeline)
    pipeline.commit(first)
    pipeline.finalize(second)
    third = launched(pipeline)
    assert third.slot == first.slot
    pipeline.commit(second)
    pipeline.finalize(third)
    assert launched(pipeline).slot == second.slot


def test_commit_order_is_launch_order() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    sampled(pipeline)
    second = launched(pipeline)
    with pytest.raises(PipelineError):
        pipeline.commit(second)


def test_a_step_is_not_committed_before_it_is_sampled() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = launched(pipeline)
    with pytest.raises(PipelineError):
        pipeline.commit(first)


def test_a_step_is_not_sampled_before_the_steps_before_it_are_committed() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = sampled(pipeline)
    second = launched(pipeline)
    with pytest.raises(PipelineError):
        pipeline.finalize(second)
    pipeline.commit(first)
    pipeline.finalize(second)
    assert second.state is StepState.SAMPLED


def test_a_step_goes_through_the_pipeline_once() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    first = sampled(pipeline)
    pipeline.commit(first)
    for again in (pipeline.launch, pipeline.finalize, pipeline.commit):
        with pytest.raises(PipelineError):
            again(first)


def test_references_count_the_launched_steps_that_hold_a_row() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    stays, leaves = Row(), Row()
    first = sampled(pipeline, stays, leaves)
    second = launched(pipeline, stays)
    assert (stays.inflight_refs, leaves.inflight_refs) == (2, 1)
    pipeline.commit(first)
    assert (stays.inflight_refs, leaves.inflight_refs) == (1, 0)
    pipeline.finalize(second)
    pipeline.commit(second)
    assert stays.inflight_refs == 0


def test_references_outside_0_to_2_are_an_error() -> None:
    pipeline: Pipeline[PipelineStep] = Pipeline()
    with pytest.raises(PipelineError):
        pipeline.launch(step(Row(inflight_refs=2)))
