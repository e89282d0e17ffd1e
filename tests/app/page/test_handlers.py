"""app.page.handlers: what comes in and goes out; nothing of a visitor stays behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app.engines.holder import EngineHolder
from app.page.handlers import TAKEN, Handlers
from app.page.turn import Turn
from app.pictures.fetch import Fetched, Fetcher
from app.pictures.store import Picture, PictureStore
from app.questions.examples import Example
from photon import EngineConfig, ModelLoadError, Photon, PictureError, PictureLimits, QueueFullError, Result
from tests.app.scripted import ScriptedEngine
from tests.paths import PARITY
from tests.samples import png

STAGE_AT, PICTURE_AT, STATUS_AT = 2, 3, 7


def event(**data: Any) -> Any:
    """What gr.HTML sends with an event."""
    return SimpleNamespace(_data=data)


class Web(Fetcher):
    """One picture on the web, and nothing else."""

    def fetch(self, url: str) -> Fetched:
        if url != "https://site.example/p.png":
            raise PictureError("Not there.")
        return Fetched(png(), "p.png")


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def handlers(engine: ScriptedEngine, tmp_path: Path) -> Iterator[Handlers]:
    holder = EngineHolder(lambda: engine)
    asyncio.run(_started(holder))
    limits = PictureLimits()
    (tmp_path / "example.png").write_bytes(png())
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    example = Example(tmp_path / "example.png", "An example", "cup", "Point", "Nobody (CC0)")
    store = PictureStore(limits)
    yield Handlers(holder, store, limits, (example,), uploads, Web(limits))
    store.close()


async def _started(holder: EngineHolder) -> None:
    holder.start()
    await holder.started()


def upload(handlers: Handlers, data: bytes, name: str = "p.png") -> Path:
    path = handlers.upload_folder / name
    path.write_bytes(data)
    return path


def taken(handlers: Handlers) -> Picture:
    picture = asyncio.run(handlers.take_upload(str(upload(handlers, png())), Turn()))[PICTURE_AT]
    assert isinstance(picture, Picture)
    return picture


def run(handlers: Handlers, *arguments: Any) -> list[tuple[Any, ...]]:
    async def collect() -> list[tuple[Any, ...]]:
        return [outputs async for outputs in handlers.run(*arguments)]

    return asyncio.run(collect())


def test_an_upload_becomes_the_visitors_picture(handlers: Handlers) -> None:
    outputs = asyncio.run(handlers.take_upload(str(upload(handlers, png())), Turn()))
    assert len(outputs) == TAKEN
    assert (outputs[PICTURE_AT].width, outputs[PICTURE_AT].height) == (40, 20)
    assert outputs[2]["value"]["src"] == outputs[PICTURE_AT].url
    assert outputs[STATUS_AT]["kind"] == "idle"


@pytest.mark.parametrize(("data", "words"), [(b"", "empty"), (b"text", "not a picture")])
def test_a_bad_upload_leaves_the_old_picture_and_says_why(handlers: Handlers, data: bytes, words: str) -> None:
    outputs = asyncio.run(handlers.take_upload(str(upload(handlers, data)), Turn()))
    assert words in outputs[STATUS_AT]["text"]
    assert not isinstance(outputs[PICTURE_AT], Picture)


def test_a_dropped_file_is_taken_from_the_upload_folder_only(handlers: Handlers, tmp_path: Path) -> None:
    inside = upload(handlers, png())
    outputs = asyncio.run(handlers.take_drop(Turn(), event(path=str(inside), name="dropped.png")))
    assert outputs[PICTURE_AT].name == "dropped.png"
    outside = tmp_path / "secret.png"
    outside.write_bytes(png())
    link = handlers.upload_folder / "link.png"
    link.symlink_to(outside)
    for path in (outside, link, handlers.upload_folder / ".." / "secret.png", "/etc/passwd", "", None):
        outputs = asyncio.run(handlers.take_drop(Turn(), event(path=path, name="x")))
        assert len(outputs) == TAKEN
        assert "could not be uploaded" in outputs[STATUS_AT]["text"]


def test_an_address_on_the_web_is_taken_or_refused(handlers: Handlers) -> None:
    assert asyncio.run(handlers.take_address("https://site.example/p.png", Turn()))[PICTURE_AT].name == "p.png"
    assert asyncio.run(handlers.take_address("http://10.0.0.1/", Turn()))[STATUS_AT]["text"] == "Not there."


def test_an_example_brings_its_question(handlers: Handlers) -> None:
    outputs = asyncio.run(handlers.take_example(Turn(), event(index=0)))
    picture = outputs[PICTURE_AT]
    assert (picture.name, picture.title) == (handlers.examples[0].path.name, "An example")
    assert outputs[STAGE_AT]["value"]["name"] == "An example"
    assert outputs[TAKEN : TAKEN + 2] == ("cup", "Point")
    assert outputs[-1] != asyncio.run(handlers.take_example(Turn(), event(index=0)))[-1], "it is asked again"
    for index in (1, -1, "0", None, 0.0):
        assert len(asyncio.run(handlers.take_example(Turn(), event(index=index)))) == TAKEN + 3


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ([0.5, 0.25], (0.5, 0.25)),
        ([0, 0, 1, 1], (0.0, 0.0, 1.0, 1.0)),
        ([], None),
        (None, None),
        ([0.5], None),
        ([0.5, 2], None),
        ([0.5, "<b>"], None),
        ([0.5, float("nan")], None),
    ],
)
def test_a_reference_is_a_point_or_a_box_within_the_picture(handlers: Handlers, values: Any, reference: Any) -> None:
    assert handlers.refer(event(values=values)) == reference


def test_an_answer_that_was_cut_says_so(handlers: Handlers, engine: ScriptedEngine) -> None:
    question = ("Detect", "cat", False, 7, None, 0.0)
    *_, (whole, *_) = run(handlers, taken(handlers), *question, Turn())
    assert "limit of tokens" not in whole["text"]
    engine.cuts = True
    *_, (cut, _, _, _, results, _) = run(handlers, taken(handlers), *question, Turn())
    assert cut["text"].endswith("Cut where it reached its limit of tokens.")
    assert json.loads(results["json"])["answers"][0]["finish_reason"] == "length"


def test_a_dropped_address_is_fetched(handlers: Handlers) -> None:
    outputs = asyncio.run(handlers.take_drop(Turn(), event(url="https://site.example/p.png")))
    assert outputs[PICTURE_AT].name == "p.png"
    assert asyncio.run(handlers.take_drop(Turn(), event(url="http://10.0.0.1/")))[STATUS_AT]["text"] == "Not there."


def test_a_question_is_asked_and_drawn(handlers: Handlers, engine: ScriptedEngine) -> None:
    *_, (status, run_button, cancel_button, stage, results, where) = run(
        handlers, taken(handlers), "Detect", "cat, dog", False, 7, (0.1, 0.2), 0.5, Turn()
    )
    assert status["kind"] == "done"
    assert (run_button["visible"], cancel_button["visible"]) == (True, False)
    assert [shape["name"] for shape in stage["shapes"]] == ["cat", "dog"]
    assert json.loads(results["json"])["task"] == "detect"
    assert [request["name"] for request in where["requests"]] == ["cat", "dog"]
    assert engine.calls[0].options == {
        "settings": {"max_objects": 7, "temperature": 0.5},
        "spatial_refs": [[0.1, 0.2]],
        "pipelined": False,
    }


@pytest.mark.parametrize(
    ("picture", "names", "words"),
    [(False, "cat", "add a picture first"), (True, "", "say what to look for"), (True, "xyzzy", "does not know")],
)
def test_what_is_missing_is_said(handlers: Handlers, picture: bool, names: str, words: str) -> None:
    *_, last = run(handlers, taken(handlers) if picture else None, "Point", names, True, 50, None, 0.0, Turn())
    assert last[0]["kind"] == "problem"
    assert words in last[0]["text"]
    assert last[1]["visible"] is True


def test_an_unexpected_failure_is_said_in_a_sentence_too(handlers: Handlers, engine: ScriptedEngine) -> None:
    engine.answers = {}
    *_, last = run(handlers, taken(handlers), "Point", "cat", True, 50, None, 0.0, Turn())
    assert "failed on the server" in last[0]["text"]


def test_a_full_queue_is_said_and_nothing_hangs(handlers: Handlers, engine: ScriptedEngine) -> None:
    async def full(image: Any, object: str, **options: Any) -> Result:
        raise QueueFullError("64 requests are waiting, which is the most; try again later.")

    engine.adetect = full  # type: ignore[method-assign]
    *_, last = run(handlers, taken(handlers), "Detect", "cat", True, 50, None, 0.0, Turn())
    assert last[0] == {"kind": "problem", "text": "64 requests are waiting, which is the most; try again later."}
    assert last[1]["visible"] is True


def test_a_forgotten_picture_is_asked_for_again(handlers: Handlers) -> None:
    stranger = Picture("gone", "p.png", 1, 1, 0.0)
    *_, last = run(handlers, stranger, "Point", "cat", True, 50, None, 0.0, Turn())
    assert "add it again" in last[0]["text"]


def test_a_text_is_shown_while_it_is_written(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a model that describes its recorded picture at length."""
    monkeypatch.setattr("app.page.handlers.HEARTBEAT_S", 0.01)
    monkeypatch.setattr("app.page.handlers.WORDS_S", 0.01)
    model = PARITY / "md2"
    holder = EngineHolder(lambda: Photon.load(str(model), EngineConfig(device="cpu", threads=1)))
    asyncio.run(_started(holder))
    file = upload(handlers, (model / "image.png").read_bytes())
    picture = asyncio.run(handlers.take_upload(str(file), Turn()))[PICTURE_AT]
    outputs = run(replace(handlers, holder=holder), picture, "Caption", "", True, 50, None, 0.0, Turn())
    asyncio.run(holder.close())
    shown = [results for *_, results, _ in outputs if "note" in results]
    texts = [results["note"] for results in shown]
    assert len(texts) > 3
    assert all(later.startswith(earlier.strip()) for earlier, later in pairwise(texts))
    assert ["json" in results for results in shown] == [False] * (len(shown) - 1) + [True]
    assert json.loads(shown[-1]["json"])["answers"][0]["caption"].strip() == texts[-1]


