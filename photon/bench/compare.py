"""Whether two runs of the same requests generated the same, and where they may differ (docs/engine.md 3, invariant 8).

Matrix products change in their last bits with the batch, so a row of another batch may differ, but only from a
position on where the two best candidates of the run alone lie within a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from photon.core.request import Token
from photon.runtime.choices import SampleNeeds
from photon.runtime.sampling import Sampler, pick

TOLERANCE = 1e-4
"""Difference of log-probabilities, in float32."""


@dataclass(frozen=True)
class Comparison:
    """How many requests are equal, differ after a tie, or differ without one."""

    equal: int = 0
    tied: int = 0
    different: int = 0

    @property
    def answers_equal(self) -> bool:
        return self.different == 0

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(self.equal + other.equal, self.tied + other.tied, self.different + other.different)

    def __str__(self) -> str:
        return f"{self.equal} equal / {self.tied} tied / {self.different} different"


def compare(
    alone: Sequence[Sequence[Token]],
    together: Sequence[Sequence[Token]],
    margins: Sequence[Sequence[float]],
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Tokens of the same requests, in the same order; `margins` are those of `alone` (see `MarginSampler`)."""
    total = Comparison()
    for one, other, margin in zip(alone, together, margins, strict=True):
        total += _compare_one(one, other, margin, tolerance)
    return total


def _compare_one(
    alone: Sequence[Token], together: Sequence[Token], margin: Sequence[float], tolerance: float
) -> Comparison:
    for a, b, distance in zip(alone, together, margin, strict=False):
        if a[:4] != b[:4]:  # id, coordinate, width, height
            return Comparison(tied=1) if distance <= tolerance else Comparison(different=1)
    return Comparison(equal=1) if len(alone) == len(together) else Comparison(different=1)


class MarginSampler(Sampler):
    """A sampler for one row at a time that notes how far the best candidate of each token led the second best.

    `margins` has one number a token: the smallest lead of its id and of its value, in log-probability.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.margins: list[float] = []
        self._leads: list[float] = []

    def __call__(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        self._leads.clear()
        ids, values = super().__call__(hidden, logits, choice_ids, params, needs)
        deciding = needs.several + needs.open  # the allowed ids, the whole vocabulary; then coordinate, width, height
        leads = self._leads[:deciding]
        coordinate = self._leads[deciding : deciding + needs.coords]
        if int(ids[0]) == self._tokens.coord_id:
            leads += coordinate
        if int(ids[0]) == self._tokens.size_id:
            leads += self._leads[deciding + len(coordinate) :]
        self.margins.append(min(leads, default=math.inf))
        return ids, values

    def pick(self, logits: Tensor, params: Tensor, draw: Tensor, drawn: bool) -> Tensor:
        if logits.shape[0] != 1:
            raise ValueError(f"Margins are of one row at a time; this step has {logits.shape[0]}.")
        best, second = torch.topk(logits[0], 2).values.tolist()
        self._leads.append(best - second)
        return pick(logits, params, draw, drawn)
