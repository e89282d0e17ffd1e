"""A toy model and toy batches of its training."""

from __future__ import annotations

import numpy as np
import torch

from photon.models.moondream.config import MoondreamConfig, RegionConfig, TextConfig, TokenizerConfig, VisionConfig
from photon.models.moondream.efficientnet import FEATURES
from photon.training.data.geometry import VERTICES
from photon.training.data.lexicon import Lexicon
from photon.training.dataset import Asker, Batch, Mix
from photon.training.recipe import FIRST_NAME, templates

TAUGHT = 6


def toy_lexicon() -> Lexicon:
    names = ["ball", "post", "tower", "house", "cart", "bell", "tench"]
    return Lexicon(names, TAUGHT, {}, [[1], [], [2, 3], [], [], [], [0]])


def toy_config(adapted: bool = False) -> MoondreamConfig:
    """Four image tokens, width 32, five layers."""
    table = toy_lexicon().word_table()
    options = {
        "words": 7,
        "word_table": table,
        "top_words": 2,
        "lexical_floor": 8.0,
        "lexical_scale": 1.0,
        "adapted": adapted,
    }
    vision = VisionConfig(32, 64, "efficientnet_lite0", enc_patch_size=32, proj_inner_dim=16, options=options)
    return MoondreamConfig(
        TextConfig(32, 64, 5, FIRST_NAME + 7, 256, 2),
        vision,
        RegionConfig(32, 16, 32, 16, 64, 32),
        TokenizerConfig(templates=templates(), segment_vertices=VERTICES),
    )


def toy_batch(size: int) -> Batch:
    """Scenes of two things each, with random features and a few questions."""
    rng = np.random.default_rng(1)
    asker = Asker(toy_config(), toy_lexicon(), Mix(absent=0.3, segment=0.3, length=120, questions=5))
    rows = []
    for number in range(size):
        boxes = np.array([[0.1, 0.1, 0.4, 0.5], [0.6, 0.5, 0.9, 0.9]], np.float32)
        rows.append(
            {
                "names": np.array([number % 3, 3]),
                "boxes": boxes,
                "points": (boxes[:, :2] + boxes[:, 2:]) / 2,
                "contours": rng.random((2, VERTICES, 2), np.float32),
                "doubtful": np.array([-1]),
                "word_index": np.zeros((4, 2), np.int64),
                "word_weight": np.full((4, 2), 100, np.uint8),
                "cells": np.array([0, -1, -1, 1]),
            }
        )
    packed = [asker.ask(row, rng) for row in rows]
    return Batch(
        features=torch.randn(size, 4, FEATURES),
        word_index=torch.zeros(size, 4, 2, dtype=torch.int64),
        word_weight=torch.full((size, 4, 2), 0.4),
        cells=torch.tensor([[0, -1, -1, 1]] * size),
        names=torch.from_numpy(np.stack([row["names"] for row in rows])),
        boxes=torch.from_numpy(np.stack([row["boxes"] for row in rows])),
        points=torch.from_numpy(np.stack([row["points"] for row in rows])),
        contours=torch.from_numpy(np.stack([row["contours"] for row in rows])),
        strange=torch.zeros(size, 1, 1),
        **{name: torch.from_numpy(np.stack([p[name] for p in packed])) for name in packed[0]},
    )
