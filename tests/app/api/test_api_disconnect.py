"""app.api.presence: a client that leaves gives back its row within a few steps, and other clients do not notice."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.server import build_app
from app.settings import ServerSettings
from photon import EngineConfig, Photon
from tests.app.live import StreamingEngine, serving, wait_for
from tests.paths import ROOT
from tests.samples import data_url

STEPS = 3
"""Of a request after its cancellation: two may be in flight, and one be launched by the tick that is under way."""


@pytest.fixture(scope="module")
def model() -> Iterator[Photon]:
    """A model that can think for seconds about a question."""
    with Photon.load(str(ROOT / "tests/data/parity/md2"), EngineConfig(device="cpu", threads=1, queue=40)) as model:
        yield model


@pytest.fixture(scope="module")
def url(model: Photon) -> Iterator[str]:
    model.close_for_good, model.close = model.close, lambda *_: None  # type: ignore[method-assign, attr-defined]
    with serving(build_app(ServerSettings(), lambda *_: model)) as url:  # type: ignore[arg-type, return-value]
        # A launched step is never broken off: with the picture's prefix cached, none takes long on this CPU.
        assert httpx.post(f"{url}/v1/query", json=question(reasoning=False), timeout=120).status_code == 200
        yield url
    model.close = model.close_for_good  # type: ignore[method-assign, attr-defined]


@pytest.fixture(autouse=True)
def _idle(model: Photon) -> None:
    """A row of the test before, still held by its last step, would be taken for this test's."""
    wait_for(lambda: model.stats()["running"] + model.stats()["waiting"] == 0, "the engine is idle")


