"""A real model on the simulated device: replays are bit-equal, captured steps know every adapter, nothing waits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from photon.core.config import EngineConfig
from photon.core.request import GREEDY, Choice, ImageRef, Request, SamplingParams, SkillState, Token
from photon.core.sequence import Sequence
from photon.devices.simulated import EAGER, LAZY, Lag, SimulatedDevice
from photon.engine.core import ModelShape, build_core
from photon.errors import NonFiniteError
from photon.models.moondream.lora import Adapter, Site
from photon.models.registry import LoadedModel, load_model
from photon.runtime.encoding import cut
from photon.runtime.executor import ModelExecutor
from tests.paths import PARITY
from tests.rig import ManualPool, Watched
from tests.scripted import InjectedError

PAGES = 200
RANK = 4


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    folder = PARITY / "md2"
    return load_model(str(folder), torch.device("cpu"), torch.float32)


class Values(SkillState):
    """Takes coordinates, sizes and free ids in turn, so that every kind of sampling runs."""

    def __init__(self, ids: Any) -> None:
        self._lists = (Choice((ids.coord_id, ids.eos_id)), Choice((ids.size_id,)), Choice(None, (ids.eos_id,)))
        self.tokens: list[Token] = []

    def choice(self) -> Choice:
        return self._lists[len(self.tokens) % 3]

    def advance(self, token: Token) -> None:
        self.tokens.append(token)

    def result(self) -> dict[str, Any]:
        return {}


def picture(n: int) -> ImageRef:
    return ImageRef.of(np.random.default_rng(n).integers(0, 255, (60, 80, 3), dtype=np.uint8))


def adapter(loaded: LoadedModel, name: str, sites: tuple[str, ...]) -> Adapter:
    text = loaded.model.config.text
    sizes = {"qkv": (text.dim, text.qkv_dim), "fc1": (text.dim, text.ff_dim)}
    make = torch.Generator().manual_seed(len(sites))
    weights: dict[Site, tuple[Tensor, Tensor]] = {
        (0, site): (
            torch.randn(RANK, sizes[site][0], generator=make) * 0.1,
            torch.randn(sizes[site][1], RANK, generator=make) * 0.1,
        )
        for site in sites
    }
    return Adapter(name, name.encode(), weights)


class Steps:
    """The model on a device, without a thread."""

    def __init__(self, loaded: LoadedModel, device: SimulatedDevice, executor: type[ModelExecutor]) -> None:
        config = EngineConfig(max_batch=4, max_adapters=2, max_adapter_rank=RANK)
        self.pool = ManualPool()
        self.core = build_core(
            ModelShape.of(loaded.model),
            config,
            PAGES,
            device,
            executor(loaded.model, config, PAGES, device),
            partial(cut, loaded.model, device),
            self.pool,  # type: ignore[arg-type]
            lambda: self.core.scheduler.prepared(),
        )

    def run(self) -> None:
        """Until nothing is left to do, not even what waits for an idle engine."""
        scheduler = self.core.scheduler
        while scheduler.tick() or self.pool.waiting or (scheduler.idle and scheduler.when_idle()):
            self.pool.run()


def ended(
    loaded: LoadedModel,
    device: SimulatedDevice,
    requests: list[Request],
    together: bool = True,
    executor: type[ModelExecutor] = ModelExecutor,
) -> list[Sequence]:
    """What became of the requests, each adapter added when it is first asked for; nothing runs then, or all does."""
    steps, sequences = Steps(loaded, device, executor), list[Sequence]()
    adapters = {id(q.adapter): q.adapter.packed(torch.float32, device.pinned) for q in requests if q.adapter}
    with torch.inference_mode():
        added = set[int]()
        for n, request in enumerate(requests, start=1):
            asked = replace(request, adapter=adapters.get(id(request.adapter)))
            if asked.adapter and id(asked.adapter) not in added:
                added.add(id(asked.adapter))
                steps.core.runner.add_adapter(asked.adapter)
            sequences.append(Sequence(n, asked, request.start(), Watched()))
            steps.core.scheduler.submit(sequences[-1])
            if not together:
                steps.run()
        steps.run()
    assert steps.core.scheduler.idle
    return sequences


def generated(
    loaded: LoadedModel, device: SimulatedDevice, requests: list[Request], together: bool = True
) -> list[list[Token]]:
    sequences = ended(loaded, device, requests, together)
    errors = [s.listener.error for s in sequences if s.listener.error]  # type: ignore[attr-defined]
    assert not errors, errors
    return [s.state.tokens for s in sequences]  # type: ignore[attr-defined]


def requests(loaded: LoadedModel, count: int = 6, adapters: tuple[Adapter | None, ...] = (None,)) -> list[Request]:
    ids = loaded.model.config.tokenizer
    return [
        Request(
            tuple(Token(5 + n + k) for k in range(1 + n % 3)),
            picture(n % 2) if n % 4 else None,
            limit=4 + n,
            start=lambda: Values(ids),
            sampling=SamplingParams(0.7 if n % 3 == 2 else 0.0, 0.9, seed=n),
            adapter=adapters[n % len(adapters)],
        )
        for n in range(count)
    ]


def test_replays_of_the_same_batches_are_bit_equal_whatever_the_lag(loaded: LoadedModel) -> None:
    asked = requests(loaded)
    lags = (LAZY, EAGER, Lag(0.5, 0.5, 1), Lag(0.0, 1.0), Lag(1.0, 0.0))
    first, *others = [generated(loaded, SimulatedDevice(lag), asked) for lag in lags]
    assert [len(tokens) for tokens in first] == [request.limit for request in asked]
    assert all(other == first for other in others)


def test_the_forwards_of_a_steady_batch_wait_for_nothing(loaded: LoadedModel) -> None:
    asked = [replace(r, limit=6, sampling=GREEDY) for r in requests(loaded)]
    device = SimulatedDevice(LAZY)
    with device.watch_hidden_waits():
        generated(loaded, device, asked)
    assert set(device.waits) == {"event"}, dict(device.waits)


def test_an_adapter_is_loaded_without_stopping_the_host(loaded: LoadedModel) -> None:
    asked = [replace(r, image=None, sampling=GREEDY) for r in requests(loaded, 4, (adapter(loaded, "a", ("fc1",)),))]
    device = SimulatedDevice(LAZY)
    with device.watch_hidden_waits():
        generated(loaded, device, asked)
    assert set(device.waits) == {"event", "allocation"}, dict(device.waits)
    assert device.waits["allocation"] == 3, "room for one site's A and B and for what arrives, made between two ticks"


def test_nothing_is_captured_while_a_row_runs(loaded: LoadedModel) -> None:
    asked = [replace(r, image=None, limit=6) for r in requests(loaded, 4, (None, adapter(loaded, "a", ("fc1",))))]
    device = SimulatedDevice(LAZY, captures=True)
    steps = Steps(loaded, device, ModelExecutor)
    with torch.inference_mode():
        for n, request in enumerate(asked):
            packed = request.adapter and request.adapter.packed(torch.float32, device.pinned)
            if packed:
                steps.core.runner.add_adapter(packed)
            steps.core.scheduler.submit(Sequence(n, replace(request, adapter=packed), request.start(), Watched()))
        device.waits.clear()
        while steps.core.scheduler.tick():
            steps.pool.run()
        assert set(device.waits) == {"event"}, dict(device.waits)
        assert steps.core.scheduler.when_idle(), "what ran without having been captured is captured now"
        assert device.waits["capture"] == 1


class FailsAtFirst(ModelExecutor):
    """The first adapter cannot be loaded."""

    failed = False

    def load_adapter(self, slot: int, adapter: Adapter) -> None:
        if not self.failed:
            self.failed = True
            raise InjectedError("no memory")
        super().load_adapter(slot, adapter)


def test_captured_steps_know_the_weights_of_an_adapter_whose_first_load_failed(loaded: LoadedModel) -> None:
    narrow, wide = adapter(loaded, "narrow", ("fc1",)), adapter(loaded, "wide", ("fc1", "qkv"))
    asked = [replace(q, image=None) for q in requests(loaded, 4, (wide, narrow, wide, narrow))]

    def answers(device: SimulatedDevice) -> list[list[int]]:
        first, *others = ended(loaded, device, asked, together=False, executor=FailsAtFirst)
        assert isinstance(first.listener.error, InjectedError)  # type: ignore[attr-defined]
        return [[t.id for t in s.state.tokens] for s in others]  # type: ignore[attr-defined]

    assert answers(SimulatedDevice(LAZY, captures=True)) == answers(SimulatedDevice(LAZY))


class Overflows(ModelExecutor):
    """The second prompt leaves infinities in its pages, as float16 may."""

    prompts = 0

    def prompt(self, *arguments: Any) -> Any:
        self.prompts += 1
        outputs = super().prompt(*arguments)
        if self.prompts != 2:
            return outputs
        pages = arguments[4]
        self.cache.kv[:, :, pages.flatten()] = torch.inf
        hidden, logits = outputs
        return hidden * torch.nan, logits * torch.nan


def test_an_overflow_fails_its_request_alone_and_its_pages_are_clean_for_the_next(loaded: LoadedModel) -> None:
    asked = [replace(q, image=None) for q in requests(loaded, 4)]
    first, broken, *others = ended(loaded, SimulatedDevice(LAZY), asked, together=False, executor=Overflows)
    assert isinstance(broken.listener.error, NonFiniteError)  # type: ignore[attr-defined]
    assert "Token 1 of the answer is no number" in str(broken.listener.error)  # type: ignore[attr-defined]
    reached = {page for s in others for page in s.pages} & set(broken.pages)
    assert reached, "nobody got the pages of the failed request"
    wanted = generated(loaded, SimulatedDevice(LAZY), asked, together=False)
    assert [s.state.tokens for s in (first, *others)] == [wanted[0], *wanted[2:]]  # type: ignore[attr-defined]


def test_captured_steps_give_the_values_of_steps_that_are_not(loaded: LoadedModel) -> None:
    asked = [replace(request, sampling=GREEDY) for request in requests(loaded)]
    plain = generated(loaded, SimulatedDevice(LAZY), asked)
    captured = generated(loaded, SimulatedDevice(LAZY, captures=True), asked)
    assert [[t.id for t in tokens] for tokens in captured] == [[t.id for t in tokens] for tokens in plain]


def test_a_captured_step_uses_the_weights_that_a_later_adapter_brings_to_another_site(loaded: LoadedModel) -> None:
    narrow, wide = adapter(loaded, "narrow", ("fc1",)), adapter(loaded, "wide", ("fc1", "qkv"))
    asked = [replace(request, image=None) for request in requests(loaded, 6, (narrow, wide))]
    device = SimulatedDevice(LAZY, captures=True)
    captured = generated(loaded, device, asked, together=False)
    plain = generated(loaded, SimulatedDevice(LAZY), asked, together=False)
    assert [[t.id for t in tokens] for tokens in captured] == [[t.id for t in tokens] for tokens in plain]
    assert any(key[-1] for key in device.replays), "no step with adapters was captured"
