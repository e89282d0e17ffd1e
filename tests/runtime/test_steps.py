"""What a step stages, waits for and captures: invariants 6 and 7, and no hidden wait on the tick path."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from photon.core.request import Request, SamplingParams, Token
from photon.core.sequence import Sequence
from photon.devices.simulated import EAGER, LAZY, Lag, SimulatedDevice
from photon.errors import DeviceError
from tests.rig import Rig, WalkState, image, request
from tests.scripted import Costs, generate


def tokens(sequence: Sequence) -> list[Token]:
    return sequence.state.tokens  # type: ignore[attr-defined, no-any-return]


def right(r: Rig, *sequences: Sequence) -> bool:
    length, share = r.core.reservations.prefixes.length, r.executor.eos_share
    return all(tokens(s) == generate(s.request, length, share) for s in sequences)


# -- waits -------------------------------------------------------------------------------------------------------------


def test_a_steady_tick_waits_for_the_copy_of_the_step_being_committed_and_for_nothing_else() -> None:
    device = SimulatedDevice(LAZY)
    r = Rig(device, rows=3, eos_share=0)
    for n in range(3):
        r.submit(request(limit=40, seed=n))
    for _ in range(8):
        r.tick()
    device.waits.clear()
    with device.watch_hidden_waits():
        for _ in range(20):
            r.scheduler.tick()
    assert dict(device.waits) == {"event": 20}


@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
def test_no_tick_hides_a_wait_not_even_a_prefill_with_pictures(mode: Any) -> None:
    device = SimulatedDevice(LAZY)
    r = Rig(device, rows=3, eos_share=0.2)
    for n in range(12):
        r.submit(request((Token(9),) * (1 + n % 3), 5, seed=n, image=image(n % 3), mode=mode))
    with device.watch_hidden_waits():
        r.run()
    r.check_at_rest()
    assert set(device.waits) == {"event"}
    assert device.waits["event"] == len(r.runner.launched)


def test_the_wait_of_a_tick_leaves_the_forward_of_the_next_step_on_the_device() -> None:
    device = SimulatedDevice(LAZY)
    r = Rig(device, eos_share=0)
    r.submit(request(limit=10))
    for _ in range(5):
        r.tick()
    launched, forwards = len(r.runner.launched), r.executor.calls["decode"] + r.executor.calls["prompt"]
    assert forwards == launched - 1, "the host waited for a forward that it need not have waited for"


def test_the_forward_hides_the_commit() -> None:
    """With bookkeeping shorter than a forward the pipelined period is F + S; blocking pays for all of it."""
    periods = {}
    for mode in ("pipelined", "blocking"):
        device = SimulatedDevice(LAZY)
        r = Rig(device, eos_share=0)
        r.executor.costs = Costs(prefill=5e-3, decode=4e-3, sampling=1e-3)
        q = request(limit=30)

        class Slow(WalkState):
            def advance(self, token: Token) -> None:
                device.host(2e-3)  # noqa: B023
                super().advance(token)

        r.submit(Request(q.prompt, None, 30, lambda: Slow(0), mode=mode))
        r.run()
        records = r.core.trace.since(0)[5:-5]
        ends = [record.sampling_end_s for record in records]
        periods[mode] = (ends[-1] - ends[0]) / (len(ends) - 1)
    assert periods["pipelined"] == pytest.approx(5e-3, rel=1e-2)
    assert periods["blocking"] == pytest.approx(7e-3, rel=1e-2)


def test_floods_of_short_answers_are_not_slower_in_the_pipeline() -> None:
    times = {}
    for mode in ("pipelined", "blocking"):
        device = SimulatedDevice(LAZY)
        r = Rig(device, rows=4, pages=64, eos_share=0)
        r.executor.costs = Costs(prefill=8e-3, decode=4e-3, sampling=2e-4)
        for n in range(90):
            r.submit(request(limit=1 + n % 3, seed=n, mode=mode))
        while r.scheduler.tick():
            device.host(5e-4)
        r.check_at_rest()
        times[mode] = device.host_s
    assert times["pipelined"] < times["blocking"]


# -- staging -----------------------------------------------------------------------------------------------------------

FAR_BEHIND = (Lag(0, 0), Lag(0, 1), Lag(1, 0), Lag(1, 1))


@pytest.mark.parametrize("lag", FAR_BEHIND)
def test_staging_is_read_however_far_a_stream_lags_behind(lag: Lag) -> None:
    r = Rig(SimulatedDevice(lag), rows=4, pages=64, eos_share=0.15, max_prefill_tokens=8)
    prompts = random.Random(1)
    sequences = []
    for n in range(30):
        prompt = tuple(Token(prompts.randrange(7, 27)) for _ in range(1 + n % 4))
        sampling = SamplingParams(1.0 if n % 3 == 0 else 0.0, 0.25, seed=n)
        picture = image(n % 5) if n % 2 else None
        sequences.append(r.submit(request(prompt, 1 + n % 9, seed=n, image=picture, sampling=sampling)))
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)


def test_pictures_stay_until_the_device_has_read_them() -> None:
    r = Rig(SimulatedDevice(LAZY), rows=2, max_prefill_images=1)
    sequences = [r.submit(request(seed=n, image=image(n), limit=4)) for n in range(10)]
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)
    assert all(r.executor.holds_prefix(p.pages, p.key[1][0], 0) for p in r.core.reservations.prefixes)  # type: ignore[index]


def test_seeded_draws_depend_neither_on_batch_mates_nor_on_copy_timing() -> None:
    def drawn(mates: int, lag: Lag, gap: int) -> list[Token]:
        r = Rig(SimulatedDevice(lag), rows=4, pages=64, eos_share=0)
        for n in range(mates):
            r.submit(request(limit=9, seed=50 + n, sampling=SamplingParams(1.0, 0.5, seed=n)))
        for _ in range(gap):
            r.tick()
        sequence = r.submit(request(limit=9, seed=7, sampling=SamplingParams(1.0, 0.5, seed=99)))
        r.run()
        return tokens(sequence)

    alone = drawn(0, EAGER, 0)
    assert all(drawn(mates, lag, gap) == alone for mates in (1, 3) for lag in (EAGER, LAZY) for gap in (0, 2, 5))
    other = Rig(SimulatedDevice(LAZY), eos_share=0)
    differs = other.submit(request(limit=9, seed=7, sampling=SamplingParams(1.0, 0.5, seed=100)))
    other.run()
    assert tokens(differs) != alone


def test_rows_that_skip_a_step_and_return_go_on_with_their_own_values() -> None:
    r = Rig(SimulatedDevice(LAZY), rows=4, pages=64, eos_share=0)
    sequences = []
    for n in range(12):
        sequences.append(r.submit(request(limit=2 + n % 5, seed=n)))
        r.tick()
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)


def test_rows_that_decode_on_after_a_prefill_in_their_slot_are_staged_anew() -> None:
    """The prefill's only row ends with it, so that the same rows as before decode next in that slot."""
    r = Rig(SimulatedDevice(LAZY), rows=4, pages=64, eos_share=0)
    sequences = [r.submit(request(limit=14, seed=n)) for n in range(2)]
    for n in range(6):
        r.tick()
        r.tick()
        sequences.append(r.submit(request(limit=1, seed=10 + n)))
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)


