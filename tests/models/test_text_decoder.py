"""The decoder's own promises: any leading dimensions, any cut into steps, adapters, tables, gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from photon.models.moondream.config import MoeConfig, TextConfig
from photon.models.moondream.moe import MoeMlp
from photon.models.moondream.reference import ContiguousCache, FullAttention, visible
from photon.models.moondream.text import TextDecoder

DENSE = TextConfig(dim=32, ff_dim=48, n_layers=3, vocab_size=40, max_context=64, n_heads=4)
GROUPED = dataclasses.replace(DENSE, n_kv_heads=2)
THREE = dataclasses.replace(DENSE, tau=True, moe=MoeConfig(8, 1, 2, 24))
PREFIX = 5


def decoder(config: TextConfig) -> TextDecoder:
    torch.manual_seed(0)
    made = TextDecoder(config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".tau." in name:
                parameter.normal_()
    return made


@pytest.mark.parametrize("config", [DENSE, GROUPED, THREE], ids=["dense", "grouped", "three"])
def test_a_prefix_and_single_steps_equal_one_pass(config: TextConfig) -> None:
    model, x = decoder(config), torch.randn(2, 12, config.dim)
    with torch.no_grad():
        whole = model(x, torch.arange(12).expand(2, 12), FullAttention(PREFIX))
        cache = ContiguousCache(config, 16, PREFIX, batch=2)
        pieces = [model(x[:, :PREFIX], torch.arange(PREFIX).expand(2, -1), cache)]
        pieces.append(model(x[:, PREFIX:8], torch.arange(PREFIX, 8).expand(2, -1), cache))
        pieces += [model(x[:, t], torch.tensor([t, t]), cache).unsqueeze(1) for t in range(8, 12)]
    assert cache.length == 12
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_grouped_heads_share_keys_in_blocks() -> None:
    """Query heads 0, 1 read key head 0; heads 2, 3 read key head 1."""
    attend = FullAttention(0)
    q, k, v = torch.randn(1, 6, 4, 8), torch.randn(1, 6, 2, 8), torch.randn(1, 6, 2, 8)
    out = attend(0, q, k, v)
    for head in range(4):
        alone = attend(0, q[:, :, [head]], k[:, :, [head // 2]], v[:, :, [head // 2]])
        torch.testing.assert_close(out[:, :, [head]], alone)


def test_the_block_is_bidirectional_and_the_rest_causal() -> None:
    mask = visible(0, 4, 4, 2, torch.device("cpu"))
    assert mask.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_scores_depend_on_distance_only() -> None:
    model = decoder(DENSE)
    x = torch.randn(1, 6, DENSE.dim)
    here = model(x, torch.arange(6)[None], FullAttention(0))
    there = model(x, torch.arange(40, 46)[None], FullAttention(0))
    torch.testing.assert_close(here, there, atol=1e-5, rtol=0)
    spread = model(x, torch.arange(0, 12, 2)[None], FullAttention(0))
    assert (here - spread).abs().max() > 1e-3


def test_tables_are_float32_and_survive_moves() -> None:
    with torch.device("meta"):
        empty = TextDecoder(DENSE)
    moved = empty.to_empty(device="cpu").to(torch.bfloat16)
    assert moved.rope_cos.dtype == torch.float32
    assert torch.equal(moved.rope_cos, decoder(DENSE).rope_cos)
    assert torch.equal(moved.rope_sin, decoder(DENSE).rope_sin)
    assert not [name for name in moved.state_dict() if "rope" in name]


def test_gradients_reach_every_parameter() -> None:
    model = decoder(THREE)
    x = torch.randn(2, 40, THREE.dim)
    hidden = model(x, torch.arange(40).expand(2, 40), FullAttention(PREFIX))
    model.logits(hidden).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == ["wte"]


def test_experts_equal_the_plain_sum_over_tokens() -> None:
    """Each token by itself: softmax over its best scores, exact GELU, gate plus one."""
    torch.manual_seed(1)
    mlp = MoeMlp(16, MoeConfig(num_experts=6, start_layer=0, experts_per_token=3, expert_inner_dim=8))
    y = torch.randn(2, 5, 16)
    wanted = torch.zeros_like(y)
    for place in [(b, t) for b in range(2) for t in range(5)]:
        token = y[place]
        best = mlp.router(token).topk(3)
        for weight, expert in zip(best.values.softmax(-1), best.indices.tolist(), strict=True):
            inner = mlp.fc1.weight[expert] @ token
            gated = torch.nn.functional.gelu(inner[:8]) * (inner[8:] + 1)
            wanted[place] += weight * (mlp.fc2.weight[expert] @ gated)
    torch.testing.assert_close(mlp(y), wanted)


class Recorder:
    """Adapters with a matrix per site; notes what each site was shown."""

    def __init__(self, exact_proj: bool = False) -> None:
        self.exact_proj = exact_proj
        self.seen: list[tuple[int, str]] = []
        self.sizes = {"qkv": (32, 96), "proj": (32, 32), "fc1": (32, 48), "fc2": (48, 32)}

    def delta(self, layer: int, site: str, x: Tensor) -> Tensor | None:
        self.seen.append((layer, site))
        if layer == 1:
            return None
        generator = torch.Generator().manual_seed(layer * 10 + len(site))
        return x @ (torch.randn(self.sizes[site], generator=generator) * 0.1)


def run(model: TextDecoder, adapters: Recorder | None) -> Tensor:
    torch.manual_seed(3)
    x = torch.randn(1, 6, model.config.dim)
    with torch.no_grad():
        return model(x, torch.arange(6)[None], FullAttention(0), adapters)


def test_adapters_are_asked_at_every_site() -> None:
    adapters = Recorder()
    changed = run(decoder(DENSE), adapters)
    assert adapters.seen == [(layer, site) for layer in range(3) for site in ("qkv", "proj", "fc1", "fc2")]
    assert (changed - run(decoder(DENSE), None)).abs().max() > 1e-2


def test_an_adapter_on_qkv_equals_merged_weights() -> None:
    class OnlyQkv(Recorder):
        def delta(self, layer: int, site: str, x: Tensor) -> Tensor | None:
            return super().delta(layer, site, x) if site == "qkv" else None

    merged = decoder(DENSE)
    with torch.no_grad():
        for layer in (0, 2):
            update = OnlyQkv().delta(layer, "qkv", torch.eye(32))
            assert update is not None
            merged.blocks[layer].attn.qkv.weight += update.T
    torch.testing.assert_close(run(decoder(DENSE), OnlyQkv()), run(merged, None), atol=1e-5, rtol=0)


def test_an_exact_proj_adapter_sees_the_attention_output() -> None:
    model = decoder(DENSE)
    assert (run(model, Recorder()) - run(model, Recorder(exact_proj=True))).abs().max() > 1e-3


def test_the_gelu_of_tau_attention_is_a_switch() -> None:
    """Two published forms differ by some 3e-4 (docs/model.md 4.6)."""
    x, positions = torch.randn(1, 6, THREE.dim), torch.arange(6)[None]
    with torch.no_grad():
        exact = decoder(THREE)(x, positions, FullAttention(0))
        other = decoder(dataclasses.replace(THREE, tau_gelu="tanh"))(x, positions, FullAttention(0))
    assert 1e-6 < float((exact - other).abs().max()) < 1e-1


def test_experts_are_chosen_as_in_float32() -> None:
    """Scores that differ by less than bfloat16 can tell still have an order."""
    torch.manual_seed(0)
    experts = MoeMlp(THREE.dim, MoeConfig(4, 1, 1, 24)).bfloat16()
    with torch.no_grad():
        experts.router.weight.zero_()
        experts.router.bias.copy_(torch.tensor([8.0, 8.0, 0.0, 0.0]))
        experts.router.weight[1, 0] = 2.0**-9
        y = torch.ones(1, THREE.dim, dtype=torch.bfloat16)
        chosen = experts(y)
        experts.fc2.weight[0].zero_()
        assert torch.equal(experts(y), chosen), "the second expert answered"
        experts.fc2.weight[1].zero_()
        assert not experts(y).any()
