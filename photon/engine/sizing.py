"""How much of the machine an engine takes: threads, number type, pages of the cache."""

from __future__ import annotations

import os

import torch

from photon.core.config import EngineConfig
from photon.memory.pages import pages_for
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream

ONE_THREAD_BYTES = 64 * 2**20


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


def default_kv_pages(model: MoondreamConfig, config: EngineConfig, dtype: torch.dtype) -> int:
    """Pages for a full context in every row, within kv_memory_mb, but at least for one context and one prefix."""
    context = pages_for(model.text.max_context, config.page_size)
    least = context + pages_for(model.prefix_len, config.page_size)
    return max(
        least, min(context * config.max_batch, config.kv_memory_mb * 2**20 // kv_page_bytes(model, config, dtype))
    )


def kv_page_bytes(model: MoondreamConfig, config: EngineConfig, dtype: torch.dtype) -> int:
    """Keys and values of one page in all layers."""
    text = model.text
    return 2 * text.n_layers * text.n_kv_heads * text.head_dim * dtype.itemsize * config.page_size
