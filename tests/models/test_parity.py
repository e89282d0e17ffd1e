"""Our model reproduces the numbers of the public reference implementation on tiny random weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch

from photon.models.moondream.moe import MoeMlp
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
    assert not [one for one in seen if not one.worst <= ATOL]


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


def rounding(case: ParityCase) -> float:
    """How far bfloat16 may carry a hidden state or a logit away, as a share of its size (rms).

    Rounding to 8 significant bits moves a value by at most 2^-8 of it, evenly spread: 2^-8 / sqrt(3) in the mean. A
    block rounds some ten times in a row (norm, projections, scores, weights, both sums), the rest of the way four
    times; independent errors add up as the root of their number.
    """
    roundings = 10 * case.config.text.n_layers + 4
    return math.sqrt(roundings) * 2**-8 / math.sqrt(3)


SPREAD = 6
"""Of a hundred thousand values one lies beyond 4.4 times their mean deviation, and hardly one beyond this."""


@pytest.mark.parametrize("name", ["md2", "md3"])
def test_bfloat16_stays_near_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the processor's order of summation. Experts are forced like tokens: see the next test."""
    case = parity_case(name, torch.bfloat16)
    follow(chosen_experts(name, monkeypatch), monkeypatch)
    bound = rounding(case)
    seen = case.replay()
    assert not [one for one in seen if not one.rms <= bound * one.size]
    assert not [one for one in seen if not one.worst <= SPREAD * bound * one.size]


def test_bfloat16_chooses_another_expert_only_where_two_are_nearly_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = chosen_experts("md3", monkeypatch)
    case = parity_case("md3", torch.bfloat16)
    taken = follow(wanted, monkeypatch)
    case.replay()
    assert len(taken) == len(wanted) > 20
    changed = 0
    for one, other in zip(wanted, taken, strict=True):
        best = one.scores.topk(case.config.text.moe.experts_per_token + 1, dim=-1)  # type: ignore[union-attr]
        lead = best.values[:, -2] - best.values[:, -1]
        same = (one.experts.sort(-1).values == other.experts.sort(-1).values).all(-1)
        size = one.scores.pow(2).mean().sqrt()
        assert (lead[~same] <= SPREAD * math.sqrt(2) * rounding(case) * size).all()
        changed += int((~same).sum())
    assert changed < 0.1 * sum(len(one.scores) for one in wanted)


class Routed(NamedTuple):
    """One layer's choice for the tokens of one pass: scores [n, experts], experts [n, chosen]."""

    scores: torch.Tensor
    experts: torch.Tensor


def chosen_experts(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Routed]:
    """Those of a replay in float32, in order."""
    seen: list[Routed] = []
    route = MoeMlp.route

    def noted(self: MoeMlp, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, experts = route(self, tokens)
        seen.append(Routed(self.scores(tokens), experts))
        return weights, experts

    with monkeypatch.context() as patch:
        patch.setattr(MoeMlp, "route", noted)
        parity_case(name).replay()
    return seen


def follow(wanted: list[Routed], monkeypatch: pytest.MonkeyPatch) -> list[Routed]:
    """Let routers choose as before, with their own weights; what they would have chosen is noted."""
    own: list[Routed] = []

    def forced(self: MoeMlp, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, experts = self.scores(tokens), wanted[len(own)].experts
        own.append(Routed(scores, scores.topk(experts.shape[-1], dim=-1).indices))
        return torch.softmax(scores.gather(-1, experts), dim=-1), experts

    monkeypatch.setattr(MoeMlp, "route", forced)
    return own


def test_every_norm_has_the_published_epsilon(case: ParityCase) -> None:
    """One wrong epsilon among the vision blocks hides below the tolerance."""
    norms = [m for m in case.model.modules() if isinstance(m, torch.nn.LayerNorm)]
    assert len(norms) >= 27 * 2 + 1 + 3 + 1
    assert {norm.eps for norm in norms} == {1e-5}
