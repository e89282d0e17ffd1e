"""app.engines.models: one engine a model, loaded when asked for, as many as fit, and nobody's request is taken down."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from app.engines import models as module
from app.engines.holder import EngineHolder, NotReadyError, State
from app.engines.metrics import Prometheus
from app.engines.models import Models, UnknownModelError
from photon import EngineConfig, ModelInfo, ModelLoadError, Photon, Progress
from tests.app.scripted import ScriptedEngine
from tests.paths import ROOT

NAMES = ("photon-tiny", "middle", "large")


class Machine:
    """A machine with ten units of memory, on which loading waits for `go` where it is closed."""

    def __init__(self, memory: int | None = 10) -> None:
        self.needs = {"photon-tiny": 1, "middle": 5, "large": 6, "huge": 10, "absent": 2}
        self.here = {name: name != "absent" for name in self.needs}
        self.memory = memory
        self.engines: dict[str, list[ScriptedEngine]] = {name: [] for name in self.needs}
        self.broken: set[str] = set()
        self.fetched: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def models(self, *names: str, may_fetch: bool = False) -> Models:
        offered = names or NAMES
        fetch = self._fetch if may_fetch else None
        return Models("photon-tiny", offered, self._load, self._look, lambda: self.memory, fetch)

    def _load(self, name: str, progress: Progress) -> ScriptedEngine:
        progress(0.5)
        self.go.wait(10)
        if name in self.broken:
            raise ModelLoadError(f"The weights of {name} are damaged.")
        running = sum(self.needs[one] for one, made in self.engines.items() for engine in made if not engine.closed)
        assert self.memory is None or running + self.needs[name] <= self.memory, "memory is exceeded"
        self.engines[name].append(ScriptedEngine(name))
        return self.engines[name][-1]

    def _look(self, names: Sequence[str]) -> list[ModelInfo]:
        return [self._info(name) for name in names]

    def _info(self, name: str) -> ModelInfo:
        needs, here = self.needs[name], self.here[name]
        fits = self.memory is None or needs <= self.memory
        absent = "" if here else f"fetch it with: python -m photon download {name}"
        reason = absent if fits else f"{name} is too large."
        return ModelInfo(name, needs, ("detect",), here, fits, reason, needs, fetchable=True)

    def _fetch(self, name: str, progress: Progress) -> None:
        progress(0.25)
        self.go.wait(10)
        self.here[name] = True
        self.fetched.append(name)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.0)


def run(models: Models, test: Coroutine[Any, Any, None]) -> None:
    """The test, with the main model loaded before and everything closed after it."""

    async def whole() -> None:
        models.start()
        await models.main.started()
        try:
            await test
        finally:
            await models.close()

    asyncio.run(whole())


async def opened(models: Models, name: str, fetch: bool = False) -> EngineHolder:
    holder = await models.open(name, fetch)
    await holder.started()
    return holder


def test_a_model_is_loaded_when_it_is_first_asked_for_and_then_shared(machine: Machine) -> None:
    models = machine.models()

    async def test() -> None:
        assert machine.engines["middle"] == []
        async with models.using("middle") as holder:
            with pytest.raises(NotReadyError, match=r"^Loading middle … \d s.* Ask again in a moment\.$"):
                holder.engine()
        await holder.started()
        first = await asyncio.gather(*(models.open("middle") for _ in range(3)))
        assert [one.engine() for one in first] == machine.engines["middle"] * 3
        async with models.using() as main:
            assert main.engine() is machine.engines["photon-tiny"][0]

    run(models, test())
    assert all(engine.closed for made in machine.engines.values() for engine in made)


def test_what_asks_at_once_loads_once(machine: Machine) -> None:
    models = machine.models()

    async def test() -> None:
        found = await asyncio.gather(*(models.open("middle") for _ in range(5)))
        assert len({id(one) for one in found}) == 1
        await found[0].started()
        assert len(machine.engines["middle"]) == 1

    run(models, test())


def test_a_loading_model_tells_how_far_it_is_and_holds_up_nobody(machine: Machine) -> None:
    models = machine.models()

    async def test() -> None:
        machine.go.clear()
        holder = await models.open("middle")
        for _ in range(200):
            await asyncio.sleep(0.01)
            if holder.progress[1]:
                break
        assert holder.progress[1] == 0.5
        assert "(50%)" in holder.reason
        async with models.using() as main:
            assert (await main.engine().adetect(_Picture, "cat"))["objects"]
        machine.go.set()
        await holder.started()
        assert holder.state is State.READY

    run(models, test())


def test_the_longest_idle_one_is_closed_for_the_next(machine: Machine) -> None:
    machine.memory = 12
    models = machine.models("photon-tiny", "middle", "large", "absent")
    machine.here["absent"] = True

    async def test() -> None:
        for name in ("middle", "large"):
            await opened(models, name)
        async with models.using("middle"):
            pass
        await opened(models, "absent")
        assert [holder.name for holder in models.loaded()] == ["photon-tiny", "middle", "absent"]
        assert machine.engines["large"][0].closed
        assert not machine.engines["middle"][0].closed

    run(models, test())


def test_a_model_in_use_is_not_closed_and_the_next_is_refused_in_a_sentence(machine: Machine) -> None:
    models = machine.models()

    async def test() -> None:
        await opened(models, "middle")
        async with models.using("middle") as held:
            refused = await models.open("large")
            assert refused.state is State.FAILED
            assert refused.reason == "large needs the memory of a model that others are using; try again in a minute."
            assert not machine.engines["middle"][0].closed
            assert held.state is State.READY
        assert (await opened(models, "large")).state is State.READY
        assert machine.engines["middle"][0].closed

    run(models, test())


def test_a_model_stays_a_while_after_its_last_answer(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_S", 60.0)
    models = machine.models()

    async def test() -> None:
        await opened(models, "middle")
        assert "others are using" in (await models.open("large")).reason
        assert not machine.engines["middle"][0].closed

    run(models, test())


def test_the_main_model_is_never_closed(machine: Machine) -> None:
    models = machine.models("photon-tiny", "huge")

    async def test() -> None:
        refused = await models.open("huge")
        assert refused.reason == "huge does not fit into this machine's memory beside photon-tiny, which stays loaded."
        assert not machine.engines["photon-tiny"][0].closed

    run(models, test())


def test_where_the_memory_is_not_known_one_more_than_the_main_one_is_kept() -> None:
    machine = Machine(memory=None)
    models = machine.models()

    async def test() -> None:
        await opened(models, "middle")
        await opened(models, "large")
        assert [holder.name for holder in models.loaded()] == ["photon-tiny", "large"]
        assert machine.engines["middle"][0].closed

    run(models, test())


def test_files_are_fetched_only_where_that_is_allowed_and_asked_for(machine: Machine) -> None:
    for may_fetch, asked in ((False, True), (True, False)):
        models = machine.models("photon-tiny", "absent", may_fetch=may_fetch)

        async def test(models: Models = models, asked: bool = asked) -> None:
            refused = await models.open("absent", fetch=asked)
            assert refused.reason == "fetch it with: python -m photon download absent"

        run(models, test())
    assert machine.fetched == []
    models = machine.models("photon-tiny", "absent", may_fetch=True)

    async def fetches() -> None:
        assert [choice.fetches for choice in await models.offers()] == [False, True]
        machine.go.clear()
        holder = await models.open("absent", fetch=True)
        for _ in range(200):
            await asyncio.sleep(0.01)
            if holder.progress[1]:
                break
        assert holder.progress[0].startswith("Fetching absent …")
        machine.go.set()
        await holder.started()
        assert holder.state is State.READY
        assert [choice.fetches for choice in await models.offers()] == [False, False]

    run(models, fetches())
    assert machine.fetched == ["absent"]


def test_a_load_that_fails_says_why_and_is_tried_again_later(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    models = machine.models()
    machine.broken.add("middle")

    async def test() -> None:
        first = await opened(models, "middle")
        assert first.reason == "The weights of middle are damaged."
        machine.broken.clear()
        assert await models.open("middle") is first
        monkeypatch.setattr(module, "RETRY_S", 0.0)
        assert (await opened(models, "middle")).state is State.READY

    run(models, test())


def test_what_is_not_offered_is_refused_by_name(machine: Machine) -> None:
    models = machine.models()

    async def test() -> None:
        with pytest.raises(UnknownModelError, match=r"'gpt-4' is not offered here; .* photon-tiny, middle, large"):
            await models.open("gpt-4")

    run(models, test())


def test_choices_say_what_may_be_chosen_and_why_not(machine: Machine) -> None:
    models = machine.models("photon-tiny", "middle", "huge", "absent")

    async def test() -> None:
        machine.memory = 9
        tiny, middle, huge, absent = await models.offers()
        assert (tiny.state, middle.state, huge.state, absent.state) == (State.READY, None, None, None)
        assert (tiny.refusal, middle.refusal, huge.refusal) == ("", "", "huge is too large.")
        assert absent.refusal == "fetch it with: python -m photon download absent"
        await opened(models, "middle")
        assert [choice.state for choice in await models.offers()][1] is State.READY

    run(models, test())


def test_a_closed_models_weights_leave_the_memory() -> None:
    metrics = Prometheus()
    folder = str(ROOT / "tests/data/parity/md2")
    holder = EngineHolder(lambda: metrics.observed(Photon.load(folder, EngineConfig(device="cpu", threads=1))), "md2")
    metrics.watch(lambda: [holder])

    async def use() -> weakref.ref[Any]:
        holder.start()
        await holder.started()
        engine: Any = holder.engine()
        await engine.adetect(np.zeros((40, 60, 3), np.uint8), "cat")
        async for _ in (await engine.aquery(question="Why?", stream=True))["answer"]:
            pass
        metrics.text()
        return weakref.ref(engine.inner.parts.loaded.model)

    async def use_and_close() -> weakref.ref[Any]:
        weights = await use()
        assert weights() is not None
        await holder.close()
        await asyncio.to_thread(gc.collect)
        return weights

    assert asyncio.run(use_and_close())() is None


class _Shaped:
    shape = (4, 6, 3)


_Picture: Any = _Shaped()
