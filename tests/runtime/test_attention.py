"""Every way to attend to paged keys agrees with the plain one, and nobody reads or writes another row's pages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from photon.devices.cpu import CpuDevice
from photon.errors import DeviceError
from photon.models.moondream.reference import attention
from photon.runtime import backends
from photon.runtime.attention import PagedAttention, PagedCache, PrefixAttention
from photon.runtime.backends import PAGE_SIZES, TOLERANCE, Backend, Fused, Gather, Heads, Varlen, choose, disagreement

CPU = torch.device("cpu")
DEVICE = CpuDevice()
BACKENDS: list[type[Backend]] = [Gather, Fused]
HEADS = Heads(count=4, kv=4, width=16)
GROUPED = Heads(count=4, kv=2, width=16)


@pytest.mark.parametrize("heads", [HEADS, GROUPED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_form_agrees_with_the_plain_reference(heads: Heads, dtype: torch.dtype) -> None:
    assert disagreement(Fused(), CPU, dtype, heads, size=8) <= TOLERANCE[dtype]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_block_table_backend_agrees_with_the_plain_reference() -> None:
    assert (
        disagreement(Varlen(), torch.device("cuda"), torch.bfloat16, Heads(4, 4, 64), 256) <= TOLERANCE[torch.bfloat16]
    )


def test_a_cpu_takes_the_faster_form_of_each_dtype() -> None:
    for dtype, name in ((torch.float32, "fused"), (torch.bfloat16, "gather")):
        chosen = choose(CPU, dtype, HEADS)
        assert (chosen.backend.name, chosen.page_size, chosen.refused) == (name, PAGE_SIZES[0], ())
    assert choose(CPU, torch.float32, HEADS, 8).page_size == 8


class OnlyLargePages(Fused):
    """As some versions of the block-table kernel are."""

    name = "varlen"

    def plan(self, reads: Any) -> Any:
        if reads.page_size < PAGE_SIZES[1]:
            raise RuntimeError("page size must be a multiple of 256.\nat line 7")
        return super().plan(reads)


class OnlyEqualHeads(Fused):
    """Right for as many key heads as query heads, wrong for shared ones."""

    name = "varlen"

    def attend(self, plan: Any, q: Any, keys: Any, values: Any) -> Any:
        out = super().attend(plan, q, keys, values)
        return out if q.shape[2] == keys.shape[2] else out.flip(2)


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that is no CPU to `choose`, and whose work the CPU does."""

    def pretended(kind: type[Backend], heads: Heads, size: int | None = None) -> Any:
        monkeypatch.setattr(backends, "Varlen", kind)
        real = backends.disagreement
        monkeypatch.setattr(backends, "disagreement", lambda b, d, t, h, s: real(b, CPU, t, h, s))
        return choose(torch.device("meta"), torch.float32, heads, size)

    return pretended


def test_the_page_size_is_what_the_chosen_kernel_wants_and_each_refusal_is_said(meta: Any) -> None:
    chosen = meta(OnlyLargePages, HEADS)
    assert (chosen.backend.name, chosen.page_size) == ("varlen", 256)
    assert chosen.refused == ("varlen with pages of 16 is not used: page size must be a multiple of 256.",)
    wanted = meta(OnlyLargePages, HEADS, 16)
    assert (wanted.backend.name, wanted.page_size) == ("fused", 16)
    assert len(wanted.refused) == 1


def test_a_kernel_is_tried_with_the_models_own_heads(meta: Any) -> None:
    assert meta(OnlyEqualHeads, HEADS).backend.name == "varlen"
    chosen = meta(OnlyEqualHeads, GROUPED)
    assert chosen.backend.name == "fused"
    assert "differs from the plain one" in chosen.refused[0]


