"""app.page.chooser: what a visitor is told of the models, and that the choice of one is not the choice of another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app.engines.holder import EngineHolder, NotReadyError
from app.engines.models import Models, Offer
from app.page.chooser import Chooser, lacking, on_model
from photon import ModelInfo, ModelLoadError, Progress
from tests.app.scripted import ScriptedEngine

TINY = ModelInfo("photon-tiny", 40_000_000, ("point", "detect", "segment"), on_disk=True, fits=True)
LARGE = ModelInfo("large", 2_500_000_000, ("query", "caption"), on_disk=True, fits=True)
BROKEN = replace(LARGE, name="broken")
ABSENT = replace(LARGE, name="absent", on_disk=False, reason="fetch it with: python -m photon download absent")
OUTLINES = {"segment": "Outlines need the mask model."}


def load(name: str, progress: Progress) -> ScriptedEngine:
    progress(0.5)
    if name == "broken":
        raise ModelLoadError("The weights are damaged.")
    return ScriptedEngine(name)


def look(names: Sequence[str]) -> list[ModelInfo]:
    return [next(info for info in (TINY, LARGE, BROKEN, ABSENT) if info.name == name) for name in names]


@pytest.fixture
def models() -> Models:
    return Models("photon-tiny", ("photon-tiny", "large", "broken", "absent"), load, look, lambda: 10**12)


def run(models: Models, work: Any) -> Any:
    async def whole() -> Any:
        models.start()
        await models.main.started()
        try:
            return await work
        finally:
            await models.close()

    return asyncio.run(whole())


async def choose(models: Models, name: str, task: str = "Detect") -> list[tuple[Any, ...]]:
    event: Any = SimpleNamespace(_data={"name": name})
    return [one async for one in Chooser(models).choose("photon-tiny", task, event)]


async def visited(models: Models) -> list[tuple[Any, ...]]:
    return [one async for one in Chooser(models).visit("photon-tiny", "Point")]


def test_a_visit_while_the_model_loads_hears_when_it_is_there(models: Models) -> None:
    async def whole() -> list[tuple[Any, ...]]:
        models.start()
        try:
            return await visited(models)
        finally:
            await models.close()

    loading, *_, last = asyncio.run(whole())
    assert [chosen["rows"][0]["state"] for chosen, *_ in (loading, last)] == ["loading", "loaded"]
    assert loading[1] == "Point"
    assert last[1] == gr.skip(), "the task is the visitor's own by then"


def test_a_visit_lists_the_models_and_leaves_the_task(models: Models) -> None:
    ((chosen, task, skills),) = run(models, visited(models))
    assert (chosen["model"], task) == ("photon-tiny", "Point")
    assert [(row["name"], row["size"], row["state"]) for row in chosen["rows"]] == [
        ("photon-tiny", "40 MB", "loaded"),
        ("large", "2.50 GB", "on this machine"),
        ("broken", "2.50 GB", "on this machine"),
        ("absent", "2.50 GB", "not on this machine"),
    ]
    assert [row["refusal"] for row in chosen["rows"]] == ["", "", "", ABSENT.reason]
    assert skills["lines"] == ["photon-tiny cannot query or caption; large and broken can."]


def test_choosing_shows_progress_then_the_models_own_tasks_header_and_notes(models: Models) -> None:
    *loading, last = run(models, choose(models, "large"))
    assert loading[0][0]["progress"]["text"].startswith("Loading large … ")
    assert {one[3] for one in loading} == {"photon-tiny"}
    chosen, task, skills, model, header, notes = last
    assert (chosen["model"], model, header["model"], task) == ("large", "large", "large", "Query")
    assert set(skills["unable"]) == {"Point", "Detect", "Segment"}
    assert "progress" not in chosen
    assert notes["pipeline"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("broken", "The weights are damaged."), ("absent", ABSENT.reason), ("gpt-4", "is not offered here")],
)
def test_what_cannot_be_had_leaves_the_old_model_and_says_why(models: Models, name: str, says: str) -> None:
    chosen, task, _, model, header, _ = run(models, choose(models, name))[-1]
    assert (chosen["model"], task, model, header["model"]) == ("photon-tiny", "Detect", "photon-tiny", "photon-tiny")
    assert says in chosen["problem"]


def test_a_task_that_waits_for_a_second_model_is_disabled_with_what_to_do() -> None:
    found = lacking("both", [Offer(replace(TINY, name="both", skills=("detect", "segment"), lacks=OUTLINES), None)])
    assert found["unable"]["Segment"] == OUTLINES["segment"]
    assert found["lines"] == ["both cannot point or query or caption.", OUTLINES["segment"]]


def test_each_visitors_listener_works_on_their_own_model_and_holds_it(models: Models) -> None:
    def listen(holder: EngineHolder) -> Any:
        async def outputs(word: str) -> Any:
            yield word, holder.engine().describe()["model"], holder.in_use
            await asyncio.sleep(0.01)
            yield word, holder.engine().describe()["model"], holder.in_use

        return outputs

    async def visitors() -> Any:
        await (await models.open("large")).started()
        listener = on_model(models, listen)

        async def one(model: str) -> list[Any]:
            return [output async for output in listener(model, "cat")]

        both = await asyncio.gather(one("large"), one("photon-tiny"))
        assert not any(holder.in_use for holder in models.loaded())
        return both

    assert run(models, visitors()) == [[("cat", "large", True)] * 2, [("cat", "photon-tiny", True)] * 2]


def test_a_visitor_who_leaves_gives_the_model_back(models: Models) -> None:
    def listen(holder: EngineHolder) -> Any:
        async def outputs() -> Any:
            while True:
                yield holder.name
                await asyncio.sleep(0)

        return outputs

    async def leave() -> None:
        listening = on_model(models, listen)("photon-tiny")
        await anext(listening)
        assert models.main.in_use
        await listening.aclose()
        assert not models.main.in_use

    run(models, leave())


def test_while_a_model_loads_its_listener_is_told(models: Models) -> None:
    def listen(holder: EngineHolder) -> Any:
        async def outputs() -> Any:
            try:
                holder.engine()
            except NotReadyError as error:
                yield str(error)

        return outputs

    async def ask() -> list[str]:
        return [output async for output in on_model(models, listen)("large")]

    (said,) = run(models, ask())
    assert said.startswith("Loading large … ")
