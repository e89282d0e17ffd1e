"""Random schedules: what arrives when, what goes wrong where, and what must be true afterwards."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from photon.core.request import GREEDY, ImageRef, Mode, Request, SamplingParams, Token
from photon.core.sequence import Sequence
from photon.devices.base import Device
from photon.devices.simulated import Lag, SimulatedDevice
from photon.errors import DeviceError, InvalidRequestError, NonFiniteError, RequestCancelledError
from photon.scheduler.launching import View
from tests.rig import Rig, WalkState, Watched, adapter, image
from tests.scripted import COORD, OVERFLOWING, SIZE, InjectedError, generate

ROW_FAULTS = ("choice", "bad choice", "overflow", "advance", "result", "advanced", "ended")
STEP_PARTS = ("staging", "mask", "copy")
CALLS = ("prompt", "decode", "sample", "prefix", "copy_pages", "load_adapter", "load_adapter")


@dataclass(frozen=True)
class Shape:
    """What hypothesis draws: the size of everything. The rest comes from the seed."""

    seed: int
    requests: int = 6
    rows: int = 2
    slack: int = 0
    """Pages beyond what the largest request needs: 0 is the hardest pressure."""
    images: int = 2
    adapters: int = 0
    spread: int = 0
    """Ticks over which requests arrive; 0: all at once."""
    cancels: int = 0
    pauses: int = 0
    row_faults: int = 0
    step_faults: int = 0
    blocking: int = 0
    """Out of 8 requests, how many are in blocking mode."""
    longest: int = 8
    eos: int = 2
    """Share of eos where it is allowed, in tenths."""
    lag: tuple[int, int] = (0, 0)
    """How eagerly compute and copy follow, in quarters."""
    captures: bool = False
    lost: int = 0
    """The tick at which the device fails for good; 0: never."""

    @property
    def device_lag(self) -> Lag:
        return Lag(self.lag[0] / 4, self.lag[1] / 4, self.seed)


@dataclass
class Asked:
    """One request of a schedule, and what became of it."""

    request: Request
    fault: tuple[str, int] | None
    listener: Watched
    arrival: int
    cancels: list[int] = field(default_factory=list)
    sequence: Sequence | None = None
    cancelled: bool = False


class Schedule:
    def __init__(self, shape: Shape, device: Device) -> None:
        self.shape = shape
        self.random = r = random.Random(shape.seed)
        self.page_size = r.choice((2, 3, 4, 8))
        self.prefix_length = r.choice((1, 3, 4, 6, 8))
        self.bad = frozenset({1}) if shape.row_faults and r.random() < 0.3 else frozenset()
        self.asked = [self._ask(i) for i in range(shape.requests)]
        self.rig = Rig(
            device,
            rows=shape.rows,
            pages=self._pages_needed() + shape.slack,
            page_size=self.page_size,
            prefix_length=self.prefix_length,
            eos_share=shape.eos / 10,
            bad_images=self.bad,
            max_adapters=r.choice((1, 2)),
            max_prefill_images=r.choice((1, 2, 4)),
            max_prefill_tokens=r.choice((1, 8, 64)),
            launch_now=self._decision(),
        )
        self._add_step_faults()
        self.pauses = self._pauses()

    # -- drawing -----------------------------------------------------------------------------------------------------

    def _ask(self, index: int) -> Asked:
        r, shape = self.random, self.shape
        fault = None
        if r.randrange(max(shape.requests, 1)) < shape.row_faults:
            fault = (r.choice(ROW_FAULTS), r.randrange(4))
        seed, limit = r.getrandbits(32), self._limit()
        sampling = SamplingParams(r.choice((0.5, 1.0)), 0.25, r.getrandbits(16)) if r.random() < 0.3 else GREEDY
        mode: Mode = "blocking" if r.randrange(8) < shape.blocking else "pipelined"
        request = Request(
            prompt=tuple(self._token() for _ in range(r.choice((1, 1, 2, 3, 5)))),
            image=self._image() if shape.images and r.random() < 0.8 else None,
            limit=limit,
            start=lambda: WalkState(seed, fault),
            sampling=sampling,
            mode=mode,
            adapter=adapter(r.randrange(shape.adapters)) if shape.adapters and r.random() < 0.7 else None,
        )
        asked = Asked(request, fault, Watched(fault), r.randint(0, shape.spread))
        if r.randrange(max(shape.requests, 1)) < shape.cancels:
            first = asked.arrival + r.randrange(14)
            asked.cancels = [first] + [first + r.randrange(6)] * (r.random() < 0.3)
        return asked

    def _image(self) -> ImageRef:
        if self.shape.row_faults and self.random.random() < 0.05:
            return image(OVERFLOWING)
        return image(self.random.randrange(self.shape.images))

    def _limit(self) -> int:
        return self.random.choice((1, 2, 3, self.random.randint(1, self.shape.longest)))

    def _token(self) -> Token:
        r = self.random
        kind = r.randrange(4)
        if kind == 0:
            return Token(COORD, coord=r.randrange(1024) / 1024)
        if kind == 1:
            return Token(SIZE, width=r.randrange(1024) / 1024, height=r.randrange(1024) / 1024)
        return Token(7 + r.randrange(20))

    def _pages_needed(self) -> int:
        """Just enough for the largest request alone."""
        size, prefix = self.page_size, self.prefix_length
        needed = 1
        for asked in self.asked:
            q = asked.request
            start = prefix if q.image else 0
            own = -(-(start + len(q.prompt) + q.limit - 1) // size) - start // size
            needed = max(needed, own + (-(-prefix // size) if q.image else 0))
        return needed

    def _decision(self) -> Callable[[View], bool] | None:
        """The engine's own, or one by chance: when a step is launched must not matter to what is answered."""
        dice, share = random.Random(self.shape.seed), self.random.choice((None, None, 0.5, 0.9, 1.0))
        return None if share is None else lambda view: dice.random() < share

    def _add_step_faults(self) -> None:
        r = self.random
        for _ in range(self.shape.step_faults):
            if r.random() < 0.5:
                self.rig.runner.fail_at.add((r.choice(STEP_PARTS), r.randrange(12)))
            else:
                self.rig.executor.raise_at.add((r.choice(CALLS), r.randrange(8)))

    def _pauses(self) -> dict[int, bool]:
        found = {}
        for _ in range(self.shape.pauses):
            start = self.random.randrange(self.shape.spread + 12)
            found[start], found[start + self.random.randint(1, 6)] = True, False
        return found

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        arrivals: dict[int, list[Any]] = defaultdict(list)
        for asked in self.asked:
            arrivals[asked.arrival].append((self._arrive, asked))
            for at in asked.cancels:
                arrivals[at].append((self._cancel, asked))
        for at, paused in self.pauses.items():
            arrivals[at].append((self._pause, paused))
        tick, last = 0, max([0, *arrivals])
        while True:
            for action, what in arrivals.pop(tick, ()):
                action(what)
            if self.random.random() < 0.6 or tick > last:
                self.rig.pool.run(self.random.randint(1, 3))
            if tick + 1 == self.shape.lost:
                self._lose_the_device()
                return
            progress = self.rig.tick()
            tick += 1
            if tick > last and not progress and not self.rig.messages and not self.rig.pool.waiting:
                break
            assert tick < 2000, "the scheduler does not come to rest"
        self.check()

    def _lose_the_device(self) -> None:
        """Whatever the moment, whoever has arrived and had no end is told the cause, once."""
        assert isinstance(self.rig.device, SimulatedDevice)
        self.rig.device.fail("gone")
        scheduler, told = self.rig.scheduler, DeviceError("gone")
        with suppress(DeviceError):
            for _ in range(3):
                scheduler.tick()
        scheduler.abort(told)
        for asked in self.asked:
            if asked.sequence is not None:
                assert asked.listener.ends == 1, f"request {asked.sequence.id} was told {asked.listener.ends} ends"
                expected = generate(self._faultless(asked.request), self.prefix_length, self.shape.eos / 10)
                tokens = asked.sequence.state.tokens  # type: ignore[attr-defined]
                assert tokens == expected[: len(tokens)]

    def _arrive(self, asked: Asked) -> None:
        self.rig.core.admission.refuse_if_impossible(asked.request)
        asked.sequence = self.rig.submit(asked.request, asked.listener)

    def _cancel(self, asked: Asked) -> None:
        if asked.sequence is not None:
            asked.cancelled = asked.cancelled or not asked.sequence.finalized
            self.rig.scheduler.cancel(asked.sequence)

    def _pause(self, paused: bool) -> None:
        self.rig.scheduler.paused = paused

    # -- what must be true afterwards --------------------------------------------------------------------------------

    def check(self) -> None:
        rig = self.rig
        rig.check_at_rest()
        if not rig.runner.failed:
            assert rig.executor.poisoned_reads == 0, "a poisoned cell was read"
        in_failed_steps = {s.id for step in rig.runner.failed for s in step.sequences}
        for asked in self.asked:
            self._check_one(asked, in_failed_steps)

    def _check_one(self, asked: Asked, in_failed_steps: set[int]) -> None:
        sequence, listener, q = asked.sequence, asked.listener, asked.request
        assert sequence is not None
        tokens = sequence.state.tokens  # type: ignore[attr-defined]
        expected = generate(self._faultless(q), self.prefix_length, self.shape.eos / 10)
        assert tokens == expected[: len(tokens)], f"request {sequence.id}: {tokens} instead of {expected}"
        self.rig.check_choices(sequence)
        if listener.error is None:
            assert listener.result == {"tokens": expected}
        else:
            self._check_error(asked, sequence, in_failed_steps)
        wasted = sequence.steps - sequence.committed
        if listener.error is None:
            by_limit = len(expected) == q.limit
            assert wasted <= (0 if by_limit else 1), f"request {sequence.id} wasted {wasted} row-steps"
        assert wasted <= 2

    def _check_error(self, asked: Asked, sequence: Sequence, in_failed_steps: set[int]) -> None:
        error, q = asked.listener.error, asked.request
        if isinstance(error, RequestCancelledError):
            assert asked.cancelled, "cancelled by nobody"
        elif isinstance(error, NonFiniteError):
            own = asked.fault is not None and asked.fault[0] == "overflow"
            assert own or (q.image and q.image.key[0] == OVERFLOWING), f"request {sequence.id} caught an overflow"
        elif isinstance(error, (InjectedError, InvalidRequestError)):
            own = asked.fault is not None or (q.image and q.image.key[0] in self.bad)
            assert own or (sequence.id in in_failed_steps and isinstance(error, InjectedError)), (
                f"request {sequence.id} failed for another: {error}"
            )
        else:
            raise AssertionError(f"an unexpected end: {error!r}") from error

    @staticmethod
    def _faultless(q: Request) -> Request:
        return Request(q.prompt, q.image, q.limit, lambda: _healed(q), q.sampling, q.mode, q.adapter)


def _healed(q: Request) -> WalkState:
    state = q.start()
    assert isinstance(state, WalkState)
    state.raises = None
    return state
