"""Coordinates and sizes as hidden states, and hidden states as coordinates and sizes (docs/model.md 5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from photon.models.moondream.config import RegionConfig
from photon.models.moondream.initial import normal
from photon.models.moondream.text import DenseMlp

SMALLEST_SIZE_LOG2 = -10.0
"""Sizes run from 2 ** -10 (bin 0) to 1 (last bin) in equal steps of their logarithm."""


def coord_value(index: Tensor, bins: int) -> Tensor:
    """Bin -> coordinate f32 in [0, 1)."""
    return index.float() / bins


def coord_bin(value: Tensor, bins: int) -> Tensor:
    """Coordinate -> bin f32 in [0, bins - 1], not rounded; inverse of `coord_value`."""
    return (value.float() * bins).clamp(0, bins - 1)


def size_value(index: Tensor, bins: int) -> Tensor:
    """Bin -> size f32 in [2 ** -10, 1]."""
    return torch.exp2(index.float() / (bins - 1) * -SMALLEST_SIZE_LOG2 + SMALLEST_SIZE_LOG2)


def size_bin(value: Tensor, bins: int) -> Tensor:
    """Size -> bin f32 in [0, bins - 1], not rounded; inverse of `size_value`."""
    log2 = value.float().clamp(2.0**SMALLEST_SIZE_LOG2, 1.0).log2()
    return (log2 - SMALLEST_SIZE_LOG2) / -SMALLEST_SIZE_LOG2 * (bins - 1)


def fourier(x: Tensor, frequencies: Tensor) -> Tensor:
    """x [..., n], frequencies [n, m] -> [..., 2m]: cosines, then sines, of 2 pi x F."""
    angle = (2 * math.pi * x) @ frequencies
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class Region(nn.Module):
    """Encoders of values into the decoder's width, and heads that read the raw hidden state."""

    def __init__(self, config: RegionConfig) -> None:
        super().__init__()
        self.config = config
        dim, inner = config.dim, config.inner_dim
        self.coord_features = normal(1, config.coord_feat_dim // 2, std=1.0)
        self.size_features = normal(2, config.size_feat_dim // 2, std=1.0)
        self.coord_encoder = nn.Linear(config.coord_feat_dim, dim)
        self.size_encoder = nn.Linear(config.size_feat_dim, dim)
        self.ln = nn.LayerNorm(dim) if config.norm else None
        self.coord_decoder: nn.Module
        self.size_decoder: nn.Module
        if config.linear_heads:
            self.coord_decoder = nn.Linear(dim, config.coord_out_dim)
            self.size_decoder = nn.Linear(dim, config.size_out_dim)
        else:
            self.coord_decoder = DenseMlp(dim, inner, out=config.coord_out_dim)
            self.size_decoder = DenseMlp(dim, inner, out=config.size_out_dim)

    def encode_coord(self, coord: Tensor) -> Tensor:
        """f32[...] in 0..1 -> [..., F]; cast to the model's dtype for the Fourier features only."""
        value = coord.to(self.coord_features.dtype).unsqueeze(-1)
        out: Tensor = self.coord_encoder(fourier(value, self.coord_features))
        return out

    def encode_size(self, size: Tensor) -> Tensor:
        """f32[..., 2] (width, height) in 0..1 -> [..., F]."""
        out: Tensor = self.size_encoder(fourier(size.to(self.size_features.dtype), self.size_features))
        return out

    def decode_coord(self, hidden: Tensor) -> Tensor:
        """Raw hidden [..., F] -> logits [..., coord_bins]."""
        out: Tensor = self.coord_decoder(self._normed(hidden))
        return out

    def decode_size(self, hidden: Tensor) -> Tensor:
        """Raw hidden [..., F] -> logits [..., 2, size_bins], width first."""
        flat: Tensor = self.size_decoder(self._normed(hidden))
        return flat.reshape(*hidden.shape[:-1], 2, self.config.size_bins)

    def _normed(self, hidden: Tensor) -> Tensor:
        out: Tensor = hidden if self.ln is None else self.ln(hidden)
        return out
