"""The models that can be asked for by name: what each can do, whether its files are here and whether it fits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from photon.build import default_dtype, default_kv_pages, kv_page_bytes
from photon.config import EngineConfig
from photon.errors import ModelLoadError
from photon.models.files import CONFIG, TOKENIZER, read_json
from photon.models.hub import find, find_weights
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.published import tokenizer_repo
from photon.models.public import BUNDLED, PUBLISHED, Published, not_here, not_public
from photon.skills import skills_of

LOADING_BYTES = 10**9
"""What loading and running take beside weights and cache, at most."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class ModelInfo:
    """One model on this machine. `bytes` is the size of its weights in memory.

    `reason` says in a sentence why it cannot be loaded; it is empty if it can.
    """

    name: str
    bytes: int
    skills: tuple[str, ...]
    on_disk: bool
    fits: bool
    reason: str


def models_available(config: EngineConfig | None = None) -> list[ModelInfo]:
    """All models by name, for an engine that is set up like this. Reads headers and the cache's listing only."""
    config = config or EngineConfig()
    device = _device(config.device)
    bundled = [
        _info(name, MoondreamConfig.from_dict(read_json(folder / CONFIG)), "", config, device)
        for name, folder in BUNDLED.items()
    ]
    return bundled + [_info(name, p.config, _absent(name, p), config, device) for name, p in PUBLISHED.items()]


def _info(name: str, model: MoondreamConfig, absent: str, config: EngineConfig, device: torch.device) -> ModelInfo:
    dtype = getattr(torch, config.dtype) if config.dtype else default_dtype(device)
    with torch.device("meta"):
        weights = sum(p.numel() for p in Moondream(model).parameters()) * dtype.itemsize
    pages = config.kv_pages or default_kv_pages(model, config, dtype)
    needed = weights + pages * kv_page_bytes(model, config, dtype) + LOADING_BYTES
    memory = memory_bytes(device)
    fits = memory is None or needed <= memory
    where = "the CUDA device" if device.type == "cuda" else "this machine"
    small = f"{name} needs {_gb(needed)} of memory for weights and cache; {where} has {_gb(memory or 0)}."
    return ModelInfo(name, weights, skills_of(model), not absent, fits, absent if fits else small)


def _absent(name: str, published: Published) -> str:
    """Why its files are not here; empty if they are."""
    if published.repo is None:
        return not_public(name)
    tokenizer = tokenizer_repo(published.config)
    try:
        here = find_weights(published.repo) and (tokenizer is None or find(tokenizer, TOKENIZER))
    except ModelLoadError as error:
        return str(error)
    return "" if here else not_here(name)


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
