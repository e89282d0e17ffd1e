"""The clients that people use, as they are: Gradio's, OpenAI's and curl, against a server on a real socket."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from gradio_client import Client, handle_file

from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import StreamingEngine, serving
from tests.samples import data_url, png


@pytest.fixture(scope="module")
def engine() -> StreamingEngine:
    return StreamingEngine()


@pytest.fixture(scope="module")
def url(engine: StreamingEngine) -> Iterator[str]:
    with serving(build_app(ServerSettings(), lambda *_: engine)) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "picture.png"
    path.write_bytes(png())
    return str(path)


# -- Gradio's client --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gradio(url: str) -> Client:
    return Client(url, verbose=False)


@pytest.mark.parametrize("source", ["file", "text"])
@pytest.mark.parametrize(
    ("words", "name", "keys"),
    [
        (("cat", 3), "/point", {"points"}),
        (("cat",), "/detect", {"objects"}),
        (("cat",), "/segment", {"svg_path", "bbox", "polygons", "objects"}),
        (("What is it?",), "/query", {"answer"}),
        (("short",), "/caption", {"caption"}),
        ((), "/caption", {"caption"}),
    ],
)
def test_gradios_client_gets_every_answer(
    gradio: Client, file: str, source: str, words: tuple[Any, ...], name: str, keys: set[str]
) -> None:
    image = handle_file(file) if source == "file" else data_url()
    answer = gradio.predict(image, *words, api_name=name)
    assert set(answer) == keys | {"finish_reason"}


def test_an_answer_of_nothing_is_an_answer_too(gradio: Client, engine: StreamingEngine, file: str) -> None:
    before, engine.answers = engine.answers, {**engine.answers, "segment": {"path": "", "bbox": None, "objects": []}}
    try:
        answer = gradio.predict(handle_file(file), "cat", api_name="/segment")
    finally:
        engine.answers = before
    assert answer["svg_path"] == ""
    assert answer["bbox"] is None


def raw(url: str, name: str, values: list[Any]) -> tuple[str, Any]:
    """A call of an endpoint without any client: the last event, and its data."""
    event = httpx.post(f"{url}/gradio_api/call/{name}", json={"data": values}).json()["event_id"]
    kind, data = (
        httpx.get(f"{url}/gradio_api/call/{name}/{event}", timeout=60).text.strip().split("\n\n")[-1].split("\n")
    )
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_raw_call_may_leave_out_what_has_a_default(url: str, engine: StreamingEngine) -> None:
    kind, answer = raw(url, "detect", [data_url(), "cat"])
    assert kind == "complete"
    assert answer[0]["objects"]
    assert engine.calls[-1].options["settings"] == {"max_objects": 50}


@pytest.mark.parametrize(("values", "missing"), [([data_url()], "object"), ([], "image")])
def test_a_raw_call_without_what_is_needed_is_refused_in_a_sentence(url: str, values: list[Any], missing: str) -> None:
    kind, answer = raw(url, "detect", values)
    assert kind == "error"
    assert f"The value '{missing}' of /detect is missing." in json.dumps(answer)


# -- OpenAI's client --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def asked(text: str, *more: Any) -> list[Any]:
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": data_url()}}, *more]
    return [{"role": "user", "content": parts}]


def test_openais_client_gets_an_answer_whole_and_in_pieces(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="default", messages=asked("How many?"))
    assert whole.choices[0].message.content == "Two cats — 猫."
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    stream = client.chat.completions.create(model="default", messages=asked("How many?"), stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in stream) == "Two cats — 猫."


def test_openais_client_lists_the_models_and_retrieves_one(client: openai.OpenAI) -> None:
    listed = client.models.list().data
    for model in listed:
        assert client.models.retrieve(model.id) == model
    with pytest.raises(openai.NotFoundError, match=r"There is no model 'gpt-4o' here; there are photon-tiny, "):
        client.models.retrieve("gpt-4o")


def test_what_has_no_effect_is_named(client: openai.OpenAI, url: str) -> None:
    messages = [{"role": "system", "content": "Answer in French."}, *asked("How many?")]
    told = client.chat.completions.create(model="default", messages=messages, stop=["\n"], presence_penalty=1)  # type: ignore[arg-type]
    assert told.model_extra is not None
    assert sorted(told.model_extra["ignored"]) == ["messages[0]", "presence_penalty", "stop"]
    heeded = client.chat.completions.create(model="default", messages=asked("How many?"), temperature=0, seed=1)
    assert "ignored" not in (heeded.model_extra or {})
    plain = httpx.post(f"{url}/v1/point", json={"image_url": data_url(), "object": "cat", "threshold": 1}).json()
    assert plain["ignored"] == ["threshold"]
    streamed = httpx.post(
        f"{url}/v1/segment", json={"image_url": data_url(), "object": "cat", "stream": True, "colour": "red"}
    ).text
    assert json.loads(streamed.strip().split("\n\n")[-1].removeprefix("data: "))["ignored"] == ["colour"]


def test_two_pictures_in_one_message_are_refused(client: openai.OpenAI) -> None:
    second = {"type": "image_url", "image_url": {"url": data_url()}}
    with pytest.raises(openai.BadRequestError, match="Message 0 has 2 pictures; a question is about one"):
        client.chat.completions.create(model="default", messages=asked("How many?", second))


# -- curl -------------------------------------------------------------------------------------------------------------


def curl(*arguments: str, data: bytes | None = None) -> tuple[int, str]:
    """Status and all that was printed."""
    command = ["curl", "-s", "--max-time", "30", "-w", "\n%{http_code}", *arguments]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    body, _, status = done.stdout.decode().rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/v1/models/photon-tiny", "/v1/stats"])
def test_head_is_answered_as_get_without_a_body(url: str, path: str) -> None:
    status, head = curl("--head", url + path)
    assert status == 200
    assert "content-type" in head.lower()
    assert curl(url + path)[0] == 200
    assert httpx.head(url + path).content == b""


def test_a_compressed_body_is_refused_for_what_it_is(url: str) -> None:
    packed = gzip.compress(json.dumps({"image_url": data_url(), "object": "cat"}).encode())
    for header, status in ((("-H", "Content-Encoding: gzip"), 415), ((), 400)):
        answer = curl(url + "/v1/point", "--data-binary", "@-", *header, data=packed)
        assert answer[0] == status
        assert "compressed" in answer[1]
        assert "send it as it is" in answer[1]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"object": "\xff"}', "byte 12 is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"object": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"{", "line 1, column 2"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_truly(url: str, body: bytes, says: str) -> None:
    status, answer = curl(url + "/v1/point", "--data-binary", "@-", data=body)
    assert status == 400
    assert says in answer


@pytest.mark.parametrize("form", ["no padding", "alphabet of addresses", "both", "percent", "lines"])
def test_base64_is_read_in_every_usual_form(url: str, form: str) -> None:
    text = base64.b64encode(png() + b"\xfb\xff\xfe?").decode()
    assert text.endswith("=")
    assert "+" in text or "/" in text
    if form in ("alphabet of addresses", "both"):
        text = text.translate(str.maketrans("+/", "-_"))
    if form in ("no padding", "both"):
        text = text.rstrip("=")
    if form == "percent":
        text = text.replace("=", "%3D").replace("+", "%2B").replace("/", "%2F")
    if form == "lines":
        text = "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    answer = httpx.post(f"{url}/v1/point", json={"image_url": f"data:image/png;base64,{text}", "object": "cat"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("text", "says"),
    [("QUJD!", "it holds the character '!'"), ("QUJDR", "it ends within a group of four"), ("QUä", "character 'ä'")],
)
def test_base64_that_is_none_is_refused_with_its_fault(url: str, text: str, says: str) -> None:
    answer = httpx.post(f"{url}/v1/point", json={"image_url": f"data:image/png;base64,{text}", "object": "cat"})
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
