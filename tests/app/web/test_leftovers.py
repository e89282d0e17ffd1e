"""Nothing stays on the server's disk, and nothing of it can be fetched that is not a visitor's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from gradio.utils import get_upload_folder
from PIL import Image

from app.page import ui
from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import wait_for
from tests.app.scripted import ScriptedEngine
from tests.paths import ROOT


def upload(client: TestClient, name: str = "picture.png") -> Path:
    """Where the server put a file that a visitor sent."""
    (path,) = client.post("/gradio_api/upload", files={"files": (name, b"bytes")}).json()
    return Path(path)


def test_uploads_are_removed_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "CACHE_S", 1)
    monkeypatch.setattr(ui, "SWEEP_S", 1)
    with TestClient(build_app(ServerSettings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client)
        assert path.is_file()
        wait_for(lambda: not path.exists(), "the upload is removed")


def test_uploads_go_with_the_server() -> None:
    with TestClient(build_app(ServerSettings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client)
        assert path.is_file()
    assert not path.exists()


@pytest.mark.parametrize("path", ["/etc/passwd", str(ROOT / "requirements.txt"), "../app.py"])
def test_no_other_file_can_be_fetched(path: str) -> None:
    with TestClient(build_app(ServerSettings(), lambda *_: ScriptedEngine())) as client:
        assert client.get(f"/gradio_api/file={path}").status_code in (403, 404)
        assert client.get(f"/gradio_api/file={upload(client)}").status_code == 200


@pytest.mark.parametrize("name", ["../../evil.png", "/tmp/evil.png", "..\\evil.png", "<img src=x>.png"])
def test_an_upload_stays_in_its_folder_whatever_its_name(name: str) -> None:

    with TestClient(build_app(ServerSettings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client, name)
        assert path.resolve().is_relative_to(Path(get_upload_folder()).resolve())


def listeners_of_files(client: TestClient) -> list[dict[str, Any]]:
    """Of each listener that takes files its number, and what kind each of its inputs is."""
    config = client.get("/config").json()
    kinds = {part["id"]: part["type"] for part in config["components"]}
    found = [{"number": one["id"], "kinds": [kinds[part] for part in one["inputs"]]} for one in config["dependencies"]]
    return [one for one in found if {"image", "file"} & {*one["kinds"]}]


@pytest.mark.parametrize("kind", ["file", "address"])
def test_no_listener_reads_what_was_not_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whoever talks to a listener directly can name any file, in any of its inputs."""
    secret = tmp_path / "secret.png"
    Image.new("RGB", (64, 48)).save(secret)
    fetched: list[str] = []

    async def fetch(url: str) -> httpx.Response:
        fetched.append(url)
        return httpx.Response(200, content=secret.read_bytes())

    monkeypatch.setattr("gradio.processing_utils.async_ssrf_protected_get", fetch)
    path = str(secret) if kind == "file" else "https://site.example/secret.png"
    forged = {"path": path, "meta": {"_type": "gradio.FileData"}}
    given = {"image": forged, "file": [forged], "slider": 4, "textbox": "cat", "radio": "Detect"}
    engine = ScriptedEngine()
    with TestClient(build_app(ServerSettings(), lambda *_: engine)) as client:
        listeners = listeners_of_files(client)
        assert len(listeners) == 3  # a picture is taken, a batch is asked about, a batch races
        for listener in listeners:
            data = [given.get(kind) for kind in listener["kinds"]]
            session = f"session-{listener['number']}"
            body = {"data": data, "fn_index": listener["number"], "session_hash": session}
            client.post("/gradio_api/queue/join", json=body)
            events = client.get("/gradio_api/queue/data", params={"session_hash": session}).text
            assert '"success":false' in events, events
        asked = client.post("/gradio_api/call/v2/detect", json={"image": forged, "object": "cat"}).json()
        assert "event: error" in client.get(f"/gradio_api/call/detect/{asked['event_id']}").text
        assert not list(Path(get_upload_folder()).rglob("secret.png"))
    assert engine.calls == []
    assert fetched == []
