"""Who runs next: arrival order, reservations, prefixes, modes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from photon.core.request import Token
from photon.core.sequence import Phase, Sequence
from photon.devices.simulated import LAZY, SimulatedDevice
from photon.errors import InvalidRequestError
from tests.rig import MAX_CONTEXT, Rig, Watched, adapter, image, request
from tests.scripted import InjectedError, generate


def rig(**options: Any) -> Rig:
    return Rig(SimulatedDevice(LAZY), **({"eos_share": 0} | options))


def admitted(r: Rig) -> list[int]:
    """Ids in the order of their prefills."""
    return [s.id for step in r.runner.launched if step.kind == "prefill" for s in step.sequences]


def answers_are_right(r: Rig, *sequences: Sequence) -> None:
    for s in sequences:
        expected = generate(s.request, r.core.reservations.prefixes.length, r.executor.eos_share)
        assert s.listener.result == {"tokens": expected}  # type: ignore[attr-defined]


# -- order ---------------------------------------------------------------------------------------------------------


def test_requests_are_admitted_in_arrival_order() -> None:
    r = rig(rows=2)
    for n in range(7):
        r.submit(request(seed=n, limit=2 + n % 3))
    r.run()
    assert admitted(r) == [1, 2, 3, 4, 5, 6, 7]


def test_a_picture_in_preparation_lets_others_pass() -> None:
    r = rig()
    slow = r.submit(request(image=image(1)))
    quick = r.submit(request())
    while not quick.finalized:
        assert r.tick()
    assert slow.phase is Phase.WAITING
    r.run()
    r.check_at_rest()
    assert admitted(r) == [2, 1]


def test_a_ready_request_that_does_not_fit_yet_holds_the_queue() -> None:
    r = rig(rows=3, pages=8, page_size=4)
    r.submit(request(limit=13))
    large = r.submit(request(limit=24))
    small = r.submit(request(limit=1))
    for _ in range(3):
        r.tick()
    assert (large.phase, small.phase) == (Phase.WAITING, Phase.WAITING)
    r.run()
    r.check_at_rest()
    assert admitted(r) == [1, 2, 3]


def test_a_request_behind_others_that_are_cancelled_is_prepared_in_its_turn() -> None:
    r = rig(rows=1)
    r.submit(request(limit=12))
    waiting = [r.submit(request(image=image(n))) for n in range(3)]
    for _ in range(3):
        r.tick()
        r.pool.run()
    r.tick()
    assert not r.pool.waiting, "the third is too far back to be prepared"
    r.scheduler.cancel(waiting[0])
    r.scheduler.cancel(waiting[1])
    r.run()
    r.check_at_rest()
    assert waiting[2].listener.result is not None  # type: ignore[attr-defined]


def test_a_request_behind_pictures_that_cannot_be_prepared_is_prepared_in_its_turn() -> None:
    r = rig(rows=1, bad_images=frozenset({7}))
    bad = [r.submit(request(image=image(7))) for _ in range(3)]
    good = r.submit(request(image=image(1)))
    r.run()
    r.check_at_rest()
    for sequence in bad:
        assert isinstance(sequence.listener.error, InjectedError)  # type: ignore[attr-defined]
    assert good.listener.result is not None  # type: ignore[attr-defined]


# -- what can never fit --------------------------------------------------------------------------------------------


def test_one_position_above_the_context_is_refused_with_the_limit() -> None:
    r = rig(pages=64)
    prompt = (Token(9),) * 10
    r.core.admission.refuse_if_impossible(request(prompt, MAX_CONTEXT - 10))
    with pytest.raises(InvalidRequestError, match=str(MAX_CONTEXT)):
        r.core.admission.refuse_if_impossible(request(prompt, MAX_CONTEXT - 9))
    with pytest.raises(InvalidRequestError, match=str(MAX_CONTEXT)):
        r.core.admission.refuse_if_impossible(request(prompt, MAX_CONTEXT - 10, image=image(1)))


def test_more_pages_than_there_are_is_refused_with_their_number() -> None:
    r = rig(pages=5, page_size=4, prefix_length=6)
    r.core.admission.refuse_if_impossible(request(limit=20))
    with pytest.raises(InvalidRequestError, match="there are 5"):
        r.core.admission.refuse_if_impossible(request(limit=21))
    r.core.admission.refuse_if_impossible(request(limit=10, image=image(1)))
    with pytest.raises(InvalidRequestError, match="there are 5"):
        r.core.admission.refuse_if_impossible(request(limit=11, image=image(1)))


def test_the_largest_request_that_is_not_refused_runs() -> None:
    r = rig(pages=5, page_size=4, prefix_length=6)
    cached = r.submit(request(limit=1, image=image(2)))
    r.run()
    largest = r.submit(request(limit=10, image=image(1)))
    r.run()
    r.check_at_rest()
    answers_are_right(r, cached, largest)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="at least 1"):
        rig().core.admission.refuse_if_impossible(request(limit=0))


# -- prefixes ------------------------------------------------------------------------------------------------------


def test_requests_on_one_image_compute_its_prefix_once() -> None:
    r = rig(rows=4)
    sequences = [r.submit(request(seed=n, image=image(1))) for n in range(5)]
    r.run()
    r.check_at_rest()
    answers_are_right(r, *sequences)
    assert r.executor.calls["prefix"] == 1
    assert len({id(s.prefix) for s in sequences}) == 1


def test_those_who_wait_for_a_prefix_do_not_hold_up_others() -> None:
    r = rig(rows=4)
    leader, follower = (r.submit(request(seed=n, image=image(1))) for n in range(2))
    other = r.submit(request(seed=9))
    r.tick()
    r.pool.run()
    while leader.launched == 0 or other.launched == 0:
        r.tick()
        assert follower.launched == 0 or leader.committed > 0, "a follower used a prefix that was not committed"
    r.run()
    answers_are_right(r, leader, follower, other)


def test_adapters_have_prefixes_of_their_own() -> None:
    r = rig(rows=4)
    plain = r.submit(request(image=image(1)))
    adapted = r.submit(request(image=image(1), adapter=adapter(1)))
    r.run()
    r.check_at_rest()
    answers_are_right(r, plain, adapted)
    assert sum(len(step.crops) for step in r.runner.launched) == 2


def test_a_prefix_whose_leader_is_cancelled_in_flight_still_commits() -> None:
    r = rig()
    leader, follower = (r.submit(request(seed=n, image=image(1))) for n in range(2))
    r.tick()
    r.pool.run()
    while leader.inflight_refs == 0:
        r.tick()
    r.scheduler.cancel(leader)
    r.run()
    r.check_at_rest()
    answers_are_right(r, follower)
    assert r.executor.calls["prefix"] == 1
    assert follower.prefix is leader.prefix


def test_when_a_leader_fails_the_next_one_leads() -> None:
    r = rig()
    r.executor.raise_at.add(("prefix", 0))
    leader, follower, last = (r.submit(request(seed=n, image=image(1))) for n in range(3))
    r.run()
    r.check_at_rest()
    assert isinstance(leader.listener.error, InjectedError)  # type: ignore[attr-defined]
    answers_are_right(r, follower, last)
    assert (follower.leads, last.leads) == (True, False)


def test_one_who_comes_while_a_doomed_prefix_is_pending_leads_after_it() -> None:
    r = rig()
    r.executor.raise_at.add(("prefix", 0))
    leader = r.submit(request(image=image(1)))
    r.tick()
    r.pool.run()
    while leader.inflight_refs == 0:
        r.tick()
    late = r.submit(request(seed=2, image=image(1)))
    r.run()
    r.check_at_rest()
    answers_are_right(r, late)


def test_a_prefix_is_not_evicted_by_the_request_that_is_about_to_use_it() -> None:
    """It waits for pages instead, although the pages of its own prefix would be enough."""
    r = rig(rows=2, pages=6, page_size=4, prefix_length=8)
    first = r.submit(request(limit=1, image=image(1)))
    r.run()
    running = r.submit(request(limit=12))
    again = r.submit(request(seed=5, limit=8, image=image(1)))
    r.tick()
    r.tick()
    assert (r.core.reservations.pages.free, again.phase) == (1, Phase.WAITING)
    assert r.core.reservations.prefixes.cached_pages == 2
    r.run()
    r.check_at_rest()
    answers_are_right(r, first, running, again)
    assert r.executor.calls["prefix"] == 1


def test_an_evicted_prefix_is_computed_again() -> None:
    r = rig(rows=1, pages=5, page_size=4, prefix_length=8)
    sequences = [r.submit(request(seed=n, limit=9, image=image(n % 2))) for n in range(4)]
    r.run()
    r.check_at_rest()
    answers_are_right(r, *sequences)
    assert r.executor.calls["prefix"] == 4


def test_waiting_for_room_pins_no_prefix() -> None:
    r = rig(rows=1, pages=8, page_size=4, prefix_length=8)
    r.submit(request(limit=1, image=image(1)))
    r.run()
    r.submit(request(limit=8))
    waiting = r.submit(request(limit=1, image=image(1)))
    r.tick()
    assert waiting.phase is Phase.WAITING
    assert [p.pins for p in r.core.reservations.prefixes] == [0]
    r.run()
    r.check_at_rest()


def test_shared_pages_are_never_written() -> None:
    """The scripted executor notes every write to a page of a prefix; the tail is copied first."""
    for length in (6, 8):
        r = rig(rows=3, prefix_length=length)
        sequences = [r.submit(request((Token(9),) * 3, 8, seed=n, image=image(1))) for n in range(6)]
        r.run()
        r.check_at_rest()
        answers_are_right(r, *sequences)
        assert (r.executor.calls["copy_pages"] > 0) == (length == 6)


# -- prefills among decodes ----------------------------------------------------------------------------------------


def test_a_prefilled_row_decodes_before_the_host_has_seen_its_first_token() -> None:
    r = rig()
    sequence = r.submit(request(limit=6))
    r.tick()
    assert (sequence.launched, sequence.committed) == (1, 0)
    r.scheduler.tick()
    assert sequence.launched == 2
    assert [s.kind for s in r.runner.launched] == ["prefill", "decode"]
    assert r.runner.collected == [0]


def test_at_most_one_prefill_stands_between_two_decodes() -> None:
    r = rig(rows=6, max_prefill_tokens=1)
    r.submit(request(limit=20))
    for n in range(8):
        r.submit(request(seed=n, limit=4))
    r.run()
    kinds = "".join(s.kind[0] for s in r.runner.launched)
    assert "pp" not in kinds[1 : kinds.rindex("d")]


def test_a_prefill_is_bounded_by_the_setting_also_below_the_context() -> None:
    r = rig(rows=6, pages=64, max_prefill_tokens=8)
    for n in range(6):
        r.submit(request((Token(9),) * 6, 2, seed=n))
    r.run()
    prefills = [s for s in r.runner.launched if s.kind == "prefill"]
    assert len(prefills) == 6
    assert all(6 * len(s.sequences) <= 8 for s in prefills)


def test_a_prompt_that_is_longer_than_a_prefill_may_be_is_launched_alone() -> None:
    r = rig(rows=6, pages=64, max_prefill_tokens=8)
    long = [r.submit(request((Token(9),) * 20, 2, seed=n)) for n in range(2)]
    short = [r.submit(request((Token(9),) * 2, 2, seed=n)) for n in range(2)]
    r.run()
    r.check_at_rest()
    prefills = [s.sequences for s in r.runner.launched if s.kind == "prefill"]
    assert prefills == [[long[0]], [long[1]], short]


def test_a_prefill_launch_is_bounded_by_padded_tokens_and_by_new_images() -> None:
    r = rig(rows=8, max_prefill_tokens=MAX_CONTEXT)
    long = (Token(9),) * 30
    for n in range(4):
        r.submit(request(long if n else (Token(9),), 2))
    r.run()
    assert [len(s.sequences) for s in r.runner.launched if s.kind == "prefill"] == [2, 2]
    r = rig(rows=8, max_prefill_images=2)
    for n in range(5):
        r.submit(request(limit=2, image=image(n)))
    r.run()
    prefills = [s for s in r.runner.launched if s.kind == "prefill"]
    assert max(len(s.crops) for s in prefills) == 2


def test_rows_that_decode_stay_together_until_one_ends() -> None:
    r = rig(rows=3)
    for n in range(3):
        r.submit(request(seed=n, limit=6))
    r.run()
    decodes = [[s.id for s in step.sequences] for step in r.runner.launched if step.kind == "decode"]
    assert all(ids == [1, 2, 3] for ids in decodes)


# -- modes ---------------------------------------------------------------------------------------------------------


def test_rows_of_both_modes_never_decode_together_and_change_over_in_arrival_order() -> None:
    r = rig(rows=4)
    modes = ("pipelined", "pipelined", "blocking", "pipelined", "blocking")
    sequences = [r.submit(request(seed=n, limit=4, mode=m)) for n, m in enumerate(modes)]
    r.run()
    r.check_at_rest()
    answers_are_right(r, *sequences)
    assert admitted(r) == [1, 2, 3, 4, 5]
    assert all(len({s.mode for s in step.sequences}) == 1 for step in r.runner.launched)


def test_a_request_of_the_other_mode_closes_admission_until_the_rows_have_ended() -> None:
    r = rig(rows=4)
    running = r.submit(request(limit=8))
    other = r.submit(request(seed=1, limit=2, mode="blocking"))
    late = r.submit(request(seed=2, limit=2))
    for _ in range(5):
        r.tick()
    assert r.core.admission.closed_for == "blocking"
    assert r.scheduler.waiting_for == "mode change"
    assert (other.phase, late.phase) == (Phase.WAITING, Phase.WAITING)
    r.run()
    assert running.times.ended < other.times.launched < late.times.launched
    assert r.core.admission.closed_for is None
    assert r.scheduler.waiting_for is None


def test_in_blocking_mode_no_step_is_launched_before_the_one_before_is_committed() -> None:
    r = rig()
    for n in range(3):
        r.submit(request(seed=n, mode="blocking"))
    while r.tick():
        assert r.scheduler.pipeline.in_flight == 0
    r.check_at_rest()


# -- pausing -------------------------------------------------------------------------------------------------------


def test_pausing_finishes_launched_steps_and_keeps_rows() -> None:
    r = rig()
    listener = Watched()
    sequence, waiting = r.submit(request(limit=9), listener), r.submit(request(limit=2))
    for _ in range(4):
        r.tick()
    r.scheduler.paused = True
    launched = len(r.runner.launched)
    r.run()
    assert len(r.runner.launched) == launched
    assert r.scheduler.pipeline.in_flight == 0
    assert sequence.committed == sequence.launched
    assert sequence.phase is Phase.RUNNING
    r.scheduler.paused = False
    r.run()
    r.check_at_rest()
    answers_are_right(r, sequence, waiting)


# -- adapters ------------------------------------------------------------------------------------------------------


def test_no_request_is_served_before_its_adapter_has_arrived() -> None:
    r = rig(rows=4, max_adapters=2)
    first, second = (r.submit(request(seed=n, adapter=adapter(1))) for n in range(2))
    r.tick()
    r.tick()
    assert second.launched == 0 or first.committed > 0
    r.run()
    answers_are_right(r, first, second)
    assert r.executor.calls["load_adapter"] == 1


def test_an_adapter_slot_is_not_loaded_anew_under_a_zombie() -> None:
    r = Rig(SimulatedDevice(LAZY), rows=2, max_adapters=1, eos_share=0.5)
    sequences = [r.submit(request(seed=n, adapter=adapter(n % 3))) for n in range(12)]
    r.run()
    r.check_at_rest()
    answers_are_right(r, *sequences)


def test_when_an_adapter_cannot_be_loaded_its_next_request_loads_it() -> None:
    r = rig(max_adapters=1)
    r.executor.raise_at.add(("load_adapter", 0))
    first, second = (r.submit(request(seed=n, adapter=adapter(1))) for n in range(2))
    r.run()
    r.check_at_rest()
    assert isinstance(first.listener.error, InjectedError)  # type: ignore[attr-defined]
    answers_are_right(r, second)
