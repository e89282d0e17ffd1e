"""From a checkpoint's tensors to a model's parameters, tensor by tensor (design: model 2).

The model is built without storage, checked against the files, and only then given memory in its target
dtype; no more than one stored tensor is held beside it.
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

EXPERT_SCALES = {"mlp.fc1.weight": "moe_quant.up_scale", "mlp.fc2.weight": "moe_quant.down_scale"}


@dataclass(frozen=True)
class Source:
    """Where one parameter comes from: stored tensors, and how they become it."""

    stored: tuple[str, ...]
    shape: tuple[int, ...]
    convert: Callable[[list[Tensor]], Tensor]


def load_moondream(
    config: MoondreamConfig, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype
) -> Moondream:
    """A model in `dtype` on `device`, in evaluation mode, without gradients.

    Raises ModelLoadError naming the tensor that is missing, surplus or misshapen.
    """
    with torch.device("meta"):
        model = Moondream(config).to(dtype)
    sources = plan(checkpoint)
    check(model, sources, checkpoint)
    model.to_empty(device=device)
    with torch.no_grad():
        for name, parameter in model.state_dict().items():
            source = sources[name]
            parameter.copy_(source.convert([checkpoint.read(stored) for stored in source.stored]))
    return model.eval().requires_grad_(False)


def check(model: Moondream, sources: dict[str, Source], checkpoint: Checkpoint) -> None:
    """Raise ModelLoadError unless the files hold exactly the model's tensors in their shapes."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := [name for name in wanted if name not in sources]:
        raise ModelLoadError(f"{_these(missing)} missing from {checkpoint.where}.")
    if surplus := [name for name in sources if name not in wanted]:
        raise ModelLoadError(f"{_these(surplus)} not part of this model but in {checkpoint.where}.")
    for name, shape in wanted.items():
        if sources[name].shape != shape:
            raise ModelLoadError(
                f"The tensor {name} in {checkpoint.where} has shape {list(sources[name].shape)}; "
                f"the configuration wants {list(shape)}."
            )


def plan(checkpoint: Checkpoint) -> dict[str, Source]:
    """{our name: source} of everything in the files that is a parameter."""
    stored = our_names(checkpoint.shapes)
    family_b = is_family_b(stored_name.replace("_orig_mod.", "") for stored_name in stored.values())
    shapes = {ours: checkpoint.shapes[name] for ours, name in stored.items()}
    sources: dict[str, Source] = {}
    for name, stored_name in stored.items():
        shape = shapes[name]
        if _is_quantisation(name, shapes):
            continue
        if name.endswith(".tau.wqwv"):
            half = (shape[0] // 2, *shape[1:])
            base = name.removesuffix("wqwv")
            sources[base + "wq"] = Source((stored_name,), half, lambda t: t[0].chunk(2)[0])
            sources[base + "wv"] = Source((stored_name,), half, lambda t: t[0].chunk(2)[1])
        elif name.endswith(".weight.packed"):
            weight = name.removesuffix(".packed")
            sources[weight] = _int4(weight, stored, shapes)
        elif scale := _expert_scale(name, stored):
            sources[name] = Source((stored_name, scale), shape, lambda t: t[0].float() * t[1].unsqueeze(-1))
        elif family_b and name in TRANSPOSED_IN_B:
            sources[name] = Source((stored_name,), shape[::-1], lambda t: t[0].T)
        else:
            sources[name] = Source((stored_name,), shape, _as_stored)
    return sources


def _as_stored(tensors: list[Tensor]) -> Tensor:
    if tensors[0].is_floating_point() and tensors[0].itemsize == 1:
        raise ModelLoadError("The files hold 8-bit experts without their scales (moe_quant).")
    return tensors[0]


def _is_quantisation(name: str, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Tensors that serve another one; scales of a quantised key-value cache are not used."""
    if ".kv_quantizer." in name or ".moe_quant." in name:
        return True
    base, _, last = name.rpartition(".")
    return last in ("scale", "zero_point") and base + ".packed" in shapes


def _expert_scale(name: str, stored: dict[str, str]) -> str | None:
    """The stored name of the per-row scales of 8-bit experts (design: model 2.4)."""
    for weight, scale in EXPERT_SCALES.items():
        if name.endswith(weight):
            return stored.get(name.removesuffix(weight) + scale)
    return None


def _int4(weight: str, stored: dict[str, str], shapes: dict[str, tuple[int, ...]]) -> Source:
    """A Linear in groups of 128 four-bit values (design: model 2.4)."""
    parts = [weight + suffix for suffix in (".packed", ".scale", ".zero_point")]
    bias = weight.removesuffix("weight") + "bias"
    if absent := [part for part in [*parts, bias] if part not in stored]:
        raise ModelLoadError(f"{_these(absent)} missing beside {stored[parts[0]]}.")
    rows = shapes[bias][0]
    shape = (rows, 2 * shapes[parts[0]][0] * shapes[parts[0]][1] // rows)

    def unpack(tensors: list[Tensor]) -> Tensor:
        packed, scale, zero = tensors
        nibbles = torch.cat([packed >> 4, packed & 15]).float()
        return ((nibbles - zero.float()) * scale.float()).reshape(shape)

    return Source(tuple(stored[part] for part in parts), shape, unpack)


def _these(names: list[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"The tensor {names[0]}{more} is"
