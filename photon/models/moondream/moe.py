"""Mixture of experts of Moondream 3 (docs/model.md 4.7)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.models.moondream.config import MoeConfig
from photon.models.moondream.initial import normal
from photon.models.moondream.lora import Adapters, plus


class ExpertWeight(nn.Module):
    """One matrix per expert, [experts, out, in], without bias; a module so that it is named `fc1.weight`."""

    def __init__(self, experts: int, out_dim: int, in_dim: int) -> None:
        super().__init__()
        self.weight = normal(experts, out_dim, in_dim, std=in_dim**-0.5)

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        """x [rows, in] grouped by expert, ends int32[experts] one past each group -> [rows, out]."""
        return F.grouped_mm(x, self.weight.transpose(1, 2), offs=ends)


class MoeMlp(nn.Module):
    """Each token goes through its best experts; softmax over their scores weighs them.

    Scores and the weighted sum are float32 in every dtype: an expert that rounding chose is another answer.
    """

    def __init__(self, dim: int, config: MoeConfig, layer: int = -1) -> None:
        super().__init__()
        self.config = config
        self.layer = layer
        self.router = nn.Linear(dim, config.num_experts)
        self.fc1 = ExpertWeight(config.num_experts, 2 * config.expert_inner_dim, dim)
        self.fc2 = ExpertWeight(config.num_experts, dim, config.expert_inner_dim)

    def forward(self, y: Tensor, adapters: Adapters | None = None) -> Tensor:
        """y [..., F] -> [..., F]. Nothing here reads a value back to the host."""
        tokens = y.reshape(-1, y.shape[-1])
        chosen = self.config.experts_per_token
        weights, experts = self.route(tokens)

        # Rows (token, choice) sorted by expert, so that each expert is one matrix product.
        order = experts.flatten().argsort(stable=True)
        ids = torch.arange(self.config.num_experts, device=y.device)
        ends = (experts.reshape(-1, 1) == ids).sum(0).cumsum(0).to(torch.int32)
        x = tokens[order // chosen]
        inner = self.fc1(x, ends)
        rows = order // (chosen * (len(tokens) // len(y)))  # which batch row each product belongs to
        if adapters is not None:
            inner = plus(inner, adapters.expert_delta(self.layer, "fc1", x, experts.flatten()[order], rows))
        a, g = inner.chunk(2, dim=-1)
        gated = F.gelu(a) * (g + 1)
        out = self.fc2(gated, ends)
        if adapters is not None:
            out = plus(out, adapters.expert_delta(self.layer, "fc2", gated, experts.flatten()[order], rows))
        out = out.float() * weights.flatten()[order].unsqueeze(-1)

        back = torch.empty_like(out).index_copy(0, order, out)
        return back.view(-1, chosen, y.shape[-1]).sum(1).view(y.shape).to(y.dtype)

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """tokens [n, F] -> weights float32 [n, chosen] and experts int64 [n, chosen]."""
        scores = self.scores(tokens)
        best, experts = scores.topk(self.config.experts_per_token, dim=-1)
        return torch.softmax(best, dim=-1), experts

    def scores(self, tokens: Tensor) -> Tensor:
        """tokens [n, F] -> float32 [n, experts]."""
        return F.linear(tokens.float(), self.router.weight.float(), self.router.bias.float())