# -- captured steps ----------------------------------------------------------------------------------------------------


def test_captured_steps_serve_each_slot_batch_and_width_with_its_own_memory() -> None:
    device = SimulatedDevice(LAZY, captures=True)
    r = Rig(device, rows=5, pages=64, eos_share=0.05, page_size=2)
    r.runner.warm_up()
    sequences = [r.submit(request(limit=1 + n % 13, seed=n, image=image(n % 2))) for n in range(20)]
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)
    assert {key[0] for key in device.replays} == {0, 1}
    assert len({key[1] for key in device.replays}) > 1
    assert len({key[2] for key in device.replays}) > 1


def test_a_captured_step_replayed_with_other_memory_is_an_error() -> None:
    device = SimulatedDevice(captures=True)
    memory = [torch.zeros(3)]
    replay = device.capture((0, 1, 1), lambda: memory[0].add_(1))
    replay()
    memory[0] = torch.zeros(3)
    with pytest.raises(DeviceError, match="other memory"):
        replay()


def test_capturing_in_the_middle_of_work_touches_nobodys_pages() -> None:
    """A device runs what it captures once, with whatever the slot's rows were when it last decoded."""
    device = SimulatedDevice(LAZY, captures=True)
    r = Rig(device, rows=2, pages=64, eos_share=0)
    sequences = [r.submit(request(limit=12, seed=n)) for n in range(4)]
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)


def test_nothing_is_allocated_for_decode_steps_after_warming_up() -> None:
    device = SimulatedDevice(LAZY, captures=True)
    r = Rig(device, rows=3, pages=64, eos_share=0)
    r.runner.warm_up()
    captured = device.waits["capture"]
    for n in range(6):
        r.submit(request(limit=20, seed=n))
    r.run()
    assert device.waits["capture"] == captured


def test_lists_that_were_forgotten_are_laid_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.runtime.choices._REMEMBERED", 4)
    r = Rig(SimulatedDevice(LAZY), rows=3, pages=64, eos_share=0.05)
    sequences = [r.submit(request(limit=12, seed=n)) for n in range(12)]
    r.run()
    r.check_at_rest()
    assert right(r, *sequences)
