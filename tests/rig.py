"""A scheduler over the scripted model on any device, watched from all sides, without a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from photon.core.config import EngineConfig
from photon.core.request import Choice, ImageRef, Request, SkillState, Token
from photon.core.sequence import Phase, Sequence
from photon.core.step import SLOTS, Step
from photon.devices.base import Device
from photon.engine.core import Core, ModelShape, build_core
from photon.models.moondream.lora import Adapter
from photon.runtime.paced import timed
from photon.runtime.runner import Runner
from photon.scheduler.launching import View
from tests.scripted import COORD, EOS, OVERFLOW, SIZE, InjectedError, Picture, ScriptedExecutor, mix

MAX_CONTEXT = 64


def image(content: int) -> ImageRef:
    return ImageRef(np.full((1, 1, 3), content, dtype=np.uint8), bytes([content]))


def adapter(content: int) -> Adapter:
    return Adapter(f"adapter {content}", bytes([content]), {})


class WalkState(SkillState):
    """What may come next depends on the seed and on all tokens so far: a list that is one token behind differs.

    `raises` names a call and the number of tokens at which it fails, hands out a list that cannot be used, or the id
    at which the model overflows.
    """

    def __init__(self, seed: int, raises: tuple[str, int] | None = None) -> None:
        self.tokens: list[Token] = []
        self._history = mix(seed + 1)
        self.raises = raises

    def choice(self) -> Choice:
        self._maybe_raise("choice")
        if self.raises == ("overflow", len(self.tokens)):
            return Choice((OVERFLOW,))
        if self.raises == ("bad choice", len(self.tokens)):
            return Choice(())
        h = self._history
        kind = h % 6
        if kind < 2:
            return Choice((COORD, EOS))
        if kind == 2:
            return Choice((SIZE, EOS, 7 + h // 6 % 8))
        if kind == 3:
            return Choice((COORD,))
        last = (self.tokens[-1].id,) if self.tokens else (EOS,)
        return Choice(None, (*last, 1, 2))

    def advance(self, token: Token) -> None:
        self._maybe_raise("advance")
        self.tokens.append(token)
        self._history = mix(self._history + (token.id << 20) + int(token.coord * 1024) + int(token.width * 1024))
        self.done = token.id == EOS

    def result(self) -> dict[str, Any]:
        self._maybe_raise("result", at_least=True)
        return {"tokens": list(self.tokens)}

    def _maybe_raise(self, call: str, at_least: bool = False) -> None:
        if self.raises and self.raises[0] == call:
            n = self.raises[1]
            if len(self.tokens) == n or (at_least and len(self.tokens) >= n):
                raise InjectedError(f"{call} failed at token {n}.")


def request(prompt: tuple[Token, ...] = (Token(9),), limit: int = 6, seed: int = 0, **more: Any) -> Request:
    return Request(prompt, more.pop("image", None), limit, lambda: WalkState(seed), **more)


@dataclass(eq=False)
class Watched:
    """Listener of one sequence; `raises` names the call that fails and after how many tokens."""

    raises: tuple[str, int] | None = None
    on_advance: Callable[[Sequence], None] | None = None
    seen: int = 0
    ends: int = 0
    result: dict[str, Any] | None = None
    error: BaseException | None = None

    def advanced(self, sequence: Sequence) -> None:
        self.seen += 1
        if self.on_advance:
            self.on_advance(sequence)
        if self.raises == ("advanced", sequence.committed):
            raise InjectedError(f"A listener failed at token {sequence.committed}.")

    def ended(self, sequence: Sequence, result: dict[str, Any] | None, error: BaseException | None) -> None:
        self.ends += 1
        self.result, self.error = result, error
        if self.raises and self.raises[0] == "ended":
            raise InjectedError("A listener failed at the end.")


class WatchedRunner(Runner):
    """Notes what passes through it. `fail_at` holds (part, step index) where that part of a step raises."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.launched: list[Step] = []
        self.collected: list[int] = []
        self.failed: list[Step] = []
        self.choices: dict[int, list[Choice]] = {}
        self.fail_at: set[tuple[str, int]] = set()

    def launch(self, step: Step) -> None:
        self.launched.append(step)
        super().launch(step)

    def sample(self, step: Step, choices: list[Choice]) -> None:
        for sequence, choice in zip(step.sequences, choices, strict=True):
            if not sequence.finalized:
                self.choices.setdefault(sequence.id, []).append(choice)
        super().sample(step, choices)

    def collect(self, step: Step) -> list[Token]:
        self.collected.append(step.index)
        try:
            return super().collect(step)
        except Exception:
            self.failed.append(step)
            raise

    # -- faults in the parts of a step -------------------------------------------------------------------------------

    def _stage_decode(self, slot: Any, step: Step) -> Any:
        self._maybe_fail("staging", step)
        return super()._stage_decode(slot, step)

    def _stage_prefill(self, slot: Any, step: Step) -> Any:
        self._maybe_fail("staging", step)
        return super()._stage_prefill(slot, step)

    def _stage_sampling(self, slot: Any, step: Step, choices: list[Choice]) -> Any:
        self._maybe_fail("mask", step)
        return super()._stage_sampling(slot, step, choices)

    def _copy_out(self, slot: Any, count: int) -> None:
        self._maybe_fail("copy", next(s for s in reversed(self.launched) if s.slot == slot.index))
        super()._copy_out(slot, count)

    def _maybe_fail(self, part: str, step: Step) -> None:
        if (part, step.index) in self.fail_at:
            raise InjectedError(f"{part} of step {step.index} failed.")


