"""Pages of other origins: whom they may ask, before the key and with it, and that refusals can be read too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from app.settings import ServerSettings, SettingsError
from tests.app.live import StreamingEngine, client_of
from tests.samples import data_url

ELSEWHERE = {"Origin": "https://elsewhere.example"}
PREFLIGHT = {
    **ELSEWHERE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type,x-moondream-auth",
}


@pytest.fixture(scope="module", params=[None, "secret"])
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with client_of(StreamingEngine(), ServerSettings(api_key=request.param)) as client:
        client.headers.update({"X-Moondream-Auth": request.param} if request.param else {})
        yield client


def test_a_browser_may_ask_whether_it_may_ask_without_a_key(client: TestClient) -> None:
    client_without = TestClient(client.app)
    for path in ("/v1/point", "/v1/chat/completions", "/v1/models"):
        answer = client_without.options(path, headers=PREFLIGHT)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "x-moondream-auth" in answer.headers["access-control-allow-headers"].lower()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/point", {"image_url": data_url(), "object": "cat"}, 200),
        ("/v1/point", {"image_url": data_url(), "object": "xyzzy"}, 400),
        ("/v1/segment", {"image_url": data_url(), "object": "cat", "stream": True}, 200),
        ("/v1/nothing", {}, 404),
    ],
)
def test_answers_and_refusals_can_be_read(client: TestClient, path: str, body: dict[str, object], status: int) -> None:
    answer = client.post(path, json=body, headers=ELSEWHERE)
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


def test_the_refusal_of_a_missing_key_can_be_read() -> None:
    with client_of(StreamingEngine(), ServerSettings(api_key="secret")) as client:
        answer = client.get("/v1/models", headers=ELSEWHERE)
        assert answer.status_code == 401
        assert answer.headers["access-control-allow-origin"] == "*"


def test_origins_can_be_listed_and_closed() -> None:
    listed = ServerSettings.from_env({"PHOTON_ALLOWED_ORIGINS": "https://a.example/, http://localhost:3000"})
    assert listed.origins == ("https://a.example", "http://localhost:3000")
    with client_of(StreamingEngine(), listed) as client:
        allowed = client.get("/v1/models", headers={"Origin": "https://a.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-origin" not in client.get("/v1/models", headers=ELSEWHERE).headers
        assert client.options("/v1/point", headers=PREFLIGHT).status_code == 400
    assert ServerSettings.from_env({"PHOTON_ALLOWED_ORIGINS": "none"}).origins == ()
    assert ServerSettings.from_env({}).origins == ("*",)


@pytest.mark.parametrize("text", ["a.example", "https://a.example/path", "ftp://a.example"])
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="PHOTON_ALLOWED_ORIGINS has"):
        ServerSettings.from_env({"PHOTON_ALLOWED_ORIGINS": text})
