"""The detector beside the bundled model's tower: how its boxes and scores are read out by cell."""

from __future__ import annotations

import pytest
import torch

from photon.models.moondream.nanodet import BELIEFS, BINS, BOX, CLASSES, WIDTH, NanoDet, _by_cell, _candidates


def head(side: int, noise: float = -9.0) -> torch.Tensor:
    """A head's output in which nothing is believed and every distance is 0."""
    out = torch.full((1, len(CLASSES) + 4 * BINS, side, side), noise)
    out[:, len(CLASSES) :: BINS] = 50.0
    return out


def put(out: torch.Tensor, row: int, column: int, kind: int, score: float, reach: tuple[int, int, int, int]) -> None:
    """A thing of class `kind` whose sides lie `reach` strides left, above, right and below of this position."""
    out[0, kind, row, column] = score
    for side, distance in enumerate(reach):
        first = len(CLASSES) + side * BINS
        out[0, first : first + BINS, row, column] = -50.0
        out[0, first + distance, row, column] = 50.0


def test_everything_is_told_of_every_cell() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        beliefs = NanoDet().eval()(torch.randn(2, 3, 64, 96))
    assert beliefs.features.shape == (2, 6, BELIEFS)
    assert beliefs.scores.shape == (2, 6, len(CLASSES))
    assert 0 <= beliefs.scores.min() <= beliefs.scores.max() <= 1


def test_a_box_is_told_from_the_middle_of_its_cell_in_shares_of_the_picture() -> None:
    out = head(4)
    put(out, 1, 2, kind=3, score=2.0, reach=(1, 0, 2, 1))
    scores, boxes = _candidates(out, 16)
    x, y, width, height, best = boxes[0, :, 1, 2].tolist()
    # the position is (2.5, 1.5) of 4, its cell's middle is (3, 1); the box reaches from (1.5, 1.5) to (4.5, 2.5)
    assert (x, y) == pytest.approx((0.0, 1 / 4))
    assert (2**width, 2**height) == pytest.approx((3 / 4, 1 / 4))
    assert best == scores[0, 3, 1, 2] == 2.0


def test_a_cell_tells_its_best_candidate_of_all_strides() -> None:
    fine, middle, coarse = head(8), head(4), head(2)
    put(fine, 5, 6, kind=7, score=1.0, reach=(1, 1, 1, 1))
    put(middle, 3, 2, kind=8, score=0.5, reach=(2, 2, 2, 2))
    put(coarse, 0, 0, kind=9, score=3.0, reach=(1, 0, 0, 1))
    found = [_candidates(out, stride) for out, stride in ((fine, 8), (middle, 16), (coarse, 32))]
    beliefs = _by_cell(found, torch.zeros(1, WIDTH, 2, 2))
    last = beliefs.features[0, 3]
    assert last[:BOX].tolist() == found[0][1][0, :, 5, 6].tolist()
    assert last[BOX : 2 * BOX].tolist() == found[2][1][0, :, 1, 1].tolist()
    of_four = last[2 * BOX : 6 * BOX].view(BOX, 4)
    assert of_four[:, 2].tolist() == found[1][1][0, :, 3, 2].tolist()
    assert last[6 * BOX + 8] == 0.5
    assert beliefs.scores[0, 3].argsort(descending=True)[:2].tolist() == [7, 8]
    assert beliefs.scores[0, 0].argmax() == 9
    assert beliefs.scores[0, 1].max() < 1e-3


@torch.no_grad()
def test_its_weights_expect_blue_first() -> None:
    torch.manual_seed(0)
    net, picture = NanoDet().eval(), torch.randn(1, 3, 64, 64)
    net.stem.weight[:, 1:] = 0
    seen = net(picture).features
    for channel, changes in enumerate((False, False, True)):
        other = picture.clone()
        other[:, channel] += 1
        assert torch.allclose(net(other).features, seen) is not changes
