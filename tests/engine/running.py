"""A running engine thread over the scripted model."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from photon.core.request import Request
from photon.devices.base import Device
from photon.devices.cpu import CpuDevice
from photon.engine.call import Call
from photon.engine.loop import EngineLoop
from photon.engine.streaming import ThreadMailbox
from photon.skills.base import Plan
from tests.rig import Rig, WalkState
from tests.scripted import generate

PATIENCE_S = float(os.environ.get("PHOTON_PATIENCE", "60"))
"""How long a test waits before it says that something hangs: machines that run tests are busy."""


def plan(*stages: list[Request]) -> Plan:
    """A call whose stages follow each other; its answer holds their results."""
    results = []
    for requests in stages:
        results.append((yield requests))
    return {"stages": results}


class StreamedState(WalkState):
    """Tells the id of every token."""

    told = 0

    def updates(self) -> list[int]:
        new, self.told = self.tokens[self.told :], len(self.tokens)
        return [t.id for t in new]


class AtOnce:
    """A thread pool that does everything in the caller's thread."""

    def submit(self, work: Callable[[], None]) -> Future[None]:
        work()
        done: Future[None] = Future()
        done.set_result(None)
        return done


class Engine:
    def __init__(self, device: Device, queue: int = 1000, **options: Any) -> None:
        self.device = device
        self.rig = Rig(device, **({"rows": 4, "pages": 64} | options))
        self.rig.pool.submit = AtOnce().submit  # type: ignore[method-assign]
        core = self.rig.core
        self.loop = EngineLoop(core, queue)
        self.rig.notify = self.loop.notify

    def ask(self, *requests: Request, mailbox: ThreadMailbox | None = None) -> Call:
        return self.loop.submit(plan(list(requests)), mailbox)

    def expected(self, *requests: Request) -> dict[str, Any]:
        share, length = self.rig.executor.eos_share, self.rig.core.reservations.prefixes.length
        return {"stages": [[{"tokens": generate(q, length, share)} for q in requests]]}

    def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"waited in vain until {what}"
            time.sleep(0.001)

    def rest(self) -> None:
        """Wait until nothing runs, and check that everything is back."""
        scheduler, core = self.rig.scheduler, self.rig.core
        self.until(lambda: self.loop.idle, "the engine is at rest")
        assert core.reservations.rows.free == core.reservations.rows.total
        assert core.reservations.pages.free + core.reservations.prefixes.cached_pages == core.reservations.pages.total
        scheduler.check_integrity()
        assert not self.rig.executor.violations
        assert self.rig.executor.poisoned_reads == 0


@contextmanager
def running(device: Device | None = None, **options: Any) -> Iterator[Engine]:
    device = device or CpuDevice()
    engine = Engine(device, **options)
    engine.loop.start()
    try:
        yield engine
    finally:
        stop = threading.Thread(target=engine.loop.stop, args=(PATIENCE_S,), daemon=True)
        stop.start()
        stop.join(2 * PATIENCE_S)
        assert not stop.is_alive(), "the engine does not stop"
        device.close()
