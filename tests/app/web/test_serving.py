"""The server as a process: where it serves, and that it ends soon when it is told to, whoever still listens."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from app.web.serving import AddressTakenError, listen
from tests.app.live import START_S, wait_for
from tests.paths import ROOT
from tests.samples import data_url, noise, png

SOON_S = 10.0
"""Seconds with time to spare: it takes some three."""


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PHOTON_THREADS": "1", **environment, "PORT": str(port)}
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/health").status_code == 200
        return process.poll() is not None

    try:
        wait_for(ready, "the server is ready", START_S, 0.2)
        yield url, process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_soon_with_code_0_though_a_page_is_open(told: signal.Signals) -> None:
    with running("app.py") as (url, process), httpx.stream("GET", f"{url}/gradio_api/heartbeat/x", timeout=60) as beat:
        next(beat.iter_raw())
        process.send_signal(told)
        began = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - began < SOON_S


def test_whoever_waits_for_an_answer_is_told() -> None:
    """Each question brings a picture of its own, so that they take seconds together."""
    questions = 40
    told: list[tuple[int, str]] = []

    def ask(number: int) -> None:
        with suppress(httpx.TransportError):  # who is cut off is told nothing
            answer = httpx.post(
                f"{url}/v1/point",
                json={"image_url": data_url(png(noise(64, 64, number)), "image/png"), "object": "cat"},
                timeout=60,
            )
            told.append((answer.status_code, answer.text))

    with running("app.py") as (url, process):
        asking = [threading.Thread(target=ask, args=(number,)) for number in range(questions)]
        for one in asking:
            one.start()
        wait_for(lambda: httpx.get(f"{url}/v1/stats").json()["waiting"] > 5, "questions wait")
        process.terminate()
        assert process.wait(60) == 0
        for one in asking:
            one.join(30)
    assert {status for status, _ in told} <= {200, 503}
    assert all(status == 200 or "closed" in text for status, text in told), told
    assert len(told) >= questions - 1, "some were cut off without a word"


def test_a_port_that_is_taken_is_said_before_anything_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressTakenError, match=rf"Nothing can be served at 127\.0\.0\.1:{port}.*Set PORT"):
            listen("127.0.0.1", port)
        env = {**os.environ, "PORT": str(port)}
        done = subprocess.run(
            [sys.executable, "app.py"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 1
    assert done.stdout == "", "it said that it serves"
    assert done.stderr.strip().splitlines()[-1].startswith("Nothing can be served at")


def test_small_pieces_are_sent_at_once() -> None:
    """Else each event of a stream may wait for the one before it to be acknowledged."""

    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        sock = listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=sock):
            _, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
            writer.close()
            return await found

    assert asyncio.run(accepted()) != 0


def test_an_address_that_is_not_this_machines_is_refused_alike() -> None:
    with pytest.raises(AddressTakenError, match="HOST"):
        listen("192.0.2.1", 7860)
