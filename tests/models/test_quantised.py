"""8-bit experts and 4-bit matrices: full numbers after loading, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from photon.errors import ModelLoadError
from tests.models.checkpoint_files import as_family_b_of_three, folder_with, parameters, stored


def test_eight_bit_experts_are_scaled_by_row(tmp_path: Path) -> None:
    legacy = as_family_b_of_three(stored("md3"))
    wanted = {}
    for layer in (1, 2):
        base = f"text_model.transformer.h.{layer}."
        for weight, scale, ours in (("experts", "up", "fc1"), ("output_experts", "down", "fc2")):
            name = f"{base}mlp.{weight}.weight"
            rows = legacy[name].abs().amax(-1) / 448
            eight_bit = (legacy[name] / rows.unsqueeze(-1)).to(torch.float8_e4m3fn)
            legacy[name], legacy[f"{base}moe_quant.{scale}_scale"] = eight_bit, rows
            wanted[f"text.blocks.{layer}.mlp.{ours}.weight"] = eight_bit.float() * rows.unsqueeze(-1)
    got = parameters(folder_with(tmp_path, legacy, "md3"))
    for name, tensor in wanted.items():
        torch.testing.assert_close(got[name], tensor)


def test_eight_bit_experts_without_scales_are_refused(tmp_path: Path) -> None:
    legacy = as_family_b_of_three(stored("md3"))
    name = "text_model.transformer.h.1.mlp.experts.weight"
    legacy[name] = legacy[name].to(torch.float8_e4m3fn)
    with pytest.raises(ModelLoadError, match="scales"):
        parameters(folder_with(tmp_path, legacy, "md3"))


def test_scales_of_another_shape_are_refused(tmp_path: Path) -> None:
    legacy = as_family_b_of_three(stored("md3"))
    name = "text_model.transformer.h.1.mlp.experts.weight"
    legacy["text_model.transformer.h.1.moe_quant.up_scale"] = torch.ones(legacy[name].shape[0], 1)
    legacy[name] = legacy[name].to(torch.float8_e4m3fn)
    with pytest.raises(ModelLoadError, match=r"moe_quant\.up_scale .* has shape"):
        parameters(folder_with(tmp_path, legacy, "md3"))


QKV = "model.text.blocks.0.attn.qkv"


def four_bit() -> tuple[dict[str, Tensor], Tensor]:
    """The recorded model with one matrix in groups of four-bit values, and what that matrix then is."""
    tensors = stored()
    groups = torch.randint(0, 16, (384 * 128 // 128, 128), dtype=torch.uint8)
    scale, zero = torch.rand(len(groups), 1), torch.full((len(groups), 1), 8.0)
    half = len(groups) // 2
    del tensors[QKV + ".weight"]
    tensors[QKV + ".weight.packed"] = groups[:half] << 4 | groups[half:]
    tensors[QKV + ".weight.scale"], tensors[QKV + ".weight.zero_point"] = scale, zero
    return tensors, ((groups.float() - zero) * scale).reshape(384, 128)


def test_four_bit_weights_are_unpacked(tmp_path: Path) -> None:
    tensors, wanted = four_bit()
    got = parameters(folder_with(tmp_path, tensors))["text.blocks.0.attn.qkv.weight"]
    torch.testing.assert_close(got, wanted)


def test_four_bit_weights_need_their_scales_and_zero_points(tmp_path: Path) -> None:
    tensors, _ = four_bit()
    tensors[QKV + ".weight.scale"] = tensors[QKV + ".weight.scale"][1:]
    with pytest.raises(ModelLoadError, match=r"qkv\.weight\.scale .*\[383, 1\].*\[384, 1\]"):
        parameters(folder_with(tmp_path / "a", tensors))
    del tensors[QKV + ".weight.zero_point"]
    with pytest.raises(ModelLoadError, match=r"qkv\.weight\.zero_point is missing beside .*qkv\.weight\.packed"):
        parameters(folder_with(tmp_path / "b", tensors))
