"""Puts an engine together: device, model, cache, scheduler, thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from photon.core.config import EngineConfig
from photon.core.request import Rgb
from photon.core.step import SLOTS
from photon.core.trace import Trace
from photon.devices import Device, make_device
from photon.engine.loop import EngineLoop
from photon.engine.sizing import default_dtype, default_kv_pages, default_threads, spare_cores
from photon.masks import Masks
from photon.masks.lazy import LazyMasks
from photon.memory.adapter_slots import AdapterSlots
from photon.memory.pages import Pool, pages_for
from photon.memory.prefix_cache import PrefixCache
from photon.models.moondream.model import Moondream
from photon.models.moondream.tower import Crops
from photon.models.progress import Progress, unseen
from photon.models.registry import LoadedModel, load_model
from photon.runtime.encoding import encode
from photon.runtime.executor import Executor, ModelExecutor
from photon.runtime.paced import timed
from photon.runtime.runner import Runner
from photon.runtime.slot import SlotSizes
from photon.scheduler.admission import Admission, Limits
from photon.scheduler.preparation import Preparation
from photon.scheduler.scheduler import Scheduler

FIRST_PAGE = 1
"""Page 0 is scratch: padding writes there."""


@dataclass(frozen=True)
class ModelShape:
    """All that scheduling has to know of a model."""

    prefix_length: int
    max_context: int
    eos_id: int
    coord_id: int
    size_id: int

    @classmethod
    def of(cls, model: Moondream) -> ModelShape:
        config = model.config
        ids = config.tokenizer
        return cls(config.prefix_len, config.text.max_context, ids.eos_id, ids.coord_id, ids.size_id)


@dataclass(frozen=True)
class Core:
    """A scheduler and what it schedules, without a thread."""

    scheduler: Scheduler
    admission: Admission
    trace: Trace
    rows: Pool
    pages: Pool
    prefixes: PrefixCache


def build_core(
    shape: ModelShape,
    config: EngineConfig,
    kv_pages: int,
    device: Device,
    executor: Executor,
    preprocess: Callable[[Any], Any],
    pool: ThreadPool,
    notify: Callable[[], None],
    make_runner: Callable[..., Runner] = Runner,
    encode_ahead: Callable[[Any], Any] | None = None,
) -> Core:
    """`executor` has a cache of `kv_pages` pages beside the scratch page; `notify` tells of a prepared picture.

    `encode_ahead`: see `Preparation`.
    """
    pages, rows = Pool("pages", kv_pages, FIRST_PAGE), Pool("rows", SLOTS * config.max_batch)
    prefixes = PrefixCache(pages, config.page_size, shape.prefix_length)
    max_tokens = max(config.max_prefill_tokens, shape.max_context)
    sizes = SlotSizes(
        max_batch=config.max_batch,
        rows=rows.total,
        max_tokens=max_tokens,
        max_images=config.max_prefill_images,
        max_pages=pages_for(shape.max_context, config.page_size),
        prefix_pages=prefixes.size,
    )
    runner = make_runner(device, executor, sizes, config.page_size, shape.coord_id, shape.size_id)
    runner.warm_up()
    preparation = Preparation(preprocess, pool, device.now, notify, encode_ahead)
    limits = Limits(config.max_batch, max_tokens, config.max_prefill_images, shape.max_context, config.page_size)
    adapters = AdapterSlots(config.max_adapters)
    admission = Admission(limits, rows, pages, prefixes, adapters, preparation)
    trace = Trace(config.trace_steps)
    scheduler = Scheduler(
        runner, admission, preparation, rows, pages, prefixes, adapters, trace, device.now, shape.eos_id
    )
    return Core(scheduler, admission, trace, rows, pages, prefixes)


@dataclass(frozen=True)
class Built:
    """A running engine's parts."""

    loaded: LoadedModel
    device: Device
    dtype: torch.dtype
    config: EngineConfig
    core: Core
    loop: EngineLoop
    pool: ThreadPoolExecutor
    masks: Masks

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.device.close()


def build(name: str, config: EngineConfig, progress: Progress = unseen) -> Built:
    """Raises `ModelLoadError`; nothing keeps running then."""
    if config.threads:
        torch.set_num_threads(config.threads)
    torch.set_flush_denormal(True)  # inherited by the threads that are started below
    device = make_device(config.device)
    try:
        dtype = getattr(torch, config.dtype) if config.dtype else default_dtype(device.torch_device)
        return start(load_model(name, device.torch_device, dtype, progress), config, device, dtype)
    except BaseException:
        device.close()
        raise


def _use_threads(count: int, device: Device) -> None:
    """Here, in threads that start later, and on the compute stream, which may have started with another number."""
    torch.set_num_threads(count)
    device.compute.run(lambda: torch.set_num_threads(count))


def start(loaded: LoadedModel, config: EngineConfig, device: Device, dtype: torch.dtype) -> Built:
    """An engine over a model that is on the device already."""
    model = loaded.model.eval()
    on_cpu = device.torch_device.type == "cpu"
    if on_cpu and config.threads is None:
        _use_threads(default_threads(model), device)
    total = config.kv_pages or default_kv_pages(model.config, config, dtype)
    executor = timed(device, ModelExecutor(model, config, total, eager=on_cpu))
    pool = ThreadPoolExecutor(config.preprocess_threads, "photon-preprocess")

    def preprocess(image: Rgb) -> Crops:
        crops = model.vision.preprocess(image)
        return Crops(device.pinned(crops.pixels), crops.grid)

    def notify() -> None:
        loop.notify()

    ahead = partial(encode, model) if on_cpu and spare_cores() else None
    shape = ModelShape.of(model)
    core = build_core(shape, config, total, device, executor, preprocess, pool, notify, encode_ahead=ahead)
    loop = EngineLoop(core.scheduler, core.admission, core.trace, config.queue, device.now)
    loop.start()
    masks = LazyMasks(config.mask_model, device.torch_device)
    return Built(loaded, device, dtype, config, core, loop, pool, masks)
