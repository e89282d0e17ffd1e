"""A start for the decoder that already looks in the right places.

To find a thing by its name, the last prompt token must fetch the name from the token before it, and then look at the
image tokens that resemble that name. From random weights both looks are spread over 150 tokens, and training takes
long to notice that they would help together. So head 1 starts as "the token before me, copied"; where to look in the
image is told by a loss (`losses.look_loss`). Training is free to change both.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.models.moondream.model import Moondream
from photon.models.moondream.text import Attention, Block
from photon.training.recipe import tower_of

RECENCY = 4.5
FAST_PAIRS = 4


@torch.no_grad()
def prime(model: Moondream, scale: float) -> None:
    """Multiplies what image tokens are made of, words apart, by `scale`, and sets head 1 of every layer."""
    vision, text = tower_of(model), model.text
    for part in (vision.proj_ln.weight, vision.proj_ln.bias, vision.pos_emb):
        part.mul_(scale)
    width, half = text.config.head_dim, text.config.rotary_dim // 2
    for block in text.blocks:
        assert isinstance(block, Block)
        _before_me(block.attn, width, half, text.config.rope_theta)


@torch.no_grad()
def add_places(model: Moondream, image_tokens: Tensor, strength: float = 2.0) -> None:
    """Adds the place of each cell to its token, in the directions in which tokens [n, cells, F] vary least.

    Where a thing lies is then read off the cells looked at, undisturbed by what is in them: a linear probe for the
    column of a cell missed by 0.05 of the image without this.
    """
    vision = tower_of(model)
    content = (image_tokens - vision.pos_emb).flatten(0, 1).double()
    directions = torch.linalg.eigh(content.T @ content)[1]
    side = round(vision.config.n_tokens**0.5)
    middle = (torch.arange(side) + 0.5) / side
    waves = [2 * middle - 1] + [f(torch.pi * k * middle) for k in (1, 2, 3) for f in (torch.cos, torch.sin)]
    ramp = torch.stack(waves, dim=-1)
    across = ramp.expand(side, side, -1).flatten(0, 1)
    down = ramp.unsqueeze(1).expand(side, side, -1).flatten(0, 1)
    code = torch.cat([across, down], dim=-1) * strength
    vision.pos_emb += code @ directions[:, : code.shape[1]].T.float()


def _before_me(attn: Attention, width: int, half: int, theta: float) -> None:
    """Head 1: constant query and key on fast rotary pairs, the query turned by one position; the output is what the
    head reads, put back where it came from."""
    qkv = attn.qkv
    dim = qkv.in_features
    pairs = torch.arange(FAST_PAIRS)
    angle = theta ** (-pairs.float() / half)
    for start in (width, dim + width):
        qkv.weight[start : start + width] *= 0.3
    qkv.bias[width + pairs] = RECENCY * angle.cos()
    qkv.bias[width + half + pairs] = -RECENCY * angle.sin()
    qkv.bias[dim + width + pairs] = RECENCY
    value = qkv.weight[2 * dim + width : 2 * dim + 2 * width]
    attn.proj.weight[:, width : 2 * width] = 0.7 * value.T
