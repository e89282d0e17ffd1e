"""Puts an engine together: device, model, cache, scheduler, thread."""

from __future__ import annotations

import gc
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import torch

from photon.core.config import EngineConfig
from photon.devices import Device, make_device
from photon.engine.core import ModelShape, build_core
from photon.engine.loop import EngineLoop
from photon.engine.sizing import default_dtype, default_kv_pages, default_threads, free_bytes, spare_cores
from photon.masks import Masks
from photon.masks.lazy import LazyMasks
from photon.models.moondream.lora import Adapter
from photon.models.progress import Progress, unseen
from photon.models.registry import LoadedModel, load_model
from photon.runtime.backends import Chosen
from photon.runtime.encoding import cut, encode
from photon.runtime.executor import ModelExecutor, attention_for
from photon.runtime.paced import timed

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineParts:
    """A running engine's parts."""

    loaded: LoadedModel
    device: Device
    dtype: torch.dtype
    config: EngineConfig
    loop: EngineLoop
    pool: ThreadPoolExecutor
    masks: Masks
    attention: Chosen

    def __str__(self) -> str:
        pages = self.loop.core.reservations.pages.total
        return (
            f"{self.loaded.name} on {self.device.name} in {str(self.dtype).removeprefix('torch.')}: "
            f"{self.attention.backend.name} attention, {pages} pages of {self.attention.page_size} positions"
        )

    def add_adapter(self, adapter: Adapter) -> Adapter:
        """Make room for it on the device, between two ticks; the adapter in the memory from which it is loaded."""
        packed = adapter.packed(self.dtype, self.device.pinned)
        self.loop.do(lambda: self.loop.core.runner.add_adapter(packed))
        return packed

    def close(self, deadline_s: float) -> None:
        """Finish what runs, at most `deadline_s` seconds, fail the rest. A device that hangs is left as it is."""
        still = self.loop.stop(deadline_s)
        gc.unfreeze()  # the parts know each other, so that only a collection frees them
        self.pool.shutdown(wait=still, cancel_futures=True)
        if still:
            self.device.close()


def load_engine(name: str, config: EngineConfig, progress: Progress = unseen) -> EngineParts:
    """A running engine over a model of this name. Raises `ModelLoadError`; nothing keeps running then."""
    if config.threads:
        torch.set_num_threads(config.threads)
    torch.set_flush_denormal(True)  # inherited by the threads that are started below
    device = make_device(config.device, config.blocking_waits)
    try:
        dtype = getattr(torch, config.dtype) if config.dtype else default_dtype(device.torch_device)
        return start_engine(load_model(name, device.torch_device, dtype, progress), config, device, dtype)
    except BaseException:
        device.close()
        raise


def _use_threads(count: int, device: Device) -> None:
    """Here, in threads that start later, and on the compute stream, which may have started with another number."""
    torch.set_num_threads(count)
    device.compute.run(lambda: torch.set_num_threads(count))


def start_engine(loaded: LoadedModel, config: EngineConfig, device: Device, dtype: torch.dtype) -> EngineParts:
    """A running engine over a model that is on the device already."""
    model = loaded.model.eval()
    on_cpu = device.torch_device.type == "cpu"
    if on_cpu and config.threads is None:
        _use_threads(default_threads(model), device)
    attention = attention_for(model, device, config.page_size)
    config = replace(config, page_size=attention.page_size)
    free = free_bytes(device.torch_device)
    total = config.kv_pages or default_kv_pages(model.config, config, dtype, attention.page_size, free)
    executor = timed(device, ModelExecutor(model, config, total, device, on_cpu, attention))
    pool = ThreadPoolExecutor(config.preprocess_threads, "photon-preprocess")

    def notify() -> None:
        loop.notify()

    ahead = partial(encode, model) if on_cpu and spare_cores() else None
    shape = ModelShape.of(model)
    prepare = partial(cut, model, device)
    core = build_core(shape, config, total, device, executor, prepare, pool, notify, encode_ahead=ahead)
    loop = EngineLoop(core, config.queue, device.now)
    loop.start()
    masks = LazyMasks(config.mask_model, device.torch_device)
    parts = EngineParts(loaded, device, dtype, config, loop, pool, masks, attention)
    _log.info("%s", parts)
    for refused in attention.refused:
        _log.warning("%s", refused)
    gc.freeze()  # what lives now lives long: a full collection would stop every thread to look at all of it
    return parts