@dataclass
class ManualPool:
    """Runs what was submitted when the test says so."""

    waiting: list[tuple[Future[None], Callable[[], None]]] = field(default_factory=list)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        self.waiting.append((future, work))
        return future

    def run(self, count: int | None = None) -> None:
        now, self.waiting = self.waiting[:count], self.waiting[len(self.waiting[:count]) :]
        for future, work in now:
            if future.set_running_or_notify_cancel():
                work()
                future.set_result(None)


def early(_: View) -> bool:
    """Launch before the step in flight is read, whatever it may bring: what is hardest to get right."""
    return True


class Rig:
    """`launch_now` decides when steps are launched; None: as the engine does.

    `check` is called around every tick and raises AssertionError for whatever must never be.
    """

    def __init__(
        self,
        device: Device,
        rows: int = 2,
        pages: int = 32,
        page_size: int = 4,
        prefix_length: int = 6,
        eos_share: float = 0.2,
        bad_images: frozenset[int] = frozenset(),
        launch_now: Callable[[View], bool] | None = early,
        **config: Any,
    ) -> None:
        self.device = device
        self.max_batch = rows
        self.executor = ScriptedExecutor(pages, page_size, prefix_length, eos_share, device=device.torch_device)
        if hasattr(device, "spend"):
            self.executor.spend = device.spend
        self.bad_images = bad_images
        self.pool = ManualPool()
        self.messages: list[Callable[[], None]] = []
        self.notify: Callable[[], None] = lambda: self.messages.append(self.scheduler.prepared)
        self.core: Core = build_core(
            ModelShape(prefix_length, MAX_CONTEXT, EOS, COORD, SIZE),
            EngineConfig(max_batch=rows, page_size=page_size, **config),
            pages,
            device,
            timed(device, self.executor),
            self._preprocess,
            self.pool,  # type: ignore[arg-type]
            lambda: self.notify(),
            WatchedRunner,
        )
        self.scheduler = self.core.scheduler
        if launch_now:  # it is asked each time, whatever has been learnt
            self.scheduler.launch_now = launch_now
            self.scheduler.outlook.may_pay = lambda rows: True  # type: ignore[method-assign]
            self.scheduler.outlook.undoubted = lambda rows, unread: False  # type: ignore[method-assign]
        runner = self.core.runner
        assert isinstance(runner, WatchedRunner)
        self.runner: WatchedRunner = runner
        self.sequences: list[Sequence] = []
        self._watch_pages()

    def _preprocess(self, pixels: Any) -> Picture:
        content = int(pixels[0, 0, 0])
        if content in self.bad_images:
            raise InjectedError(f"Picture {content} cannot be prepared.")
        return Picture(content)

    def _watch_pages(self) -> None:
        pool = self.core.reservations.pages
        take, give = pool.take, pool.give

        def watched_take(count: int) -> list[int]:
            pages = take(count)
            self.executor.taken(pages)
            return pages

        def watched_give(items: Any) -> None:
            pages = list(items)
            give(pages)
            self.executor.freed(pages)

        pool.take, pool.give = watched_take, watched_give  # type: ignore[method-assign]

    # -- driving -----------------------------------------------------------------------------------------------------

    def submit(self, request: Request, listener: Watched | None = None) -> Sequence:
        if request.adapter:
            self.runner.add_adapter(request.adapter)
        sequence = Sequence(len(self.sequences) + 1, request, request.start(), listener or Watched())
        self.sequences.append(sequence)
        self.scheduler.submit(sequence)
        return sequence

    def apply_messages(self) -> None:
        messages, self.messages = self.messages, []
        for message in messages:
            message()

    def tick(self) -> bool:
        self.apply_messages()
        self.check()
        progress = self.scheduler.tick()
        self.check()
        while self.scheduler.idle and self.scheduler.when_idle():
            pass
        return progress

    def run(self, limit: int = 1000) -> None:
        """Prepare at once, and tick until nothing more can be done."""
        for _ in range(limit):
            self.pool.run()
            if not self.tick() and not self.messages and not self.pool.waiting:
                return
        raise AssertionError(f"The scheduler did not come to rest within {limit} ticks.")

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        scheduler = self.scheduler
        scheduler.check_integrity()
        steps = scheduler.pipeline.steps
        assert len(steps) <= SLOTS
        assert len({s.slot for s in steps}) == len(steps), "two steps in one slot"
        assert all(len(s.sequences) <= self.max_batch for s in steps)
        for sequence in self.sequences:
            held = sum(sequence in s.sequences for s in steps)
            assert sequence.inflight_refs == held <= SLOTS
            assert sequence.committed <= sequence.launched <= sequence.request.limit
            if held:
                assert sequence.phase is Phase.RUNNING, "a launched step holds a row that has been given back"
                assert sequence.mode == scheduler.mode, "rows of both modes at once"
        assert not self.executor.violations, self.executor.violations

    def check_at_rest(self) -> None:
        """Everything is back, everything was told once, and in order."""
        scheduler, core = self.scheduler, self.core
        assert scheduler.idle, "the scheduler came to rest with requests left"
        assert self.runner.collected == list(range(len(self.runner.launched))), "commit order is not launch order"
        assert core.reservations.rows.free == core.reservations.rows.total
        assert core.reservations.pages.free + core.reservations.prefixes.cached_pages == core.reservations.pages.total
        for sequence in self.sequences:
            assert sequence.inflight_refs == 0
            assert isinstance(sequence.listener, Watched)
            assert sequence.listener.ends == 1
        for prefix in core.reservations.prefixes:
            assert prefix.ready, "a prefix is pending at rest"
            key, content = prefix.key  # type: ignore[misc]
            adapter = int.from_bytes(key, "little") + 1 if key else 0
            assert self.executor.holds_prefix(prefix.pages, content[0], adapter), "a cached prefix holds other values"
        for records in (core.trace.since(0),):
            assert [r.step for r in records] == self.runner.collected[-len(records) :]

    def check_choices(self, sequence: Sequence) -> None:
        """Each list that a live row was sampled under is the one that its committed tokens give."""
        state, used = sequence.request.start(), self.runner.choices.get(sequence.id, [])
        tokens = sequence.state.tokens  # type: ignore[attr-defined]
        for i, choice in enumerate(used[: len(tokens) + 1]):
            assert state.choice() == choice, f"the list of token {i} is not that of the committed tokens"
            if i < len(tokens):
                state.advance(tokens[i])
