"""Rows that stop while they are in flight: zombies, limits, and when their memory goes back."""

from __future__ import annotations

from typing import Any

import pytest

from photon.core.request import Choice, SkillState, Token
from photon.core.sequence import Phase, Sequence
from photon.devices.simulated import EAGER, LAZY, SimulatedDevice
from tests.rig import MAX_CONTEXT, Rig, WalkState, Watched, image, request
from tests.scripted import COORD, EOS


class Fixed(SkillState):
    """Stops after `length` tokens, whatever they are."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.tokens: list[Token] = []

    def choice(self) -> Choice:
        return Choice((COORD,))

    def advance(self, token: Token) -> None:
        self.tokens.append(token)
        self.done = len(self.tokens) == self.length

    def result(self) -> dict[str, Any]:
        return {"tokens": self.tokens}


def rig(**options: Any) -> Rig:
    return Rig(SimulatedDevice(LAZY), **options)


def stops_after(length: int, limit: int = 20, **more: Any) -> Any:
    ask = request(limit=limit, **more)
    return type(ask)(ask.prompt, ask.image, limit, lambda: Fixed(length), ask.sampling, ask.mode)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_no_step_is_launched_past_the_length_limit(limit: int) -> None:
    r = rig(eos_share=0)
    sequence = r.submit(stops_after(99, limit))
    r.run()
    r.check_at_rest()
    assert sequence.steps == sequence.committed == limit
    assert len(r.runner.launched) == limit


@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_a_stop_wastes_one_row_step_in_the_pipeline_and_none_without(length: int, mode: str) -> None:
    r = rig()
    sequence = r.submit(stops_after(length, mode=mode))
    r.run()
    r.check_at_rest()
    assert sequence.committed == length
    assert sequence.steps - length == (1 if mode == "pipelined" else 0)
    assert sequence.zombie_steps == sequence.steps - length


def test_a_stop_at_the_limit_wastes_nothing() -> None:
    r = rig()
    sequence = r.submit(stops_after(4, limit=4))
    r.run()
    assert sequence.steps == 4


def test_a_zombie_rides_along_with_eos_as_its_list_and_is_skipped() -> None:
    r = rig(eos_share=0)
    listener = Watched()
    sequence = r.submit(stops_after(2), listener)
    seen: list[Choice] = []
    inner = r.runner.sample

    def sample(step: Any, choices: list[Choice]) -> None:
        seen.extend(c for s, c in zip(step.sequences, choices, strict=True) if s.finalized)
        inner(step, choices)

    r.runner.sample = sample  # type: ignore[method-assign]
    r.run()
    assert seen == [Choice((EOS,))]
    assert len(sequence.state.tokens) == sequence.committed == 2  # type: ignore[attr-defined]
    assert (listener.seen, listener.ends) == (1, 1), "the zombie's step told its listener something"


def test_the_result_is_out_at_once_and_memory_goes_back_with_the_last_reference() -> None:
    r = rig()
    sequence = r.submit(stops_after(2))
    free = r.core.reservations.pages.free
    while not sequence.finalized:
        r.tick()
    assert sequence.listener.ends == 1  # type: ignore[attr-defined]
    assert sequence.inflight_refs == 1
    assert r.core.reservations.pages.free < free
    assert r.core.reservations.rows.free == r.core.reservations.rows.total - 1
    r.tick()
    assert sequence.inflight_refs == 0
    assert r.core.reservations.pages.free == free
    assert r.core.reservations.rows.free == r.core.reservations.rows.total


def test_the_next_owner_of_a_zombies_row_and_pages_reads_nothing_of_it() -> None:
    for lag in (LAZY, EAGER):
        r = Rig(SimulatedDevice(lag), rows=1, pages=6, page_size=2)
        first = [r.submit(request(seed=n, limit=8)) for n in range(6)]
        r.run()
        r.check_at_rest()
        alone = []
        for n in range(6):
            single = Rig(SimulatedDevice(lag), rows=1, pages=6, page_size=2)
            alone.append(single.submit(request(seed=n, limit=8, mode="blocking")))
            single.run()
        assert [s.state.tokens for s in first] == [s.state.tokens for s in alone]  # type: ignore[attr-defined]


def test_short_answers_that_stop_and_refill_keep_every_pending_value_apart() -> None:
    """An admission written under a zombie would be overwritten by the zombie's own sampling."""
    r = rig(rows=2, eos_share=0.7)
    sequences = [r.submit(request(seed=n, limit=3)) for n in range(40)]
    r.run()
    r.check_at_rest()
    for sequence in sequences:
        r.check_choices(sequence)


def test_the_last_token_arrives_without_another_request() -> None:
    r = rig(eos_share=0)
    listener = Watched()
    r.submit(stops_after(99, limit=3), listener)
    ticks = 0
    while r.tick():
        ticks += 1
        assert ticks < 20
    assert listener.ends == 1
    assert r.scheduler.idle


def test_the_scheduler_is_not_idle_while_a_step_is_in_flight() -> None:
    r = rig()
    sequence = r.submit(stops_after(1))
    while not sequence.finalized:
        r.tick()
    assert r.scheduler.pipeline.in_flight == 1
    assert not r.scheduler.idle
    assert r.tick(), "the tick that commits the last step is one in which something was done"
    assert r.scheduler.idle


# -- cancelling ----------------------------------------------------------------------------------------------------


