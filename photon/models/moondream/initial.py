"""Parameters before they are trained or loaded."""

from __future__ import annotations

import torch
from torch import nn


def normal(*shape: int, std: float) -> nn.Parameter:
    """Normal values, or on the meta device only their shape: to draw there torch loads its tracer, for a second."""
    values = torch.empty(*shape)
    return nn.Parameter(values if values.is_meta else values.normal_(0.0, std))