@contextlib.contextmanager
def connection(url: str, path: str, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A request on its own socket; the answer is not awaited."""
    where = urlsplit(url)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection((where.hostname, where.port)) as link:
        link.sendall(head.encode() + data)
        yield link


def reset(link: socket.socket) -> None:
    """Close without the usual goodbye, as a killed client or a dropped network does."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


def question(**more: Any) -> dict[str, Any]:
    """This model thinks for hundreds of tokens and answers in three."""
    return {"question": "What is this?", "image_url": data_url(), "reasoning": True, **more}


def cancelled(model: Photon) -> int:
    return int(model.stats()["requests"]["cancelled"])


def last_step(model: Photon) -> int:
    return max((record.step for record in model.steps()), default=-1)


@pytest.fixture
def cancels(model: Photon, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each cancellation that has reached the engine, the last step that was committed before."""
    seen: list[int] = []
    cancel = model.parts.loop.cancel

    def spy(job: Any) -> None:
        seen.append(last_step(model))
        cancel(job)

    monkeypatch.setattr(model.parts.loop, "cancel", spy)
    return seen


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_running_request_ends_with_its_client(
    model: Photon, url: str, cancels: list[int], how: str, stream: bool
) -> None:
    before = cancelled(model)
    with connection(url, "/v1/query", question(stream=stream)) as link:
        wait_for(lambda: model.stats()["running"] == 1, "the request runs")
        if how == "reset":
            reset(link)
    wait_for(lambda: cancelled(model) == before + 1, "the engine has cancelled it")
    wait_for(lambda: model.stats()["running"] == 0, "its row is free")
    assert len(model.steps(cancels[0] + 1)) <= STEPS


def test_a_row_is_free_without_another_step_where_none_is_in_flight(model: Photon, url: str) -> None:
    before = cancelled(model)
    with connection(url, "/v1/query", question(stream=True)):
        wait_for(lambda: model.stats()["running"] == 1, "the request runs")
        model.pause()
        wait_for(lambda: model.parts.loop.scheduler.paused, "the engine launches nothing more")
        wait_for(lambda: not model.parts.loop.scheduler.pipeline.in_flight, "what was launched is committed")
        step = last_step(model)
    try:
        wait_for(lambda: model.stats()["running"] == 0, "its row is free")
        assert (cancelled(model), last_step(model)) == (before + 1, step)
    finally:
        model.resume()


def test_chat_too(model: Photon, url: str) -> None:
    before = cancelled(model)
    image = {"type": "image_url", "image_url": {"url": data_url()}}
    content = [image, {"type": "text", "text": "What is this?"}]
    body = {"messages": [{"role": "user", "content": content}], "reasoning": True}
    with connection(url, "/v1/chat/completions", body):
        wait_for(lambda: model.stats()["running"] == 1, "the request runs")
    wait_for(lambda: cancelled(model) == before + 1, "the engine has cancelled it")


def test_a_waiting_request_ends_with_its_client(model: Photon, url: str) -> None:
    before = cancelled(model)
    model.pause()
    try:
        with connection(url, "/v1/detect", {"object": "cat", "image_url": data_url()}):
            wait_for(lambda: model.stats()["waiting"] == 1, "the request waits")
        wait_for(lambda: model.stats()["waiting"] == 0, "its place is free")
    finally:
        model.resume()
    assert cancelled(model) == before + 1


def test_thirty_clients_that_leave_do_not_disturb_the_one_that_stays(model: Photon, url: str) -> None:
    before = cancelled(model)
    alone = httpx.post(f"{url}/v1/query", json=question(reasoning=False), timeout=120).json()["answer"]
    answers: list[str] = []

    def stay() -> None:
        answers.append(httpx.post(f"{url}/v1/query", json=question(reasoning=False), timeout=120).json()["answer"])

    staying = threading.Thread(target=stay)
    with contextlib.ExitStack() as links:
        for index in range(30):
            if index == 15:
                staying.start()
            links.enter_context(connection(url, "/v1/query", question(stream=bool(index % 2))))
        wait_for(lambda: model.stats()["running"] + model.stats()["waiting"] >= 30, "all have arrived")
    staying.join(120)
    wait_for(lambda: model.stats()["running"] + model.stats()["waiting"] == 0, "all rows are free")
    assert cancelled(model) == before + 30
    assert answers == [alone]
    pages = model.stats()["pages"]
    assert pages["free"] + pages["cached"] == pages["total"]


def test_a_client_that_leaves_while_it_sends_is_no_error(
    url: str, model: Photon, caplog: pytest.LogCaptureFixture
) -> None:
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as link:
        link.sendall(f"POST /v1/query HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 1000\r\n\r\n{{".encode())
        time.sleep(0.1)
    time.sleep(0.2)
    assert httpx.get(f"{url}/health").status_code == 200
    assert not caplog.records


def test_a_full_queue_is_429(model: Photon, url: str) -> None:
    model.pause()
    try:
        with contextlib.ExitStack() as links:
            for _ in range(40):
                links.enter_context(connection(url, "/v1/query", question()))
            wait_for(lambda: model.stats()["waiting"] == 40, "the queue is full")
            for stream in (False, True):
                response = httpx.post(f"{url}/v1/query", json=question(stream=stream))
                assert (response.status_code, response.headers["retry-after"]) == (429, "1")
                assert "at most 40" in response.json()["error"]["message"]
    finally:
        model.resume()
    wait_for(lambda: model.stats()["running"] + model.stats()["waiting"] == 0, "all are gone")


@pytest.mark.parametrize("declared", [True, False])
def test_413_comes_before_the_body_is_read(declared: bool) -> None:
    """The client has sent next to nothing of its ten gigabytes, or a little more than the limit, when it is told."""
    with serving(build_app(ServerSettings(max_image_mb=0.1), lambda *_: StreamingEngine())) as url:
        where = urlsplit(url)
        length = "Content-Length: 10000000000" if declared else "Transfer-Encoding: chunked"
        with socket.create_connection((where.hostname, where.port), timeout=10) as link:
            link.sendall(f"POST /v1/detect HTTP/1.1\r\nHost: {where.netloc}\r\n{length}\r\n\r\n".encode())
            if not declared:
                link.sendall(b"30000\r\n" + b"x" * 0x30000 + b"\r\n")
                for _ in range(6):
                    link.sendall(b"30000\r\n" + b"x" * 0x30000 + b"\r\n")
            assert b" 413 " in link.recv(100).split(b"\r\n")[0]
