"""Processes that train one model together: each takes a part of every batch, and gradients are averaged.

On a few CPU cores two processes of one thread are faster than one process of two, whose small operations leave the
second core idle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Team:
    """`rank` of this process among `size`; rank 0 keeps the clock, writes checkpoints and speaks."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, rank: int, size: int, meeting: Path) -> Team:
        """Meets the others through the file `meeting`, which must not be left over from another run."""
        if size > 1:
            dist.init_process_group("gloo", init_method=f"file://{meeting.resolve()}", rank=rank, world_size=size)
        return cls(rank, size)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Every gradient becomes the mean over the team; one that is missing here counts as zero."""
        if self.size == 1:
            return
        trained = list(parameters)
        flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in trained])
        dist.all_reduce(flat)
        flat /= self.size
        for parameter, mean in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
            parameter.grad = mean.view_as(parameter)

    def agree(self, value: float) -> float:
        """Rank 0's `value`, everywhere."""
        if self.size == 1:
            return value
        shared: Tensor = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)
