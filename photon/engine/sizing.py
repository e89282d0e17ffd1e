"""How much of the machine an engine takes: threads, number type, pages of the cache."""

from __future__ import annotations

import os

import torch

from photon.core.config import EngineConfig
from photon.memory.pages import pages_for
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream

ONE_THREAD_BYTES = 64 * 2**20
SMALL_CACHE_BYTES = 512 * 2**20
CACHE_SHARE = 0.5
"""Of a GPU's free memory: captured steps, activations and other models want the rest."""
CACHED_PICTURES = 256
"""Beside the rows that run: more would hardly be asked about again."""


def default_threads(model: Moondream) -> int:
    """How many threads a forward on the CPU takes: one for a small decoder, else all cores.

    The steps of a small one are many short operations. A second thread waits at the end of each, spinning, and takes
    the core of the engine's own work and of the page (photon/bench/README.md).
    """
    weights = sum(p.numel() * p.element_size() for p in model.text.parameters())
    return 1 if weights <= ONE_THREAD_BYTES else os.cpu_count() or 1


def spare_cores() -> bool:
    """Whether a forward on the CPU, as many threads as it takes, leaves a core free."""
    return torch.get_num_threads() < (os.cpu_count() or 1)


def default_dtype(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def default_kv_pages(
    model: MoondreamConfig, config: EngineConfig, dtype: torch.dtype, page_size: int, free_bytes: int | None = None
) -> int:
    """Pages for a full context in every row and for `CACHED_PICTURES`, at least for one context and one prefix.

    In between it is kv_memory_mb that decides, or half of `free_bytes` (on the device, once the weights are there), or
    `SMALL_CACHE_BYTES` where neither is known.
    """
    context, prefix = pages_for(model.text.max_context, page_size), pages_for(model.prefix_len, page_size)
    most = context * config.max_batch + prefix * (CACHED_PICTURES if free_bytes else 0)
    budget = SMALL_CACHE_BYTES if free_bytes is None else int(free_bytes * CACHE_SHARE)
    if config.kv_memory_mb is not None:
        budget = config.kv_memory_mb * 2**20
    return max(context + prefix, min(most, budget // kv_page_bytes(model, dtype, page_size)))


def kv_page_bytes(model: MoondreamConfig, dtype: torch.dtype, page_size: int) -> int:
    """Keys and values of one page in all layers."""
    text = model.text
    return 2 * text.n_layers * text.n_kv_heads * text.head_dim * dtype.itemsize * page_size


def free_bytes(device: torch.device) -> int | None:
    """Memory of a CUDA device that nobody uses; None for a CPU, whose memory is for others too."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None
