"""A whole Moondream: vision tower, text decoder and region heads under one roof."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.errors import ModelLoadError
from photon.models.moondream.config import MoondreamConfig, VisionConfig
from photon.models.moondream.region import Region
from photon.models.moondream.text import TextDecoder
from photon.models.moondream.tower import Tower


class Moondream(nn.Module):
    """The parts, and the two places where they meet: the next input embedding and the logits."""

    def __init__(self, config: MoondreamConfig) -> None:
        super().__init__()
        self.config = config
        self.vision = build_tower(config.vision)
        self.text = TextDecoder(config.text)
        self.region = Region(config.region)

    @property
    def device(self) -> torch.device:
        return self.text.wte.device

    @property
    def dtype(self) -> torch.dtype:
        return self.text.wte.dtype

    def embed(self, ids: Tensor, coords: Tensor | None = None, sizes: Tensor | None = None) -> Tensor:
        """The input embedding of each position, chosen on the device by its id.

        ids int64[...], coords f32[...], sizes f32[..., 2] -> [..., F]: the text row, or the encoded
        coordinate where the id is coord_id, or the encoded size where it is size_id. Values at other ids are
        not used; without coords (sizes) such an id gets its text row.
        """
        special = self.config.tokenizer
        out = F.embedding(ids, self.text.wte)
        if coords is not None:
            out = torch.where((ids == special.coord_id).unsqueeze(-1), self.region.encode_coord(coords), out)
        if sizes is not None:
            out = torch.where((ids == special.size_id).unsqueeze(-1), self.region.encode_size(sizes), out)
        return out

    def prefix(self, image: Tensor) -> Tensor:
        """Image embeddings [..., n_tokens, F] -> the bidirectional block [..., prefix_len, F], BOS first."""
        bos = self.text.wte[self.config.tokenizer.bos_id].expand(*image.shape[:-2], 1, -1)
        return torch.cat([bos, image], dim=-2)

    def logits(self, hidden: Tensor) -> Tensor:
        """Raw hidden [..., F] -> [..., V]."""
        return self.text.logits(hidden)


def build_tower(config: VisionConfig) -> Tower:
    """The tower of `config.kind`; towers are imported only when named."""
    if config.kind == "vit":
        from photon.models.moondream.vision import VisionTransformer

        return VisionTransformer(config)
    if config.kind == "efficientnet_lite0":
        from photon.models.moondream.efficientnet import EfficientNetTower

        return EfficientNetTower(config)
    raise ModelLoadError(f"config.json names a vision tower {config.kind!r}; known are 'vit' and 'efficientnet_lite0'.")