def test_closing_the_generator_cancels_the_requests(handlers: Handlers, engine: ScriptedEngine) -> None:
    engine.delay_s = 30
    picture = taken(handlers)

    async def leave() -> None:
        outputs = handlers.run(picture, "Point", "cat, dog", True, 50, None, 0.0, Turn())
        for _ in range(2):
            await anext(outputs)
        await outputs.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    assert [call.state for call in engine.calls] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("taken_again", [True, False])
def test_another_picture_or_none_ends_the_question_and_its_answer_is_not_shown(
    handlers: Handlers, engine: ScriptedEngine, taken_again: bool
) -> None:
    picture, turn = taken(handlers), Turn()
    engine.delay_s = 30

    async def whole() -> list[tuple[Any, ...]]:
        outputs = handlers.run(picture, "Point", "cat, dog", True, 50, None, 0.0, turn)
        shown = [await anext(outputs), await anext(outputs)]
        other = upload(handlers, png())
        await (handlers.take_upload(str(other), turn) if taken_again else handlers.forget(turn))
        shown += [one async for one in outputs]
        await asyncio.sleep(0.01)
        return shown

    assert asyncio.run(whole())[-1] == (gr.skip(),) * 6
    assert [call.state for call in engine.calls] == ["cancelled", "cancelled"]


