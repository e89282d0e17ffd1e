"""app.server and app.engines.holder: ready, loading, failed; what each says over HTTP."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.engines.holder import Engine, EngineHolder, NotReadyError
from app.engines.metrics import Prometheus
from app.page import about
from app.server import build_app, main, make_models
from app.settings import ServerSettings
from photon import ModelInfo, ModelLoadError
from tests.app.live import client_of
from tests.app.scripted import ScriptedEngine, scripted
from tests.paths import ROOT


def wait_until(client: TestClient, status: str) -> dict[str, Any]:
    """The /health body once it has this status."""
    for _ in range(100):
        body = client.get("/health").json()
        if body["status"] == status:
            return dict(body)
        time.sleep(0.02)
    raise AssertionError(f"/health never said {status}, last {body}")


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def client(engine: ScriptedEngine) -> Iterator[TestClient]:
    with client_of(engine) as client:
        yield client


def test_health_names_the_model_when_ready(client: TestClient) -> None:
    response = client.get("/health")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "model": "photon-tiny", "device": "cpu"}


def test_stats_come_from_the_engine(client: TestClient) -> None:
    assert client.get("/v1/stats").json()["model"] == "photon-tiny"


def test_the_page_is_served_and_asks_no_other_host(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "Photon Demo" in page.text
    theme = client.get("/theme.css").text
    assert "fonts.googleapis.com" not in page.text + theme
    assert 'rel="stylesheet" href="http' not in page.text


def test_unknown_pictures_are_404(client: TestClient) -> None:
    assert client.get("/pictures/unknown.jpg").status_code == 404
    assert client.get("/pictures/..%2f..%2fetc%2fpasswd.jpg").status_code == 404
    assert client.get("/pictures/examples/..%2fapp.py").status_code == 404


def test_an_engine_that_fails_later_turns_health_to_503(client: TestClient, engine: ScriptedEngine) -> None:
    engine.failure = "The device was lost."
    response = client.get("/health")
    assert response.status_code == 503
    assert "The device was lost." in response.json()["reason"]
    assert client.get("/v1/stats").status_code == 503


def test_the_engine_is_closed_with_the_application() -> None:
    engine = ScriptedEngine()
    with TestClient(build_app(ServerSettings(), lambda *_: engine)) as client:
        wait_until(client, "ready")
        assert not engine.closed
    assert engine.closed


def test_missing_model_files_leave_the_page_up_and_say_why() -> None:
    def missing(*_: object) -> Engine:
        raise ModelLoadError("The file model.safetensors is missing.")

    with TestClient(build_app(ServerSettings(), missing)) as client:
        body = wait_until(client, "failed")
        assert body["reason"] == "The file model.safetensors is missing."
        assert client.get("/health").status_code == 503
        assert client.get("/").status_code == 200


def test_any_other_failure_to_start_is_said_too() -> None:
    def broken(*_: object) -> Engine:
        raise RuntimeError("no memory")

    with TestClient(build_app(ServerSettings(), broken)) as client:
        assert "RuntimeError: no memory" in wait_until(client, "failed")["reason"]


def test_while_the_model_loads_health_is_503_and_the_page_answers() -> None:
    may_end = threading.Event()

    def slow(*_: object) -> Engine:
        may_end.wait(60)
        return ScriptedEngine()

    with TestClient(build_app(ServerSettings(), slow)) as client:
        response = client.get("/health")
        assert (response.status_code, response.json()["status"]) == (503, "starting")
        assert client.get("/").status_code == 200
        may_end.set()
        wait_until(client, "ready")


def test_a_backend_without_engine_refuses_with_the_reason() -> None:
    with pytest.raises(NotReadyError, match="Loading"):
        EngineHolder(ScriptedEngine).engine()


def test_the_header_tells_what_answers(client: TestClient) -> None:
    value = about.header(client.app.state.models.main)  # type: ignore[attr-defined]
    assert (value["model"], value["device"], value["times"]) == (
        "photon-tiny",
        "CPU, 2 threads, float32",
        "measured",
    )
    assert "little to hide" in about.notes(client.app.state.models.main)["pipeline"]  # type: ignore[attr-defined]


def test_a_bad_setting_ends_the_start_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "many")
    with pytest.raises(SystemExit, match="PORT is 'many'"):
        main([])


def test_a_tool_server_without_its_package_ends_the_start_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main(["--mcp"])
    advice = str(ended.value).rpartition("pip install ")[2]
    assert advice.startswith("mcp==")
    root = ROOT
    assert f'"{advice}"' in (root / "pyproject.toml").read_text()
    assert f"\n{advice}\n" in (root / "requirements-dev.txt").read_text()


def test_on_zero_gpu_everyone_is_told_where_the_engine_runs(caplog: pytest.LogCaptureFixture) -> None:
    settings = ServerSettings.from_env({"SPACES_ZERO_GPU": "true"})
    with TestClient(build_app(settings, scripted)) as client:
        assert "ZeroGPU" in wait_until(client, "ready")["note"]
        assert "ZeroGPU" in about.header(client.app.state.models.main)["note"]  # type: ignore[attr-defined]
    assert "ZeroGPU" in caplog.text


@pytest.mark.parametrize("allowed", [False, True])
def test_files_are_fetched_from_the_page_only_where_the_settings_allow_it(allowed: bool) -> None:
    absent = ModelInfo("moondream2", 1, ("detect",), fits=True, reason="Not here.", fetchable=True)
    tiny = ModelInfo("photon-tiny", 1, ("detect",), on_disk=True, fits=True)
    settings = ServerSettings(models=("photon-tiny", "moondream2"), allow_download=allowed)
    models = make_models(settings, Prometheus(), scripted, lambda _: [tiny, absent])
    choice = asyncio.run(models.offers())[1]
    assert (choice.fetches, choice.refusal) == ((True, "") if allowed else (False, "Not here."))
