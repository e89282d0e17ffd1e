"""Whether two runs generated the same: equal, tied or different (see photon.bench.compare).

Tokens are compared, not answers: answers are computed from them. Where two runs differ, the question is put once more,
alone and in blocking mode, to an engine that notes how close the decisions were.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from photon.bench.compare import Comparison, MarginSampler, compare
from photon.core.config import EngineConfig
from photon.core.request import Request, Token
from photon.devices.cpu import CpuDevice
from photon.engine.core import ModelShape, build_core
from photon.engine.loop import EngineLoop
from photon.engine.sizing import default_kv_pages
from photon.models.registry import LoadedModel
from photon.runtime.backends import PAGE_SIZES
from photon.runtime.executor import ModelExecutor
from photon.skills.base import Plan, RecordedState

Call = Callable[[], Plan]
"""Begins a call: the plan that an engine is given."""

Tokens = list[list[Token]]
"""Of one call: those of each of its requests, in the order in which it makes them."""


def watched(plan: Plan, sink: Tokens) -> Plan:
    """The same call; what its requests generate is added to `sink`."""

    def watch(request: Request) -> Request:
        tokens: list[Token] = []
        sink.append(tokens)
        return replace(request, start=lambda: RecordedState(request.start(), tokens))

    stage = next(plan)
    while True:
        results = yield [watch(request) for request in stage] if isinstance(stage, list) else stage
        try:
            stage = plan.send(results)
        except StopIteration as end:
            return dict(end.value)


@dataclass(frozen=True)
class Alone:
    """What one call generated alone, and by how much each decision was made."""

    tokens: Tokens
    margins: list[list[float]]


def alone(loaded: LoadedModel, call: Call) -> Alone:
    """Run one call by itself on the CPU, with one row at a time; its requests are in blocking mode."""
    config = EngineConfig(max_batch=1)
    pages = default_kv_pages(loaded.model.config, config, loaded.model.dtype, PAGE_SIZES[0])
    device, pool = CpuDevice(), ThreadPoolExecutor(1)
    executor = ModelExecutor(loaded.model, config, pages, device)
    sampler = executor.sample = MarginSampler(loaded.model)
    notify: list[Callable[[], None]] = []
    core = build_core(
        ModelShape.of(loaded.model),
        config,
        pages,
        device,
        executor,
        loaded.model.vision.preprocess,
        pool,
        lambda: notify[0](),
    )
    loop = EngineLoop(core, config.queue)
    notify.append(loop.notify)
    loop.start()
    tokens: Tokens = []
    try:
        loop.submit(watched(call(), tokens)).future.result()
    finally:
        loop.stop(60)
        pool.shutdown()
        device.close()
    margins = iter(sampler.margins)
    return Alone(tokens, [[next(margins) for _ in row] for row in tokens])


def verdict(one: Tokens, other: Tokens, reference: Callable[[], Alone]) -> Comparison:
    """Of one call in two runs. `reference` is asked for only if they differ."""
    if [[t[:4] for t in row] for row in one] == [[t[:4] for t in row] for row in other]:
        return Comparison(equal=1)
    sure = reference()
    for run in (one, other):
        # A call makes as many requests as an earlier one of its own found objects: what it lacks was decided there.
        shared = min(len(run), len(sure.tokens))
        if not compare(sure.tokens[:shared], run[:shared], sure.margins[:shared]).answers_equal:
            return Comparison(different=1)
    return Comparison(tied=1)
