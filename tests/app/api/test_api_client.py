"""The official client, unchanged, against a running server: the same answers as the Python interface gives.

It sends the picture as a JPEG, so the Python interface is asked about the picture in that JPEG.
"""

from __future__ import annotations

import base64
import io
import socket
import urllib.error
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import moondream
import numpy as np
import pytest
from PIL import Image

from photon import EngineConfig, Photon
from tests.app.live import process
from tests.paths import ROOT
from tests.samples import picture

MD2 = str(ROOT / "tests/data/parity/md2")
CONFIG = EngineConfig(device="cpu", threads=1)
KEY = "the-key"


@pytest.fixture(scope="module")
def tiny() -> Iterator[Photon]:
    with Photon.load("photon-tiny", CONFIG) as model:
        yield model


@pytest.fixture(scope="module")
def md2() -> Iterator[Photon]:
    with Photon.load(MD2, CONFIG) as model:
        yield model


@pytest.fixture(scope="module")
def tiny_url() -> Iterator[str]:
    """With a key, so that both of the client's headers are tested, and with a small limit for pictures."""
    settings = {"PHOTON_MODEL": "photon-tiny", "PHOTON_API_KEY": KEY, "PHOTON_MAX_IMAGE_MB": "0.5"}
    with process(PHOTON_DEVICE="cpu", **settings) as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def md2_url() -> Iterator[str]:
    with process(PHOTON_MODEL=MD2, PHOTON_DEVICE="cpu") as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def image() -> Image.Image:
    return picture(300, 200)


@pytest.fixture
def tiny_client(tiny_url: str) -> Any:
    return moondream.vl(endpoint=tiny_url, api_key=KEY)


@pytest.fixture
def md2_client(md2_url: str) -> Any:
    return moondream.vl(endpoint=md2_url)


