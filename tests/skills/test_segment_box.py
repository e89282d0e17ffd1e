"""Segment by a second model: boxes in, outlines out, and the engine goes on meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from photon import EngineStoppedError, ModelLoadError, Photon, RequestCancelledError, UnsupportedSkillError
from photon.core.request import Token
from photon.masks import Box
from photon.skills import Ask, SkillContext, skills_of
from photon.skills.base import SideWork
from photon.skills.segment import segment_plan
from photon.skills.segment_box import chosen
from tests import recorded
from tests.masks.tiny_sam import save_video_model
from tests.skills.conftest import finish

SIDE = 200


def detected(*corners: tuple[float, float, float, float], scores: Sequence[float] = ()) -> list[dict[str, float]]:
    return [
        {"x_min": a, "y_min": b, "x_max": c, "y_max": d, "score": scores[i] if scores else 0.5}
        for i, (a, b, c, d) in enumerate(corners)
    ]


class ScriptedMasks:
    """Each box holds a triangle: its upper left half. `gate` holds the work up; `broken` makes it fail."""

    def __init__(self, empty: Sequence[int] = (), reason: str | None = None) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.broken: Exception | None = None
        self.threads: set[str] = set()
        self._empty = empty
        self._reason = reason

    def missing(self) -> str | None:
        return self._reason

    def masks(self, image: NDArray[np.uint8], boxes: Sequence[Box]) -> Iterator[NDArray[np.bool_]]:
        self.threads.add(threading.current_thread().name)
        self.begun.set()
        assert self.gate.wait(30)
        if self.broken:
            raise self.broken
        for i, box in enumerate(boxes):
            mask = np.zeros((SIDE, SIDE), dtype=bool)
            left, top, right, bottom = (round(SIDE * box[k]) for k in ("x_min", "y_min", "x_max", "y_max"))
            if i not in self._empty:
                y, x = np.mgrid[top:bottom, left:right]
                mask[top:bottom, left:right] = (x - left) / (right - left) + (y - top) / (bottom - top) < 1
            yield mask


# -- the plan alone ---------------------------------------------------------------------------------------------------


@pytest.fixture
def detector(context: SkillContext) -> Callable[..., SkillContext]:
    """A model that can detect but not segment, with these masks."""

    def make(masks: ScriptedMasks | None) -> SkillContext:
        templates = {k: v for k, v in context.config.tokenizer.templates.items() if k != "segment"}
        tokenizer = dataclasses.replace(context.config.tokenizer, templates=templates)
        config = dataclasses.replace(context.config, tokenizer=tokenizer)
        return dataclasses.replace(context, config=config, masks=masks)

    return make


def answer(context: SkillContext, ask: Ask, objects: list[dict[str, float]]) -> dict[str, Any]:
    plan = segment_plan(context, ask)
    (request,) = next(plan)  # type: ignore[misc]
    assert request.prompt == tuple(context.prompt("detect", (), " cat"))
    outside = plan.send([{"objects": objects}])
    assert isinstance(outside, SideWork)
    return finish(plan, outside.work())


def test_path_is_in_its_box_and_polygons_are_in_the_image(
    detector: Callable[..., SkillContext], ask: Callable[..., Ask]
) -> None:
    boxes = detected((0.1, 0.2, 0.5, 0.8), (0.6, 0.5, 0.9, 0.9), scores=(0.4, 0.7))
    got = answer(detector(ScriptedMasks()), ask("segment", "cat"), boxes)
    assert [o["score"] for o in got["objects"]] == [0.4, 0.7]
    assert {k: got[k] for k in ("path", "bbox", "polygons")} == {
        k: got["objects"][1][k] for k in ("path", "bbox", "polygons")
    }
    assert "score" not in got
    for found, box in zip(got["objects"], boxes, strict=True):
        bbox, (polygon,) = found["bbox"], found["polygons"]
        assert all(bbox[k] == pytest.approx(box[k], abs=2 / SIDE) for k in bbox)
        words = found["path"].replace("M", "L").split()
        assert (words[0], words[-1]) == ("L", "Z")
        vertices = [(float(words[i + 1]), float(words[i + 2])) for i, word in enumerate(words) if word == "L"]
        assert len(vertices) == len(polygon)
        assert min(x for x, _ in vertices) == min(y for _, y in vertices) == 0
        assert max(x for x, _ in vertices) == max(y for _, y in vertices) == 1
        for (px, py), (x, y) in zip(vertices, polygon, strict=True):
            assert x == pytest.approx(bbox["x_min"] + px * (bbox["x_max"] - bbox["x_min"]), abs=1e-4)
            assert y == pytest.approx(bbox["y_min"] + py * (bbox["y_max"] - bbox["y_min"]), abs=1e-4)


def test_a_box_with_an_empty_mask_stays_without_an_outline(
    detector: Callable[..., SkillContext], ask: Callable[..., Ask]
) -> None:
    got = answer(detector(ScriptedMasks(empty=[0])), ask("segment", "cat"), detected((0.1, 0.2, 0.5, 0.8)))
    bbox = {"x_min": 0.1, "y_min": 0.2, "x_max": 0.5, "y_max": 0.8}
    assert got["objects"] == [{"bbox": bbox, "path": "", "polygons": [], "score": 0.5}]
    assert got["bbox"] == bbox


def test_nothing_detected_asks_for_no_mask(detector: Callable[..., SkillContext], ask: Callable[..., Ask]) -> None:
    plan = segment_plan(detector(ScriptedMasks()), ask("segment", "cat"))
    next(plan)
    assert finish(plan, [{"objects": []}]) == {"path": "", "bbox": None, "polygons": [], "objects": []}


def test_references_choose_the_smallest_object_around_them() -> None:
    objects = detected((0.0, 0.0, 1.0, 1.0), (0.4, 0.4, 0.6, 0.6), (0.7, 0.7, 0.9, 0.9))
    assert chosen(objects, [(0.5, 0.5)]) == [objects[1]]
    assert chosen(objects, [(0.8, 0.8), (0.2, 0.2), (0.85, 0.75)]) == [objects[2], objects[0]]
    assert chosen(objects[1:], [(0.1, 0.1)]) == []


def test_a_reference_decides_which_object_is_the_best(
    detector: Callable[..., SkillContext], ask: Callable[..., Ask]
) -> None:
    context = detector(ScriptedMasks())
    centre = tuple(Token(context.config.tokenizer.coord_id, coord=0.3) for _ in range(2))
    boxes = detected((0.1, 0.1, 0.5, 0.5), (0.6, 0.6, 0.9, 0.9), scores=(0.2, 0.9))
    got = answer(context, ask("segment", "cat", refs=centre), boxes)
    assert [o["score"] for o in got["objects"]] == [0.2]


def test_without_masks_the_skill_is_refused_with_the_reason(detector: Callable[..., SkillContext]) -> None:
    without = detector(None)
    assert "segment" in skills_of(without.config)
    assert "segment" not in without.skills
    with pytest.raises(UnsupportedSkillError, match="cannot segment"):
        without.require("segment")
    absent = detector(ScriptedMasks(reason="Fetch it."))
    assert "segment" not in absent.skills
    with pytest.raises(UnsupportedSkillError, match=r"^Fetch it\.$"):
        absent.require("segment")
    present = detector(ScriptedMasks())
    present.require("segment")
    assert "segment" in present.skills


# -- in the engine ----------------------------------------------------------------------------------------------------


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> ScriptedMasks:
    scripted = ScriptedMasks()
    monkeypatch.setattr("photon.engine.build.LazyMasks", lambda *_: scripted)
    return scripted


@pytest.fixture
def model(masks: ScriptedMasks) -> Iterator[Photon]:
    loaded = recorded.load("md2", parity=True)
    yield loaded
    masks.gate.set()
    loaded.close()


@pytest.fixture(scope="module")
def image() -> Image.Image:
    return recorded.image("md2")


NAME = recorded.read("md2", "trace.json")["object"]


def test_the_engine_answers_others_meanwhile(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    wanted = model.detect(image, NAME)["objects"]
    assert wanted
    masks.gate.clear()
    results: list[Any] = []
    caller = threading.Thread(target=lambda: results.append(model.segment(image, NAME)))
    caller.start()
    assert masks.begun.wait(30)
    assert model.point(image, NAME)["points"]
    assert not results
    masks.gate.set()
    caller.join(30)
    (result,) = results
    assert len(result["objects"]) == len(wanted)
    assert masks.threads == {"photon-side-work_0"}
    assert result.metrics.total_ms > result.metrics.time_to_first_token_ms + result.metrics.decode_ms
    assert model.stats()["requests"] == {"done": 3, "failed": 0, "cancelled": 0}


def test_a_stream_tells_box_path_and_end(model: Photon, image: Image.Image) -> None:
    result = model.segment(image, NAME)
    assert list(model.segment(image, NAME, stream=True)) == [
        {"bbox": result["bbox"]},
        {"chunk": result["path"]},
        {"path": result["path"], "bbox": result["bbox"], "completed": True},
    ]


def test_a_failure_of_the_masks_is_the_callers_alone(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    masks.broken = ModelLoadError("The mask model is damaged.")
    with pytest.raises(ModelLoadError, match="damaged"):
        model.segment(image, NAME)
    masks.broken = None
    assert model.segment(image, NAME)["objects"]
    assert model.healthy


def test_cancelling_does_not_wait_for_the_masks(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    masks.gate.clear()

    async def cancelled() -> None:
        task = asyncio.create_task(model.asegment(image, NAME))
        await asyncio.to_thread(masks.begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not model.stats()["requests"]["cancelled"]:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(cancelled(), 30))
    masks.gate.set()
    assert model.segment(image, NAME)["objects"]


def test_closing_waits_for_the_masks(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    masks.gate.clear()
    stream = model.segment(image, NAME, stream=True)
    assert masks.begun.wait(30)
    threading.Timer(0.2, masks.gate.set).start()
    model.close()
    assert stream.result()["objects"]


def test_closing_gives_up_at_its_deadline(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    masks.gate.clear()
    stream = model.segment(image, NAME, stream=True)
    assert masks.begun.wait(30)
    model.close(deadline_s=0.2)
    with pytest.raises(EngineStoppedError):
        stream.result()


def test_a_closed_stream_forgets_its_masks(model: Photon, masks: ScriptedMasks, image: Image.Image) -> None:
    masks.gate.clear()
    stream = model.segment(image, NAME, stream=True)
    assert masks.begun.wait(30)
    stream.close()
    with pytest.raises(RequestCancelledError):
        stream.result()


def test_with_sam_itself(tmp_path_factory: pytest.TempPathFactory, image: Image.Image) -> None:
    folder = tmp_path_factory.mktemp("sam")
    save_video_model(folder)
    with recorded.load("md2", parity=True, mask_model=str(folder)) as model:
        assert "segment" in model.skills
        found = model.segment(image, NAME)["objects"]
        assert len(found) == len(model.detect(image, NAME)["objects"])
        for item in found:
            assert set(item) == {"bbox", "path", "polygons", "score"}
            assert bool(item["polygons"]) == item["path"].startswith("M ")
