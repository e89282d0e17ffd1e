"""Invariant 8 with a real model: the bundled one, in float32, a few hundred calls, alone and in any batch."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from photon.bench.compare import Comparison, MarginSampler, compare
from photon.bench.verdicts import watched
from photon.core.config import EngineConfig
from photon.core.request import ImageRef, Token
from photon.core.settings import Settings
from photon.devices.cpu import CpuDevice
from photon.engine.core import Core, ModelShape, build_core
from photon.engine.loop import EngineLoop
from photon.engine.sizing import default_kv_pages
from photon.models.registry import LoadedModel, load_model
from photon.runtime.encoding import encode
from photon.runtime.executor import ModelExecutor
from photon.skills import PLANS, Ask, SkillContext

CALLS = 300
PICTURES = 24


class Running:
    """An engine over the model, with or without notes of margins."""

    def __init__(self, loaded: LoadedModel, config: EngineConfig, margins: bool = False) -> None:
        model = loaded.model
        pages = default_kv_pages(model.config, config, torch.float32, 16)
        self.device = CpuDevice()
        executor = ModelExecutor(model, config, pages, self.device, eager=not margins)
        if margins:
            executor.sample = MarginSampler(model)
        self.sampler = executor.sample
        self.pool = ThreadPoolExecutor(1)
        self.core: Core = build_core(
            ModelShape.of(model),
            config,
            pages,
            self.device,
            executor,
            model.vision.preprocess,
            self.pool,
            lambda: self.loop.notify(),
            encode_ahead=None if margins else partial(encode, model),
        )
        self.loop = EngineLoop(self.core, 10_000)
        self.loop.start()

    def close(self) -> None:
        self.loop.stop(60)
        self.pool.shutdown()
        self.device.close()


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("photon-tiny", torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def calls(loaded: LoadedModel) -> list[Ask]:
    dice = random.Random(11)
    assert loaded.vocabulary is not None
    pictures = [picture(n) for n in range(PICTURES)]
    return [
        Ask(
            dice.choice(("point", "point", "detect", "detect", "segment")),
            dice.choice(loaded.vocabulary.names),
            Settings.parse({"max_objects": dice.randint(1, 3)}),
            image=dice.choice(pictures),
        )
        for _ in range(CALLS)
    ]


def picture(seed: int) -> ImageRef:
    """A few coloured rectangles on noise, of any shape."""
    r = np.random.default_rng(seed)
    height, width = r.integers(60, 260, size=2)
    pixels = r.integers(0, 90, size=(height, width, 3), dtype=np.uint8)
    for _ in range(4):
        y, x = r.integers(0, height - 30), r.integers(0, width - 30)
        pixels[y : y + r.integers(10, 60), x : x + r.integers(10, 60)] = r.integers(0, 255, size=3, dtype=np.uint8)
    return ImageRef.of(pixels)


@pytest.fixture(scope="module")
def alone(loaded: LoadedModel, calls: list[Ask]) -> tuple[list[list[Token]], list[list[float]]]:
    """Each call by itself in blocking mode, one row at a time: its tokens and their margins."""
    context = SkillContext(loaded.name, loaded.model.config, loaded.tokenizer, loaded.vocabulary)
    engine = Running(loaded, EngineConfig(max_batch=1), margins=True)
    assert isinstance(engine.sampler, MarginSampler)
    tokens, margins = [], []
    for ask in calls:
        sink: list[list[Token]] = []
        engine.sampler.margins.clear()
        plan = PLANS[ask.skill](context, replace(ask, mode="blocking"))
        engine.loop.submit(watched(plan, sink)).future.result(120)
        tokens.append([token for request in sink for token in request])
        margins.append(list(engine.sampler.margins))
        assert len(margins[-1]) == len(tokens[-1])
    engine.close()
    return tokens, margins


@pytest.mark.parametrize("gap_s", [0.0, 0.01])
@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
def test_no_answer_differs_without_a_tie(
    loaded: LoadedModel,
    calls: list[Ask],
    alone: tuple[list[list[Token]], list[list[float]]],
    mode: Any,
    gap_s: float,
) -> None:
    context = SkillContext(loaded.name, loaded.model.config, loaded.tokenizer, loaded.vocabulary)
    engine = Running(loaded, EngineConfig(max_batch=8))
    sinks: list[list[list[Token]]] = []
    jobs = []
    for ask in calls:
        sinks.append([])
        jobs.append(engine.loop.submit(watched(PLANS[ask.skill](context, replace(ask, mode=mode)), sinks[-1])))
        if gap_s:
            time.sleep(gap_s)
    for job in jobs:
        job.future.result(300)
    engine.close()
    together = [[token for request in sink for token in request] for sink in sinks]
    comparison = compare(alone[0], together, alone[1])
    print(comparison)
    assert comparison.equal + comparison.tied + comparison.different == CALLS
    assert comparison.different == 0, str(comparison)
    assert comparison.equal > 0.9 * CALLS, str(comparison)


def test_a_difference_without_a_tie_would_be_seen(alone: tuple[list[list[Token]], list[list[float]]]) -> None:
    tokens, margins = alone
    first = next(i for i, m in enumerate(margins) if max(m) > 1e-3)
    at = max(range(len(margins[first])), key=lambda i: margins[first][i])
    changed = [*tokens[first]]
    changed[at] = changed[at]._replace(coord=changed[at].coord + 0.25)
    assert compare([tokens[first]], [changed], [margins[first]]) == Comparison(different=1)
    assert compare([tokens[first]], [changed], [[0.0] * len(changed)]) == Comparison(tied=1)
    assert compare([tokens[first]], [tokens[first][:-1]], [margins[first]]) == Comparison(different=1)
    assert compare([tokens[first]], [tokens[first]], [margins[first]]) == Comparison(equal=1)