def cancelled_at(phase: str) -> tuple[Rig, Sequence]:
    """A request cancelled in one phase of its life, beside one that goes on."""
    r = rig(rows=2, eos_share=0)
    other = r.submit(stops_after(12))
    sequence = r.submit(stops_after(12, image=image(1)))
    cancel = lambda *_: r.scheduler.cancel(sequence)  # noqa: E731

    def around(name: str, nth: int, before: bool) -> None:
        """Cancel around the nth call of a runner's part that carries the sequence."""
        inner, calls = getattr(r.runner, name), [0]

        def call(step: Any, *args: Any) -> Any:
            holds = sequence in step.sequences
            calls[0] += holds
            hit = holds and calls[0] == nth
            if hit and before:
                cancel()
            result = inner(step, *args)
            if hit and not before:
                cancel()
            return result

        setattr(r.runner, name, call)

    if phase == "queued":
        cancel()
    elif phase == "preparing":
        r.tick()
        assert r.pool.waiting
        cancel()
    elif phase == "prefill launched":
        around("launch", 1, before=False)
    elif phase == "prefill sampled":
        around("sample", 1, before=False)
    elif phase == "launched":
        around("launch", 4, before=False)
    elif phase == "sampled":
        around("sample", 4, before=False)
    elif phase == "committing":
        around("collect", 4, before=True)
    r.run()
    assert other.committed == 12
    return r, sequence


PHASES = ("queued", "preparing", "prefill launched", "prefill sampled", "launched", "sampled", "committing")


@pytest.mark.parametrize("phase", PHASES)
def test_a_cancellation_ends_the_request_once_in_every_phase_and_gives_everything_back(phase: str) -> None:
    r, sequence = cancelled_at(phase)
    r.check_at_rest()
    assert sequence.phase is Phase.ENDED
    assert type(sequence.listener.error).__name__ == "RequestCancelledError"  # type: ignore[attr-defined]
    assert sequence.steps - sequence.committed <= 2
    assert sequence.steps == 0 or phase not in ("queued", "preparing"), "a cancelled request was run all the same"


def test_cancelling_a_zombie_changes_nothing() -> None:
    r = rig()
    sequence = r.submit(stops_after(2))
    while not sequence.finalized:
        r.tick()
    assert sequence.inflight_refs
    r.scheduler.cancel(sequence)
    r.run()
    r.check_at_rest()
    assert sequence.listener.result is not None  # type: ignore[attr-defined]


def test_cancelling_twice_and_after_the_end_changes_nothing() -> None:
    r = rig()
    first, second = r.submit(stops_after(3)), r.submit(stops_after(3))
    r.tick()
    r.scheduler.cancel(first)
    r.scheduler.cancel(first)
    r.run()
    r.scheduler.cancel(first)
    r.scheduler.cancel(second)
    r.run()
    r.check_at_rest()
    assert second.listener.result is not None  # type: ignore[attr-defined]


def test_five_hundred_requests_cancelled_in_mid_stream_leave_nothing_behind() -> None:
    r = rig(rows=8, pages=64)
    sequences = [r.submit(request(seed=n, limit=12, image=image(n % 3))) for n in range(500)]
    ticks = 0
    while not r.scheduler.idle:
        r.pool.run()
        r.tick()
        ticks += 1
        for sequence in r.scheduler.running[::2]:
            r.scheduler.cancel(sequence)
        assert ticks < 3000
    r.check_at_rest()
    assert {s.phase for s in sequences} == {Phase.ENDED}


# -- context -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spare", [0, 1])
def test_prompt_and_answer_exactly_at_and_one_below_the_context_limit_run(spare: int) -> None:
    r = rig(pages=40, eos_share=0)
    limit = 10
    prompt = (Token(9),) * (MAX_CONTEXT - limit - spare)
    sequence = r.submit(request(prompt, limit, seed=3))
    r.core.admission.refuse_if_impossible(sequence.request)
    r.run()
    r.check_at_rest()
    r.check_choices(sequence)
    assert sequence.committed == limit


def test_states_used_here_depend_on_their_history() -> None:
    """Otherwise a list that is one token behind could not be told from the right one."""
    first, second = WalkState(1), WalkState(1)
    lists = set()
    for id in range(7, 27):
        first.advance(Token(id))
        lists.add(first.choice())
    second.advance(Token(9))
    assert len(lists) > 5
    assert second.choice() != WalkState(1).choice() or second._history != WalkState(1)._history


# -- floods of short answers ---------------------------------------------------------------------------------------


def test_rows_whose_last_step_is_launched_take_no_place_in_the_batch_although_they_are_not_committed() -> None:
    r = rig(rows=2, eos_share=0)
    first = [r.submit(stops_after(99, limit=1)) for _ in range(2)]
    second = [r.submit(stops_after(99, limit=1)) for _ in range(2)]
    r.tick()
    assert [s.launched for s in first] == [1, 1]
    r.tick()
    assert [s.launched for s in second] == [1, 1]
    assert r.runner.collected == [0], "the second prefill was launched before the first was committed"
    r.run()
    r.check_at_rest()


def test_places_of_rows_that_stopped_are_filled_at_the_next_launch_although_zombies_are_in_flight() -> None:
    r = rig(rows=2, eos_share=0)
    first = [r.submit(stops_after(2)) for _ in range(2)]
    second = [r.submit(stops_after(2)) for _ in range(2)]
    while not first[0].finalized:
        r.tick()
    assert first[0].inflight_refs == 1
    r.tick()
    assert [s.launched for s in second] == [1, 1]
    r.run()
    r.check_at_rest()
