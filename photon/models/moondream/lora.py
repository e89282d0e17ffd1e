"""LoRA adapters for the text decoder: their file forms, checked against the model (docs/model.md 8)."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from photon.errors import ModelLoadError
from photon.models.files import refuse_pointer
from photon.models.moondream.config import TextConfig

SITE_NAMES = ("qkv", "proj", "fc1", "fc2")
Site = tuple[int, str]
"""(layer, one of `SITE_NAMES`)."""

_VARIANT_NAMES = (
    ("text_model.transformer.h", "text.blocks"),
    (".mixer", ".attn"),
    (".Wqkv", ".qkv"),
    (".out_proj", ".proj"),
    (".parametrizations.weight.0", ""),
)
_VARIANT = re.compile(r"(?:^|\.)text\.blocks\.(\d+)\.(?:attn\.(qkv|proj)|mlp\.(fc1|fc2))\.([AB])$")
_FINETUNE = re.compile(r"(?:^|\.)(dense|moe)\.(\d+)\.(up|down)_([ab])$")
_FINETUNE_SITE = {"up": "fc1", "down": "fc2"}
EXPERT_RANK_DIVISOR = 8


@dataclass(frozen=True, eq=False)
class Adapter:
    """delta(x) = B (A x), no scale. A is [rank, in] and B [out, rank], with a leading expert axis in MoE layers."""

    name: str
    key: bytes
    sites: Mapping[Site, tuple[Tensor, Tensor]]
    flat: Tensor | None = None
    """All of `sites` one after the other, which are views of it: an adapter that is ready for the device."""

    def packed(self, dtype: torch.dtype, pinned: Callable[[Tensor], Tensor]) -> Adapter:
        """The same in one block of host memory of `dtype`, so that one copy brings it to the device."""
        parts = [part for pair in self.sites.values() for part in pair]
        flat = pinned(torch.cat([part.to(dtype).flatten() for part in parts])) if parts else torch.empty(0, dtype=dtype)
        return replace(self, sites=self.views(flat), flat=flat)

    def views(self, flat: Tensor) -> dict[Site, tuple[Tensor, Tensor]]:
        """`sites` as parts of a block [elements], in the host's memory or in the device's."""
        sizes = [part.numel() for pair in self.sites.values() for part in pair]
        parts = iter(flat.split(sizes))
        return {site: (next(parts).view_as(a), next(parts).view_as(b)) for site, (a, b) in self.sites.items()}


def read_adapter(name: str, path: Path, config: TextConfig, max_rank: int) -> Adapter:
    """Read a .safetensors file or a torch file (`weights_only`). Raises `ModelLoadError` naming what is wrong."""
    refuse_pointer(path)
    try:
        data = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelLoadError(f"There is no adapter file {path}.") from None
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError, SafetensorError) as error:
        raise ModelLoadError(f"The adapter file {path} cannot be read: {error}") from error
    state = data.get("lora_state_dict", data) if isinstance(data, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise ModelLoadError(f"The adapter file {path} does not hold tensors by name.")
    return make_adapter(name, state, config, max_rank)


def make_adapter(name: str, state: Mapping[str, Tensor], config: TextConfig, max_rank: int) -> Adapter:
    """An adapter from tensors by name, in either of the two published forms. Raises `ModelLoadError`.

    `max_rank` bounds the ranks of dense projections; experts get an eighth of it (docs/model.md 8.2).
    """
    halves: dict[Site, dict[str, Tensor]] = {}
    for key, tensor in state.items():
        site, half = _place(name, key, config)
        halves.setdefault(site, {})[half] = tensor.detach()
    if not halves:
        raise ModelLoadError(f"The adapter {name!r} is empty.")
    sites = {site: _pair(name, site, pair, config) for site, pair in sorted(halves.items())}
    _require_all_layers(name, sites, config)
    for site, (a, _) in sites.items():
        allowed = site_rank(site, max_rank, config)
        if a.shape[-2] > allowed:
            raise ModelLoadError(
                f"The adapter {name!r} has rank {a.shape[-2]} at {site[1]} of layer {site[0]}; up to {allowed} fits."
            )
    return Adapter(name, _content_key(sites), sites)


def _place(name: str, key: str, config: TextConfig) -> tuple[Site, str]:
    renamed = key
    for old, new in _VARIANT_NAMES:
        renamed = renamed.replace(old, new)
    if found := _VARIANT.search(renamed):
        return (int(found[1]), found[2] or found[3]), found[4]
    if found := _FINETUNE.search(key):
        first_moe = config.moe.start_layer if config.moe else config.n_layers
        layer = int(found[2]) + (first_moe if found[1] == "moe" else 0)
        return (layer, _FINETUNE_SITE[found[3]]), found[4].upper()
    raise ModelLoadError(f"The adapter {name!r} has a tensor {key!r} that belongs to no projection.")


def _pair(name: str, site: Site, pair: Mapping[str, Tensor], config: TextConfig) -> tuple[Tensor, Tensor]:
    layer, kind = site
    if set(pair) != {"A", "B"}:
        raise ModelLoadError(f"The adapter {name!r} has only one half of {kind} in layer {layer}.")
    a, b = pair["A"], pair["B"]
    inputs, outputs = site_sizes(site, config)
    experts = (config.moe.num_experts,) if config.moe and is_expert_site(site, config) else ()
    rank = a.shape[-2] if a.dim() >= 2 else 0
    if a.shape != (*experts, rank, inputs) or b.shape != (*experts, outputs, rank):
        raise ModelLoadError(
            f"The adapter {name!r} has {kind} of layer {layer} as {list(a.shape)} and {list(b.shape)}; "
            f"expected {[*experts, 'rank', inputs]} and {[*experts, outputs, 'rank']}."
        )
    if not (a.isfinite().all() and b.isfinite().all()):
        raise ModelLoadError(f"The adapter {name!r} has values in {kind} of layer {layer} that are no numbers.")
    return a, b


def is_expert_site(site: Site, config: TextConfig) -> bool:
    return site[1] in ("fc1", "fc2") and config.is_moe(site[0])


def site_rank(site: Site, max_rank: int, config: TextConfig) -> int:
    return max(1, max_rank // EXPERT_RANK_DIVISOR) if is_expert_site(site, config) else max_rank


def site_sizes(site: Site, config: TextConfig) -> tuple[int, int]:
    """(in, out) of a projection."""
    if config.moe and is_expert_site(site, config):
        inner = config.moe.expert_inner_dim
        return {"fc1": (config.dim, 2 * inner), "fc2": (inner, config.dim)}[site[1]]
    return {
        "qkv": (config.dim, config.qkv_dim),
        "proj": (config.dim, config.dim),
        "fc1": (config.dim, config.ff_dim),
        "fc2": (config.ff_dim, config.dim),
    }[site[1]]


def _require_all_layers(name: str, sites: Mapping[Site, object], config: TextConfig) -> None:
    kinds = {kind for _, kind in sites}
    missing = [
        (layer, kind) for kind in sorted(kinds) for layer in range(config.n_layers) if (layer, kind) not in sites
    ]
    beyond = [layer for layer, _ in sites if layer >= config.n_layers]
    if missing or beyond:
        which = f"lacks {missing[0][1]} of layer {missing[0][0]}" if missing else f"names layer {beyond[0]}"
        raise ModelLoadError(f"The adapter {name!r} {which}; the model has the layers 0..{config.n_layers - 1}.")


def _content_key(sites: Mapping[Site, tuple[Tensor, Tensor]]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for site, pair in sites.items():
        digest.update(repr(site).encode())
        for tensor in pair:
            digest.update(tensor.float().contiguous().numpy().data)
    return digest.digest()


class Adapters(Protocol):
    """Low-rank additions to the projections of one batch [B, ...] (docs/model.md 8).

    An object may set `exact_proj = True` to receive the attention output at site "proj"; without it that site
    receives the block's normed input, which is what the published adapters were made for.
    """

    def delta(self, layer: int, site: str, x: Tensor) -> Tensor | None:
        """What to add to the output of `site` ("qkv", "proj", "fc1", "fc2") for input x, or None."""

    def expert_delta(self, layer: int, site: str, x: Tensor, experts: Tensor, rows: Tensor) -> Tensor | None:
        """The same inside the experts ("fc1", "fc2"): x [n, in], with expert and batch row int64 [n] of each."""


def plus(x: Tensor, delta: Tensor | None) -> Tensor:
    return x if delta is None else x + delta
