"""app.web.lingering: who is refused while still sending gets the whole answer, and nobody can send for ever."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from app.web.lingering import LingeringClose
from tests.app.live import serving

MANY = 20_000_000  # bytes; far more than the sockets between client and server hold


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = FastAPI()

    @app.get("/health")
    def health() -> Response:
        return JSONResponse({})

    @app.post("/refuse")
    def refuse() -> Response:
        return JSONResponse({"error": "no"}, status_code=413)

    @app.post("/read")
    async def read(request: Request) -> Response:
        return JSONResponse({"read": len(await request.body())})

    app.add_middleware(LingeringClose, linger_s=4.0)
    with serving(app) as url:
        yield url


def post(url: str, path: str, head: str) -> socket.socket:
    where = urlsplit(url)
    link = socket.create_connection((where.hostname, where.port), timeout=60)
    link.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n".encode())
    return link


def read_all(link: socket.socket) -> tuple[int, Any]:
    data = b""
    while part := link.recv(65536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_a_client_that_sends_all_before_it_listens_gets_the_refusal(url: str) -> None:
    with post(url, "/refuse", f"Content-Length: {MANY}") as link:
        link.sendall(bytes(MANY))
        assert read_all(link) == (413, {"error": "no"})


def test_chunked_bodies_too(url: str) -> None:
    with post(url, "/refuse", "Transfer-Encoding: chunked") as link:
        for _ in range(20):
            link.sendall(b"f4240\r\n" + bytes(1_000_000) + b"\r\n")
        link.sendall(b"0\r\n\r\n")
        assert read_all(link) == (413, {"error": "no"})


def test_the_refusal_comes_before_the_body(url: str) -> None:
    with post(url, "/refuse", f"Content-Length: {MANY}") as link:
        assert b" 413 " in link.recv(100)


def test_a_body_that_is_read_is_not_touched(url: str) -> None:
    with post(url, "/read", f"Content-Length: {MANY}") as link:
        link.sendall(bytes(MANY))
        assert read_all(link) == (200, {"read": MANY})


@pytest.mark.parametrize("head", ["Content-Length: 0", "X-Nothing: 1"])
def test_without_a_body_nothing_lingers(url: str, head: str) -> None:
    start = time.perf_counter()
    with post(url, "/refuse", head) as link:
        assert read_all(link) == (413, {"error": "no"})
    assert time.perf_counter() - start < 4.0


def test_who_never_ends_is_cut_off(url: str) -> None:
    with post(url, "/refuse", f"Content-Length: {10**12}") as link:
        sent = 0
        cut = threading.Event()

        def send() -> None:
            nonlocal sent
            try:
                while sent < 10**11:
                    sent += link.send(bytes(65536))
                    time.sleep(0.001)
            except OSError:
                cut.set()

        threading.Thread(target=send, daemon=True).start()
        assert cut.wait(60)


def test_who_says_nothing_more_is_cut_off(url: str) -> None:
    with post(url, "/refuse", "Content-Length: 100") as link:
        assert read_all(link) == (413, {"error": "no"})
