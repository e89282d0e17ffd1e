"""app.runs.batch, app.page.batch_view: many pictures, in order, refused one by one, zipped without collisions."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from app.engines.holder import EngineHolder
from app.page.batch_view import BatchView
from app.pictures.store import PictureStore
from app.questions.question import Question, QuestionError
from app.runs.batch import IN_FLIGHT, MAX_PICTURES, Row, run_batch
from app.web.files import file_routes
from photon import PictureLimits
from tests.app.scripted import ScriptedEngine

QUESTION = Question("detect", ("cat",))


def pictures(folder: Path, count: int) -> list[Path]:
    paths = []
    for index in range(count):
        buffer = io.BytesIO()
        Image.new("RGB", (20 + index, 10)).save(buffer, "PNG")
        paths.append(folder / f"{index}" / "same name.png")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(buffer.getvalue())
    return paths


def run(engine: ScriptedEngine, paths: list[Path], archive: io.BytesIO) -> list[Row]:
    """All rows of a finished batch."""

    async def collect() -> list[Row | None]:
        rows: list[Row | None] = []
        with zipfile.ZipFile(archive, "w") as zipped:
            async for part in run_batch(engine, paths, QUESTION, PictureLimits(), zipped):
                rows = part
        return rows

    rows = asyncio.run(collect())
    assert None not in rows
    return [row for row in rows if row is not None]


def test_rows_keep_the_order_and_the_zip_has_each_pictures_files(tmp_path: Path) -> None:
    archive = io.BytesIO()
    rows = run(ScriptedEngine(), pictures(tmp_path, 3), archive)
    assert [row.found for row in rows] == ["Found 1 × cat."] * 3
    with zipfile.ZipFile(archive) as zipped:
        assert sorted(zipped.namelist()) == [
            f"0{number}-same name.{ending}" for number in (1, 2, 3) for ending in ("answers.png", "coco.json", "json")
        ]
        for number in (1, 2, 3):
            body = json.loads(zipped.read(f"0{number}-same name.json"))
            assert body["image"] == {"width": 19 + number, "height": 10}


def test_a_bad_picture_has_its_sentence_and_does_not_harm_the_others(tmp_path: Path) -> None:
    paths = pictures(tmp_path, 2)
    paths[0].write_bytes(b"text")
    bad, good = run(ScriptedEngine(), paths, io.BytesIO())
    assert bad.problem
    assert "not a picture" in bad.found
    assert not good.problem


def test_no_more_than_the_engines_batch_is_in_flight(tmp_path: Path) -> None:
    engine = ScriptedEngine(delay_s=0.05)
    most = 0

    async def watch() -> None:
        nonlocal most
        with zipfile.ZipFile(io.BytesIO(), "w") as zipped:
            async for _ in run_batch(engine, pictures(tmp_path, 40), QUESTION, PictureLimits(), zipped):
                most = max(most, engine.stats()["running"])

    asyncio.run(watch())
    assert most <= IN_FLIGHT
    assert len(engine.calls) == 40


@pytest.mark.parametrize(("count", "words"), [(0, "add the pictures"), (MAX_PICTURES + 1, "at most 64")])
def test_no_pictures_and_too_many_are_refused(tmp_path: Path, count: int, words: str) -> None:
    engine = ScriptedEngine()
    with pytest.raises(QuestionError, match=words):
        run(engine, [tmp_path / str(index) for index in range(count)], io.BytesIO())
    assert engine.calls == []


@pytest.fixture
def view() -> Iterator[BatchView]:
    holder = EngineHolder(ScriptedEngine)

    async def started() -> None:
        holder.start()
        await holder.started()

    asyncio.run(started())
    made = BatchView(holder, PictureStore(PictureLimits()))
    yield made
    made.store.close()


def views(view: BatchView, files: list[str] | None, names: str = "cat") -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        return [outputs[0] async for outputs in view.start(files, "Detect", names, True, 50)]

    return asyncio.run(collect())


def test_the_finished_batch_offers_a_zip_that_can_be_fetched(view: BatchView, tmp_path: Path) -> None:
    *_, last = views(view, [str(path) for path in pictures(tmp_path, 2)])
    assert last["text"].startswith("2 pictures in ")
    assert [row["found"] for row in last["rows"]] == ["Found 1 × cat."] * 2
    app = FastAPI()
    app.include_router(file_routes(view.store, ()))
    client = TestClient(app)
    response = client.get("/" + last["zip"])
    assert response.status_code == 200
    assert len(zipfile.ZipFile(io.BytesIO(response.content)).namelist()) == 6
    assert client.get("/batches/unknown.zip").status_code == 404
    assert client.get("/" + last["zip"].replace("batches", "pictures").replace(".zip", ".jpg")).status_code == 404


@pytest.mark.parametrize(("files", "names", "words"), [(None, "cat", "add the pictures"), ([], "", "look for")])
def test_what_is_missing_is_said(view: BatchView, files: list[str] | None, names: str, words: str) -> None:
    *_, last = views(view, files, names)
    assert last["problem"]
    assert words in last["text"]
    assert list(view.store.folder.iterdir()) == []


def test_leaving_a_batch_leaves_no_file(view: BatchView, tmp_path: Path) -> None:
    engine = view.holder.engine()
    assert isinstance(engine, ScriptedEngine)
    engine.delay_s = 30
    files = [str(path) for path in pictures(tmp_path, 2)]

    async def leave() -> None:
        outputs = view.start(files, "Detect", "cat", True, 50)
        await anext(outputs)
        await outputs.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    assert list(view.store.folder.iterdir()) == []
    assert {call.state for call in engine.calls} <= {"cancelled"}
