"""app.api.events: answers arrive in pieces, in the form that the official client reads; failures stay visible."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.events import line
from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import PATH, StreamingEngine, renewed, serving, wait_for
from tests.app.scripted import BOX
from tests.samples import data_url


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, StreamingEngine]]:
    engine = StreamingEngine()
    with serving(build_app(ServerSettings(), lambda *_: engine)) as url:
        yield url, engine


@pytest.fixture
def engine(served: tuple[str, StreamingEngine]) -> StreamingEngine:
    return renewed(served[1])


@pytest.fixture
def url(served: tuple[str, StreamingEngine], engine: StreamingEngine) -> str:
    return served[0]


def fields(**more: Any) -> dict[str, Any]:
    return {"image_url": data_url(), "question": "How many?", "object": "cat", "stream": True, **more}


def events(url: str, path: str, body: dict[str, Any]) -> tuple[list[Any], list[float]]:
    """The events of a stream and when each came, in seconds from the first."""
    got: list[Any] = []
    times: list[float] = []
    with httpx.stream("POST", f"{url}/v1/{path}", json=body, timeout=30) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache"
        for line in response.iter_lines():
            assert line == "" or line.startswith("data: ")
            if line:
                got.append(line[6:] if line.endswith("[DONE]") else json.loads(line[6:]))
                times.append(time.perf_counter())
    return got, [moment - times[0] for moment in times]


@pytest.mark.parametrize(("skill", "key"), [("query", "answer"), ("caption", "caption")])
def test_text_comes_in_chunks_and_ends_with_the_whole(url: str, skill: str, key: str) -> None:
    got, _ = events(url, skill, fields())
    assert got[:-1] == [{"chunk": "Two "}, {"chunk": "cats "}, {"chunk": "— 猫."}]
    assert got[-1]["completed"] is True
    assert got[-1][key] == "Two cats — 猫."
    assert got[-1]["metrics"]["tokens"] == 9
    assert "chunk" not in got[-1]


def test_thoughts_come_with_the_end(url: str) -> None:
    got, _ = events(url, "query", fields(reasoning=True))
    assert got[-1]["reasoning"] == {"text": "Let me see.", "grounding": []}


def test_segment_sends_the_box_then_the_path_in_pieces_then_all(url: str) -> None:
    got, _ = events(url, "segment", fields())
    assert got[0] == {"type": "bbox", "bbox": BOX}
    assert {event["type"] for event in got[1:-1]} == {"path_delta"}
    assert "".join(event["chunk"] for event in got[1:-1]) == PATH
    assert got[-1]["type"] == "final"
    assert got[-1]["completed"] is True
    assert (got[-1]["path"], got[-1]["bbox"]) == (PATH, BOX)
    assert got[-1]["objects"][0]["polygons"]
    assert got[-1]["metrics"]["tokens"] == 9


def test_each_piece_is_sent_when_it_is_there(url: str, engine: StreamingEngine) -> None:
    engine.delay_s = 0.3
    _, times = events(url, "query", fields())
    assert times[1] > 0.2
    assert times[2] - times[1] > 0.2


def test_an_answer_without_pieces_still_ends(url: str, engine: StreamingEngine) -> None:
    engine.pieces = ()
    got, _ = events(url, "query", fields())
    assert [event.get("completed") for event in got] == [True]


@pytest.mark.parametrize("path", ["query", "segment", "chat/completions"])
def test_a_failure_on_the_way_is_an_event(url: str, engine: StreamingEngine, path: str) -> None:
    engine.fail_after = 2
    message = {"role": "user", "content": "How many?"}
    got, _ = events(url, path, fields(messages=[message]))
    assert got[-1]["completed"] is True
    assert "The device was lost." in got[-1]["error"]["message"]
    assert len(got) == 3


@pytest.mark.parametrize("path", ["query", "segment", "chat/completions"])
def test_a_failure_before_the_first_piece_has_its_status(url: str, engine: StreamingEngine, path: str) -> None:
    engine.fail_after = 0
    body = fields(messages=[{"role": "user", "content": "How many?"}])
    response = httpx.post(f"{url}/v1/{path}", json=body)
    assert response.status_code == 500
    assert "The device was lost." in response.json()["error"]["message"]


def test_without_stream_the_answer_is_one_json_object(url: str) -> None:
    for skill in ("query", "caption", "segment"):
        response = httpx.post(f"{url}/v1/{skill}", json=fields(stream=False))
        assert response.headers["content-type"] == "application/json"
        assert "metrics" in response.json()


def test_a_stream_left_in_the_middle_is_closed_in_the_engine(url: str, engine: StreamingEngine) -> None:
    engine.pieces = ("x",) * 1000
    engine.delay_s = 0.02
    for skill in ("query", "caption"):
        with httpx.stream("POST", f"{url}/v1/{skill}", json=fields(), timeout=30) as response:
            next(response.iter_lines())
    wait_for(lambda: engine.closed_streams == ["query", "caption"], "both streams are closed")


def test_a_reader_that_stands_still_and_leaves_is_closed_too(url: str, engine: StreamingEngine) -> None:
    """The server waits in its send: no event, only the closed connection can wake it."""
    engine.pieces = ("x" * 100_000,) * 2000
    engine.delay_s = 0.005
    with httpx.stream("POST", f"{url}/v1/query", json=fields(), timeout=30) as response:
        pieces = response.iter_raw(1)  # kept: the connection closes with it
        next(pieces)
        time.sleep(1.0)
        assert engine.closed_streams == []
    wait_for(lambda: engine.closed_streams == ["query"], "the stream is closed")


def test_no_event_holds_a_value_that_is_no_number() -> None:
    """JSON has no NaN: clients would fail to read what follows."""
    with pytest.raises(ValueError, match="JSON compliant"):
        line({"x": float("nan")})
    assert json.loads(line({"x": 0.5}).removeprefix("data: ")) == {"x": 0.5}
