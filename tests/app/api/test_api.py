"""app.api: the skills' routes answer in the client's form, and every refusal is a status with one sentence."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app.api.body import max_body
from app.api.problems import MAX_SENTENCE, ApiError, refused
from app.server import build_app
from app.settings import ServerSettings
from photon import (
    SKILLS,
    DeviceError,
    EngineStoppedError,
    InvalidRequestError,
    ModelInfo,
    ModelLoadError,
    PictureLimits,
    QueueFullError,
    UnsupportedSkillError,
)
from tests.app.live import StreamingEngine, client_of, renewed, settled
from tests.app.scripted import ANSWERS
from tests.samples import data_url, picture, png

ABSENT = "The files of moondream2 are not on this machine; fetch them with: python -m photon download moondream2"
SETTINGS = ServerSettings(models=("photon-tiny", "moondream2"), max_image_mb=0.2, max_megapixels=1.0)


def look(names: Sequence[str]) -> list[ModelInfo]:
    """A machine that has the files of photon-tiny only."""
    return [
        ModelInfo(name, 1, SKILLS[:3], on_disk=True, fits=True)
        if name == "photon-tiny"
        else ModelInfo(name, 1, SKILLS, fits=True, reason=ABSENT)
        for name in names
    ]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestClient, StreamingEngine]]:
    engine = StreamingEngine()
    with client_of(engine, SETTINGS, look) as client:
        yield client, engine


@pytest.fixture
def engine(served: tuple[TestClient, StreamingEngine]) -> StreamingEngine:
    return renewed(served[1])


@pytest.fixture
def client(served: tuple[TestClient, StreamingEngine], engine: StreamingEngine) -> TestClient:
    return served[0]


def fields(skill: str, **more: Any) -> dict[str, Any]:
    text = {"query": {"question": "How many?"}, "caption": {}}.get(skill, {"object": "cat"})
    return {"image_url": data_url(), **text, **more}


def sentence(response: Any) -> str:
    """The sentence of a refusal, whose form is checked."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["code"] == response.status_code
    message = str(error["message"])
    assert len(message) <= MAX_SENTENCE
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("skill", ["point", "detect", "segment"])
def test_skills_answer_in_the_clients_form_with_metrics(client: TestClient, skill: str) -> None:
    answer = client.post(f"/v1/{skill}", json=fields(skill)).json()
    metrics = answer.pop("metrics")
    assert answer == ANSWERS[skill] | {"finish_reason": "stop"}
    assert metrics["mode"] == "pipelined"
    assert metrics["tokens"] == 9


def test_query_and_caption_answer_in_the_clients_form(client: TestClient, engine: StreamingEngine) -> None:
    assert client.post("/v1/query", json=fields("query")).json()["answer"] == "Two cats — 猫."
    assert client.post("/v1/caption", json=fields("caption")).json()["caption"] == "Two cats — 猫."
    assert [call.object for call in engine.calls] == ["How many?", "normal"]


def test_a_question_needs_no_picture(client: TestClient) -> None:
    assert client.post("/v1/query", json={"question": "Why?"}).status_code == 200
    assert client.post("/v1/query", json={"question": "Why?", "image_url": None}).status_code == 200


def test_the_picture_arrives_upright_and_whole(client: TestClient, engine: StreamingEngine) -> None:
    image = picture(30, 20)
    exif = image.getexif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", exif=exif)
    client.post("/v1/detect", json=fields("detect", image_url=data_url(buffer.getvalue())))
    assert engine.calls[0].shape == (30, 20, 3)


def test_options_reach_the_engine_as_they_are(client: TestClient, engine: StreamingEngine) -> None:
    settings = {"temperature": 0.5, "max_objects": 3}
    client.post(
        "/v1/point", json=fields("point", settings=settings, spatial_refs=[[0.1, 0.2]], pipelined=False, later="x")
    )
    assert engine.calls[0].options == {"settings": settings, "spatial_refs": [[0.1, 0.2]], "pipelined": False}
    client.post("/v1/query", json=fields("query", reasoning=True))
    assert engine.calls[1].options == {"reasoning": True}
    client.post("/v1/caption", json=fields("caption", length="short"))
    assert engine.calls[2].object == "short"


def test_absent_and_null_options_are_left_to_the_engine(client: TestClient, engine: StreamingEngine) -> None:
    client.post("/v1/detect", json=fields("detect", settings=None, spatial_refs=None, stream=None, model=None))
    assert engine.calls[0].options == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not valid JSON"),
        (b'{"object": "cat",}', "line 1, column"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"settings": {"temperature": NaN}}', "NaN is not a JSON number"),
        (b'{"settings": ' + b"9" * 10_000 + b"}", "not valid JSON"),
        (b"[1, 2]", "is a JSON array"),
        (b'"cat"', "is a JSON string"),
        (b"null", "is a JSON null"),
        (b"true", "is a JSON boolean"),
        (b"1.5", "is a JSON number"),
    ],
)
@pytest.mark.parametrize("route", ["detect", "chat/completions"])
def test_a_body_that_is_no_json_object_is_400(client: TestClient, route: str, body: bytes, words: str) -> None:
    response = client.post(f"/v1/{route}", content=body)
    assert response.status_code == 400
    assert words in sentence(response)