def sent(client: Any, image: Image.Image) -> Image.Image:
    """The picture in the JPEG that the client makes."""
    _, _, text = client.encode_image(image).image_url.partition(",")
    return Image.open(io.BytesIO(base64.b64decode(text)))


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal but for the last bits of floats: other processes may sum in another order."""
    if isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=1e-4)
    elif isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert ours == theirs


@pytest.mark.parametrize("settings", [None, {"max_objects": 3}, {"temperature": 0.0, "top_p": 0.5, "max_tokens": 12}])
def test_point(tiny: Photon, tiny_client: Any, image: Image.Image, settings: Any) -> None:
    got = tiny_client.point(image, "cat", settings=settings)
    assert_same(got, dict(tiny.point(sent(tiny_client, image), "cat", settings=settings)))


def test_point_with_references(tiny: Photon, tiny_client: Any, image: Image.Image) -> None:
    refs = [[0.25, 0.5], [0.1, 0.1, 0.6, 0.7]]
    got = tiny_client.point(image, "dog", spatial_refs=refs)
    assert_same(got, dict(tiny.point(sent(tiny_client, image), "dog", spatial_refs=refs)))


@pytest.mark.parametrize("settings", [None, {"max_objects": 2}])
def test_detect(tiny: Photon, tiny_client: Any, image: Image.Image, settings: Any) -> None:
    got = tiny_client.detect(image, "cat", settings=settings)
    assert_same(got, dict(tiny.detect(sent(tiny_client, image), "cat", settings=settings)))


def test_segment(tiny: Photon, tiny_client: Any, image: Image.Image) -> None:
    settings = {"max_objects": 3}
    got = tiny_client.segment(image, "cat", settings=settings)
    expected = tiny.segment(sent(tiny_client, image), "cat", settings=settings)
    assert_same(got, {key: expected[key] for key in ("path", "bbox") if expected[key]} | {"path": expected["path"]})


def test_segment_as_a_stream(tiny: Photon, tiny_client: Any, image: Image.Image) -> None:
    settings = {"max_objects": 3}
    got = list(tiny_client.segment(image, "cat", stream=True, settings=settings))
    expected = list(tiny.segment(sent(tiny_client, image), "cat", stream=True, settings=settings))
    assert_same(got, expected)
    assert got[-1]["completed"] is True
    if got[-1]["bbox"]:
        assert set(got[0]) == {"bbox"}
        assert all(set(piece) == {"chunk"} for piece in got[1:-1])


def test_point_and_detect_on_the_public_architecture(md2: Photon, md2_client: Any, image: Image.Image) -> None:
    settings = {"max_objects": 4}
    mine = sent(md2_client, image)
    assert_same(md2_client.point(image, "cat", settings=settings), dict(md2.point(mine, "cat", settings=settings)))
    assert_same(md2_client.detect(image, "cat", settings=settings), dict(md2.detect(mine, "cat", settings=settings)))


@pytest.mark.parametrize(
    "options",
    [{}, {"reasoning": True, "settings": {"max_tokens": 60}}, {"spatial_refs": [[0.5, 0.5]]}],
)
def test_query(md2: Photon, md2_client: Any, image: Image.Image, options: dict[str, Any]) -> None:
    got = md2_client.query(image, "What is in the picture?", **options)
    expected = md2.query(sent(md2_client, image), "What is in the picture?", **options)
    assert_same(got, dict(expected))
    assert ("reasoning" in got) == ("reasoning" in options)


def test_query_without_a_picture(md2: Photon, md2_client: Any) -> None:
    assert md2_client.query(question="What is a cat?") == dict(md2.query(question="What is a cat?"))


def test_query_as_a_stream(md2: Photon, md2_client: Any, image: Image.Image) -> None:
    settings = {"temperature": 1.5, "top_p": 1.0, "seed": 0, "max_tokens": 40}
    got = list(md2_client.query(image, "What is this?", stream=True, settings=settings)["answer"])
    whole = md2_client.query(image, "What is this?", settings=settings)["answer"]
    assert "".join(got) == whole
    assert len(got) > 1


@pytest.mark.parametrize("length", ["short", "normal", "long"])
def test_caption(md2: Photon, md2_client: Any, image: Image.Image, length: Any) -> None:
    expected = md2.caption(sent(md2_client, image), length)
    assert md2_client.caption(image, length) == dict(expected)
    assert "".join(md2_client.caption(image, length, stream=True)["caption"]) == expected["caption"]


def test_chat(md2: Photon, md2_client: Any, image: Image.Image) -> None:
    url = md2_client.encode_image(image).image_url
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What is in the picture?"},
    ]
    messages = [{"role": "user", "content": content}]
    expected = md2.query(sent(md2_client, image), "What is in the picture?")["answer"]
    assert md2_client.chat(messages)["message"] == {"role": "assistant", "content": expected}
    assert "".join(md2_client.chat(messages, stream=True)["message"]) == expected


def test_chat_sends_the_key_as_bearer(tiny_client: Any, image: Image.Image) -> None:
    url = tiny_client.encode_image(image).image_url
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": '/detect {"object": "cat"}'}]
    answer = tiny_client.chat([{"role": "user", "content": content}], settings={"temperature": 0.0})
    assert answer["message"]["content"].startswith('{"objects"')


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "CMYK"])
def test_pictures_of_any_mode_arrive(tiny: Photon, tiny_client: Any, image: Image.Image, mode: str) -> None:
    other = image.convert(mode)
    got = tiny_client.point(other, "cat", settings={"max_objects": 2})
    assert_same(got, dict(tiny.point(sent(tiny_client, other), "cat", settings={"max_objects": 2})))


def test_an_encoded_image_is_used_again(tiny: Photon, tiny_client: Any, image: Image.Image) -> None:
    encoded = tiny_client.encode_image(image)
    assert tiny_client.detect(encoded, "cat") == tiny_client.detect(encoded, "cat")


def test_refusals_reach_the_client_as_http_errors(tiny_client: Any, tiny_url: str, image: Image.Image) -> None:
    def status(call: Any) -> tuple[int, str]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            call()
        return caught.value.code, caught.value.read().decode()

    code, text = status(lambda: tiny_client.detect(image, "cat", settings={"temperature": 9}))
    assert (code, "temperature is 9" in text) == (400, True)
    code, text = status(lambda: tiny_client.query(image, "What is this?"))
    assert (code, "cannot query" in text) == (400, True)
    code, text = status(lambda: list(tiny_client.query(image, "What is this?", stream=True)["answer"]))
    assert (code, "cannot query" in text) == (400, True)
    code, text = status(lambda: moondream.vl(endpoint=tiny_url, api_key="wrong").detect(image, "cat"))
    assert (code, "key" in text) == (401, True)
    code, text = status(lambda: moondream.vl(endpoint=tiny_url, api_key=KEY, model="moondream2").point(image, "cat"))
    assert (code, "moondream2" in text) == (400, True)
    for side, what in ((1000, "The file has"), (3000, "The body has")):
        noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))
        code, text = status(lambda noise=noise: tiny_client.point(noise, "cat"))
        assert (code, what in text) == (413, True)
        code, text = status(lambda noise=noise: moondream.vl(endpoint=tiny_url, api_key="wrong").point(noise, "cat"))
        assert (code, "key" in text) == (401, True)


def test_the_server_listens_on_loopback_alone(tiny_url: str) -> None:
    port = urlsplit(tiny_url).port
    with pytest.raises(ConnectionRefusedError):  # a server on all addresses would answer on this one too
        socket.create_connection(("127.0.0.2", port))
