"""The engine thread: callers on any thread, pauses, drains, deadlines and failures."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from photon.core.request import Request
from photon.devices.base import Device
from photon.devices.cpu import CpuDevice
from photon.devices.simulated import LAZY, SimulatedDevice
from photon.engine.streaming import End, ThreadMailbox
from photon.errors import EngineStoppedError, InvalidRequestError, PhotonError, QueueFullError, RequestCancelledError
from photon.memory.pages import OwnershipError
from tests.engine.running import PATIENCE_S, Engine, StreamedState, plan, running
from tests.rig import WalkState, image, request
from tests.scripted import InjectedError


def outcome(job: Any) -> BaseException | None:
    error: BaseException | None = job.future.exception(PATIENCE_S)
    return error


def counted(engine: Engine, **expected: int) -> None:
    """Asked between two ticks: whoever waits for an answer is woken before it is counted."""
    assert engine.loop.do(lambda: dict(engine.loop.counts)) == expected


# -- answering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [CpuDevice, lambda: SimulatedDevice(LAZY)])
def test_calls_from_many_threads_get_their_own_answers(make: Callable[[], Device]) -> None:
    wrong: list[Any] = []
    with running(make()) as engine:

        def caller(number: int) -> None:
            for n in range(8):
                q = request(limit=1 + n, seed=100 * number + n, image=image(n % 3))
                answer = engine.ask(q).future.result(PATIENCE_S)
                if answer != engine.expected(q):
                    wrong.append((number, n, answer))

        threads = [threading.Thread(target=caller, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.rest()
    assert not wrong


def test_the_last_token_arrives_although_no_further_request_does() -> None:
    with running(eos_share=0) as engine:
        for limit in (1, 2, 3, 10):
            assert engine.ask(request(limit=limit)).future.result(PATIENCE_S)
        engine.rest()


def test_the_stages_of_a_call_follow_each_other() -> None:
    first, second = [request(seed=1), request(seed=2)], [request(seed=3, image=image(1))]
    with running() as engine:
        job = engine.loop.submit(plan(first, second))
        answer = job.future.result(PATIENCE_S)
        expected = [engine.expected(*first)["stages"][0], engine.expected(*second)["stages"][0]]
        assert answer == {"stages": expected}
        assert len(answer.metrics.requests) == 3
        engine.rest()


# -- refusing --------------------------------------------------------------------------------------------------------


def test_what_can_never_run_is_refused_on_the_callers_side() -> None:
    with running() as engine:
        with pytest.raises(InvalidRequestError):
            engine.ask(request(limit=1000))
        assert engine.ask(request()).future.result(PATIENCE_S)


def test_a_later_stage_that_can_never_run_fails_its_call_and_holds_up_nobody() -> None:
    with running() as engine:
        job = engine.loop.submit(plan([request()], [request(seed=1), request(limit=1000)]))
        assert isinstance(outcome(job), InvalidRequestError)
        assert engine.ask(request(seed=2)).future.result(PATIENCE_S)
        engine.rest()


def test_too_many_waiting_requests_are_refused_at_once_with_their_number() -> None:
    with running(queue=3) as engine:
        engine.loop.pause()
        accepted = [engine.ask(request(seed=n)) for n in range(3)]
        refused = engine.ask(request(seed=9))
        error = outcome(refused)
        assert isinstance(error, QueueFullError)
        assert "3 requests are waiting" in str(error)
        engine.loop.resume()
        for job in accepted:
            job.future.result(PATIENCE_S)
        assert engine.ask(request(seed=9)).future.result(PATIENCE_S)


def test_a_state_that_cannot_even_start_fails_its_call_alone() -> None:
    def broken() -> Any:
        raise InjectedError("no state")

    with running() as engine:
        assert isinstance(outcome(engine.ask(Request(request().prompt, None, 3, broken))), InjectedError)
        assert engine.ask(request()).future.result(PATIENCE_S)
        engine.rest()


# -- cancelling ------------------------------------------------------------------------------------------------------


def test_cancelling_ends_all_requests_of_a_call_once() -> None:
    with running(eos_share=0) as engine:
        engine.loop.pause()
        job = engine.ask(*(request(limit=30, seed=n) for n in range(6)))
        other = engine.ask(request(limit=30, seed=9))
        engine.loop.cancel(job)
        engine.loop.cancel(job)
        engine.loop.resume()
        assert isinstance(outcome(job), RequestCancelledError)
        assert other.future.result(PATIENCE_S)
        engine.loop.cancel(job)
        engine.loop.cancel(other)
        engine.rest()
        counted(engine, cancelled=1, done=1)


def test_five_hundred_clients_that_leave_in_mid_answer_leave_nothing_behind() -> None:
    dice = random.Random(5)
    with running(eos_share=0.02) as engine:
        jobs = []
        for n in range(500):
            jobs.append(engine.ask(request(limit=20, seed=n, image=image(n % 4) if n % 2 else None)))
            if dice.random() < 0.8:
                engine.loop.cancel(dice.choice(jobs))
        for job in jobs:
            engine.loop.cancel(job)
            if dice.random() < 0.3:
                engine.loop.cancel(job)
        errors = [outcome(job) for job in jobs]
        assert all(e is None or isinstance(e, RequestCancelledError) for e in errors)
        assert engine.ask(request()).future.result(PATIENCE_S)
        engine.rest()


def test_a_failed_request_ends_its_siblings() -> None:
    """Their answer is nobody's any more, and they would hold rows to the end."""
    with running(eos_share=0, rows=4) as engine:
        engine.loop.pause()
        broken = Request(request().prompt, None, 50, lambda: WalkState(5, ("advance", 2)))
        call = engine.ask(broken, *(request(limit=50, seed=n) for n in range(3)))
        engine.loop.resume()
        assert isinstance(outcome(call), InjectedError)
        engine.rest()
        assert sum(len(step.sequences) for step in engine.rig.runner.launched) < 4 * 10


