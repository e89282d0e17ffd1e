"""app.api.listening: who leaves a Gradio endpoint frees the engine; who comes late for the answer has it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import httpx
import pytest

from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import StreamingEngine, serving, wait_for
from tests.samples import data_url

ABOUT = {"image": data_url(), "object": "cat"}
BODY = {"data": [data_url(), "cat", 50, ""]}
SOON_S = 5.0  # a quarter of a second where the machine has nothing else to do


@pytest.fixture(scope="module")
def engine() -> StreamingEngine:
    return StreamingEngine()


@pytest.fixture(scope="module")
def url(engine: StreamingEngine) -> Iterator[str]:
    with serving(build_app(ServerSettings(), lambda *_: engine)) as url:
        yield f"{url}/gradio_api"


@contextlib.contextmanager
def by_call(url: str) -> Iterator[None]:
    """Over plain HTTP, with the answer's stream open."""
    number = httpx.post(f"{url}/call/v2/detect", json=ABOUT).json()["event_id"]
    with httpx.stream("GET", f"{url}/call/detect/{number}", timeout=60):
        yield


@contextlib.contextmanager
def by_queue(url: str) -> Iterator[None]:
    """As Gradio's own clients do."""
    listeners = httpx.get(f"{url.removesuffix('/gradio_api')}/config").json()["dependencies"]
    function = next(one["id"] for one in listeners if one["api_name"] == "detect")
    body = {**BODY, "session_hash": "me", "fn_index": function}
    httpx.post(f"{url}/queue/join", json=body)
    with httpx.stream("GET", f"{url}/queue/data", params={"session_hash": "me"}, timeout=60):
        yield


@contextlib.contextmanager
def unqueued(url: str) -> Iterator[None]:
    """One request, whose connection is its only tie."""
    with httpx.Client() as client:
        request = client.build_request("POST", f"{url}/run/detect", json=BODY, timeout=1.5)
        with contextlib.suppress(httpx.ReadTimeout):
            client.send(request)
        yield


@pytest.mark.parametrize("ask", [by_call, by_queue, unqueued])
def test_who_leaves_frees_the_engine(engine: StreamingEngine, url: str, ask: object) -> None:
    before, engine.delay_s = len(engine.calls), 60.0
    with ask(url):  # type: ignore[operator]
        wait_for(lambda: len(engine.calls) > before, "the request has come")
        if ask is not unqueued:
            time.sleep(1)
            assert engine.calls[-1].state == "running"
    took = wait_for(lambda: engine.calls[-1].state == "cancelled", "the engine is free")
    assert took < SOON_S


def test_who_comes_late_for_the_answer_has_it(engine: StreamingEngine, url: str) -> None:
    engine.delay_s = 1.0
    number = httpx.post(f"{url}/call/v2/detect", json=ABOUT).json()["event_id"]
    time.sleep(0.6)
    assert "event: complete" in httpx.get(f"{url}/call/detect/{number}", timeout=60).text
    number = httpx.post(f"{url}/call/v2/detect", json=ABOUT).json()["event_id"]
    wait_for(lambda: engine.calls[-1].state == "done", "it is answered")
    assert "event: complete" in httpx.get(f"{url}/call/detect/{number}", timeout=60).text
