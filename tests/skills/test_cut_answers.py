"""An answer that reaches its limit of tokens says so; one that has as much as was asked for is whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from photon import Photon, Result
from tests import recorded
from tests.paths import ROOT

SUNFLOWERS = ROOT / "static" / "examples" / "gorge.jpg"
"""The bundled model finds more than three."""


@pytest.fixture(scope="module")
def tiny() -> Iterator[Photon]:
    with Photon.load("photon-tiny") as model:
        yield model


def ask(tiny: Photon, verb: str, **settings: Any) -> Result:
    result: Result = getattr(tiny, verb)(Image.open(SUNFLOWERS), "sunflower", settings=settings)
    return result


@pytest.mark.parametrize(("verb", "tokens"), [("point", 1), ("point", 2), ("detect", 1), ("detect", 2), ("detect", 3)])
def test_tokens_for_less_than_the_answer_are_not_all_there_is(tiny: Photon, verb: str, tokens: int) -> None:
    cut = ask(tiny, verb, max_tokens=tokens)
    assert cut.metrics.tokens == tokens
    assert cut.finish_reason == "length"


@pytest.mark.parametrize(("verb", "each"), [("point", 2), ("detect", 3)])
def test_as_many_objects_as_were_asked_for_are_a_whole_answer(tiny: Photon, verb: str, each: int) -> None:
    answer = ask(tiny, verb, max_objects=2)
    assert answer.metrics.tokens == 2 * each
    assert answer.finish_reason == "stop"
    assert ask(tiny, verb, max_objects=2, max_tokens=2 * each).finish_reason == "stop"
    assert ask(tiny, verb, max_objects=3, max_tokens=2 * each).finish_reason == "length"


def test_an_answer_that_ends_by_itself_is_whole(tiny: Photon) -> None:
    assert ask(tiny, "detect").finish_reason == "stop"
    assert ask(tiny, "point").finish_reason == "stop"


def test_an_outline_whose_search_was_cut_says_so(tiny: Photon) -> None:
    assert ask(tiny, "segment", max_tokens=3).finish_reason == "length"
    assert ask(tiny, "segment", max_objects=1).finish_reason == "stop"


# -- text -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["md2", "md3"])
def model(request: pytest.FixtureRequest) -> Iterator[Photon]:
    with recorded.load(request.param) as model:
        yield model


def test_a_text_that_is_cut_says_so(model: Photon) -> None:
    image = recorded.image("md2")
    assert model.query(image, "What is this?", settings={"max_tokens": 3}).finish_reason == "length"
    assert model.caption(image, settings={"max_tokens": 3}).finish_reason == "length"


def test_a_streamed_text_says_so_at_its_end(model: Photon) -> None:
    image = recorded.image("md2")
    stream = model.query(image, "What is this?", stream=True, settings={"max_tokens": 3})["answer"]
    list(stream)
    assert stream.result().finish_reason == "length"