@pytest.mark.parametrize(
    ("skill", "change", "words"),
    [
        ("detect", {"object": None}, "'object' is missing"),
        ("detect", {"object": 5}, "'object' is a JSON number"),
        ("detect", {"object": ["cat"]}, "'object' is a JSON array"),
        ("point", {"object": "c" * 40_000}, "40000 characters"),
        ("query", {"question": None}, "'question' is missing"),
        ("query", {"question": {}}, "'question' is a JSON object"),
        ("query", {"stream": "yes"}, "'stream' is a JSON string"),
        ("query", {"stream": 1}, "'stream' is a JSON number"),
        ("detect", {"stream": True}, "cannot be streamed"),
        (
            "detect",
            {"model": "gpt-4"},
            "'gpt-4' is not offered here; this server answers with photon-tiny, moondream2.",
        ),
        ("detect", {"model": 3}, "'model' is a JSON number"),
        ("detect", {"object": "xyzzy"}, "does not know the word 'xyzzy'. The nearest words that it knows: cat, cup"),
        ("detect", {"image_url": None}, "image is missing"),
        ("caption", {"image_url": None}, "image is missing"),
        ("detect", {"image_url": 7}, "image is not a string"),
        ("query", {"image_url": "https://example.com/cat.jpg"}, "'https://example.com/cat.jpg'; a data URL"),
        ("detect", {"image_url": "data:image/jpeg,abc"}, "a data URL is expected"),
        ("detect", {"image_url": "data:image/jpeg;base64"}, "a data URL is expected"),
        ("detect", {"image_url": "data:image/jpeg;base64,!!!!"}, "not valid base64"),
        ("detect", {"image_url": "data:image/jpeg;base64,/9j/4"}, "not valid base64"),
        ("detect", {"image_url": "data:image/jpeg;base64,猫"}, "not valid base64"),
    ],
)
def test_a_bad_field_is_400_and_named(client: TestClient, skill: str, change: dict[str, Any], words: str) -> None:
    response = client.post(f"/v1/{skill}", json=fields(skill, **change))
    assert response.status_code == 400
    assert words in sentence(response)


def test_half_a_character_is_400(client: TestClient) -> None:
    body = json.dumps(fields("detect")).replace('"cat"', '"\\ud83d"')
    response = client.post("/v1/detect", content=body)
    assert (response.status_code, "half of a character" in sentence(response)) == (400, True)


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 415, "empty"),
        (b"This is no picture.", 415, "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a picture"),
        (png(picture())[:400], 400, "damaged or cut short"),
        (png(Image.new("L", (1200, 1000))), 413, "megapixels"),
        (png(Image.new("L", (1, 5000))), 413, "long side"),
        (b"\xff\xd8" + bytes(210_000), 413, "MB"),
    ],
)
def test_pictures_that_are_refused(client: TestClient, data: bytes, status: int, words: str) -> None:
    response = client.post("/v1/detect", json=fields("detect", image_url=data_url(data)))
    assert response.status_code == status
    assert words in sentence(response)


def test_base64_in_lines_is_read(client: TestClient) -> None:
    head, _, text = data_url().partition(",")
    lines = base64.encodebytes(base64.b64decode(text)).decode()
    assert client.post("/v1/detect", json=fields("detect", image_url=f"{head},{lines}")).status_code == 200


def test_a_body_over_the_limit_is_413(client: TestClient) -> None:
    limit = max_body(PictureLimits(max_mb=SETTINGS.max_image_mb))
    response = client.post("/v1/detect", content=b" " * (limit + 1))
    assert (response.status_code, "MB" in sentence(response)) == (413, True)
    assert client.post("/v1/detect", content=b" " * limit).status_code == 400


def test_a_full_queue_is_429_with_a_time_to_wait(client: TestClient, engine: StreamingEngine) -> None:
    engine.error = QueueFullError("64 requests are waiting already.")
    for more in ({}, {"stream": True}):
        response = client.post("/v1/query", json=fields("query", **more))
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert "waiting already" in sentence(response)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("temperature is 9; allowed is 0 to 2."), 400),
        (UnsupportedSkillError("The model cannot query."), 400),
        (EngineStoppedError("The engine has been closed."), 503),
        (DeviceError("The device was lost."), 503),
        (RuntimeError("surprise"), 500),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_engine_have_their_status(
    client: TestClient, engine: StreamingEngine, error: Exception, status: int, stream: bool
) -> None:
    engine.error = error
    response = client.post("/v1/query", json=fields("query", stream=stream))
    assert response.status_code == status
    assert str(error) in sentence(response)


