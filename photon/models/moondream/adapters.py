"""What the text decoder asks of low-rank adapters, whoever holds them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Adapters(Protocol):
    """Low-rank additions to the projections of one batch [B, ...] (design: model 8).

    An object may set `exact_proj = True` to receive the attention output at site "proj"; without it that site
    receives the block's normed input, which is what the published adapters were made for.
    """

    def delta(self, layer: int, site: str, x: Tensor) -> Tensor | None:
        """What to add to the output of `site` ("qkv", "proj", "fc1", "fc2") for input x, or None."""

    def expert_delta(self, layer: int, site: str, x: Tensor, experts: Tensor, rows: Tensor) -> Tensor | None:
        """The same inside the experts ("fc1", "fc2"): x [n, in], with expert and batch row int64 [n] of each."""


def plus(x: Tensor, delta: Tensor | None) -> Tensor:
    return x if delta is None else x + delta
