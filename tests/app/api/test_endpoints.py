"""app.api.endpoints: Gradio's endpoints have names and examples and answer; with --mcp they are tools."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import StreamingEngine, client_of, serving
from tests.samples import data_url

NAMES = ["/point", "/detect", "/segment", "/query", "/caption"]


@pytest.fixture(scope="module")
def engine() -> StreamingEngine:
    return StreamingEngine()


@pytest.fixture(scope="module")
def client(engine: StreamingEngine) -> Iterator[TestClient]:
    with client_of(engine) as client:
        yield client


def call(client: TestClient, name: str, **arguments: Any) -> tuple[str, Any]:
    """The last event of an endpoint, and its data."""
    asked = client.post(f"/gradio_api/call/v2{name}", json=arguments)
    assert asked.status_code == 200, asked.text
    text = client.get(f"/gradio_api/call{name}/{asked.json()['event_id']}").text
    event, data = text.strip().split("\n\n")[-1].split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_only_the_skills_are_public_and_each_has_a_description_and_examples(client: TestClient) -> None:
    info = client.get("/gradio_api/info").json()
    assert list(info["named_endpoints"]) == NAMES
    assert info["unnamed_endpoints"] == {}
    for endpoint in info["named_endpoints"].values():
        assert len(endpoint["description"]) > 20
        examples = {one["parameter_name"]: one["example_input"] for one in endpoint["parameters"]}
        assert examples["image"].startswith("https://")
        assert all(value not in ("...", None) for value in examples.values())
        assert endpoint["returns"][0]["type"]["type"] == "object"


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("/point", {"object": "cat", "max_objects": 3}, "points"),
        ("/detect", {"object": "cat"}, "objects"),
        ("/segment", {"object": "cat"}, "svg_path"),
        ("/query", {"question": "What is it?"}, "answer"),
        ("/caption", {"length": "short"}, "caption"),
    ],
)
def test_each_endpoint_answers(
    client: TestClient, engine: StreamingEngine, name: str, arguments: dict[str, Any], key: str
) -> None:
    event, data = call(client, name, image=data_url(), **arguments)
    assert event == "complete"
    assert key in data[0]
    assert engine.calls[-1].shape == (40, 60, 3)
    if "max_objects" in arguments:
        assert engine.calls[-1].options["settings"] == {"max_objects": 3}


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("http://127.0.0.1/a.png", "private network"),
        ("/etc/passwd", "begin with http"),
        ({"path": "/etc/passwd"}, "begin with http"),
        ("data:image/png;base64,AAAA", "not a picture"),
        ("data:image/png;base64,ä", "not valid base64"),
        (None, "missing"),
    ],
)
def test_what_is_no_picture_is_refused_in_a_sentence(client: TestClient, image: Any, words: str) -> None:
    event, data = call(client, "/detect", image=image, object="cat")
    assert event == "error"
    assert words in json.dumps(data, ensure_ascii=False)


def test_an_unknown_name_is_refused_in_a_sentence(client: TestClient) -> None:
    event, data = call(client, "/detect", image=data_url(), object="xyzzy")
    assert event == "error"
    assert "xyzzy" in str(data)


def test_a_model_can_be_named_and_an_unknown_one_is_refused(client: TestClient) -> None:
    event, _ = call(client, "/detect", image=data_url(), object="cat", model="photon-tiny")
    assert event == "complete"
    event, data = call(client, "/detect", image=data_url(), object="cat", model="nonsense")
    assert event == "error"
    assert "nonsense" in str(data)


def test_a_file_that_a_client_uploaded_is_read(client: TestClient, engine: StreamingEngine) -> None:
    data = base64.b64decode(data_url().partition(",")[2])
    (path,) = client.post("/gradio_api/upload", files={"files": ("p.jpg", data)}).json()
    event, _ = call(client, "/detect", image={"path": path, "meta": {"_type": "gradio.FileData"}}, object="cat")
    assert event == "complete"
    assert engine.calls[-1].shape == (40, 60, 3)


def test_with_mcp_the_endpoints_are_tools_that_answer() -> None:
    mcp = pytest.importorskip("mcp")
    http = pytest.importorskip("mcp.client.streamable_http")

    async def use(url: str) -> tuple[list[Any], Any]:
        async with (
            http.streamablehttp_client(f"{url}/gradio_api/mcp/") as (read, write, _),
            mcp.ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = (await session.list_tools()).tools
            detect = next(tool.name for tool in tools if tool.name.endswith("detect"))
            return tools, await session.call_tool(detect, {"image": data_url(), "object": "cat"})

    with serving(build_app(ServerSettings(), lambda *_: StreamingEngine(), mcp=True)) as url:
        tools, answer = asyncio.run(use(url))
    assert [tool.name.rpartition("_")[2] for tool in tools] == [name[1:] for name in NAMES]
    assert tools[0].inputSchema["properties"]["object"]["description"].startswith("What to look for")
    assert not answer.isError
    assert "x_min" in answer.content[0].text


def test_without_mcp_there_are_no_tools(client: TestClient) -> None:
    assert client.get("/gradio_api/mcp/schema").status_code == 404
