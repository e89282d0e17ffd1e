"""Every way to attend to paged keys agrees with the plain one, and nobody reads or writes another row's pages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from photon.devices.cpu import CpuDevice
from photon.models.moondream.reference import attention
from photon.runtime.attention import PagedAttention, PagedCache, PrefixAttention
from photon.runtime.backends import TOLERANCE, Backend, Flex, Fused, Gather, Varlen, choose, disagreement

CPU = torch.device("cpu")
DEVICE = CpuDevice()
BACKENDS: list[type[Backend]] = [Gather, Fused, Flex]


@pytest.mark.parametrize("kind", [Fused, Flex])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backends_agree_with_the_plain_reference(kind: type[Backend], dtype: torch.dtype) -> None:
    assert disagreement(kind(), CPU, dtype, heads=4, head_dim=16, size=8) <= TOLERANCE[dtype]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_block_table_backend_agrees_with_the_plain_reference() -> None:
    assert disagreement(Varlen(), torch.device("cuda"), torch.bfloat16, 4, 64, 16) <= TOLERANCE[torch.bfloat16]


def test_a_cpu_takes_the_faster_form_of_each_dtype() -> None:
    assert choose(CPU, torch.float32, 4, 16, 8).name == "fused"
    assert choose(CPU, torch.bfloat16, 4, 16, 8).name == "gather"


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
