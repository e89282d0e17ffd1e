"""Bins, coordinates and sizes."""

from __future__ import annotations

import pytest
import torch

from photon.models.moondream.config import RegionConfig
from photon.models.moondream.region import Region, coord_bin, coord_value, fourier, size_bin, size_value


@pytest.mark.parametrize(
    ("index", "size"),
    [
        (0, 2**-10),
        (1, 0.00098320),
        (100, 0.00192292),
        (512, 0.03135605),
        (900, 0.43456803),
        (1022, 0.99324727),
        (1023, 1),
    ],
)
def test_size_of_a_bin(index: int, size: float) -> None:
    assert float(size_value(torch.tensor(index), 1024)) == pytest.approx(size, abs=5e-9, rel=2e-7)


def test_coordinate_of_a_bin() -> None:
    assert float(coord_value(torch.tensor(289), 1024)) == 0.2822265625


@pytest.mark.parametrize("bins", [128, 256, 1024])
def test_bins_survive_the_way_to_values_and_back(bins: int) -> None:
    every = torch.arange(bins)
    assert torch.equal(coord_bin(coord_value(every, bins), bins).round().long(), every)
    assert torch.equal(size_bin(size_value(every, bins), bins).round().long(), every)


def test_values_outside_the_range_get_the_nearest_bin() -> None:
    values = torch.tensor([-0.5, 0.0, 1.0, 7.0])
    assert coord_bin(values, 256).tolist() == [0, 0, 255, 255]
    assert size_bin(values, 256).tolist() == [0, 0, 255, 255]


def test_bins_are_float32_whatever_the_input() -> None:
    for function in (coord_value, coord_bin, size_value, size_bin):
        assert function(torch.tensor([0.5], dtype=torch.bfloat16), 256).dtype == torch.float32


def test_fourier_features_are_cosines_then_sines() -> None:
    out = fourier(torch.tensor([[0.25]]), torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(out, torch.tensor([[0.0, -1.0, 1.0, 0.0]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("linear", [False, True])
def test_width_bins_come_before_height_bins(linear: bool) -> None:
    region = Region(RegionConfig(16, 8, 32, 8, 64, 24, linear_heads=linear, norm=linear))
    hidden = torch.randn(2, 5, 16)
    logits = region.decode_size(hidden)
    assert logits.shape == (2, 5, 2, 32)
    flat = region.size_decoder(hidden if region.ln is None else region.ln(hidden))
    assert torch.equal(logits[..., 0, :], flat[..., :32])
    assert torch.equal(logits[..., 1, :], flat[..., 32:])
    assert region.decode_coord(hidden).shape == (2, 5, 32)
