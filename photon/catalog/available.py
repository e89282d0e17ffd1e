"""The models that can be asked for: what each can do, whether its files are here and whether it fits."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import torch

from photon.core.config import EngineConfig
from photon.engine.sizing import default_dtype, default_kv_pages, kv_page_bytes
from photon.errors import ModelLoadError
from photon.masks.mask_files import mask_folder
from photon.models.files import CONFIG, TOKENIZER, read_json
from photon.models.hub import find, find_weights
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.published import tokenizer_repo
from photon.models.public import BUNDLED, PUBLISHED, Published, model_name, not_here, published_model
from photon.models.registry import config_at, existing
from photon.runtime.backends import PAGE_SIZES
from photon.skills import skills_of

LOADING_BYTES = 10**9
"""What loading and running take beside weights and cache, at most."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class ModelInfo:
    """One model on this machine, by the name that its engine gives.

    `bytes` is the size of its weights in memory, `needed_bytes` that with its cache and what loading takes. `lacks`
    says of a skill in `skills` what else has to be here for it. `fetchable`: `photon.download` can get its files.
    `reason` says in a sentence why it cannot be loaded; it is empty if it can.
    """

    name: str
    bytes: int = 0
    skills: tuple[str, ...] = ()
    on_disk: bool = False
    fits: bool = False
    reason: str = ""
    needed_bytes: int = 0
    fetchable: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)


def models_available(config: EngineConfig | None = None, names: Sequence[str] | None = None) -> list[ModelInfo]:
    """What `names`, all that `Photon.load` takes, are for an engine that is set up like this; by default all by name.

    Reads headers and the cache's listing only; a name that cannot be read has the reason.
    """
    config = config or EngineConfig()
    device = _device(config.device)
    return [_info(name, config, device) for name in (names or [*BUNDLED, *PUBLISHED])]


def _info(name: str, config: EngineConfig, device: torch.device) -> ModelInfo:
    try:
        published = None if name in BUNDLED else published_model(name)
        if published is None or published.repo is None:
            return _sized(name, _config_of(name, published), _absent(name, published), False, config, device)
        return _sized(name, published.config, _absent(name, published), True, config, device)
    except ModelLoadError as error:
        return ModelInfo(model_name(name), reason=str(error))


def _config_of(name: str, published: Published | None) -> MoondreamConfig:
    """Of what is bundled, a path, or a public model without a repository."""
    if name in BUNDLED:
        return MoondreamConfig.from_dict(read_json(BUNDLED[name] / CONFIG))
    return published.config if published else config_at(existing(name))


def _sized(
    name: str, model: MoondreamConfig, absent: str, fetchable: bool, config: EngineConfig, device: torch.device
) -> ModelInfo:
    dtype = getattr(torch, config.dtype) if config.dtype else default_dtype(device)
    weights = _parameters(json.dumps(model.to_dict())) * dtype.itemsize
    size = config.page_size or PAGE_SIZES[0]
    pages = config.kv_pages or default_kv_pages(model, config, dtype, size)  # what it needs, not what it may take
    needed = weights + pages * kv_page_bytes(model, dtype, size) + LOADING_BYTES
    memory = memory_bytes(device)
    fits = memory is None or needed <= memory
    where = "the CUDA device" if device.type == "cuda" else "this machine"
    name = model_name(name)
    small = f"{name} needs {_gb(needed)} of memory for weights and cache; {where} has {_gb(memory or 0)}."
    reason = absent if fits else small
    return ModelInfo(
        name, weights, skills_of(model), not absent, fits, reason, needed, fetchable, _lacks(model, config.mask_model)
    )


@lru_cache(maxsize=32)
def _parameters(config: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Moondream(MoondreamConfig.from_dict(json.loads(config))).parameters())


def _absent(name: str, published: Published | None) -> str:
    """Why its files are not here; empty if they are."""
    if published is None:
        return ""
    try:
        if published.repo is None:
            existing(name)
            return ""
        tokenizer = tokenizer_repo(published.config)
        here = find_weights(published.repo) and (tokenizer is None or find(tokenizer, TOKENIZER))
    except ModelLoadError as error:
        return str(error)
    return "" if here else not_here(name)


def _lacks(model: MoondreamConfig, mask_model: str) -> dict[str, str]:
    if "segment" in model.skills or "detect" not in model.skills:
        return {}
    try:
        mask_folder(mask_model)
    except ModelLoadError as error:
        return {"segment": str(error)}
    return {}


def memory_of(config: EngineConfig) -> int | None:
    """All memory in bytes of the device that an engine set up like this would use; None if it cannot be found out."""
    return memory_bytes(_device(config.device))


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device("cuda" if name == "cuda" else "cpu")


def memory_bytes(device: torch.device) -> int | None:
    """All memory of the device, as far as this process may use it; None where that cannot be found out."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else "max"
    return min(machine, int(limit)) if limit.isdigit() else machine


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
