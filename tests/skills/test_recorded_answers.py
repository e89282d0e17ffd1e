"""The engine answers as the public reference did, in both modes, through every skill that was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from photon import ImageLike, Photon
from tests.recorded import REFS, image, load, read

SETTINGS = {"max_tokens": 12}


class Recorded:
    """One recorded model behind an engine with the reference's habits."""

    def __init__(self, name: str) -> None:
        trace = read(name, "trace.json")
        self.results: dict[str, Any] = trace["results"]
        self.object, self.question = trace["object"], trace["question"]
        self.model: Photon = load(name, parity=True)
        self.image: ImageLike = self.model.encode_image(image(name))


@pytest.fixture(scope="module", params=["md2", "md3"])
def recorded(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    case = Recorded(request.param)
    with case.model:
        yield case


@pytest.fixture(params=[True, False], ids=["pipelined", "blocking"])
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"pipelined": request.param}


def test_caption(recorded: Recorded, mode: dict[str, Any]) -> None:
    answer = recorded.model.caption(recorded.image, settings=SETTINGS, **mode)
    assert answer == recorded.results["caption"]
    assert answer.metrics.mode == ("pipelined" if mode["pipelined"] else "blocking")


def test_query(recorded: Recorded, mode: dict[str, Any]) -> None:
    answer = recorded.model.query(recorded.image, recorded.question, settings=SETTINGS, **mode)
    assert answer == recorded.results["query"]


def test_query_with_references(recorded: Recorded, mode: dict[str, Any]) -> None:
    answer = recorded.model.query(recorded.image, recorded.question, settings=SETTINGS, spatial_refs=REFS, **mode)
    assert answer == recorded.results["query_refs"]


def test_query_without_an_image(recorded: Recorded, mode: dict[str, Any]) -> None:
    answer = recorded.model.query(question=recorded.question, settings=SETTINGS, **mode)
    assert answer == recorded.results["query_text"]


def test_query_with_reasoning(recorded: Recorded, mode: dict[str, Any]) -> None:
    """Moondream 3's was not recorded: there, both modes must answer alike."""
    ask = {"settings": SETTINGS, "reasoning": True}
    answer = recorded.model.query(recorded.image, recorded.question, **ask, **mode)
    other = recorded.model.query(recorded.image, recorded.question, **ask, pipelined=not mode["pipelined"])
    assert answer == recorded.results.get("query_reason", other)
    assert answer["reasoning"]["text"]


def test_point(recorded: Recorded, mode: dict[str, Any]) -> None:
    points = recorded.model.point(recorded.image, recorded.object, **mode)["points"]
    assert [{"x": p["x"], "y": p["y"]} for p in points] == recorded.results["point"]["points"]


def test_detect(recorded: Recorded, mode: dict[str, Any]) -> None:
    objects = recorded.model.detect(recorded.image, recorded.object, **mode)["objects"]
    expected = [{k: min(1.0, max(0.0, v)) for k, v in o.items()} for o in recorded.results["detect"]["objects"]]
    assert [{k: v for k, v in o.items() if k != "score"} for o in objects] == [pytest.approx(o) for o in expected]


def test_a_stream_tells_the_same(recorded: Recorded, mode: dict[str, Any]) -> None:
    stream = recorded.model.caption(recorded.image, settings=SETTINGS, stream=True, **mode)["caption"]
    assert "".join(stream) == recorded.results["caption"]["caption"]


def test_log_probabilities_are_of_the_answer(recorded: Recorded, mode: dict[str, Any]) -> None:
    answer = recorded.model.caption(recorded.image, settings=SETTINGS | {"logprobs": True}, **mode)
    assert answer["caption"] == recorded.results["caption"]["caption"]
    assert len(answer["logprobs"]) == SETTINGS["max_tokens"]
    assert all(entry["logprob"] < 0 for entry in answer["logprobs"])


def test_log_probabilities_and_scores_of_values(recorded: Recorded, mode: dict[str, Any]) -> None:
    settings = {"logprobs": True, "max_objects": 2}
    answer = recorded.model.point(recorded.image, recorded.object, settings=settings, **mode)
    x, y = answer["logprobs"][:2]
    assert x["id"] == y["id"] == 5
    assert answer["points"][0]["score"] == pytest.approx(math.exp(x["value_logprob"] + y["value_logprob"]), rel=1e-5)
    assert x["logprob"] < y["logprob"] == 0.0  # a second coordinate has to follow the first


def test_without_the_references_habits_special_ids_are_not_spelled() -> None:
    """The recorded thoughts of moondream2 begin with eos."""
    with load("md2") as model:
        answer = model.query(image("md2"), "What is this?", settings=SETTINGS, reasoning=True)
    assert "<0>" not in answer["reasoning"]["text"]
