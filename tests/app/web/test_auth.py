"""app.web.auth: with a key set nothing is open but /health; programs send it in a header, people log in once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient

from app.server import build_app
from app.settings import ServerSettings
from app.web import auth
from app.web.auth import COOKIE
from tests.app.live import serving
from tests.app.scripted import scripted
from tests.samples import data_url

KEY = "correct horse ✓ battery"
ASK = {"image_url": data_url(), "object": "cat"}


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    app = build_app(ServerSettings(api_key=KEY), scripted)
    with TestClient(app) as client:
        while client.get("/health").json()["status"] == "starting":
            time.sleep(0.01)
        yield app


@pytest.fixture
def client(app: Any) -> TestClient:
    """A visitor who has not been here before."""
    return TestClient(app, follow_redirects=False)


@pytest.fixture
def visitor(client: TestClient) -> TestClient:
    """A visitor who has logged in."""
    assert client.post("/login", data={"key": KEY}).status_code == 303
    return client


@pytest.mark.parametrize(
    "headers",
    [{"X-Moondream-Auth": "plain"}, {"Authorization": "Bearer plain"}, {"Authorization": "bearer  plain"}],
)
def test_programs_send_the_key_in_either_header(headers: dict[str, str]) -> None:
    with TestClient(build_app(ServerSettings(api_key="plain"), scripted)) as client:
        while client.get("/health").json()["status"] == "starting":
            time.sleep(0.01)
        assert client.post("/v1/detect", json=ASK).status_code == 401
        assert client.post("/v1/detect", json=ASK, headers=headers).status_code == 200
        assert client.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Moondream-Auth": ""},
        {"X-Moondream-Auth": "wrong"},
        {"X-Moondream-Auth": KEY[:7]},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic Y29ycmVjdA=="},
    ],
)
@pytest.mark.parametrize("path", ["/v1/detect", "/v1/stats", "/v1/models", "/v1/nothing", "/metrics"])
def test_without_the_key_programs_get_a_sentence(client: TestClient, headers: dict[str, str], path: str) -> None:
    response = client.get(path, headers=headers)
    assert response.status_code == 401
    assert "asks for its key" in response.json()["error"]["message"]
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "path",
    [
        "/config",
        "/gradio_api/info",
        "/gradio_api/queue/data",
        "/pictures/x.jpg",
        "/theme.css",
        "/assets/a.js",
        "//v1/x",
    ],
)
def test_no_other_address_is_open(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 401
    assert client.post(path).status_code == 401


def test_health_stays_open(client: TestClient) -> None:
    assert client.get("/health").status_code == 200
    assert client.get("/health/../config").status_code == 401


def test_a_browser_is_led_to_the_login(client: TestClient) -> None:
    response = client.get("/", headers={"Accept": "text/html,*/*"})
    assert (response.status_code, response.headers["location"]) == (303, "./login")
    page = client.get("/login")
    assert page.status_code == 200
    assert 'type="password"' in page.text
    assert "://" not in page.text


@pytest.mark.parametrize("path", ["/", "/some", "/some/where/deep"])
def test_the_login_is_found_behind_a_proxy_that_cuts_a_prefix_off(client: TestClient, path: str) -> None:
    outside = f"https://host/photon{path}"
    to_login = client.get(path, headers={"Accept": "text/html"}).headers["location"]
    assert urljoin(outside, to_login) == "https://host/photon/login"
    form = re.search('action="(.*?)"', client.get("/login").text)
    assert form
    assert urljoin("https://host/photon/login", form[1]) == "https://host/photon/login"
    back = client.post("/login", data={"key": KEY}).headers["location"]
    assert urljoin("https://host/photon/login", back) == "https://host/photon/"


def test_after_the_login_the_page_and_its_parts_are_there(visitor: TestClient) -> None:
    assert "Photon Demo" in visitor.get("/", headers={"Accept": "text/html"}).text
    assert visitor.get("/config").status_code == 200
    assert visitor.get("/gradio_api/info").status_code == 200
    assert visitor.get("/pictures/x.jpg").status_code == 404


@pytest.mark.parametrize("given", ["wrong", "", KEY + " ", KEY.upper(), "k" * 100_000])
def test_a_wrong_key_is_said_and_opens_nothing(client: TestClient, given: str) -> None:
    response = client.post("/login", data={"key": given})
    assert response.status_code == 401
    assert "not the key" in response.text
    assert "set-cookie" not in response.headers
    assert client.get("/config").status_code == 401


def test_the_cookie_is_no_key_and_does_not_open_v1(visitor: TestClient) -> None:
    assert KEY not in visitor.cookies[COOKIE]
    assert visitor.post("/v1/detect", json=ASK).status_code == 401
    assert visitor.get("/metrics").status_code == 401


@pytest.mark.parametrize("cookie", [f"{COOKIE}=x", f"{COOKIE}=", "x", f'{COOKIE}="\\', "=;=;", f"{COOKIE}=\xe9"])
def test_forged_and_broken_cookies_open_nothing(client: TestClient, cookie: str) -> None:
    assert client.get("/config", headers={"Cookie": cookie.encode("latin-1")}).status_code == 401  # type: ignore[dict-item]


def test_sessions_of_another_process_open_nothing(visitor: TestClient) -> None:
    other = TestClient(build_app(ServerSettings(api_key=KEY), scripted))
    other.cookies.set(COOKIE, visitor.cookies[COOKIE])
    assert other.get("/config").status_code == 401


def test_the_cookie_is_closed_to_scripts_and_fits_how_the_page_is_reached(client: TestClient) -> None:
    plain = client.post("/login", data={"key": KEY}).headers["set-cookie"]
    assert "HttpOnly" in plain
    assert "SameSite=Lax" in plain
    framed = client.post("/login", data={"key": KEY}, headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert framed.endswith("SameSite=None; Secure; Partitioned")


def test_keys_are_compared_in_constant_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def spy(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    monkeypatch.setattr(auth.hmac, "compare_digest", spy)
    client.get("/v1/stats", headers={"X-Moondream-Auth": "a", "Authorization": "Bearer b"})
    assert compared == [(b"a", KEY.encode()), (b"b", KEY.encode())]


def test_a_key_beyond_ascii_works_in_headers(client: TestClient) -> None:
    assert client.get("/v1/stats", headers={"X-Moondream-Auth": KEY.encode()}).status_code == 200  # type: ignore[dict-item]


def test_web_sockets_are_closed(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/anything"):
        pass


def test_without_a_key_everything_is_open() -> None:
    with TestClient(build_app(ServerSettings(), scripted)) as client:
        assert client.get("/config").status_code == 200
        assert client.get("/metrics").status_code == 200


@pytest.mark.e2e
def test_in_a_browser_the_login_leads_to_a_page_that_works() -> None:
    from playwright.sync_api import sync_playwright

    with serving(build_app(ServerSettings(api_key=KEY), scripted)) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(url)
        page.get_by_label("Key of this server").fill(KEY)
        page.get_by_role("button", name="Log in").click()
        page.locator("#run").wait_for(timeout=60_000)
        page.locator("#names textarea, #names input").first.fill("cat")
        page.locator("#run").click()
        page.get_by_text("Please add a picture first").wait_for(timeout=60_000)
        browser.close()
    assert problems == []
