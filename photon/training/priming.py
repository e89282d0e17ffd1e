"""A start for the decoder that already looks in the right places and reads what stands there.

To find a thing by its name, the last prompt token must fetch the name from the token before it, and then look at the
image tokens that resemble that name. From random weights both looks are spread over 150 tokens, and training takes
long to notice that they would help together. So head 1 starts as "the token before me, copied"; where to look in the
image is told by a loss (`losses.look_loss`); and the heads that are told so start as
readers of boxes and points.
Training is free to change all of it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from photon.models.moondream.model import Moondream
from photon.models.moondream.text import Attention, Block, Positions
from photon.training.dataset import Batch
from photon.training.dense import of_owner
from photon.training.losses import GUIDED_LAYERS, BlockAttention

RECENCY = 4.5
FAST_PAIRS = 4
AMPLITUDE, OUTLINE_AMPLITUDE = 4.0, 1.5
PLACE_VALUES = 14
"""How many of `thing_values` come before the outline."""

RIDGE = 3.0


@torch.no_grad()
def look_before(model: Moondream) -> None:
    """Sets head 1 of every layer to look one token back and to copy what it finds.

    Query and key are constant on fast rotary pairs, the query turned by one position; the output is what the head
    reads, put back where it came from.
    """
    config = model.text.config
    width, half, dim = config.head_dim, config.rotary_dim // 2, config.dim
    pairs = torch.arange(min(FAST_PAIRS, half))
    angle = config.rope_theta ** (-pairs.float() / half)
    for block in model.text.blocks:
        assert isinstance(block, Block)
        attention: Attention = block.attn
        weight, bias = attention.qkv.weight, attention.qkv.bias
        for start in (width, dim + width):
            weight[start : start + width] *= 0.3
        bias[width + pairs] = RECENCY * angle.cos()
        bias[width + half + pairs] = -RECENCY * angle.sin()
        bias[dim + width + pairs] = RECENCY
        value = weight[2 * dim + width : 2 * dim + 2 * width]
        attention.proj.weight[:, width : 2 * width] = 0.7 * value.T


@torch.no_grad()
def read_things(model: Moondream, tokens: Tensor, batch: Batch) -> dict[int, float]:
    """Sets values of head 0 of the guided layers to what the cell's thing is: `thing_values`.

    Fitted by ridge regression on the cells of `batch` that show a thing, tokens [B, cells, F] being its image tokens,
    and written in random orthogonal directions. Returns the share of the variance explained, by layer.
    """
    x = model.prefix(tokens)
    positions = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
    where, attend = Positions(model.text, positions), BlockAttention(positions[:, :0], x.shape[1])
    shown = batch.cells >= 0
    values = thing_values(batch)[shown][:, : model.text.config.head_dim]
    wanted = (values - values.mean(0)) / values.std(0).clamp_min(1e-6)
    dim, count = x.shape[-1], wanted.shape[1]
    directions = AMPLITUDE * torch.linalg.qr(torch.randn(dim, count, generator=torch.Generator().manual_seed(0)))[0]
    directions[:, PLACE_VALUES:] *= OUTLINE_AMPLITUDE / AMPLITUDE
    explained = {}
    for layer, block in enumerate(model.text.blocks):
        assert isinstance(block, Block)
        if layer in GUIDED_LAYERS:
            explained[layer] = _fit(block.attn.qkv, 2 * dim, block.ln(x)[:, 1:][shown], wanted)
            block.attn.proj.weight[:, :count] = directions.to(block.attn.proj.weight)
        x = block(x, where, attend, None)
    return explained


def thing_values(batch: Batch) -> Tensor:
    """f32[B, cells, 62]: of each cell's thing centre, point, log2 size, waves of the centre and outline in its box."""
    owner = batch.cells.clamp_min(0)
    box, point = of_owner(batch.boxes, owner), of_owner(batch.points, owner)
    centre, size = (box[..., :2] + box[..., 2:]) / 2, (box[..., 2:] - box[..., :2]).clamp_min(1e-3)
    waves = [f(math.pi * k * centre) for k in (1, 2) for f in (torch.cos, torch.sin)]
    outline = (of_owner(batch.contours, owner) - centre.unsqueeze(-2)) / size.unsqueeze(-2)
    return torch.cat([centre, point, size.log2(), *waves, outline.flatten(-2)], dim=-1)


def _fit(linear: nn.Linear, row: int, inputs: Tensor, wanted: Tensor) -> float:
    """The rows of `linear` from `row` on give, as well as they can, wanted [n, k] for inputs [n, F]."""
    x = torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1).double()
    gram = x.T @ x + RIDGE * torch.eye(x.shape[1], dtype=torch.double, device=x.device)
    fit = torch.linalg.solve(gram, x.T @ wanted.double())
    rows = slice(row, row + wanted.shape[1])
    linear.weight[rows], linear.bias[rows] = fit[:-1].T.to(linear.weight), fit[-1].to(linear.bias)
    return 1 - float((x @ fit - wanted).square().sum() / (wanted - wanted.mean(0)).square().sum())
