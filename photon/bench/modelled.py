"""A whole engine on a modelled accelerator: everything real but the model, whose outputs are a countdown.

What runs is the engine's own loop, admission, scheduler, runner and skill; only the forwards are a script that costs
the host nothing, because the paced device runs it off the clock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from photon.core.config import EngineConfig
from photon.core.request import Choice, ImageRef, Mode, Request, SkillState, Token
from photon.core.result import Metrics
from photon.core.step import Step
from photon.core.trace import StepRecord
from photon.devices.pace_table import PaceTable
from photon.devices.paced import HostClock, PacedDevice
from photon.engine.core import Core, ModelShape, build_core
from photon.engine.loop import EngineLoop
from photon.models.moondream.config import TokenizerConfig
from photon.models.moondream.lora import Adapter
from photon.runtime.backends import PAGE_SIZES
from photon.runtime.choices import SampleNeeds
from photon.runtime.paced import timed
from photon.runtime.runner import Runner
from photon.runtime.slot import VALUES
from photon.skills.base import Plan
from photon.skills.detect import TOKENS_PER_BOX, DetectState

IDS = TokenizerConfig()
SHAPE = ModelShape(prefix_length=730, max_context=2048, eos_id=IDS.eos_id, coord_id=IDS.coord_id, size_id=IDS.size_id)
"""What scheduling sees of moondream2."""

_DEADLINE_S = 600.0


class Countdown:
    """A scripted executor. A row's coordinate says how many tokens are left to it, first told by its prompt's end."""

    def add_adapter(self, adapter: Adapter) -> bool:
        return False

    def load_adapter(self, slot: int, adapter: Adapter) -> None:
        return

    def prefix(self, crops: Sequence[Any], pages: Tensor, adapters: Tensor | None) -> None:
        return

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        return

    def clear_pages(self, pages: Tensor) -> None:
        return

    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        last = values[torch.arange(len(ids)), valid.sum(dim=1) - 1]
        return last, last

    def decode(
        self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return values, values

    def sample(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        """The first allowed id, but eos once nothing is left and eos is allowed second."""
        left = hidden[:, 0] - 1
        ends = (left <= 0) & (choice_ids[:, 0] == 2) & (choice_ids[:, 2] == IDS.eos_id)
        values = torch.zeros(len(hidden), VALUES)
        values[:, 0] = left
        return choice_ids[:, 1].masked_fill(ends, IDS.eos_id), values


@dataclass(frozen=True)
class HostCosts:
    """Bookkeeping that is added to every step, in seconds: beside the engine's own, or instead of it."""

    launch_s: float = 0.0
    commit_s: float = 0.0
    finalize_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.launch_s + self.commit_s + self.finalize_s


class ChargedRunner(Runner):
    """A runner whose phases also take given host time."""

    def __init__(self, costs: HostCosts, device: PacedDevice, *rest: Any) -> None:
        super().__init__(device, *rest)
        self._costs = costs
        self._clock = device.clock

    def launch(self, step: Step) -> None:
        self._clock.charge(self._costs.launch_s)
        super().launch(step)

    def sample(self, step: Step, choices: Any) -> None:
        self._clock.charge(self._costs.finalize_s)
        super().sample(step, choices)

    def collect(self, step: Step) -> list[Token]:
        tokens = super().collect(step)
        self._clock.charge(self._costs.commit_s)
        return tokens


