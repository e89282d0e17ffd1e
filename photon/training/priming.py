"""A start for the decoder that already looks in the right places.

To find a thing by its name, the last prompt token must fetch the name from the token before it, and then look at the
image tokens that resemble that name. From random weights both looks are spread over 150 tokens, and training takes
long to notice that they would help together. So head 1 starts as "the token before me, copied", and where to look in
the image is told by a loss (`losses.look_loss`). Training is free to change all of it.
"""

from __future__ import annotations

import torch

from photon.models.moondream.model import Moondream
from photon.models.moondream.text import Attention, Block

RECENCY = 4.5
FAST_PAIRS = 4


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