def test_a_picture_that_is_refused_lets_the_question_about_the_last_go_on(handlers: Handlers) -> None:
    async def whole() -> bool:
        turn = Turn()
        over = turn.begin()
        await handlers.take_upload(str(upload(handlers, b"no picture")), turn)
        return over.is_set()

    assert not asyncio.run(whole())


async def visits(handlers: Handlers) -> list[tuple[Any, Any]]:
    return [shown async for shown in handlers.visit()]


def test_a_page_that_is_opened_while_the_model_loads_hears_when_it_is_there(handlers: Handlers) -> None:
    async def whole() -> list[tuple[Any, Any]]:
        holder = EngineHolder(lambda: ScriptedEngine())
        holder.start()
        return await visits(replace(handlers, holder=holder))

    (first, _), *_, (last, notes) = asyncio.run(whole())
    assert first["problem"].startswith("Loading")
    assert (last["state"], last["problem"], last["times"]) == ("ready", "", "measured")
    assert notes["pipeline"]


def test_without_an_engine_its_reason_is_the_answer(tmp_path: Path) -> None:
    def missing() -> Any:
        raise ModelLoadError("The weights are missing.")

    holder = EngineHolder(missing)
    asyncio.run(_started(holder))
    store = PictureStore(PictureLimits())
    made = Handlers(holder, store, PictureLimits(), (), tmp_path, Web(PictureLimits()))
    (tmp_path / "p.png").write_bytes(png())
    picture = asyncio.run(made.take_upload(str(tmp_path / "p.png"), Turn()))[PICTURE_AT]
    *_, last = run(made, picture, "Point", "cat", True, 50, None, 0.0, Turn())
    assert last[0] == {"kind": "problem", "text": "The weights are missing."}
    assert [header["problem"] for header, _ in asyncio.run(visits(made))] == ["The weights are missing."]
    store.close()
