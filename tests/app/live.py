"""Servers on real sockets, pictures as the client sends them, and an engine that streams: for tests over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi.testclient import TestClient

from app.engines.models import Look
from app.server import build_app
from app.settings import ServerSettings
from photon import SKILLS, AsyncStream, Result
from photon.engine.streaming import End, LoopMailbox
from tests.app.scripted import BOX, ScriptedEngine
from tests.paths import ROOT

START_S = 900.0  # a machine that others use may take minutes to import
PATH = "M0 0L1 0L1 1L0 1Z"


def settled(client: TestClient) -> TestClient:
    """The same, once its engine is there or has failed."""
    wait_for(lambda: client.get("/health").json()["status"] != "starting", "the engine has started")
    return client


@contextlib.contextmanager
def client_of(engine: Any, settings: ServerSettings | None = None, look: Look | None = None) -> Iterator[TestClient]:
    """The application over an engine that is ready, without a port; building its page takes a second."""
    with TestClient(build_app(settings or ServerSettings(), lambda *_: engine, look)) as client:
        yield settled(client)


def renewed(engine: StreamingEngine) -> StreamingEngine:
    """The same engine as if nobody had asked it: one page serves all tests of a module."""
    vars(engine).update(vars(StreamingEngine()))
    return engine


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """The application on a free port of this process; yields its base URL."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, "the server listens")
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: httpx.get(f"{url}/health").status_code == 200, "the engine is ready")
        yield url
    finally:
        server.should_exit = True
        thread.join(30)


@contextlib.contextmanager
def process(**settings: str) -> Iterator[str]:
    """`python app.py` with these environment variables; yields its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PHOTON_THREADS": "1", **settings, "PORT": str(port)}
    server = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}/health").status_code == 200
        return False

    try:
        wait_for(ready, "the server is ready", START_S, 0.2)
        yield url
    finally:
        server.terminate()
        server.wait(60)


def wait_for(condition: Any, what: str, within_s: float = 120.0, every_s: float = 0.01) -> float:
    """Seconds until `condition()` was true; fails if it is not in time."""
    start = time.perf_counter()
    while not condition():
        assert time.perf_counter() - start < within_s, f"not within {within_s} s: {what}"
        time.sleep(every_s)
    return time.perf_counter() - start


@dataclass
class StreamingEngine(ScriptedEngine):
    """Adds query and caption, and streams, a piece every `delay_s`; fails after `fail_after` pieces if that is set."""

    pieces: tuple[str, ...] = ("Two ", "cats ", "— 猫.")
    fail_after: int | None = None
    error: Exception | None = None
    closed_streams: list[str] = field(default_factory=list)

    async def aquery(self, image: Any = None, question: str = "", stream: bool = False, **options: Any) -> Result:
        if image is None:
            image = np.zeros((1, 1, 3), np.uint8)
        result = await self._text("query", "answer", image, question, options)
        if options.get("reasoning"):
            result["reasoning"] = {"text": "Let me see.", "grounding": []}
        return Result({"answer": self._stream("query", list(self.pieces), result)}) if stream else result

    async def acaption(self, image: Any, length: str = "normal", stream: bool = False, **options: Any) -> Result:
        result = await self._text("caption", "caption", image, length, options)
        return Result({"caption": self._stream("caption", list(self.pieces), result)}) if stream else result

    async def asegment(self, image: Any, object: str, stream: bool = False, **options: Any) -> Any:
        result = await super().asegment(image, object, **options)
        if not stream:
            return result
        last = {"path": result["path"], "bbox": result["bbox"], "completed": True}
        steps: list[Any] = [{"bbox": BOX}, {"chunk": PATH[:10]}, {"chunk": PATH[10:]}]
        return self._stream("segment", steps, result, last)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "skills": list(SKILLS)}

    async def _text(self, verb: str, key: str, image: Any, text: str, options: dict[str, Any]) -> Result:
        if self.error is not None:
            raise self.error
        self.answers = {**self.answers, verb: {key: "".join(self.pieces)}}
        return await self._answer(verb, image, text, options)

    def _stream(self, verb: str, pieces: list[Any], result: Result, last: Any = None) -> AsyncStream:
        loop = asyncio.get_running_loop()
        mailbox = LoopMailbox(loop)

        async def feed() -> None:
            for index, piece in enumerate(pieces):
                if index == self.fail_after:
                    mailbox.put(End(error=RuntimeError("The device was lost.")))
                    return
                mailbox.put(piece)
                await asyncio.sleep(self.delay_s)
            mailbox.put(End(result))

        feeding = loop.create_task(feed())

        def cancel() -> None:
            feeding.cancel()
            self.closed_streams.append(verb)

        return AsyncStream(mailbox, cancel, None if last is None else lambda _: last)
