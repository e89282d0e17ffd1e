"""The vision transformer of the public checkpoints (docs/model.md 3.4 to 3.6)."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from photon.models.moondream.config import VisionConfig
from photon.models.moondream.initial import normal
from photon.models.moondream.preprocess import make_crops
from photon.models.moondream.text import DenseMlp
from photon.models.moondream.tower import Crops, Tower


class VisionAttention(nn.Module):
    """Full attention between the patches of one crop."""

    def __init__(self, dim: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[crops, patches, D] -> the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        out: Tensor = self.proj(mixed)
        return out


class VisionBlock(nn.Module):
    """Pre-norm attention, then pre-norm MLP."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(config.enc_dim)
        self.attn = VisionAttention(config.enc_dim, config.enc_n_heads)
        self.ln2 = nn.LayerNorm(config.enc_dim)
        self.mlp = DenseMlp(config.enc_dim, config.enc_ff_dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        out: Tensor = x + self.mlp(self.ln2(x))
        return out


class VisionTransformer(Tower):
    """Every crop by itself through the encoder; then whole image and stitched crops side by side."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        patch_dim = config.in_channels * config.enc_patch_size**2
        self.patch_emb = nn.Linear(patch_dim, config.enc_dim)
        self.pos_emb = normal(1, config.grid**2, config.enc_dim, std=0.02)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.enc_n_layers))
        self.post_ln = nn.LayerNorm(config.enc_dim)
        self.proj_mlp = DenseMlp(2 * config.enc_dim, config.proj_inner_dim, out=config.proj_out_dim)

    def preprocess(self, image: NDArray[np.uint8]) -> Crops:
        return make_crops(image, self.config)

    def forward(self, crops: list[Crops]) -> Tensor:
        pixels = torch.cat([c.pixels.to(self.pos_emb.device, non_blocking=True) for c in crops])
        features = self.encode(pixels).split([len(c.pixels) for c in crops])
        return self.project(torch.stack([self.join(f, c.grid) for f, c in zip(features, crops, strict=True)]))

    def encode(self, pixels: Tensor) -> Tensor:
        """uint8[crops, 3, c, c] -> features [crops, grid * grid, D] after the last norm."""
        scaled = (pixels.to(self.pos_emb.dtype) / 255 - 0.5) / 0.5
        x = self.patch_emb(patchify(scaled, self.config.enc_patch_size)) + self.pos_emb
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.post_ln(x)
        return out

    def join(self, features: Tensor, grid: tuple[int, int]) -> Tensor:
        """One image's features [1 + rows * cols, grid * grid, D] -> [grid * grid, 2D], whole image first."""
        side = self.config.grid
        stitched = stitch(features[1:].unflatten(1, (side, side)), grid, self.config.overlap_margin)
        pooled = F.adaptive_avg_pool2d(stitched.permute(2, 0, 1), (side, side))
        return torch.cat([features[0], pooled.flatten(1).T], dim=-1)

    def project(self, joined: Tensor) -> Tensor:
        """[images, n_tokens, 2D] -> image embeddings [images, n_tokens, F]."""
        out: Tensor = self.proj_mlp(joined)
        return out


def patchify(pixels: Tensor, patch: int) -> Tensor:
    """[n, ch, c, c] -> [n, patches, ch * patch * patch]: patches row-major, vectors channel-major."""
    n, channels, height, width = pixels.shape
    cells = pixels.view(n, channels, height // patch, patch, width // patch, patch)
    return cells.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, channels * patch * patch)


def stitch(tiles: Tensor, grid: tuple[int, int], margin: int) -> Tensor:
    """Tiles [rows * cols, s, s, D] -> one map [rows * (s - 2m) + 2m, cols * (s - 2m) + 2m, D].

    An inner seam drops `margin` patches of both tiles; the outer border keeps its own.
    """
    rows, cols = grid

    def kept(index: int, count: int) -> slice:
        side = tiles.shape[1]
        return slice(0 if index == 0 else margin, side if index == count - 1 else side - margin)

    strips = [
        torch.cat([tiles[i * cols + j][kept(i, rows), kept(j, cols)] for j in range(cols)], dim=1) for i in range(rows)
    ]
    return torch.cat(strips, dim=0)