# -- pausing and stopping --------------------------------------------------------------------------------------------


def test_a_paused_engine_answers_nobody_until_it_is_resumed() -> None:
    with running(eos_share=0) as engine:
        engine.loop.pause()
        job = engine.ask(request(limit=5))
        engine.until(lambda: engine.rig.scheduler.waiting == 1, "the request has arrived")
        assert not job.future.done()
        assert not engine.rig.runner.launched
        engine.loop.resume()
        assert job.future.result(PATIENCE_S)


def test_a_drained_engine_finishes_what_it_has_and_refuses_what_comes() -> None:
    with running() as engine:
        jobs = [engine.loop.submit(plan([request(seed=n)], [request(seed=n + 50)])) for n in range(20)]
        engine.loop.stop(PATIENCE_S)
        assert all(job.future.done() and job.future.exception() is None for job in jobs)
        with pytest.raises(EngineStoppedError, match="closed"):
            engine.ask(request())
        engine.rest()


def test_a_paused_engine_can_be_drained() -> None:
    with running() as engine:
        engine.loop.pause()
        job = engine.ask(request())
        engine.loop.stop(PATIENCE_S)
        assert job.future.result(0)


def test_after_its_deadline_a_stopping_engine_fails_what_is_left() -> None:
    class Endless(StreamedState):
        def advance(self, token: Any) -> None:
            time.sleep(0.02)
            super().advance(token)

    with running(eos_share=0, rows=2) as engine:
        slow = [engine.ask(Request(request().prompt, None, 60, lambda: Endless(0))) for _ in range(6)]
        engine.until(lambda: engine.rig.runner.launched, "a step is launched")
        start = time.monotonic()
        engine.loop.stop(0.2)
        assert time.monotonic() - start < PATIENCE_S / 2
        assert any(isinstance(outcome(job), EngineStoppedError) for job in slow)
        assert all(job.future.done() for job in slow)
        engine.rest()


def test_stopping_twice_is_harmless() -> None:
    with running() as engine:
        engine.loop.stop(PATIENCE_S)
        engine.loop.stop(PATIENCE_S)


def test_more_requests_at_once_than_the_queue_holds_can_never_run_and_are_refused_for_good() -> None:
    with running(queue=3) as engine:
        assert outcome(engine.ask(*(request(limit=1, seed=n) for n in range(3)))) is None
        with pytest.raises(InvalidRequestError, match="4 requests at once; the queue has room for 3"):
            engine.ask(*(request(limit=1, seed=n) for n in range(4)))


def test_threads_are_switched_soon_until_the_last_engine_has_ended() -> None:
    usual = sys.getswitchinterval()
    first, second = Engine(SimulatedDevice(LAZY)), Engine(SimulatedDevice(LAZY))
    for engine in (first, second):
        engine.loop.start()
        assert outcome(engine.ask(request(limit=1))) is None
    first.loop.stop(PATIENCE_S)
    assert sys.getswitchinterval() < usual
    second.loop.stop(PATIENCE_S)
    assert sys.getswitchinterval() == usual


# -- failing ---------------------------------------------------------------------------------------------------------


def waiting_callers(engine: Engine) -> list[Any]:
    """Of a paused engine: when it is resumed, some run, some wait, and one is soon in its second stage."""
    engine.loop.pause()
    jobs = [engine.ask(request(limit=50, seed=n)) for n in range(12)]
    return [*jobs, engine.loop.submit(plan([request(limit=1)], [request(limit=50, seed=n) for n in range(3)]))]


