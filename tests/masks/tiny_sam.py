"""The smallest SAM 2.1 that has every part, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import Sam2Config, Sam2Model, Sam2VideoConfig, Sam2VideoModel

SIDE = 256


def _parts() -> dict[str, Any]:
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "image_size": [SIDE, SIDE],
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 4],
        "window_size_per_stage": [8, 4, 4, 4],
        "global_attention_blocks": [3],
    }
    vision = {
        "model_type": "sam2_vision_model",
        "backbone_config": backbone,
        "backbone_channel_list": [64, 32, 16, 8],
        "backbone_feature_sizes": [[SIDE // 4] * 2, [SIDE // 8] * 2, [SIDE // 16] * 2],
        "fpn_hidden_size": 32,
    }
    return {
        "vision_config": vision,
        "prompt_encoder_config": {"hidden_size": 32, "image_size": SIDE, "mask_input_channels": 4},
        "mask_decoder_config": {
            "hidden_size": 32,
            "mlp_dim": 64,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 32,
        },
    }


def tiny_sam() -> Sam2Model:
    torch.manual_seed(0)
    return Sam2Model(Sam2Config(**_parts()))


def save_video_model(folder: Path) -> None:
    """As the public repositories hold it: the weights of the video model, of which masks need a part."""
    torch.manual_seed(0)
    memory = {
        "memory_encoder_hidden_size": 32,
        "memory_encoder_output_channels": 8,
        "memory_attention_hidden_size": 32,
        "memory_attention_feed_forward_hidden_size": 32,
        "memory_attention_num_layers": 1,
        "memory_attention_rope_feat_sizes": [SIDE // 16] * 2,
        "memory_fuser_embed_dim": 32,
        "memory_fuser_intermediate_dim": 64,
        "mask_downsampler_embed_dim": 32,
    }
    Sam2VideoModel(Sam2VideoConfig(**_parts(), **memory)).save_pretrained(folder)
