"""app.race_view: one race at a time in the process, each visitor told what goes on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from PIL import Image

from app.backend import Backend
from app.ingest import Limits
from app.pictures import Picture, PictureStore
from app.race_view import RaceView
from tests.app.scripted import ScriptedEngine


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(delay_s=0.01)


@pytest.fixture
def view(engine: ScriptedEngine) -> Iterator[RaceView]:
    backend = Backend(lambda: engine)

    async def started() -> None:
        backend.start()
        await backend.started()

    asyncio.run(started())
    made = RaceView(backend, PictureStore(Limits()))
    yield made
    made.store.close()


@pytest.fixture
def picture(view: RaceView) -> Picture:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 10)).save(buffer, "PNG")
    return view.store.add(buffer.getvalue(), "p.png")


async def collect(outputs: AsyncIterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one async for one in outputs]


def start(view: RaceView, picture: Picture | None, names: str = "cat", count: int = 4) -> AsyncIterator[Any]:
    return view.start(picture, "Detect", names, 50, count, 4)


def test_a_race_tells_its_progress_and_ends_with_the_report(view: RaceView, picture: Picture) -> None:
    outputs = asyncio.run(collect(start(view, picture)))
    assert outputs[0][0]["text"].startswith("Warming up")
    assert all("progress" in one[0] for one in outputs[1:-1])
    report, race_button, stop_button = outputs[-1]
    assert report["report"]["equal"] == 4
    assert "no GPU" in report["note"]
    assert (race_button["visible"], stop_button["visible"]) == (True, False)
    assert (outputs[0][1]["visible"], outputs[0][2]["visible"]) == (False, True)


def test_a_second_race_waits_for_the_first(view: RaceView, picture: Picture) -> None:
    async def both() -> list[list[tuple[Any, ...]]]:
        return list(await asyncio.gather(collect(start(view, picture, count=16)), collect(start(view, picture))))

    first, second = asyncio.run(both())
    assert "yours is next" in second[0][0]["text"]
    assert not any("yours is next" in one[0].get("text", "") for one in first)
    assert "report" in first[-1][0]
    assert "report" in second[-1][0]


def test_a_stopped_race_gives_its_turn_back(view: RaceView, picture: Picture, engine: ScriptedEngine) -> None:
    async def stop_then_race() -> list[tuple[Any, ...]]:
        outputs = start(view, picture, count=64)
        for _ in range(3):
            await anext(outputs)
        await outputs.aclose()  # type: ignore[attr-defined]
        assert not view.turn.locked()
        return await collect(start(view, picture))

    assert "report" in asyncio.run(stop_then_race())[-1][0]
    assert {call.state for call in engine.calls} == {"done", "cancelled"}


@pytest.mark.parametrize(
    ("has_picture", "names", "count", "words"),
    [
        (False, "cat", 4, "add a picture"),
        (True, "", 4, "look for"),
        (True, "xyzzy", 4, "xyzzy"),
        (True, "cat", 99, "allowed"),
    ],
)
def test_what_cannot_race_is_said(
    view: RaceView, picture: Picture, has_picture: bool, names: str, count: int, words: str
) -> None:
    last = asyncio.run(collect(start(view, picture if has_picture else None, names, count)))[-1]
    assert last[0]["problem"]
    assert words in last[0]["text"]
    assert last[1]["visible"] is True
    assert not view.turn.locked()
