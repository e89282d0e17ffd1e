"""What fails, fails alone: a row's own errors, a step's errors, and the device's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from photon.core.request import Choice, Request, SkillState
from photon.core.sequence import Sequence
from photon.devices.simulated import LAZY, SimulatedDevice
from photon.errors import DeviceError, InvalidRequestError, NonFiniteError
from tests.rig import Rig, WalkState, Watched, adapter, image, request
from tests.scripted import OVERFLOWING, InjectedError, generate


def rig(**options: Any) -> Rig:
    return Rig(SimulatedDevice(LAZY), **({"eos_share": 0, "rows": 3} | options))


def failing(call: str, at: int, **more: Any) -> Request:
    q = request(limit=8, seed=5, **more)
    return Request(q.prompt, q.image, q.limit, lambda: WalkState(5, (call, at)), q.sampling, q.mode, q.adapter)


def answered(r: Rig, *sequences: Sequence) -> None:
    for s in sequences:
        assert s.listener.result == {
            "tokens": generate(s.request, r.core.reservations.prefixes.length, r.executor.eos_share)
        }


def failed(sequence: Sequence, kind: type[BaseException] = InjectedError) -> bool:
    return isinstance(sequence.listener.error, kind)  # type: ignore[attr-defined]


# -- a row's own -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize("call", ["choice", "advance", "result"])
def test_an_error_of_a_skill_fails_its_row_alone(call: str, at: int, mode: Any) -> None:
    r = rig()
    first = r.submit(request(limit=8, seed=1, mode=mode))
    broken = r.submit(failing(call, at, mode=mode))
    last = r.submit(request(limit=8, seed=2, mode=mode))
    r.run()
    r.check_at_rest()
    assert failed(broken)
    answered(r, first, last)


@pytest.mark.parametrize("choice", [Choice(()), Choice(tuple(range(7, 20))), Choice(None, tuple(range(9))), None])
def test_a_list_that_is_missing_or_does_not_fit_fails_its_row_and_never_allows_everything(choice: Any) -> None:
    class Broken(SkillState):
        def __init__(self) -> None:
            self.tokens: list[Any] = []

        def choice(self) -> Choice:
            return choice if len(self.tokens) == 2 else Choice((9,))

        def advance(self, token: Any) -> None:
            self.tokens.append(token)

        def result(self) -> dict[str, Any]:
            return {}

    r = rig()
    first = r.submit(request(limit=8))
    broken = r.submit(Request(first.request.prompt, None, 8, Broken))
    r.run()
    r.check_at_rest()
    assert broken.listener.error is not None  # type: ignore[attr-defined]
    assert broken.committed == 2
    answered(r, first)


@pytest.mark.parametrize("call", ["advanced", "ended"])
def test_an_error_of_a_listener_fails_its_row_alone(call: str) -> None:
    r = rig()
    first = r.submit(request(limit=8, seed=1))
    broken = r.submit(request(limit=8, seed=3), Watched((call, 2)))
    r.run()
    r.check_at_rest()
    assert broken.listener.ends == 1  # type: ignore[attr-defined]
    assert failed(broken) == (call == "advanced")
    answered(r, first)


@pytest.mark.parametrize("end", ["cancel", "step"])
def test_an_error_of_a_listener_that_is_told_of_another_end_stops_nothing(end: str) -> None:
    r = rig()
    broken = r.submit(request(limit=8, seed=3), Watched(("ended", 0)))
    first = r.submit(request(limit=8, seed=1))
    r.tick()
    if end == "cancel":
        r.scheduler.cancel(broken)
    else:
        r.runner.fail_at.add(("copy", 1))
    later = r.submit(request(limit=8, seed=2))
    r.run()
    r.check_at_rest()
    answered(r, later, *([first] if end == "cancel" else []))


def test_a_picture_that_cannot_be_prepared_fails_its_own_requests() -> None:
    r = rig(bad_images=frozenset({7}))
    bad = [r.submit(request(seed=n, image=image(7))) for n in range(2)]
    good = r.submit(request(image=image(1)))
    r.run()
    r.check_at_rest()
    assert all(map(failed, bad))
    answered(r, good)
    again = r.submit(request(image=image(7)))
    r.run()
    assert failed(again)
    assert r.scheduler.idle


# -- a step's --------------------------------------------------------------------------------------------------------

PARTS = ("staging", "mask", "copy", "prompt", "decode", "sample")


@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
@pytest.mark.parametrize("part", PARTS)
def test_an_error_of_a_step_fails_its_rows_and_the_engine_goes_on(part: str, mode: Any) -> None:
    r = rig()
    if part in ("staging", "mask", "copy"):
        r.runner.fail_at.add((part, 3))
    else:
        r.executor.raise_at.add((part, 0 if part == "prompt" else 2))
    rows = [r.submit(request(limit=8, seed=n, mode=mode)) for n in range(2)]
    r.run()
    r.check_at_rest()
    assert all(map(failed, rows))
    later = [r.submit(request(limit=8, seed=n, mode=mode)) for n in range(3)]
    r.run()
    r.check_at_rest()
    answered(r, *later)


def test_a_prefill_that_fails_leaves_the_rows_that_decode_alone() -> None:
    """Its slot still holds the rows of an earlier step: nothing may be scattered into them."""
    for part in ("staging", "prompt", "sample"):
        r = rig()
        running = [r.submit(request(limit=14, seed=n)) for n in range(2)]
        for _ in range(5):
            r.tick()
        if part == "staging":
            r.runner.fail_at.update(("staging", index) for index in range(5, 8) if index % 2 == 0)
        prompts = r.executor.calls["prompt"]
        if part == "prompt":
            r.executor.raise_at.add(("prompt", prompts))
        broken = r.submit(request(limit=4, seed=9))
        if part == "sample":
            r.executor.raise_at.add(("sample", r.executor.calls["sample"] + 1))
        r.run()
        r.check_at_rest()
        if part == "prompt":
            assert failed(broken)
            answered(r, *running)
        else:
            answered(r, *(s for s in running if not failed(s)))


def test_rows_of_a_later_launch_that_read_a_failed_steps_values_are_not_answered() -> None:
    r = rig()
    sequence = r.submit(request(limit=8))
    for _ in range(3):
        r.tick()
    r.executor.raise_at.add(("sample", r.executor.calls["sample"] + 1))
    r.run()
    r.check_at_rest()
    assert failed(sequence)
    expected = generate(sequence.request, r.core.reservations.prefixes.length, 0)
    assert sequence.state.tokens == expected[: sequence.committed]  # type: ignore[attr-defined]


def test_both_slots_drain_after_an_error() -> None:
    r = rig()
    r.submit(request(limit=8))
    for _ in range(3):
        r.tick()
    r.executor.raise_at.add(("decode", r.executor.calls["decode"] + 1))
    r.run()
    assert r.scheduler.pipeline.in_flight == 0
    assert r.scheduler.pipeline.can_launch()
    assert r.runner.collected == list(range(len(r.runner.launched)))


def test_an_error_does_not_lose_the_pending_step_of_others() -> None:
    r = rig()
    first = r.submit(request(limit=8, seed=1))
    r.tick()
    r.executor.raise_at.add(("prompt", 1))
    second = r.submit(request(limit=8, seed=2))
    r.tick()
    r.tick()
    third = r.submit(request(limit=8, seed=3))
    r.run()
    r.check_at_rest()
    assert failed(second)
    answered(r, first, third)


def test_the_overflow_of_a_cancelled_leader_reaches_nobody() -> None:
    """It has ended when its values arrive, but its prefix and its pages are for others."""
    r = rig(pages=12)
    left = r.submit(request(limit=4, image=image(OVERFLOWING)))
    r.tick()
    r.pool.run()
    r.tick()
    assert left.launched
    r.scheduler.cancel(left)
    r.run()
    assert not list(r.core.reservations.prefixes), "the prefix holds values that are no numbers"
    others = [r.submit(request(limit=6, seed=n, image=image(n))) for n in range(3)]
    again = r.submit(request(limit=4, image=image(OVERFLOWING)))
    r.run()
    r.check_at_rest()
    answered(r, *others)
    assert failed(again, NonFiniteError)


def test_what_steps_that_failed_have_left_reaches_nobody() -> None:
    """The overflow is in the pages, and no step that could tell of it was read."""
    r = rig(rows=1, pages=4)
    r.runner.fail_at |= {("copy", 1), ("copy", 2)}
    broken = r.submit(failing("overflow", 1))
    r.run()
    assert failed(broken)
    assert len(r.runner.failed) == 2, "the value that was fed on has not been computed"
    later = r.submit(request(limit=8, seed=1))
    r.run()
    r.check_at_rest()
    answered(r, later)


def test_what_is_captured_later_reads_nothing_that_an_overflow_left() -> None:
    """The trial run of a captured step writes where all short rows look."""
    r = Rig(SimulatedDevice(LAZY, captures=True), eos_share=0, rows=2, pages=32)
    r.runner.warm_up()
    for n in range(4):
        broken = r.submit(replace(failing("overflow", 2, adapter=adapter(n)), limit=3))  # its last token
        r.run()
        assert failed(broken, NonFiniteError)
        later = r.submit(request(limit=3, seed=n, adapter=adapter(0)))
        r.run()
        r.check_at_rest()
        answered(r, later)


def test_a_bad_list_is_an_error_with_a_sentence() -> None:
    r = rig()
    sequence = r.submit(failing("bad choice", 0))
    r.run()
    assert failed(sequence, InvalidRequestError)
    assert "0 ids" in str(sequence.listener.error)  # type: ignore[attr-defined]


# -- the device's ------------------------------------------------------------------------------------------------------


def test_a_device_that_is_lost_ends_the_tick_with_its_cause() -> None:
    r = rig()
    r.submit(request(limit=8))
    for _ in range(3):
        r.tick()
    assert isinstance(r.device, SimulatedDevice)
    r.device.fail("an illegal memory access")
    with pytest.raises(DeviceError, match="illegal memory access"):
        r.tick()


@pytest.mark.parametrize("at", ["launch", "commit"])
def test_after_the_device_is_lost_every_request_can_be_ended(at: str) -> None:
    r = rig()
    sequences = [r.submit(request(limit=8, seed=n)) for n in range(5)]
    for _ in range(3):
        r.tick()
    assert isinstance(r.device, SimulatedDevice)
    r.scheduler.paused = at == "commit"
    r.device.fail("gone")
    with pytest.raises(DeviceError, match="gone"):
        r.tick()
    assert [s.listener.ends for s in sequences] == [0] * 5, "a lost device is no step's own error"  # type: ignore[attr-defined]
    r.scheduler.abort(DeviceError("gone"))
    assert [s.listener.ends for s in sequences] == [1] * 5  # type: ignore[attr-defined]
