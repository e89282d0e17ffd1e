"""From a checkpoint's tensors to a model's parameters, tensor by tensor (docs/model.md 2).

The model is built without storage, checked against the files, and only then given memory in its target
dtype; beside it stand one stored tensor and, of quantised ones, a small part in full precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from photon.errors import ModelLoadError
from photon.models.moondream.checkpoint import Checkpoint
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.names import TRANSPOSED_IN_B, is_family_b, our_names
from photon.models.progress import Progress, unseen

EXPERT_SCALES = {"mlp.fc1.weight": "moe_quant.up_scale", "mlp.fc2.weight": "moe_quant.down_scale"}
INT4_GROUP = 128

Fill = Callable[[Tensor, list[Tensor]], object]
"""Writes a parameter, of any dtype and on any device, from stored tensors."""


@dataclass(frozen=True)
class Source:
    """Where one parameter comes from: stored tensors, and how they become it."""

    stored: tuple[str, ...]
    shape: tuple[int, ...]
    fill: Fill


def load_moondream(
    config: MoondreamConfig,
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress = unseen,
) -> Moondream:
    """A model in `dtype` on `device`, in evaluation mode, without gradients.

    Raises ModelLoadError naming the tensor that is missing, surplus or misshapen.
    """
    with torch.device("meta"):
        model = Moondream(config).to(dtype)
    sources = plan(checkpoint)
    check(model, sources, checkpoint)
    model.to_empty(device=device)
    parameters = model.state_dict()
    done, whole = 0, sum(parameter.nbytes for parameter in parameters.values())
    with torch.no_grad():
        for name, parameter in parameters.items():
            source = sources[name]
            source.fill(parameter, [checkpoint.read(stored) for stored in source.stored])
            done += parameter.nbytes
            progress(done / whole)
    return model.eval().requires_grad_(False)


def check(model: Moondream, sources: dict[str, Source], checkpoint: Checkpoint) -> None:
    """Raise ModelLoadError unless the files hold exactly the model's tensors in their shapes."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := [name for name in wanted if name not in sources]:
        raise ModelLoadError(f"{_these(missing)} missing from {checkpoint.where}.")
    if surplus := [name for name in sources if name not in wanted]:
        raise ModelLoadError(f"{_these(surplus)} not part of this model but in {checkpoint.where}.")
    for name, shape in wanted.items():
        _require_shape(name, sources[name].shape, shape, checkpoint, "the configuration wants")


def plan(checkpoint: Checkpoint) -> dict[str, Source]:
    """{our name: source} of everything in the files that is a parameter."""
    stored = our_names(checkpoint.shapes)
    family_b = is_family_b(stored.values())
    shapes = {ours: checkpoint.shapes[name] for ours, name in stored.items()}
    sources: dict[str, Source] = {}
    for name, stored_name in stored.items():
        shape = shapes[name]
        if _is_quantisation(name, shapes):
            continue
        if name.endswith(".weight.packed"):
            weight = name.removesuffix(".packed")
            sources[weight] = _int4(weight, stored, shapes, checkpoint)
            continue
        if scale := _expert_scale(name, stored):
            _require_shape(scale, checkpoint.shapes[scale], shape[:-1], checkpoint, f"{stored_name} wants")
            sources[name] = Source((stored_name, scale), shape, _scale_experts)
            continue
        _refuse_bytes(stored_name, checkpoint)
        if name.endswith(".tau.wqwv"):
            half = (shape[0] // 2, *shape[1:])
            base = name.removesuffix("wqwv")
            sources[base + "wq"] = Source((stored_name,), half, lambda p, t: p.copy_(t[0].chunk(2)[0]))
            sources[base + "wv"] = Source((stored_name,), half, lambda p, t: p.copy_(t[0].chunk(2)[1]))
        elif family_b and name in TRANSPOSED_IN_B:
            sources[name] = Source((stored_name,), shape[::-1], lambda p, t: p.copy_(t[0].T))
        else:
            sources[name] = Source((stored_name,), shape, lambda p, t: p.copy_(t[0]))
    return sources


def _is_quantisation(name: str, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Tensors that serve another one; scales of a quantised key-value cache are not used."""
    if ".kv_quantizer." in name or ".moe_quant." in name:
        return True
    base, _, last = name.rpartition(".")
    return last in ("scale", "zero_point") and base + ".packed" in shapes


def _expert_scale(name: str, stored: dict[str, str]) -> str | None:
    """The stored name of the per-row scales of 8-bit experts (docs/model.md 2.4)."""
    for weight, scale in EXPERT_SCALES.items():
        if name.endswith(weight):
            return stored.get(name.removesuffix(weight) + scale)
    return None


def _scale_experts(parameter: Tensor, tensors: list[Tensor]) -> None:
    """One expert at a time: a whole layer in float32 is a gigabyte in the public sizes."""
    for target, rows, scale in zip(parameter, *tensors, strict=True):
        target.copy_(rows.to(target.device).float() * scale.to(target.device).unsqueeze(-1))


def _int4(weight: str, stored: dict[str, str], shapes: dict[str, tuple[int, ...]], checkpoint: Checkpoint) -> Source:
    """A Linear in groups of 128 four-bit values (docs/model.md 2.4)."""
    parts = [weight + suffix for suffix in (".packed", ".scale", ".zero_point")]
    bias = weight.removesuffix("weight") + "bias"
    if absent := [part for part in [*parts, bias] if part not in stored]:
        raise ModelLoadError(f"{_these(absent)} missing beside {stored[parts[0]]}.")
    rows, groups = shapes[bias][0], 2 * shapes[parts[0]][0]
    for part, shape in zip(parts, ((groups // 2, INT4_GROUP), (groups, 1), (groups, 1)), strict=True):
        _require_shape(stored[part], shapes[part], shape, checkpoint, f"groups of {INT4_GROUP} want")

    def unpack(parameter: Tensor, tensors: list[Tensor]) -> None:
        packed, scale, zero = (tensor.to(parameter.device) for tensor in tensors)
        nibbles = torch.cat([packed >> 4, packed & 15]).float()
        parameter.copy_(nibbles.sub_(zero.float()).mul_(scale.float()).view_as(parameter))

    return Source(tuple(stored[part] for part in parts), (rows, groups * INT4_GROUP // rows), unpack)


def _refuse_bytes(stored_name: str, checkpoint: Checkpoint) -> None:
    dtype = checkpoint.dtypes[stored_name]
    if dtype.itemsize == 1:
        kind = "8-bit numbers without their scales" if dtype.is_floating_point else "whole numbers"
        raise ModelLoadError(f"The tensor {stored_name} in {checkpoint.where} holds {kind}; it cannot be a weight.")


def _require_shape(
    name: str, found: tuple[int, ...], wanted: tuple[int, ...], checkpoint: Checkpoint, who: str
) -> None:
    if found != wanted:
        raise ModelLoadError(f"The tensor {name} in {checkpoint.where} has shape {list(found)}; {who} {list(wanted)}.")


def _these(names: list[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"The tensor {names[0]}{more} is"
