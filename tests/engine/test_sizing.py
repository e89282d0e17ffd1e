"""photon.engine.sizing: the cache takes what is there and no more, and says what it took."""

from __future__ import annotations

import gc
import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from photon import EngineConfig, Photon
from photon.bench.generated import shape_of
from photon.devices.simulated import SimulatedDevice
from photon.engine.sizing import (
    CACHE_SHARE,
    CACHED_PICTURES,
    SMALL_CACHE_BYTES,
    default_kv_pages,
    free_bytes,
    kv_page_bytes,
)
from photon.memory.pages import pages_for
from photon.runtime.backends import Chosen, Fused, Heads
from photon.runtime.executor import attention_for

MOONDREAM = shape_of("moondream2", 2048, tiny=False)
BF16 = torch.bfloat16
GB = 10**9


def pages(free: int | None, **config: int) -> int:
    return default_kv_pages(MOONDREAM, EngineConfig(**config), BF16, 16, free)  # type: ignore[arg-type]


def test_on_a_gpu_the_cache_is_a_share_of_what_the_weights_leave_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (20 * GB, 24 * GB))
    free = free_bytes(torch.device("cuda"))
    assert free == 20 * GB
    taken = pages(free) * kv_page_bytes(MOONDREAM, BF16, 16)
    assert 0.99 * CACHE_SHARE * free < taken <= CACHE_SHARE * free
    assert free_bytes(torch.device("cpu")) is None


def test_a_large_gpu_gets_all_that_rows_and_pictures_can_use_and_no_more() -> None:
    rows, prefix = pages_for(2048, 16) * 16, pages_for(MOONDREAM.prefix_len, 16)
    assert pages(1000 * GB) == rows + CACHED_PICTURES * prefix


def test_what_is_set_counts_and_one_request_always_fits() -> None:
    page = kv_page_bytes(MOONDREAM, BF16, 16)
    least = pages_for(2048, 16) + pages_for(MOONDREAM.prefix_len, 16)
    assert pages(None) == max(least, SMALL_CACHE_BYTES // page)
    assert pages(1000 * GB, kv_memory_mb=4096) == 4096 * 2**20 // page
    assert pages(1 * GB // 100) == least


def test_an_engine_says_what_it_attends_with_and_what_its_cache_holds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "photon.engine.build"), Photon.load("photon-tiny") as model:
        about = model.describe()
        assert about["attention"] == "fused"
        assert (about["page_size"], about["attention_refused"]) == (16, [])
        assert about["pages"] == model.stats()["pages"]["total"]
    said = f"fused attention, {about['pages']} pages of 16 positions"
    assert any(said in line for line in caplog.messages)


def test_the_heap_is_frozen_while_an_engine_runs() -> None:
    """A full collection looks at everything that lives, and stops every thread meanwhile."""
    with Photon.load("photon-tiny"):
        assert gc.get_freeze_count() > 10_000
    assert gc.get_freeze_count() == 0


def test_the_way_to_attend_is_tried_with_the_models_own_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def noted(device: object, dtype: object, heads: Heads, page_size: object) -> Chosen:
        tried.append(heads)
        return Chosen(Fused(), 16)

    monkeypatch.setattr("photon.runtime.executor.choose", noted)
    text = SimpleNamespace(n_heads=8, n_kv_heads=2, head_dim=64)
    model: Any = SimpleNamespace(config=SimpleNamespace(text=text), dtype=BF16)
    attention_for(model, SimulatedDevice(), None)
    assert tried == [Heads(8, 2, 64)]
