"""app.drawing.export: files say what the page says, whatever the names; what comes back is checked."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from app.drawing.export import Answered, ExportError, annotated, coco, mask, svg
from app.drawing.snippets import as_curl, as_python
from app.pictures.store import PictureStore
from app.questions.question import Question
from app.web.files import file_routes
from photon import PictureLimits

BOX = {"x_min": 0.25, "y_min": 0.25, "x_max": 0.75, "y_max": 0.5, "score": 0.9}
TRIANGLE = [[0.25, 0.25], [0.75, 0.25], [0.5, 0.5]]
HOSTILE = ["</svg><script>alert(1)</script>", "a\"b'c", "$(touch pwned)`touch pwned`", "😀 猫", "\\n%s{origin}"]


def body(task: str, found: dict[str, Any], name: str = "cat") -> dict[str, Any]:
    return {"task": task, "image": {"width": 400, "height": 200}, "answers": [{"name": name, **found}]}


def points(name: str = "cat") -> Answered:
    return Answered.parse(body("point", {"points": [{"x": 0.5, "y": 0.25, "score": 0.8}]}, name))


def boxes(name: str = "cat") -> Answered:
    return Answered.parse(body("detect", {"objects": [BOX, {**BOX, "x_max": 0.5}]}, name))


def contours(name: str = "cat") -> Answered:
    return Answered.parse(body("segment", {"objects": [{"bbox": BOX, "polygons": [TRIANGLE], "score": 0.7}]}, name))


def test_coco_boxes_contours_and_points() -> None:
    first, second = json.loads(coco(boxes(), "a.jpg"))["annotations"]
    assert first["bbox"] == [100, 50, 200, 50]
    assert (first["area"], first["segmentation"], first["score"]) == (10000, [], 0.9)
    assert second["bbox"] == [100, 50, 100, 50]
    (contour,) = json.loads(coco(contours(), "a.jpg"))["annotations"]
    assert contour["segmentation"] == [[100, 50, 300, 50, 200, 100]]
    assert contour["area"] == 5000
    made = json.loads(coco(points(), "a.jpg"))
    assert made["annotations"][0]["keypoints"] == [200, 50, 2]
    assert made["categories"] == [{"id": 1, "name": "cat", "keypoints": ["point"], "skeleton": []}]
    assert made["images"] == [{"id": 1, "file_name": "a.jpg", "width": 400, "height": 200}]


FRAME = [[[0.25, 0.2], [0.75, 0.2], [0.75, 0.8], [0.25, 0.8]], [[0.4, 0.4], [0.4, 0.6], [0.6, 0.6], [0.6, 0.4]]]
"""200 x 120 pixels of 400 x 200, with a hole of 80 x 40."""


def frame() -> Answered:
    around = {"x_min": 0.25, "y_min": 0.2, "x_max": 0.75, "y_max": 0.8}
    return Answered.parse(body("segment", {"objects": [{"bbox": around, "polygons": FRAME, "score": 0.7}]}))


def test_a_hole_is_empty_in_every_form() -> None:
    (annotation,) = json.loads(coco(frame(), "a.jpg"))["annotations"]
    assert annotation["area"] == 200 * 120 - 80 * 40
    assert len(annotation["segmentation"]) == 2
    path = ET.fromstring(svg(frame())).find(".//{http://www.w3.org/2000/svg}path")
    assert path is not None
    assert path.attrib["fill-rule"] == "evenodd"
    with Image.open(io.BytesIO(mask(frame()))) as image:
        values = np.asarray(image)
    assert (values[100, 200], values[60, 200]) == (0, 1)
    grey = np.full((200, 400, 3), 128, np.uint8)
    with Image.open(io.BytesIO(annotated(frame(), grey))) as image:
        drawn = np.asarray(image)
    assert (drawn[100, 200] == 128).all(), "the hole is painted"
    assert (drawn[60, 200] != 128).any()


def test_what_lies_in_a_hole_counts_again() -> None:
    island = [[0.45, 0.45], [0.55, 0.45], [0.55, 0.55], [0.45, 0.55]]
    around = {"x_min": 0.25, "y_min": 0.2, "x_max": 0.75, "y_max": 0.8}
    whole = body("segment", {"objects": [{"bbox": around, "polygons": [*FRAME, island], "score": 0.7}]})
    (annotation,) = json.loads(coco(Answered.parse(whole), "a.jpg"))["annotations"]
    assert annotation["area"] == 200 * 120 - 80 * 40 + 40 * 20


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("make", [points, boxes, contours])
def test_svg_is_well_formed_and_names_are_text(make: Any, name: str) -> None:
    root = ET.fromstring(svg(make(name)))
    assert root.attrib["viewBox"] == "0 0 400 200"
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == f"{name} 1"
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_mask_holds_the_number_of_each_object() -> None:
    with Image.open(io.BytesIO(mask(boxes()))) as image:
        assert (image.mode, image.size) == ("P", (400, 200))
        values = np.asarray(image)
    assert values[75, 250] == 1
    assert values[75, 150] == 2  # the later object lies on top
    assert values[10, 10] == 0
    with Image.open(io.BytesIO(mask(contours()))) as image:
        values = np.asarray(image)
    assert values[60, 200] == 1
    assert values[95, 110] == 0


def test_points_have_no_mask_and_a_mask_has_room_for_255() -> None:
    with pytest.raises(ExportError, match="no area"):
        mask(points())
    many = body("detect", {"objects": [BOX] * 150})
    many["answers"] *= 2
    with pytest.raises(ExportError, match="at most 255"):
        mask(Answered.parse(many))


@pytest.mark.parametrize("make", [points, boxes, contours])
def test_the_annotated_picture_has_the_answers_drawn_in(make: Any) -> None:
    pixels = np.full((200, 400, 3), 128, np.uint8)
    with Image.open(io.BytesIO(annotated(make("a name that is far too long to fit" * 5), pixels))) as image:
        made = np.asarray(image)
    assert made.shape == pixels.shape
    assert (made[50, 190:210] != 128).any()
    assert (made[150:] == 128).all()
    with pytest.raises(ExportError, match="another picture"):
        annotated(make(), np.zeros((10, 10, 3), np.uint8))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        "text",
        {},
        {"task": "detect"},
        {"task": "count", "image": {"width": 1, "height": 1}, "answers": []},
        {"task": "detect", "image": {"width": 0, "height": 1}, "answers": []},
        {"task": "detect", "image": {"width": 1e9, "height": 1e9}, "answers": []},
        {"task": "detect", "image": {"width": 9, "height": 9}, "answers": ["cat"]},
        {"task": "detect", "image": {"width": 9, "height": 9}, "answers": [{"name": "cat", "objects": 3}]},
        {"task": "detect", "image": {"width": 9, "height": 9}, "answers": [{"name": "cat", "objects": ["x"]}]},
        {
            "task": "segment",
            "image": {"width": 9, "height": 9},
            "answers": [{"name": "cat", "objects": [{"bbox": BOX, "polygons": [[[]]]}]}],
        },
    ],
)
def test_what_is_not_an_answer_of_the_page_is_refused(bad: Any) -> None:
    with pytest.raises(ExportError, match="not answers of this page"):
        Answered.parse(bad)


def test_values_that_come_back_are_checked_again() -> None:
    wild = {**BOX, "x_min": float("nan")}, {**BOX, "x_max": 7.0}
    assert [shape["box"] for shape in Answered.parse(body("detect", {"objects": list(wild)})).shapes] == [
        [100.0, 50.0, 400.0, 100.0]
    ]


@pytest.mark.parametrize("name", [*HOSTILE, "'; import os; os.system('x') #"])
def test_python_code_holds_names_as_literals(name: str) -> None:
    tree = ast.parse(as_python(name, Question("detect", (name, "cat")), name))
    literals = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)]
    assert literals.count(name) >= 2
    calls = {
        one.func.attr for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
    }
    assert calls == {"load", "open", "exif_transpose", "detect", "close"}


@pytest.mark.parametrize("name", HOSTILE)
def test_curl_sends_the_official_clients_payload_whatever_the_name(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "my picture's.jpg"
    picture.write_bytes(b"bytes of a picture")
    fake = tmp_path / "curl"
    fake.write_text('#!/bin/sh\necho "$2" >> "$SENT.urls"\ncat >> "$SENT"\necho >> "$SENT"\n')
    fake.chmod(0o755)
    script = as_curl(Question("detect", (name, "cat"), max_objects=7), picture.name).replace(
        "{origin}", "http://host", 1
    )
    sent = tmp_path / "sent"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SENT": str(sent)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=env, check=True)
    first, second = (json.loads(line) for line in sent.read_text().splitlines())
    assert first == {
        "image_url": "data:image/jpeg;base64,Ynl0ZXMgb2YgYSBwaWN0dXJl",
        "object": name,
        "settings": {"max_objects": 7},
    }
    assert second["object"] == "cat"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("task", "verb", "payload"),
    [
        ("query", "model.query(image, name, pipelined=True)", {"question": "Why?"}),
        ("caption", "model.caption(image, pipelined=True)", {"length": "normal"}),
    ],
)
def test_text_tasks_are_code_too_and_the_model_is_named(task: str, verb: str, payload: dict[str, str]) -> None:
    python = as_python("moondream2", Question(task, ("Why?",)), "p.jpg")
    ast.parse(python)
    assert verb in python
    assert "Photon.load('moondream2')" in python
    curl = as_curl(Question(task, ("Why?",)), "p.jpg", "moondream2")
    assert f"/v1/{task}" in curl
    assert json.dumps(payload | {"model": "moondream2"})[1:] in curl


def test_code_asks_with_every_option_that_the_question_had() -> None:
    question = Question("detect", ("cat",), False, 9, (0.1, 0.2, 0.5, 0.75), 0.5)
    code = as_python("photon-tiny", question, "p.jpg")
    (call,) = (
        one
        for one in ast.walk(ast.parse(code))
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "detect"
    )
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == question.options()
    (sent,) = re.findall(r"'\", (.*)}'", as_curl(question, "p.jpg"))
    assert json.loads("{" + sent + "}") == {"object": "cat"} | question.options()


def test_a_text_has_no_shapes_to_export() -> None:
    with pytest.raises(ExportError, match="A text has no shapes"):
        Answered.parse({"task": "query", "image": {"width": 9, "height": 9}, "answers": [{"name": "Why?"}]})


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.state.store = PictureStore(PictureLimits())
    app.include_router(file_routes(app.state.store, ()))
    return TestClient(app)


@pytest.mark.parametrize(
    ("form", "kind"),
    [("coco", "application/json"), ("svg", "image/svg+xml"), ("mask", "image/png"), ("png", "image/png")],
)
def test_each_form_can_be_downloaded(client: TestClient, form: str, kind: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (400, 200)).save(buffer, "PNG")
    picture = client.app.state.store.add(buffer.getvalue(), "p.png")  # type: ignore[attr-defined]
    answers = body("detect", {"objects": [BOX]})
    response = client.post(f"/export/{form}", json={"answers": answers, "picture": picture.token, "name": "p"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)


def test_what_cannot_be_written_is_said_in_one_sentence(client: TestClient) -> None:
    answers = body("point", {"points": []})
    for form, sent, status in (
        ("mask", {"answers": answers}, 400),
        ("png", {"answers": answers, "picture": "unknown"}, 400),
        ("coco", {"answers": 3}, 400),
        ("coco", [], 400),
        ("docx", {"answers": answers}, 404),
    ):
        response = client.post(f"/export/{form}", json=sent)
        assert response.status_code == status
        assert response.json()["error"].endswith(".")
    assert client.post("/export/coco", content=b"{").status_code == 400
    assert client.post("/export/coco", content=b" " * 8_000_001).status_code == 413
