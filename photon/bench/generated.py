"""Models of the public shapes with random weights, made where they will run: nothing is read or downloaded."""

from __future__ import annotations

import dataclasses

import torch

from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.published import MOONDREAM_2, MOONDREAM_3
from photon.models.moondream.tokenizer import Tokenizer
from photon.models.public import BUNDLED
from photon.models.registry import LoadedModel

SHAPES = {"moondream2": MOONDREAM_2, "moondream3": MOONDREAM_3}


def shape_of(name: str, context: int, tiny: bool) -> MoondreamConfig:
    """The published sizes with the context cut to `context` positions; `tiny` keeps the form with small numbers."""
    config = SHAPES[name]
    text = dataclasses.replace(config.text, max_context=context)
    if not tiny:
        return dataclasses.replace(config, text=text)
    moe = text.moe and dataclasses.replace(
        text.moe, num_experts=4, start_layer=1, experts_per_token=2, expert_inner_dim=32
    )
    text = dataclasses.replace(
        text, dim=32, ff_dim=64, n_layers=2, vocab_size=8192, n_heads=2, n_kv_heads=2, rotary_dim=8, moe=moe
    )
    vision = dataclasses.replace(
        config.vision,
        proj_out_dim=32,
        crop_size=56,
        n_tokens=16,
        enc_dim=16,
        enc_n_layers=1,
        enc_ff_dim=32,
        enc_n_heads=2,
        proj_inner_dim=32,
        overlap_margin=1,
    )
    region = dataclasses.replace(config.region, dim=32, inner_dim=config.region.inner_dim and 32)
    return dataclasses.replace(config, text=text, vision=vision, region=region)


def generated(name: str, config: MoondreamConfig, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """Norms are 1, biases 0, all else is normal; the same on every run. The tokenizer is the bundled model's."""
    with torch.device("meta"):
        model = Moondream(config).to(dtype)
    model.to_empty(device=device)
    make = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.02, generator=make)
            else:
                parameter.fill_(1.0 if key.endswith("weight") else 0.0)
    tokenizer = Tokenizer.load(BUNDLED["photon-tiny"] / "tokenizer.json")
    return LoadedModel(name, model.eval().requires_grad_(False), tokenizer, None)