def all_told_within_a_second(engine: Engine, jobs: list[Any], cause: str) -> None:
    engine.loop.resume()
    engine.until(lambda: engine.loop.failure, "the failure is noticed")
    noticed = time.monotonic()
    errors = [outcome(job) for job in jobs]
    assert time.monotonic() - noticed < 1.0
    told = [error for error in errors if error is not None]
    assert len(told) >= len(jobs) - 2, "only the first two can have been answered before their pages were given back"
    for error in told:
        assert isinstance(error, EngineStoppedError)
        assert cause in str(error)
    start = time.monotonic()
    with pytest.raises(EngineStoppedError, match=cause):
        engine.ask(request())
    assert time.monotonic() - start < 1.0


def test_a_device_error_that_sticks_reaches_every_caller_with_its_cause_and_later_calls_at_once() -> None:
    device = SimulatedDevice(LAZY)
    with running(device, eos_share=0, rows=2) as engine:
        jobs = waiting_callers(engine)
        device.fail("an illegal memory access")
        all_told_within_a_second(engine, jobs, "an illegal memory access")


def test_an_error_of_the_scheduler_itself_reaches_every_caller() -> None:
    with running(eos_share=0, rows=2) as engine:

        def disorder(*_: Any) -> None:
            raise OwnershipError("A page has two owners.")

        jobs = waiting_callers(engine)
        engine.rig.core.reservations.pages.give = disorder  # type: ignore[method-assign]
        all_told_within_a_second(engine, jobs, "A page has two owners.")


def test_an_error_that_is_no_exception_of_ours_reaches_every_caller() -> None:
    with running(eos_share=0, rows=2) as engine:

        def broken(*_: Any) -> None:
            raise MemoryError("no memory")

        jobs = waiting_callers(engine)
        engine.rig.runner.launch = broken  # type: ignore[method-assign]
        all_told_within_a_second(engine, jobs, "no memory")


def test_a_failed_engine_can_be_stopped() -> None:
    device = SimulatedDevice(LAZY)
    with running(device) as engine:
        device.fail("gone")
        assert isinstance(outcome(engine.ask(request())), PhotonError)
        engine.loop.stop(PATIENCE_S)


@pytest.mark.parametrize("part", ["prompt", "decode", "sample", "prefix"])
def test_an_error_of_one_step_does_not_end_the_engine(part: str) -> None:
    with running(eos_share=0) as engine:
        engine.rig.executor.raise_at.add((part, 0))
        job = engine.ask(request(limit=4, image=image(1)))
        assert isinstance(outcome(job), InjectedError)
        q = request(limit=4, seed=3, image=image(1))
        assert engine.ask(q).future.result(PATIENCE_S) == engine.expected(q)
        assert engine.loop.failure is None
        counted(engine, failed=1, done=1)


# -- streams ---------------------------------------------------------------------------------------------------------


def streamed(limit: int, seed: int = 0) -> Request:
    return Request(request().prompt, None, limit, lambda: StreamedState(seed))


def pieces(mailbox: ThreadMailbox) -> tuple[list[int], End]:
    found: list[int] = []
    while not isinstance(item := mailbox.get(), End):
        found.append(item)
    return found, item


def test_a_slow_reader_loses_nothing_and_holds_up_nobody() -> None:
    with running(eos_share=0) as engine:
        mailbox = ThreadMailbox()
        q = streamed(40)
        job = engine.ask(q, mailbox=mailbox)
        others = [engine.ask(request(limit=40, seed=n)) for n in range(10)]
        for other in others:
            other.future.result(PATIENCE_S)  # nobody has read the mailbox yet
        job.future.result(PATIENCE_S)
        found, end = pieces(mailbox)
        assert found == [t.id for t in engine.expected(q)["stages"][0][0]["tokens"]]
        assert end.error is None


def test_every_stream_gets_its_own_pieces_in_order() -> None:
    with running() as engine:
        asked = [(streamed(1 + n % 20, seed=n), ThreadMailbox()) for n in range(40)]
        for q, mailbox in asked:
            engine.ask(q, mailbox=mailbox)
        for q, mailbox in asked:
            found, _ = pieces(mailbox)
            assert found == [t.id for t in engine.expected(q)["stages"][0][0]["tokens"]]


def test_a_reader_that_is_gone_fails_its_request_alone() -> None:
    with running(eos_share=0) as engine:
        engine.loop.pause()
        gone = ThreadMailbox()
        gone.abandoned = True
        q = request(limit=20)
        leaves, stays = engine.ask(streamed(30), mailbox=gone), engine.ask(q)
        engine.loop.resume()
        assert isinstance(outcome(leaves), RequestCancelledError)
        assert stays.future.result(PATIENCE_S) == engine.expected(q)
        engine.rest()


def test_a_failed_engine_ends_every_stream() -> None:
    device = SimulatedDevice(LAZY)
    with running(device, eos_share=0) as engine:
        mailbox = ThreadMailbox()
        engine.ask(streamed(60), mailbox=mailbox)
        device.fail("gone")
        _, end = pieces(mailbox)
        assert isinstance(end.error, EngineStoppedError)
