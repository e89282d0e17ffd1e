"""app.page.race_view: one race at a time in the process, each visitor told what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.engines.holder import EngineHolder
from app.page.race_view import EVEN, MANY, RaceView
from app.pictures.store import Picture, PictureStore
from photon import PictureLimits
from tests.app.scripted import ScriptedEngine
from tests.samples import png


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(delay_s=0.01)


@pytest.fixture
def view(engine: ScriptedEngine) -> Iterator[RaceView]:
    holder = EngineHolder(lambda: engine)

    async def started() -> None:
        holder.start()
        await holder.started()

    asyncio.run(started())
    made = RaceView(holder, PictureStore(PictureLimits()))
    yield made
    made.store.close()


@pytest.fixture
def picture(view: RaceView) -> Picture:
    return view.store.add(png(), "p.png")


async def collect(outputs: AsyncIterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one async for one in outputs]


def start(view: RaceView, picture: Picture | None, names: str = "cat", count: int = 4) -> AsyncIterator[Any]:
    return view.start(picture, "Detect", names, 50, count, 4)


def test_a_race_tells_its_progress_and_ends_with_the_report(view: RaceView, picture: Picture) -> None:
    outputs = asyncio.run(collect(start(view, picture)))
    assert outputs[0][0]["text"].startswith("Warming up")
    running = [one[0] for one in outputs[:-1] if "text" not in one[0]]
    assert running
    assert all("progress" in one for one in running)
    assert all("Warming up" in one[0]["text"] for one in outputs[: -1 - len(running)])
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
        async for shown, *_ in outputs:
            if "progress" in shown:
                break
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


def files(tmp_path: Path, count: int, size: tuple[int, int] = (20, 10)) -> list[str]:
    paths = [tmp_path / f"{index}.png" for index in range(count)]
    for shade, path in enumerate(paths):
        Image.new("RGB", size, (shade, 0, 0)).save(path)
    return [str(path) for path in paths]


def race_the_batch(view: RaceView, given: list[str] | None) -> dict[str, Any]:
    outputs = view.start(None, "Detect", "cat", 50, 4, 4, MANY, given)
    return dict(asyncio.run(collect(outputs))[-1][0])


def test_the_batchs_pictures_can_race(view: RaceView, engine: ScriptedEngine, tmp_path: Path) -> None:
    value = race_the_batch(view, files(tmp_path, 2))
    assert value["report"]["pictures"] == 2
    assert value["report"]["equal"] == 4
    assert {call.shape for call in engine.calls} == {(10, 20, 3)}


@pytest.mark.parametrize(
    ("count", "size", "words"),
    [(0, (1, 1), "add pictures to the batch"), (17, (1, 1), "17"), (2, (6000, 5000), "50 m")],
)
def test_which_batches_cannot_race_is_said(
    view: RaceView, tmp_path: Path, count: int, size: tuple[int, int], words: str
) -> None:
    value = race_the_batch(view, files(tmp_path, count, size))
    assert value["problem"]
    assert words in value["text"]


def test_a_file_of_the_batch_that_is_no_picture_is_named(view: RaceView, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_bytes(b"text")
    value = race_the_batch(view, [*files(tmp_path, 1), str(tmp_path / "text.png")])
    assert value["text"].startswith("text.png: ")
    assert not view.turn.locked()


@pytest.mark.parametrize(
    ("ratio", "words"), [(2.0, "pipeline off"), (0.5, "pipeline on"), (1.0, "no GPU"), (None, "no GPU")]
)
def test_a_race_on_a_busy_machine_says_so(view: RaceView, ratio: float | None, words: str) -> None:
    note = view.note({"device_ratio": ratio})
    assert words in note
    assert ("2.00 times" in note) == (ratio not in (None, 1.0))
    assert EVEN[0] < 1 < EVEN[1]