class AtOnce(ThreadPool):
    """A pool without threads: pictures are prepared when they are submitted, and runs repeat exactly."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class TextState(SkillState):
    """An answer that may end after any token, as text does."""

    _choice = Choice((IDS.coord_id, IDS.eos_id))

    def choice(self) -> Choice:
        return self._choice

    def advance(self, token: Token) -> None:
        self.done = token.id == IDS.eos_id

    def result(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class ModelledRequest:
    """A request that generates `tokens` tokens, the last one eos, about picture number `picture`.

    It is a detect request (3 tokens an object), or one with a state of another skill (see `TextState`).
    """

    tokens: int
    picture: int
    mode: Mode
    start: Callable[[], SkillState] | None = None
    prompt: int = 6

    def __post_init__(self) -> None:
        if self.tokens < 1 or (not self.start and (self.tokens - 1) % TOKENS_PER_BOX):
            raise ValueError(f"A detect answer cannot have {self.tokens} tokens; allowed are 1, 4, 7 and so on.")

    def plan(self) -> Plan:
        prompt = (*(Token(1) for _ in range(self.prompt - 1)), Token(2, coord=float(self.tokens)))
        picture = ImageRef(np.zeros((1, 1, 3), np.uint8), self.picture.to_bytes(8, "little"))
        start = self.start or (lambda: DetectState(IDS))
        request = Request(prompt, picture, self.tokens + TOKENS_PER_BOX, start, mode=self.mode)
        results = yield [request]
        answer: dict[str, Any] = results[0]
        return answer


@dataclass(frozen=True)
class Run:
    """The steps of one run, and the metrics of its requests as they ended; times are on the device's clock."""

    steps: list[StepRecord]
    requests: list[Metrics]

    @property
    def seconds(self) -> float:
        return self.steps[-1].commit_end_s - self.steps[0].launch_start_s

    @property
    def row_steps(self) -> int:
        return sum(len(s.requests) for s in self.steps)

    @property
    def wasted_row_steps(self) -> int:
        return sum(s.zombies for s in self.steps)


def modelled_core(
    accelerator: str | PaceTable,
    clock: HostClock,
    rows: int,
    costs: HostCosts | None = None,
    trace_steps: int = 1 << 20,
) -> Core:
    """A scheduler on a modelled accelerator with room for `rows` requests and as many pictures."""
    device = PacedDevice(accelerator, clock)
    config = EngineConfig(max_batch=rows, trace_steps=trace_steps)
    return build_core(
        SHAPE,
        config,
        2 * rows * SHAPE.max_context // PAGE_SIZES[0],
        device,
        timed(device, Countdown()),
        preprocess=lambda pixels: pixels,
        pool=AtOnce(),
        notify=lambda: None,
        make_runner=partial(ChargedRunner, costs) if costs else Runner,
    )


class Callers:
    """Every stream asks its next question when the last one is answered, on the engine's thread."""

    def __init__(self, core: Core, streams: Sequence[Iterable[ModelledRequest]], keep: int | None = None) -> None:
        """`keep` is how many of the last requests' metrics stay; None: all of them."""
        self._loop = EngineLoop(core, max_waiting=len(streams))
        self._streams = [iter(stream) for stream in streams]
        self._left = len(streams)
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self.answers = 0
        self.metrics: deque[Metrics] = deque(maxlen=keep)

    def run(self) -> None:
        """Raises what a request failed with."""
        for stream in self._streams:
            self._ask(stream)
        self._loop.start()
        in_time = self._finished.wait(_DEADLINE_S)
        self._loop.stop(_DEADLINE_S)
        if self._error:
            raise self._error
        if not in_time:
            raise TimeoutError(f"The modelled run did not end within {_DEADLINE_S:g} s.")

    def _ask(self, stream: Iterator[ModelledRequest]) -> None:
        question = next(stream, None)
        if question is not None:
            self._loop.submit(question.plan()).future.add_done_callback(lambda f: self._answered(f, stream))
            return
        self._left -= 1
        if self._left == 0:
            self._finished.set()

    def _answered(self, future: Future[Any], stream: Iterator[ModelledRequest]) -> None:
        self._error = self._error or future.exception()
        if self._error:
            self._finished.set()
            return
        self.answers += 1
        self.metrics.append(future.result().metrics)
        self._ask(stream)


def run_streams(
    accelerator: str | PaceTable,
    clock: HostClock,
    streams: Sequence[Iterable[ModelledRequest]],
    costs: HostCosts | None = None,
    rows: int | None = None,
) -> Run:
    """`rows` decode at once; None: as many as there are streams. Raises what a request failed with."""
    core = modelled_core(accelerator, clock, rows or len(streams), costs)
    callers = Callers(core, streams)
    callers.run()
    return Run(core.trace.since(0), list(callers.metrics))
