"""Whatever breaks inside a tick, or however the device hangs: every caller is told, and a stop comes to its end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from photon.core.request import ImageRef
from photon.devices.cpu import CpuDevice
from photon.devices.simulated import LAZY, SimulatedDevice
from photon.engine.streaming import End, ThreadMailbox
from photon.errors import EngineStoppedError
from photon.skills.base import Plan, SideWork
from tests.engine.running import PATIENCE_S, Engine, plan, running
from tests.rig import image, request
from tests.scripted import InjectedError

CALLS_OF_A_TICK = (
    "admission.prepare_ahead",
    "admission.next_batch",
    "admission.remove",
    "reservations.reserve",
    "reservations.settle",
    "reservations.release",
    "reservations.rows.take",
    "reservations.pages.take",
    "reservations.prefixes.lead",
    "reservations.prefixes.commit",
    "runner.seat",
    "runner.launch",
    "runner.check",
    "runner.sample",
    "runner.collect",
    "scheduler.pipeline.launch",
    "scheduler.pipeline.finalize",
    "scheduler.pipeline.commit",
    "trace.add",
)


def breaks(engine: Engine, call: str, at: int) -> None:
    """The `at`-th time that `call` is made it raises."""
    owner_name, name = call.rsplit(".", 1)
    owner = attrgetter(owner_name)(engine.rig.core)
    inner, made = getattr(owner, name), [0]

    def broken(*arguments: Any, **options: Any) -> Any:
        made[0] += 1
        value = inner(*arguments, **options) if made[0] != at or name == "collect" else None  # what it reads is there
        if made[0] == at:
            raise MemoryError("no memory")
        return value

    setattr(owner, name, broken)


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("call", CALLS_OF_A_TICK)
def test_an_error_between_admission_and_commit_reaches_every_caller_within_a_second(call: str, at: int) -> None:
    """Told they must be, by an answer, their own error or the engine's; and so must whoever comes later."""
    with running(SimulatedDevice(LAZY), eos_share=0, rows=2) as engine:
        breaks(engine, call, at)
        engine.loop.pause()
        calls = [engine.ask(request(limit=3 + n % 3, seed=n, image=image(n) if n % 3 else None)) for n in range(9)]
        calls.append(engine.loop.submit(plan([request(limit=1)], [request(limit=3, seed=1)])))
        engine.loop.resume()
        errors = [one.future.exception(PATIENCE_S) for one in calls]
        broken = [error for error in errors if error is not None]
        assert all(isinstance(error, (MemoryError, EngineStoppedError)) for error in broken)
        assert broken, "the fault was never reached"
        if engine.loop.failure is not None:
            start = time.monotonic()
            with pytest.raises(EngineStoppedError, match="no memory"):
                engine.ask(request())
            assert time.monotonic() - start < 1


def test_a_plan_that_raises_at_its_end_ends_nothing_else() -> None:
    def rude() -> Plan:
        try:
            yield [request(limit=3)]
            return {}
        finally:
            raise RuntimeError("not now")

    with running(eos_share=0) as engine:
        engine.rig.executor.raise_at.add(("prompt", 0))
        assert isinstance(engine.loop.submit(rude()).future.exception(PATIENCE_S), InjectedError)
        assert engine.ask(request(limit=4)).future.result(PATIENCE_S)
        assert engine.loop.failure is None


def test_one_call_that_cannot_be_ended_does_not_keep_others_from_being_told() -> None:
    with running(eos_share=0, rows=4) as engine:
        engine.loop.pause()
        first, second = engine.ask(request(limit=3)), engine.ask(request(limit=3, seed=1))

        told = engine.loop.after_tick

        def first_fails(action: Callable[[], None]) -> None:
            def disorder() -> None:
                raise RuntimeError("no end")

            told(disorder if not failed else action)
            failed.append(True)

        failed: list[bool] = []
        engine.loop.after_tick = first_fails  # type: ignore[method-assign]
        engine.loop.resume()
        assert second.future.result(PATIENCE_S)
        assert engine.loop.failure is None
        engine.loop.cancel(first)


# -- a device that hangs ---------------------------------------------------------------------------------------------


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


def test_a_stop_has_a_deadline_also_when_the_device_hangs(gate: threading.Event) -> None:
    device = CpuDevice()
    engine = Engine(device)
    engine.loop.start()
    device.compute.run(lambda: gate.wait() and None)
    mailbox = ThreadMailbox()
    calls = [engine.ask(request(seed=n)) for n in range(3)] + [engine.ask(request(seed=9), mailbox=mailbox)]
    engine.until(lambda: engine.rig.runner.launched, "a step is launched")
    still: list[bool] = []
    stopping = threading.Thread(target=lambda: still.append(engine.loop.stop(0.2)), daemon=True)
    stopping.start()
    stopping.join(PATIENCE_S)
    assert still == [False]
    for one in calls:
        assert isinstance(one.future.exception(0), EngineStoppedError)
    end = mailbox.get()
    assert isinstance(end, End)
    assert isinstance(end.error, EngineStoppedError)
    assert "did not answer" in str(engine.loop.failure)
    with pytest.raises(EngineStoppedError):
        engine.ask(request())
    gate.set()  # should the device wake up after all, the thread ends by itself, and nobody is told twice
    engine.until(lambda: engine.loop.stop(PATIENCE_S), "the engine's thread has ended")
    device.close()


# -- what an idle engine keeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [CpuDevice, lambda: SimulatedDevice(LAZY)])
@pytest.mark.parametrize("limit", [1, 4])
def test_an_idle_engine_holds_no_picture(make: Callable[[], Any], limit: int) -> None:
    with running(make(), eos_share=0) as engine:
        pixels = np.zeros((4, 4, 3), np.uint8)
        gone = weakref.ref(pixels)
        asked = [request(limit=limit, seed=n, image=ImageRef(pixels, b"x")) for n in range(3)]
        for one in [engine.ask(q) for q in asked]:
            one.future.result(PATIENCE_S)
        del pixels, asked, one
        forget(engine)
        assert gone() is None


def test_an_ended_call_is_not_kept() -> None:
    with running(eos_share=0) as engine:
        call = engine.ask(request(limit=2))
        call.future.result(PATIENCE_S)
        gone = weakref.ref(call)
        del call
        forget(engine)
        assert gone() is None


def forget(engine: Engine) -> None:
    """What only the test itself keeps of the past."""
    engine.rest()
    engine.rig.runner.launched.clear()
    engine.rig.runner.choices.clear()
    gc.collect()


def test_side_work_that_failed_is_not_kept() -> None:
    held = np.zeros(4)
    gone = weakref.ref(held)

    def failing(kept: Any) -> Plan:
        def work() -> list[dict[str, Any]]:
            raise RuntimeError(f"not {kept.sum()}")

        yield [request(limit=2)]
        return {"made": (yield SideWork(work))}

    with running(eos_share=0) as engine:
        call = engine.loop.submit(failing(held))
        assert isinstance(call.future.exception(PATIENCE_S), RuntimeError)
        del call, held
        forget(engine)
        assert gone() is None
