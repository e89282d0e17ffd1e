"""A busy server: who waits is told where they stand, who finds the queue full is told so, and both can go on."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import NAMES, add_picture, outcome, png
from tests.e2e.conftest import PATIENCE_MS, OpenPage, Server, StartServer
from tests.samples import data_url


@pytest.fixture(scope="module")
def busy(start_server: StartServer) -> Server:
    """One request at a time, for as long as anybody waits for it; two more may wait."""
    environment = {"SCRIPTED_DELAY_S": "3600", "PHOTON_MAX_BATCH": "1", "PHOTON_QUEUE": "2"}
    return start_server("-m", "tests.e2e.scripted_server", **environment)


def program(server: Server) -> socket.socket:
    """Another program's request; it gives it up by closing the connection."""
    where = urlsplit(server.url)
    body = json.dumps({"image_url": data_url(), "object": "cat"})
    link = socket.create_connection((where.hostname, where.port))
    link.sendall(f"POST /v1/detect HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return link


def counts(server: Server) -> tuple[int, int]:
    stats = server.get("/v1/stats").json()
    return stats["running"], stats["waiting"]


def wait_for(server: Server, running: int, waiting: int) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while counts(server) != (running, waiting):
        assert time.monotonic() < deadline, counts(server)
        time.sleep(0.05)


def ask(page: Page) -> None:
    page.fill(NAMES, "cat")
    page.press(NAMES, "Enter")


def test_a_visitor_sees_their_place_in_the_queue_and_a_full_one_is_said(visit: OpenPage, busy: Server) -> None:
    page, late = visit(busy).page, visit(busy).page
    for one in (page, late):
        add_picture(one, png(64, 48))
    first = program(busy)
    wait_for(busy, 1, 0)
    second = program(busy)
    wait_for(busy, 1, 1)
    status = page.locator("#status .ph-status")
    ask(page)
    expect(status).to_contain_text("place 2 in the queue")

    ask(late)
    assert outcome(late) == "2 requests are waiting already; at most 2 may. Try later."
    expect(late.locator("#run")).to_be_visible()

    first.close()
    expect(status).to_contain_text("place 1 in the queue")
    second.close()
    expect(status).to_contain_text("Looking for cat")
    ask(late)
    expect(late.locator("#status .ph-status")).to_contain_text("place 1 in the queue")
    late.locator("#cancel").click()
    assert outcome(late) == "The question was stopped."
    page.locator("#cancel").click()
    wait_for(busy, 0, 0)
