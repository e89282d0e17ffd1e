"""Behind a proxy that cuts a path off and says which: all that the page asks for has it in front."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.app.live import StreamingEngine, client_of

BEHIND = {"X-Forwarded-Prefix": "/demo/"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(StreamingEngine()) as client:
        yield client


def test_the_page_knows_its_prefix(client: TestClient) -> None:
    page = client.get("/", headers=BEHIND).text
    assert re.search(r'"root":\s*"http://testserver/demo"', page)
    assert client.get("/config", headers=BEHIND).json()["root"] == "http://testserver/demo"
    assert client.get("/config").json()["root"] == "http://testserver"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/theme.css", "/gradio_api/info"])
def test_what_is_asked_without_the_prefix_is_there(client: TestClient, path: str) -> None:
    assert client.get(path, headers=BEHIND).status_code == 200