def test_a_kernel_that_breaks_the_device_is_an_error_and_not_a_reason_to_try_the_next(
    meta: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(device: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    with pytest.raises(DeviceError, match="illegal memory access"):
        backends._problem(Fused, _Cuda(), torch.float32, HEADS, 8)  # type: ignore[arg-type]


class _Cuda:
    type = "cuda"


def test_no_rows_overflow_stays_where_all_short_rows_look() -> None:
    """Padded positions are written to the scratch page, and tables are padded with it."""
    cache = PagedCache(1, 4, 4, 2, 8, DEVICE, torch.float32)
    positions, valid = torch.tensor([[0, 1, 0]]), torch.tensor([[True, True, False]])
    q = torch.randn(1, 3, 2, 8)
    k = q.clone()
    k[:, 2] = torch.nan
    PagedAttention(cache, Fused(), torch.tensor([[1]]), positions, valid)(0, q, k, k)
    assert cache.kv[:, :, 0].isfinite().all()
    other = PagedAttention(cache, Fused(), torch.tensor([[2, 0]]), torch.tensor([[1]]))
    assert other(0, q[:, :1], q[:, :1], q[:, :1]).isfinite().all()


def test_cleared_pages_hold_nothing_in_any_layer() -> None:
    cache = PagedCache(3, 4, 2, 1, 4, DEVICE, torch.float32)
    cache.kv.fill_(torch.nan)
    cache.clear_pages(torch.tensor([0, 2]))
    assert (cache.kv[:, :, [0, 2]] == 0).all()
    assert cache.kv[:, :, [1, 3]].isnan().all()


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("groups", [1, 2])
def test_paged_rows_equal_contiguous_ones(kind: type[Backend], groups: int) -> None:
    """A prefix, a prompt with padding and a few single steps, two rows with scattered pages, against one long mask."""
    torch.manual_seed(0)
    prefix, size, kv_heads, width = 6, 4, 2, 8
    heads = kv_heads * groups
    cache = PagedCache(1, 12, size, kv_heads, width, DEVICE, torch.float32)
    pages = torch.tensor([[7, 2, 9, 4], [1, 11, 3, 10]])
    lengths = [5, 3]
    total = prefix + max(lengths) + 2
    q, k, v = (torch.randn(2, total, n, width) for n in (heads, kv_heads, kv_heads))

    outputs = [PrefixAttention(cache, pages, prefix)(0, q[:, :prefix], k[:, :prefix], v[:, :prefix])]
    offsets = torch.arange(max(lengths))
    valid = offsets < torch.tensor(lengths).unsqueeze(1)
    positions = (prefix + offsets).expand(2, -1).where(valid, torch.tensor(prefix))
    span = slice(prefix, prefix + max(lengths))
    prompt = PagedAttention(cache, kind(), pages, positions, valid)(0, q[:, span], k[:, span], v[:, span])
    steps = []
    for step in range(2):
        at = torch.tensor([[prefix + n + step] for n in lengths])
        rows = torch.arange(2).unsqueeze(1)
        steps.append(PagedAttention(cache, kind(), pages, at)(0, q[rows, at], k[rows, at], v[rows, at]))

    for row, length in enumerate(lengths):
        end = prefix + length + 2
        index = torch.arange(end)
        visible = (index[None] <= index[:, None]) | ((index[None] < prefix) & (index[:, None] < prefix))
        (expected,) = attention(*(t[row : row + 1, :end] for t in (q, k, v)), visible)
        found = torch.cat([outputs[0][row], prompt[row, :length], *(s[row] for s in steps)])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_padding_writes_to_the_scratch_page_only() -> None:
    cache = PagedCache(1, 4, 4, 1, 4, DEVICE, torch.float32)
    q = torch.ones(1, 3, 1, 4)
    valid = torch.tensor([[True, False, False]])
    PagedAttention(cache, Gather(), torch.tensor([[2]]), torch.zeros(1, 3, dtype=torch.int64), valid)(0, q, q, q)
    written = cache.kv[0, 0].abs().sum(dim=(2, 3))
    assert written[2].tolist() == [4, 0, 0, 0]
    assert written[[1, 3, 4]].sum() == 0


def test_copied_pages_are_equal_in_every_layer_and_their_source_is_untouched() -> None:
    cache = PagedCache(3, 4, 2, 1, 4, DEVICE, torch.float32)
    cache.kv.normal_()
    before = cache.kv.clone()
    cache.copy_pages(torch.tensor([1, 3]), torch.tensor([2, 4]))
    assert torch.equal(cache.kv[:, :, [2, 4]], before[:, :, [1, 3]])
    assert torch.equal(cache.kv[:, :, [0, 1, 3]], before[:, :, [0, 1, 3]])


class Counted(TorchDispatchMode):
    """Counts the operators that are dispatched, views among them."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_a_layer_of_a_step_makes_no_view_that_a_step_or_a_start_can_make() -> None:
    """A small model's step on a CPU is a few hundred operators: each is felt. Here are two writes, two gathers with
    their views, the product, and what turns heads and tokens about."""
    cache = PagedCache(2, 12, 4, 2, 8, DEVICE, torch.float32)
    attend = PagedAttention(cache, Fused(), torch.tensor([[7, 2]]), torch.tensor([[6]]))
    q, k, v = torch.randn(3, 1, 1, 2, 8).unbind(0)
    with torch.inference_mode(), Counted() as counted:
        attend(1, q, k, v)
    assert counted.count <= 14
