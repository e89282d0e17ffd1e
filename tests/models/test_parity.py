"""Our model reproduces the numbers of the public reference implementation on tiny random weights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.models.parity_case import ATOL, ParityCase, parity_case
from tests.models.reference_loop import Encoded, ReferenceLoop

REFS = [(0.25, 0.5), (0.1, 0.2, 0.6, 0.9)]


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(params=["md2", "md3"], scope="module")
def case(request: pytest.FixtureRequest) -> ParityCase:
    return parity_case(request.param)


@pytest.fixture(scope="module")
def loop(case: ParityCase) -> ReferenceLoop:
    return ReferenceLoop(case.loaded)


@pytest.fixture(scope="module")
def image(case: ParityCase, loop: ReferenceLoop) -> Encoded:
    with torch.no_grad():
        return loop.encode_image(case.image)


def test_the_image_is_cut_as_recorded(case: ParityCase) -> None:
    crops = case.model.vision.preprocess(case.image)
    assert list(crops.grid) == case.only("crops")["tiling"]
    assert crops.pixels.shape == (1 + 2 * 4, 3, 378, 378)
    assert crops.pixels.dtype == torch.uint8


def test_vision_features_of_the_whole_image(case: ParityCase) -> None:
    crops = case.model.vision.preprocess(case.image)
    features = case.model.vision.encode(crops.pixels[:1])
    torch.testing.assert_close(features, case.recorded(case.only("vision"), "features"), atol=ATOL, rtol=0)


def test_image_embeddings(case: ParityCase, image: Encoded) -> None:
    recorded = case.recorded(case.only("projection"), "image_embeds")
    torch.testing.assert_close(image.embeddings, recorded, atol=ATOL, rtol=0)


def test_two_images_in_one_batch_are_two_images(case: ParityCase, image: Encoded) -> None:
    vision = case.model.vision
    small = vision.preprocess(case.image[:100, :90])
    both = vision([small, vision.preprocess(case.image)])
    torch.testing.assert_close(both[1], image.embeddings, atol=ATOL, rtol=0)
    torch.testing.assert_close(both[0], vision([small])[0], atol=ATOL, rtol=0)


def test_every_recorded_step_teacher_forced(case: ParityCase) -> None:
    seen = case.replay()
    assert len(seen) > 100
    wrong = [entry for entry in seen if not entry[2] <= ATOL]
    assert not wrong


def test_every_recorded_bin(case: ParityCase) -> None:
    checked = 0
    for event in case.events:
        if event["kind"] == "coord_logits":
            assert int(case.recorded(event, "logits").argmax()) == event["bin"]
            assert event["bin"] / case.config.region.coord_bins == event["value"]
            checked += 1
    assert checked > 5


def test_caption(case: ParityCase, loop: ReferenceLoop, image: Encoded) -> None:
    assert loop.caption(image) == case.results["caption"]["caption"]


def test_query(case: ParityCase, loop: ReferenceLoop, image: Encoded) -> None:
    assert loop.query(case.question, image)[0] == case.results["query"]["answer"]


def test_query_with_spatial_references(case: ParityCase, loop: ReferenceLoop, image: Encoded) -> None:
    assert loop.query(case.question, image, REFS)[0] == case.results["query_refs"]["answer"]


def test_query_without_an_image(case: ParityCase, loop: ReferenceLoop) -> None:
    assert loop.query(case.question)[0] == case.results["query_text"]["answer"]


def test_query_with_reasoning() -> None:
    case = parity_case("md2")
    loop = ReferenceLoop(case.loaded)
    answer, reasoning = loop.query(case.question, loop.encode_image(case.image), reasoning=True)
    assert answer == case.results["query_reason"]["answer"]
    assert reasoning == case.results["query_reason"]["reasoning"]["text"]


def test_spatial_references_are_embedded_as_recorded(case: ParityCase, loop: ReferenceLoop) -> None:
    (event,) = [e for e in case.events if e["tag"] == "query_refs" and e["kind"] == "prefill"]
    ids, values = loop.references(REFS)
    recorded = case.recorded(event, "embeds")[0, 3 : 3 + len(ids)]
    torch.testing.assert_close(loop.embed(ids, values)[0], recorded, atol=ATOL, rtol=0)


def test_point(case: ParityCase, loop: ReferenceLoop, image: Encoded) -> None:
    assert loop.point(image, case.object) == case.results["point"]["points"]


def test_detect(case: ParityCase, loop: ReferenceLoop, image: Encoded) -> None:
    ours, theirs = loop.detect(image, case.object), case.results["detect"]["objects"]
    assert len(ours) == len(theirs)
    for box, recorded in zip(ours, theirs, strict=True):
        assert box == pytest.approx(recorded, abs=1e-6)


def test_max_objects_ends_the_loop(loop: ReferenceLoop, image: Encoded, case: ParityCase) -> None:
    assert loop.point(image, case.object, most=2) == case.results["point"]["points"][:2]


@pytest.mark.parametrize("name", ["md2", "md3"])
def test_bfloat16_stays_near_float32(name: str) -> None:
    case = parity_case(name, torch.bfloat16)
    wrong = [entry for entry in case.replay() if not entry[2] <= 6e-2]
    assert not wrong


def test_every_norm_has_the_published_epsilon(case: ParityCase) -> None:
    """One wrong epsilon among the vision blocks hides below the tolerance."""
    norms = [m for m in case.model.modules() if isinstance(m, torch.nn.LayerNorm)]
    assert len(norms) >= 27 * 2 + 1 + 3 + 1
    assert {norm.eps for norm in norms} == {1e-5}