def test_a_sentence_that_quotes_a_huge_value_is_cut() -> None:
    assert refused(InvalidRequestError("no")).status == 400
    assert isinstance(refused(ApiError(418, "tea")), ApiError)
    engine = StreamingEngine(error=InvalidRequestError("settings is " + "A" * 100_000))
    with TestClient(build_app(SETTINGS, lambda *_: engine)) as client:
        assert sentence(settled(client).post("/v1/query", json=fields("query"))).endswith(" …")


def test_an_engine_that_failed_is_503_on_every_route(client: TestClient, engine: StreamingEngine) -> None:
    engine.failure = "The device was lost."
    for path in ("stats", "models"):
        assert "The device was lost." in sentence(client.get(f"/v1/{path}"))
    for skill in SKILLS:
        response = client.post(f"/v1/{skill}", json=fields(skill))
        assert (response.status_code, "The device was lost." in sentence(response)) == (503, True)


def test_before_the_model_is_loaded_the_answer_is_503_with_the_reason() -> None:
    def slow(*_: object) -> StreamingEngine:
        time.sleep(0.5)
        return StreamingEngine()

    with TestClient(build_app(SETTINGS, slow)) as client:
        response = client.post("/v1/detect", json=fields("detect"))
        assert (response.status_code, "Loading photon-tiny" in sentence(response)) == (503, True)
        assert int(response.headers["retry-after"]) >= 1


def test_a_model_that_cannot_be_loaded_is_503_with_the_reason() -> None:
    def missing(*_: object) -> StreamingEngine:
        raise ModelLoadError("The file model.safetensors is missing.")

    with TestClient(build_app(SETTINGS, missing)) as client:
        response = settled(client).post("/v1/detect", json=fields("detect"))
        assert (response.status_code, sentence(response)) == (503, "The file model.safetensors is missing.")


@pytest.mark.parametrize(("method", "path"), [("GET", "point"), ("POST", "stats"), ("POST", "poınt"), ("GET", "x/y")])
def test_a_mistyped_address_is_404_in_words(client: TestClient, method: str, path: str) -> None:
    response = client.request(method, f"/v1/{path}")
    assert (response.status_code, f"There is no {method} /v1/" in sentence(response)) == (404, True)


def test_models_says_what_is_loaded_and_what_it_can(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [(model["id"], model["object"], model["loaded"]) for model in listed["data"]] == [
        ("photon-tiny", "model", True),
        ("moondream2", "model", False),
    ]
    assert listed["data"][0]["skills"] == ["point", "detect", "segment"]
    assert listed["data"][1]["skills"] == list(SKILLS)
    assert (listed["data"][0]["reason"], listed["data"][1]["reason"]) == ("", ABSENT)


def test_a_model_whose_files_are_not_here_is_400_with_what_to_do(client: TestClient) -> None:
    response = client.post("/v1/detect", json=fields("detect", model="moondream2"))
    assert (response.status_code, sentence(response)) == (400, ABSENT)


def test_a_request_is_answered_by_the_model_that_it_names() -> None:
    engines: dict[str, StreamingEngine] = {}

    def load(name: str, _: object) -> StreamingEngine:
        engines[name] = StreamingEngine(name)
        return engines[name]

    def both(names: Sequence[str]) -> list[ModelInfo]:
        return [ModelInfo(name, 1, SKILLS, on_disk=True, fits=True) for name in names]

    with TestClient(build_app(SETTINGS, load, both)) as client:
        settled(client)
        first = client.post("/v1/detect", json=fields("detect", model="moondream2"))
        assert (first.status_code, sentence(first).startswith("Loading moondream2")) == (503, True)
        assert int(first.headers["retry-after"]) >= 1
        while "moondream2" not in engines:
            time.sleep(0.01)
        for stream in (False, True):
            assert client.post("/v1/query", json=fields("query", model="moondream2", stream=stream)).status_code == 200
        assert client.post("/v1/query", json=fields("query")).status_code == 200
        loaded = {model["id"]: model["loaded"] for model in client.get("/v1/models").json()["data"]}
        assert loaded == {"photon-tiny": True, "moondream2": True}
        models = client.app.state.models  # type: ignore[attr-defined]
        assert [holder.in_use for holder in models.loaded()] == [False, False]
    assert {name: [call.verb for call in engine.calls] for name, engine in engines.items()} == {
        "photon-tiny": ["query"],
        "moondream2": ["query", "query"],
    }


def test_a_request_may_name_the_loaded_model(client: TestClient) -> None:
    assert client.post("/v1/detect", json=fields("detect", model="photon-tiny")).status_code == 200


def test_stats_come_from_the_engine(client: TestClient) -> None:
    assert client.get("/v1/stats").json()["model"] == "photon-tiny"


def test_many_pictures_at_once_are_all_answered(client: TestClient, engine: StreamingEngine) -> None:
    from concurrent.futures import ThreadPoolExecutor

    engine.delay_s = 0.05
    body = fields("detect", image_url=data_url(png(Image.fromarray(np.zeros((50, 60, 3), np.uint8)))))
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/detect", json=body), range(24)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(engine.calls) == 24
