"""Checkpoint folders made from the recorded models, whole or changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from photon.models.registry import load_model
from tests.paths import PARITY

CPU = torch.device("cpu")


def stored(name: str = "md2") -> dict[str, Tensor]:
    return load_file(PARITY / name / "model.safetensors")


def folder_with(tmp_path: Path, tensors: dict[str, Tensor] | None, name: str = "md2") -> Path:
    """A checkpoint folder with the recorded configuration and these weights."""
    folder = tmp_path / "model"
    folder.mkdir(parents=True)
    for file in ("config.json", "tokenizer.json"):
        shutil.copy(PARITY / name / file, folder / file)
    if tensors is not None:
        save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors")
    return folder


def parameters(path: Path | str) -> dict[str, Tensor]:
    return load_model(str(path), CPU, torch.float32).model.state_dict()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def as_family_b_of_three(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The recorded Moondream 3 in the older names, as far as the two forms differ from Moondream 2."""
    names: dict[str, str] = json.loads((PARITY / "md2" / "legacy_names.json").read_text())
    ours = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    legacy = {old: ours.pop(new) for old, new in names.items() if new in ours and ours[new].dim() < 3}
    legacy["vision_encoder.encoder.model.visual.pos_embed"] = ours.pop("vision.pos_emb")
    for old in ("region_model.coordinate_features.weight", "region_model.size_features.weight"):
        legacy[old] = legacy[old].T
    for head, old in (("coord_decoder", "coordinate_head"), ("size_decoder", "size_head"), ("ln", "ln")):
        for kind in ("weight", "bias"):
            legacy[f"region_model.{old}.{kind}"] = ours.pop(f"region.{head}.{kind}")
    for layer in range(3):
        theirs, block = f"text_model.transformer.h.{layer}.", f"text.blocks.{layer}."
        tau = [ours.pop(f"{block}attn.tau.{part}") for part in ("wq", "wv", "alpha")]
        legacy[theirs + "tau_wqwv"], legacy[theirs + "tau_alpha"] = torch.cat(tau[:2]), tau[2]
        if layer > 0:
            legacy[theirs + "mlp.experts.weight"] = ours.pop(block + "mlp.fc1.weight")
            legacy[theirs + "mlp.output_experts.weight"] = ours.pop(block + "mlp.fc2.weight")
            for kind in ("weight", "bias"):
                legacy[f"{theirs}gate.{kind}"] = ours.pop(f"{block}mlp.router.{kind}")
        legacy[theirs + "kv_quantizer.k_scale"] = torch.ones(())
    assert not ours
    return legacy
