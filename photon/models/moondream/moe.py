"""Mixture of experts of Moondream 3 (design: model 4.7)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.models.moondream.config import MoeConfig


class ExpertWeight(nn.Module):
    """One matrix per expert, [experts, out, in], without bias; a module so that it is named `fc1.weight`."""

    def __init__(self, experts: int, out_dim: int, in_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, out_dim, in_dim) * in_dim**-0.5)

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        """x [rows, in] grouped by expert, ends int32[experts] one past each group -> [rows, out]."""
        return F.grouped_mm(x, self.weight.transpose(1, 2), offs=ends)


class MoeMlp(nn.Module):
    """Each token goes through its best experts; softmax over their scores weighs them."""

    def __init__(self, dim: int, config: MoeConfig) -> None:
        super().__init__()
        self.config = config
        self.router = nn.Linear(dim, config.num_experts)
        self.fc1 = ExpertWeight(config.num_experts, 2 * config.expert_inner_dim, dim)
        self.fc2 = ExpertWeight(config.num_experts, dim, config.expert_inner_dim)

    def forward(self, y: Tensor, adapters: object = None) -> Tensor:
        """y [..., F] -> [..., F]. Nothing here reads a value back to the host."""
        tokens = y.reshape(-1, y.shape[-1])
        chosen = self.config.experts_per_token
        scores, experts = self.router(tokens).topk(chosen, dim=-1)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(y.dtype)

        # Rows (token, choice) sorted by expert, so that each expert is one matrix product.
        order = experts.flatten().argsort(stable=True)
        ids = torch.arange(self.config.num_experts, device=y.device)
        ends = (experts.reshape(-1, 1) == ids).sum(0).cumsum(0).to(torch.int32)
        inner = self.fc1(tokens[order // chosen], ends)
        a, g = inner.chunk(2, dim=-1)
        rows = self.fc2(F.gelu(a) * (g + 1), ends) * weights.flatten()[order].unsqueeze(-1)

        back = torch.empty_like(rows).index_copy(0, order, rows)
        return back.view(-1, chosen, y.shape[-1]).sum(1).view(y.shape)
