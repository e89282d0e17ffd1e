"""Rows that decode side by side see what paged rows see, and a page with a new owner is never read from before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from photon.config import EngineConfig
from photon.models.moondream.model import Moondream
from photon.models.registry import load_model
from photon.runtime.attention import PagedCache
from photon.runtime.columns import _HEADROOM, Columns
from photon.runtime.executor import ModelExecutor

CPU = torch.device("cpu")
FIRST = [9, 30]
"""Positions of the first generated token of two rows."""


@pytest.fixture(scope="module", params=[1, 2], ids=["each head", "grouped heads"])
def executors(request: pytest.FixtureRequest) -> tuple[ModelExecutor, ModelExecutor]:
    """Without and with columns, over the same weights."""
    folder = Path(__file__).parents[1] / "data" / "parity" / "md2"
    config = load_model(str(folder), CPU, torch.float32).model.config
    text = dataclasses.replace(config.text, n_kv_heads=config.text.n_heads // request.param)
    model = Moondream(dataclasses.replace(config, text=text)).eval()
    plain, columns = (ModelExecutor(model, EngineConfig(page_size=4), 64, columns) for columns in (False, True))
    return plain, columns


def tables(*firsts: int) -> Tensor:
    """Ten scattered pages a row."""
    return torch.stack([torch.arange(first, first + 30, 3) for first in firsts])


def fill(executors: tuple[ModelExecutor, ModelExecutor], seed: int) -> None:
    """The same keys and values in both caches."""
    values = torch.randn(executors[0].cache.kv.shape, generator=torch.Generator().manual_seed(seed))
    for executor in executors:
        executor.cache.kv.copy_(values)


def step(executor: ModelExecutor, pages: Tensor, positions: list[int], token: int = 11) -> Tensor:
    count = len(positions)
    at = torch.tensor(positions)
    table = pages[:, : max(positions) // 4 + 1]
    hidden, _ = executor.decode(torch.arange(token, token + count), torch.zeros(count, 3), at, table, None)
    return hidden


@torch.no_grad()
def test_every_step_of_a_long_answer_is_that_of_paged_rows(executors: tuple[ModelExecutor, ModelExecutor]) -> None:
    fill(executors, 1)
    pages = tables(1, 2)
    for n in range(8):
        found, expected = (step(e, pages, [p + n for p in FIRST], 11 + n) for e in reversed(executors))
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(executors[1].cache.kv[:, :, 1:], executors[0].cache.kv[:, :, 1:], atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    "then", [([0], 1), ([1], 1), ([1, 0], 1), ([0, 1], 0)], ids=["one ends", "other ends", "turned", "a step again"]
)
def test_other_rows_or_positions_are_laid_out_anew(
    executors: tuple[ModelExecutor, ModelExecutor], then: tuple[list[int], int]
) -> None:
    fill(executors, 2)
    pages, (rows, further) = tables(1, 2), then
    for executor in executors:
        step(executor, pages, FIRST)
    found, expected = (step(e, pages[rows], [FIRST[r] + further for r in rows]) for e in reversed(executors))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_pages_that_a_prefill_has_written_are_read_anew(executors: tuple[ModelExecutor, ModelExecutor]) -> None:
    """A new row may have the pages of one that has ended, and stand one token further by chance."""
    fill(executors, 3)
    pages = tables(1)
    ids, valid = torch.arange(12, 22).unsqueeze(0), torch.ones(1, 10, dtype=torch.bool)
    for executor in executors:
        step(executor, pages, [9])
        executor.prompt(ids, torch.zeros(1, 10, 3), torch.arange(10).unsqueeze(0), valid, pages, None)
    found, expected = (step(e, pages, [10]) for e in reversed(executors))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_steady_batch_is_gathered_once_until_its_columns_are_used_up() -> None:
    cache = PagedCache(1, 80, 4, 1, 8, CPU, torch.float32)
    columns = Columns(cache, 1 << 20)
    pages, gathered = torch.arange(1, 41).view(1, 40), []
    columns._gather = lambda *args: (gathered.append(n), Columns._gather(columns, *args))  # type: ignore[method-assign]
    one = torch.randn(1, 1, 1, 8)
    for n in range(_HEADROOM + 1):
        attend = columns.start(pages[:, : 1 + (9 + n) // 4], torch.tensor([9 + n]))
        attend(0, one, one, one)
        attend.finish()
    assert gathered == [0, _HEADROOM]


def test_rows_that_do_not_fit_the_limit_stay_in_their_pages() -> None:
    cache = PagedCache(1, 8, 4, 1, 8, CPU, torch.float32)
    pages = torch.ones(2, 4, dtype=torch.int64)
    needed = 2 * (4 * 4 + _HEADROOM) * 2 * 8 * 4
    assert Columns(cache, needed).fits(pages)
    assert not Columns(cache, needed - 4).fits(pages)
