"""A real model on the simulated device: replays are bit-equal, captured steps know every adapter, nothing waits."""

from __future__ import annotations

from dataclasses import replace
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
from photon.models.moondream.lora import Adapter, Site
from photon.models.registry import LoadedModel, load_model
from photon.runtime.executor import ModelExecutor
from tests.paths import PARITY
from tests.rig import ManualPool, Watched

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


def generated(
    loaded: LoadedModel, device: SimulatedDevice, requests: list[Request], together: bool = True
) -> list[list[Token]]:
    config = EngineConfig(max_batch=4, max_adapters=2, max_adapter_rank=RANK)
    pool = ManualPool()
    core = build_core(
        ModelShape.of(loaded.model),
        config,
        PAGES,
        device,
        ModelExecutor(loaded.model, config, PAGES),
        loaded.model.vision.preprocess,
        pool,  # type: ignore[arg-type]
        lambda: core.scheduler.prepared(),
    )
    sequences = []
    with torch.inference_mode():
        for n, request in enumerate(requests, start=1):
            sequences.append(Sequence(n, request, request.start(), Watched()))
            core.scheduler.submit(sequences[-1])
            if not together:
                _run(core.scheduler, pool)
        _run(core.scheduler, pool)
    assert core.scheduler.idle
    errors = [s.listener.error for s in sequences if s.listener.error]  # type: ignore[attr-defined]
    assert not errors, errors
    return [s.state.tokens for s in sequences]  # type: ignore[attr-defined]


def _run(scheduler: Any, pool: ManualPool) -> None:
    while scheduler.tick() or pool.waiting:
        pool.run()


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
    asked = [replace(r, image=None, limit=6, sampling=GREEDY) for r in requests(loaded)]
    device = SimulatedDevice(LAZY)
    with device.watch_hidden_waits():
        generated(loaded, device, asked)
    assert set(device.waits) == {"event"}, dict(device.waits)


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
