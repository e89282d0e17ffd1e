"""What the page keeps of visitors is bounded, and nothing is kept of programs that call an endpoint."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.page import ui
from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import wait_for
from tests.app.scripted import ScriptedEngine
from tests.samples import data_url


def kept(app: FastAPI) -> Any:
    """Gradio's sessions."""
    (page,) = (route.app for route in app.routes if hasattr(getattr(route, "app", None), "state_holder"))
    return page.state_holder.session_data


def visit(client: TestClient) -> str:
    """A page is opened; returns its session."""
    session = secrets.token_hex(8)
    listeners = client.get("/config").json()["dependencies"]
    load = next(one for one in listeners if any(event == "load" for _, event in one["targets"]))
    client.post("/gradio_api/queue/join", json={"data": [], "fn_index": load["id"], "session_hash": session})
    assert '"success":true' in client.get("/gradio_api/queue/data", params={"session_hash": session}).text
    return session


def call(client: TestClient) -> None:
    asked = client.post("/gradio_api/call/v2/detect", json={"image": data_url(), "object": "cat"})
    assert "complete" in client.get(f"/gradio_api/call/detect/{asked.json()['event_id']}").text


def test_only_the_latest_visitors_are_kept_and_no_program_takes_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "SESSIONS", 3)
    app = build_app(ServerSettings(), lambda *_: ScriptedEngine())
    with TestClient(app) as client:
        wait_for(lambda: client.get("/health").status_code == 200, "the engine is ready")
        visitors = [visit(client) for _ in range(8)]
        assert len(kept(app)) <= 4
        assert visitors[-1] in kept(app)
        for _ in range(6):
            call(client)
        assert list(kept(app)) == visitors[-2:]
