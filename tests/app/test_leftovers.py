"""Nothing stays on the server's disk, and nothing of it can be fetched that is not a visitor's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from gradio.utils import get_upload_folder

from app import ui
from app.server import build_app
from app.settings import Settings
from tests.app.live import wait_for
from tests.app.scripted import ScriptedEngine


def upload(client: TestClient, name: str = "picture.png") -> Path:
    """Where the server put a file that a visitor sent."""
    (path,) = client.post("/gradio_api/upload", files={"files": (name, b"bytes")}).json()
    return Path(path)


def test_uploads_are_removed_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "CACHE_S", 1)
    monkeypatch.setattr(ui, "SWEEP_S", 1)
    with TestClient(build_app(Settings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client)
        assert path.is_file()
        wait_for(lambda: not path.exists(), "the upload is removed")


def test_uploads_go_with_the_server() -> None:
    with TestClient(build_app(Settings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client)
        assert path.is_file()
    assert not path.exists()


@pytest.mark.parametrize("path", ["/etc/passwd", str(Path(__file__).parents[2] / "requirements.txt"), "../app.py"])
def test_no_other_file_can_be_fetched(path: str) -> None:
    with TestClient(build_app(Settings(), lambda *_: ScriptedEngine())) as client:
        assert client.get(f"/gradio_api/file={path}").status_code in (403, 404)
        assert client.get(f"/gradio_api/file={upload(client)}").status_code == 200


@pytest.mark.parametrize("name", ["../../evil.png", "/tmp/evil.png", "..\\evil.png", "<img src=x>.png"])
def test_an_upload_stays_in_its_folder_whatever_its_name(name: str) -> None:

    with TestClient(build_app(Settings(), lambda *_: ScriptedEngine())) as client:
        path = upload(client, name)
        assert path.resolve().is_relative_to(Path(get_upload_folder()).resolve())
