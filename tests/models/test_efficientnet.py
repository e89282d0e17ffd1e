"""The bundled model's tower: shapes, padding, the lexical path."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from photon.errors import InvalidRequestError
from photon.models.moondream.config import VisionConfig
from photon.models.moondream.efficientnet import COARSE, FEATURES, LAST, EfficientNetTower, SameConv, Words
from photon.models.moondream.model import build_tower

DIM = 16


@pytest.fixture(scope="module")
def tower() -> EfficientNetTower:
    torch.manual_seed(0)
    table = [[0, 1, 1, 4], [7, 8, 9, 500]]
    options = {"words": 5, "word_table": table, "top_words": 2, "lexical_floor": 8.0, "lexical_scale": 3.0}
    config = VisionConfig(DIM, 64, "efficientnet_lite0", enc_patch_size=32, proj_inner_dim=8, options=options)
    built = build_tower(config)
    assert isinstance(built, EfficientNetTower)
    with torch.no_grad():
        built.word_embedding.normal_()
    return built.eval().requires_grad_(False)


def test_any_aspect_becomes_one_square_crop(tower: EfficientNetTower) -> None:
    for shape in ((10, 500, 3), (300, 200, 3), (1, 1, 3)):
        crops = tower.preprocess(np.zeros(shape, np.uint8))
        assert crops.pixels.shape == (1, 3, 64, 64)
        assert crops.pixels.dtype == torch.uint8
        assert crops.grid == (1, 1)


def test_channels_keep_their_order_and_rows_their_place(tower: EfficientNetTower) -> None:
    image = np.zeros((128, 128, 3), np.uint8)
    image[:64, :, 0] = 200
    pixels = tower.preprocess(image).pixels[0]
    assert pixels[0, 8].float().mean() == 200
    assert pixels[0, 56].max() == 0
    assert pixels[1:].max() == 0


def test_a_picture_that_is_no_image_is_refused(tower: EfficientNetTower) -> None:
    with pytest.raises(InvalidRequestError, match="uint8"):
        tower.preprocess(np.zeros((4, 4), np.uint8))


def test_a_batch_gives_what_each_image_gives_alone(tower: EfficientNetTower) -> None:
    rng = np.random.default_rng(0)
    crops = [tower.preprocess(rng.integers(0, 255, (40, 70, 3), np.uint8)) for _ in range(3)]
    together = tower(crops)
    assert together.shape == (3, 4, DIM)
    for one, alone in zip(together, crops, strict=True):
        torch.testing.assert_close(one, tower([alone])[0], rtol=1e-4, atol=1e-4)


def test_an_adapted_copy_that_has_not_moved_sees_what_the_network_sees(tower: EfficientNetTower) -> None:
    options = {**tower.config.options, "adapted": True}
    adapted = build_tower(replace(tower.config, options=options))
    assert isinstance(adapted, EfficientNetTower)
    assert adapted.adapted is not None
    adapted.net.load_state_dict(tower.net.state_dict())
    for copied, number in zip(adapted.adapted, LAST, strict=True):
        copied.load_state_dict(tower.net.stages[number].state_dict())
    adapted.feature_mean.normal_()
    adapted.feature_scale.uniform_(0.5, 2)
    pixels = torch.randn(2, 3, 64, 64)
    features = (adapted.net(pixels)[0] - adapted.feature_mean) * adapted.feature_scale
    seen = adapted.adapt(adapted.adapted, features)
    torch.testing.assert_close(seen, features[..., -COARSE:], rtol=1e-3, atol=1e-3)


def test_same_padding_puts_the_surplus_right_and_below() -> None:
    conv = SameConv(1, 1, 3, 2)
    with torch.no_grad():
        conv.weight.fill_(1)
        conv.bias.zero_()
    corner = torch.zeros(1, 1, 4, 4)
    corner[0, 0, 3, 3] = 1
    out = conv(corner)[0, 0]
    assert out.tolist() == [[0, 0], [0, 1]]
    first = torch.zeros(1, 1, 4, 4)
    first[0, 0, 2, 2] = 1
    assert conv(first)[0, 0].tolist() == [[1, 1], [1, 1]]


def test_a_word_sums_its_classes_and_is_clamped(tower: EfficientNetTower) -> None:
    p = torch.full((1, 1, 1000), 1e-9)
    p[0, 0, 8] = 0.1
    p[0, 0, 9] = 0.2
    p[0, 0, 7] = math.exp(-9)
    words = tower.words(p.log())
    found = dict(zip(words.which[0, 0].tolist(), words.weight[0, 0].tolist(), strict=True))
    assert found[1] == pytest.approx((math.log(0.3) + 8) / 8, abs=1e-5)
    assert found[0] == 0.0


def test_the_lexical_path_adds_scaled_word_embeddings(tower: EfficientNetTower) -> None:
    features = torch.randn(1, 4, FEATURES)
    index = torch.tensor([[[0, 3]] * 4])
    without = tower.project(features, Words(index, torch.zeros(1, 4, 2)), tower.word_embedding)
    with_words = tower.project(features, Words(index, torch.tensor([[[0.5, 1.0]] * 4])), tower.word_embedding)
    wanted = 3.0 * (0.5 * tower.word_embedding[0] + tower.word_embedding[3])
    torch.testing.assert_close(with_words - without, wanted.expand(1, 4, DIM), rtol=1e-4, atol=1e-4)
