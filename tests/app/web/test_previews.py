"""What whoever shows a link to the page reads of it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app.web.previews import SIZE
from tests.app.live import StreamingEngine, client_of


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(StreamingEngine()) as client:
        yield client


def told(page: str) -> dict[str, str]:
    return dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]+)" content="([^"]*)">', page))


def test_a_link_shows_the_pages_own_title_sentence_and_picture(client: TestClient) -> None:
    page = client.get("/").text
    found = told(page)
    assert found["og:title"] == "Photon Demo"
    assert found["og:description"].startswith("Point, detect and segment")
    assert found["og:url"] == "http://testserver/"
    assert found["twitter:card"] == "summary_large_image"
    assert len(re.findall(r"og:title", page)) == 1, "Gradio's own is there too"
    assert "{url}" not in page[: page.index("</head>")]
    picture = client.get(found["og:image"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == SIZE == (1200, 630)


def test_behind_a_proxy_its_addresses_are_those_of_the_visitor(client: TestClient) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "demo.example", "X-Forwarded-Prefix": "/photon"}
    assert told(client.get("/", headers=headers).text)["og:image"] == "https://demo.example/photon/preview.jpg"


def test_what_a_visitor_sends_as_a_host_is_only_text(client: TestClient) -> None:
    page = client.get("/", headers={"X-Forwarded-Host": '"><script>alert(1)</script>'}).text
    assert "<script>alert(1)" not in page


def test_other_answers_pass_as_they_are(client: TestClient) -> None:
    assert client.head("/").status_code == client.get("/").status_code == 200
    assert client.get("/health").json()["status"] == "ready"
