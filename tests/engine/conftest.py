"""The recorded model behind an engine, for the tests of its public face."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from photon import ImageLike, Photon
from tests.recorded import image, load


@pytest.fixture(scope="module")
def model() -> Iterator[Photon]:
    with load("md2") as model:
        yield model


@pytest.fixture(scope="module")
def picture(model: Photon) -> ImageLike:
    return model.encode_image(image("md2"))
