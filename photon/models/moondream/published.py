"""The public models: their sizes, prompts and tokenizers, and how weights are recognised (docs/model.md 1, 6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from photon.errors import ModelLoadError
from photon.models.hub import Repo
from photon.models.moondream.config import (
    MoeConfig,
    MoondreamConfig,
    RegionConfig,
    TextConfig,
    TokenizerConfig,
    VisionConfig,
)

STARMIE = Repo("moondream/starmie-v1", "35192e10a54e36eabe0a7cc57a2c1aab371cafc5")
"""The tokenizer of Moondream 2 since June 2025 and of Moondream 3."""

_VISION = VisionConfig(
    proj_out_dim=2048,
    crop_size=378,
    enc_dim=1152,
    enc_n_layers=27,
    enc_ff_dim=4304,
    enc_n_heads=16,
    proj_inner_dim=8192,
)
_REGION = RegionConfig(
    dim=2048, coord_feat_dim=256, coord_out_dim=1024, size_feat_dim=512, size_out_dim=2048, inner_dim=8192
)
_TEXT = TextConfig(dim=2048, ff_dim=8192, n_layers=24, vocab_size=51200, max_context=2048, n_heads=32)

_CAPTION_DETECT_POINT = {
    "caption": {
        "short": [1, 32708, 2, 12492, 3],
        "normal": [1, 32708, 2, 6382, 3],
        "long": [1, 32708, 2, 4059, 3],
    },
    "detect": {"prefix": [1, 7235, 476, 2], "suffix": [3]},
    "point": {"prefix": [1, 2581, 2], "suffix": [3]},
}

MOONDREAM_2 = MoondreamConfig(
    text=_TEXT,
    vision=_VISION,
    region=_REGION,
    tokenizer=TokenizerConfig(
        templates={
            "query": {"prefix": [1, 15381, 2], "suffix": [3, 3], "reasoning": [3, 4]},
            **_CAPTION_DETECT_POINT,
        },
        suppress={"answer": [3], "reasoning": [0, 6]},
    ),
)

MOONDREAM_3 = MoondreamConfig(
    text=dataclasses.replace(_TEXT, max_context=32768, rope_theta=1_500_000.0, tau=True, moe=MoeConfig(64, 4, 8, 1024)),
    vision=_VISION,
    region=dataclasses.replace(_REGION, inner_dim=0, linear_heads=True, norm=True),
    tokenizer=TokenizerConfig(
        templates={
            "query": {"prefix": [1, 15381, 2], "suffix": [3], "reasoning": [4]},
            **_CAPTION_DETECT_POINT,
            "segment": {"prefix": [1, 17374, 2], "suffix": [3]},
        }
    ),
)

# Coordinate tokens came later: here no id is a coordinate, and only the text skills are offered.
_OLD_FORMAT = TokenizerConfig(
    bos_id=50256,
    eos_id=50256,
    answer_id=-1,
    thinking_id=-1,
    coord_id=-1,
    size_id=-1,
    start_ground_points_id=-1,
    end_ground_id=-1,
    templates={
        "query": {"prefix": [198, 198, 24361, 25], "suffix": [198, 198, 33706, 25]},
        "caption": {"short": [198, 198, 16438, 8305, 25], "normal": [198, 198, 24334, 1159, 25]},
    },
)

MOONDREAM_2_OLD = dataclasses.replace(MOONDREAM_2, tokenizer=_OLD_FORMAT)

MOONDREAM_HALF = MoondreamConfig(
    text=TextConfig(dim=1024, ff_dim=4096, n_layers=24, vocab_size=51200, max_context=2048, n_heads=16),
    vision=VisionConfig(
        proj_out_dim=1024,
        crop_size=378,
        enc_dim=720,
        enc_n_layers=27,
        enc_ff_dim=2690,
        enc_n_heads=10,
        proj_inner_dim=8192,
    ),
    region=dataclasses.replace(_REGION, dim=1024),
    tokenizer=_OLD_FORMAT,
)


def tokenizer_repo(config: MoondreamConfig) -> Repo | None:
    """Where the tokenizer of a public model is fetched from; the old format's has to lie beside the weights."""
    return None if config.tokenizer == _OLD_FORMAT else STARMIE


def fitted(config: MoondreamConfig, shapes: Mapping[str, tuple[int, ...]]) -> MoondreamConfig:
    """A published configuration, with the norm before the region heads exactly when its tensors exist.

    Early snapshots of Moondream 3 lack it. `shapes` is by our names.
    """
    norm = "region.ln.weight" in shapes
    return dataclasses.replace(config, region=dataclasses.replace(config.region, norm=norm))


def recognised(shapes: Mapping[str, tuple[int, ...]], family_b: bool = False) -> MoondreamConfig:
    """The published configuration that tensors of these shapes belong to; ModelLoadError if none.

    A dense model in the older names speaks the old format too (docs/model.md 1.4, 2.1).
    """
    width = (*shapes.get("text.wte", ()), 0, 0)[1]
    experts = any(name.endswith(".mlp.router.weight") for name in shapes)
    for config in (MOONDREAM_2_OLD if family_b else MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF):
        if config.text.dim == width and (config.text.moe is not None) == experts:
            return fitted(config, shapes)
    raise ModelLoadError(
        f"Weights without a config.json must be a public Moondream; no public one has a text width of {width}"
        f"{' and experts' if experts else ''}."
    )
