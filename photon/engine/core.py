"""A scheduler and what it schedules, put together without a model or a thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor as ThreadPool
from dataclasses import dataclass
from typing import Any

from photon.core.config import EngineConfig
from photon.core.step import SLOTS
from photon.core.trace import Trace
from photon.devices import Device
from photon.engine.tick_log import tick_log
from photon.memory.adapter_slots import AdapterSlots
from photon.memory.pages import Pool, pages_for
from photon.memory.prefix_cache import PrefixCache
from photon.models.moondream.model import Moondream
from photon.runtime.backends import PAGE_SIZES
from photon.runtime.executor import Executor
from photon.runtime.runner import Runner
from photon.runtime.slot import SlotSizes
from photon.scheduler.admission import Admission, Limits
from photon.scheduler.preparation import Preparation
from photon.scheduler.reservations import Reservations
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
    reservations: Reservations
    runner: Runner
    trace: Trace


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
    page_size = config.page_size or PAGE_SIZES[0]
    pages, rows = Pool("pages", kv_pages, FIRST_PAGE), Pool("rows", SLOTS * config.max_batch)
    prefixes = PrefixCache(pages, page_size, shape.prefix_length)
    sizes = SlotSizes(
        max_batch=config.max_batch,
        rows=rows.total,
        max_tokens=max(config.max_prefill_tokens, shape.max_context),  # a longer prompt goes alone
        max_images=config.max_prefill_images,
        max_pages=pages_for(shape.max_context, page_size),
        prefix_pages=prefixes.size,
    )
    runner = make_runner(device, executor, sizes, page_size, shape.coord_id, shape.size_id)
    runner.warm_up()
    preparation = Preparation(preprocess, pool, device.now, notify, encode_ahead)
    limits = Limits(
        config.max_batch, config.max_prefill_tokens, config.max_prefill_images, shape.max_context, page_size
    )
    reservations = Reservations(rows, pages, prefixes, AdapterSlots(config.max_adapters), page_size)
    admission = Admission(limits, reservations, preparation)
    trace = Trace(config.trace_steps, tick_log())
    scheduler = Scheduler(runner, admission, preparation, reservations, trace, device.now, shape.eos_id)
    return Core(scheduler, admission, reservations, runner, trace)
